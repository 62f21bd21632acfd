"""Slurm by its commands: `squeue` and `scontrol` to read, `scontrol`, `scancel` and `salloc` to act.

One snapshot is two commands, whatever the number of jobs. Where the settings ask for it, pyslurm reads
instead, in a process of its own, and `scontrol` only what pyslurm cannot tell.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from makeway.adapters.command import CommandRunner, Runner
from makeway.adapters.protocol import Capabilities, Rejected
from makeway.adapters.site.job_class import JobClass
from makeway.adapters.site.snapshot import check_whole
from makeway.adapters.slurm import build, parse, parse_cluster
from makeway.adapters.slurm.access import Controller, SlurmClient, new_token, runner_of
from makeway.adapters.slurm.commands import SlurmCommands
from makeway.adapters.slurm.entitlement.several_qos import with_counting_qos
from makeway.adapters.slurm.errors import from_scrontab
from makeway.adapters.slurm.holds import HoldNames, hold_names
from makeway.adapters.slurm.lease.keeper import SAVES_S, SlurmLeases
from makeway.adapters.slurm.lease.names import leases_among
from makeway.adapters.slurm.leaving.notices import LeaveNotices
from makeway.adapters.slurm.nodes.hidden import HiddenNodes
from makeway.adapters.slurm.nodes.reach import Reach, reach_for
from makeway.adapters.slurm.nodes.states import WakeTimes, down_nodes, node
from makeway.adapters.slurm.nodes.waking import SleepingNodes
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.parse_cluster import RawNode, RawPartition, RawReservation
from makeway.adapters.slurm.partitions.accounts import with_accounts_below
from makeway.adapters.slurm.partitions.rules import PartitionRules
from makeway.adapters.slurm.reader.answer import ClusterRecords
from makeway.adapters.slurm.reader.source import FirstRead, cluster_records, source_of
from makeway.adapters.slurm.reader.whole import check_listed
from makeway.adapters.slurm.resources import details as job_details
from makeway.adapters.slurm.resources.counting import threads_per_cpu
from makeway.adapters.slurm.resources.details import JobDetails, tasks_left
from makeway.adapters.slurm.resources.holdings import Holdings
from makeway.adapters.slurm.resources.licenses import FreeLicenses, license_counts
from makeway.adapters.slurm.resources.limits import KnownLimits, LimitsReader
from makeway.adapters.slurm.resources.submission import submission
from makeway.adapters.slurm.resources.view import SnapshotResources
from makeway.adapters.slurm.settings import Placing, Price, SlurmSettings
from makeway.adapters.slurm.topology import Topology
from makeway.adapters.slurm.translate import (
    TranslatedJobs,
    Translator,
    job_class,
    kept_jobs,
    over,
    reservation,
    state,
)
from makeway.adapters.slurm.waiting.eligibility import with_reserved_times
from makeway.adapters.slurm.waiting.federation import not_bindable
from makeway.adapters.slurm.waiting.served import first_read, not_read, not_served, with_excluded_nodes
from makeway.policies.model import (
    Action,
    Cluster,
    Job,
    JobKind,
    JobState,
    LeaderLease,
    Reserve,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """What the second command of a snapshot has told."""

    nodes: tuple[RawNode, ...]
    partitions: tuple[RawPartition, ...]
    reservations: tuple[RawReservation, ...]
    licenses: FreeLicenses
    """Without counts if they were not asked for."""
    details: Mapping[str, JobDetails]
    """Of waiting urgent jobs."""
    limits: KnownLimits
    """What waiting urgent jobs draw on; empty if they were not asked for."""
    excluded: Mapping[str, tuple[str, ...]]
    """The nodes that waiting urgent jobs exclude."""
    not_read: Mapping[str, str]
    """See `served.not_read`."""


class SlurmCliAdapter:
    """`Adapter` over Slurm's commands.

    Args:
        settings: where Slurm is, and the classes of its jobs.
        runner: what runs the commands. None: one that follows the settings.
        now: the clock of the snapshots.
        starter: what starts the process with pyslurm, if the settings ask for one. None: as for the commands.
        clock: a monotonic clock, in seconds.

    The first use reads the controller's version and configuration (and its topology, if asked to), and raises
    `Unavailable` if it does not answer.
    """

    def __init__(
        self,
        settings: SlurmSettings,
        *,
        runner: Runner | None = None,
        now: Callable[[], float] = time.time,
        starter: CommandRunner | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._now = now
        self._client = SlurmClient(settings, runner, clock)
        self._source = source_of(settings, self._client, starter or runner_of(settings))
        self._notices = LeaveNotices(self._client, now) if settings.tell_jobs else None
        self._commands = SlurmCommands(self._client, now, self._notices)
        self._leases = SlurmLeases(self._client)
        self._sleeping, self._hidden = SleepingNodes(self._client), HiddenNodes()
        self._topology = Topology(lambda: self._client.run(build.show_topology()))
        self._limits = LimitsReader(self._client.qos_rules)
        self._known: Controller | None = None
        """What the configuration said at the last snapshot. None: there was none."""
        self._known_holdings: Holdings | None = None
        self._known_resources: tuple[_Read, SnapshotResources] | None = None
        self._find_reach: Callable[[], Reach] = Reach
        """Tells which nodes could come free at the last snapshot."""
        self._translated = TranslatedJobs()
        self._cron_jobs = frozenset[str]()
        """The jobs that were found to be of scrontab, which squeue does not tell before 26.05."""

    def use_classes(self, classes: tuple[JobClass, ...]) -> None:
        """Use these classes of jobs from the next snapshot on."""
        self._settings = replace(self._settings, classes=classes)
        self._translated.forget()

    @property
    def capabilities(self) -> Capabilities:
        """What this cluster can do: see `access.known_from`."""
        return self._client.known().capabilities

    def snapshot(self) -> Cluster:
        """The whole cluster at one instant, by two commands at most; a third one where needed."""
        first = self._first_read()
        known, now_s, raws = self._client.known(), self._now(), first.listed.with_others(self._is_urgent)
        jobs = [with_counting_qos(job, self._settings.classes) for job in raws if not over(job)]
        read = self._read(jobs, first.cluster)
        check_listed(read.nodes, jobs, self._client.listed)
        prefix, wakes = known.capabilities.reservation_prefix, self._wakes(known, read.partitions)
        holds = hold_names(read.reservations, jobs, prefix, known.release)
        self._commands.remember(holds)
        nodes, unknown = self._hidden.added_to(read, jobs, holds, hides=known.hides_nodes)
        read = replace(read, nodes=nodes)
        self._sleeping.remember(read.nodes if wakes is not None else ())
        leases = leases_among(read.reservations, prefix)
        others = [one for one in read.reservations if one.name not in leases]
        if known.release < build.KNOWS_EXCLUDED_NODES:
            jobs = with_excluded_nodes(jobs, read.excluded)
        jobs = with_reserved_times(jobs, read.reservations, holds, now_s)
        resources, rules = self._resources(read, jobs), PartitionRules.of(read.partitions, known.overtime_s)
        self._find_reach = partial(self._reach, jobs, read, rules, holds, resources, wakes, now_s)
        resources = resources.within(self._find_reach, self._client.networks(read.partitions), read.limits)
        translator = Translator(
            self._settings.classes,
            resources,
            now_s,
            exclusive_shrink=known.release >= build.RESIZES_CLEANLY,
            holds=holds,
            licenses=read.licenses,
            limits=read.limits,
            details=read.details,
            no_room=dict(read.not_read)
            | not_served(jobs, self._settings.classes)
            | not_bindable(jobs, self._client.number_in_federation),
            rules=rules,
            cron_jobs=self._cron_jobs,
        )
        cluster = Cluster(
            now_s=now_s,
            nodes=(*(node(one, resources.capacities.get(one.name), wakes) for one in read.nodes), *unknown),
            jobs=self._translated.jobs(jobs, translator, self._commands.taken_from),
            reservations=tuple(reservation(one, owned=holds.has(one.name)) for one in others),
            actions=known.capabilities.actions,
            recomputes_priority=known.capabilities.recomputes_priority,
            reservation_prefix=prefix,
            placements=self._topology.placements(known) if self._in_placements else (),
            leader_leases=tuple(leases.values()),
        )
        check_whole(cluster, build.show_cluster())
        self._leases.remember(cluster.nodes)
        return cluster

    def as_submitted(self, options: Sequence[str], *, walltime_s: float) -> Job:
        """See `SubmissionReader.as_submitted`. Which nodes could come free is told by the last snapshot."""
        known, read = self._client.known(), self._read([])
        wanted = submission(options, read.partitions, known.job_defaults)
        resources = SnapshotResources(read.nodes, read.partitions, counts=known.counts)
        asked = resources.within(self._find_reach, self._client.networks(read.partitions)).submitted(wanted)
        return Job(
            job_id="",
            kind=JobKind.ON_DEMAND,
            state=JobState.PENDING,
            node_count=asked.node_count,
            walltime_s=walltime_s if wanted.limit_s is None else wanted.limit_s,
            submit_s=self._now(),
            user="",
            demand=asked.demand,
            blocked_by=asked.blocked_by,
            eligible_nodes=asked.eligible_nodes,
        )

    def apply(self, action: Action) -> None:
        """See `Adapter.apply`. The nodes of a hold that sleep are woken."""
        try:
            self._commands.apply(action)
        except Rejected as error:
            if from_scrontab(error):
                self._cron_jobs |= {action.job_id}
                self._translated.forget()
            raise
        if isinstance(action, Reserve):
            self._sleeping.wake(action.nodes)

    def ask_before_commands(self, may_send: Callable[[], bool]) -> None:
        """See `GatedAdapter`."""
        self._client.ask_first(may_send)

    @property
    def command_s(self) -> float:
        """See `LeaseKeeper`."""
        return self._settings.timeout_s

    @property
    def saves_s(self) -> float:
        """See `LeaseKeeper`."""
        return SAVES_S

    def create_lease(self, lease: LeaderLease) -> None:
        """See `LeaseKeeper`."""
        self._leases.create(lease)

    def renew_lease(self, lease: LeaderLease) -> None:
        """See `LeaseKeeper`."""
        self._leases.renew(lease)

    def remove_lease(self, term: int) -> None:
        """See `LeaseKeeper`."""
        self._leases.remove(term)

    def close(self) -> None:
        """See `Adapter.close`. What jobs are still to be told is sent, for a second at the most."""
        self._source.close()
        if self._notices is not None:
            self._notices.close()

    def _first_read(self) -> FirstRead:
        """The first part of a snapshot, by the present configuration, which is read again now and then. What
        was worked out from another one is forgotten.
        """
        self._client.refresh()
        first = self._source.read()
        if self._client.refresh():
            first = self._source.read()  # a controller has come back that may be of another release
        known = self._client.known()
        if self._known is not None and self._known != known:
            self._known_holdings = self._known_resources = None
            self._translated.forget()
        self._known = known
        return first

    @property
    def _in_placements(self) -> bool:
        """Whether the switches or blocks are read, of which one serves a job."""
        return self._settings.placements is Placing.TOPOLOGY

    def _holdings(self) -> Holdings:
        """What is known of running jobs, from one snapshot to the next."""
        if self._known_holdings is None:
            self._known_holdings = Holdings(self._client.known().counts)
        return self._known_holdings

    def _reach(
        self,
        jobs: Iterable[RawJob],
        read: _Read,
        rules: PartitionRules,
        holds: HoldNames,
        resources: SnapshotResources,
        wakes: WakeTimes | None,
        now_s: float,
    ) -> Reach:
        """Which nodes could come free for the urgent jobs that wait."""
        stay = kept_jobs(jobs, self._settings.classes, rules, self._commands.taken_from)
        left, down = resources.left_by(stay), down_nodes(read.nodes, wakes)
        return reach_for(jobs, stay, read.reservations, holds, left=left, down=down, now_s=now_s)

    def _resources(self, read: _Read, jobs: list[RawJob]) -> SnapshotResources:
        """The resources of the snapshot; where the nodes and partitions are as before, what was worked out
        for them still holds.
        """
        last = self._known_resources
        if (
            last is not None
            and last[0].partitions == read.partitions
            and parse_cluster.same_hardware(last[0].nodes, read.nodes)
        ):
            resources = last[1].with_details(read.details)
        else:
            known = self._client.known()
            self._translated.forget()
            resources = SnapshotResources(
                read.nodes,
                read.partitions,
                counts=known.counts,
                holdings=self._holdings(),
                details=read.details,
                tells_exclusive=known.release <= build.TELLS_EXCLUSIVE,
                by_weights=self._settings.price is Price.BILLING_WEIGHTS,
                job_defaults=known.job_defaults,
            )
        self._known_resources = (read, resources)
        return resources

    def _read(self, jobs: list[RawJob], cluster: ClusterRecords | None = None) -> _Read:
        """Everything besides the list of jobs and what is known of the cluster, by one command or none."""
        all_waiting = [job for job in jobs if self._waits_urgently(job)]
        waiting = first_read(all_waiting)
        by_id, all_jobs = self._holdings().to_ask(jobs)
        asked = (*by_id, *(job.job_id for job in waiting))
        licenses = any(job.licenses for job in waiting)
        shared = self._limits.to_ask(waiting) if self._client.known().enforces_limits else ""
        unknown = self._unknown(cluster)
        output, command = "", build.show_cluster()
        token = new_token()
        if unknown or asked or all_jobs:
            script = build.show_script(
                token, asked, all_jobs=all_jobs, licenses=licenses, limits=shared, sections=unknown
            )
            times = {"SLURM_TIME_FORMAT": "%s"}
            output = self._client.run(command, stdin=script, environment=times).stdout
        sections = parse.sections(output, token=token, command=command) if output else {}
        names = (*asked, *([build.ALL_JOBS] if all_jobs else []))
        texts = job_details.texts(output, token=token, names=names) if names else {}
        records = job_details.records(texts.pop(build.ALL_JOBS, ""))
        records_read = _completed(cluster, sections, command)
        parse_cluster.check_answered(records_read.nodes)
        self._holdings().learn(jobs, texts, records, threads_per_cpu(records_read.nodes))
        found = ((job, job_details.details(texts.get(job.job_id, ""), job)) for job in waiting)
        details = {job.job_id: told for job, told in found if told is not None}
        told, known = sections.get("limits", []), self._client.known()
        limits = self._limits.learn(told, records_read.partitions, waiting, safe=known.starts_safely)
        left = tasks_left(jobs, details)
        return _Read(
            nodes=records_read.nodes,
            partitions=with_accounts_below(records_read.partitions, limits.parents, known.release),
            reservations=records_read.reservations,
            licenses=FreeLicenses(
                license_counts(sections.get("licenses", []), command=command), records_read.reservations
            ),
            limits=replace(limits, tasks_left=left),
            details=details,
            excluded={job.job_id: parse.excluded_nodes(sections.get(job.job_id, [])) for job in waiting},
            not_read=not_read(all_waiting, waiting, left),
        )

    def _unknown(self, cluster: ClusterRecords | None) -> tuple[str, ...]:
        """The sections of scontrol that have to be read. pyslurm tells no billing weights, none of the times
        in which nodes wake, and not whether a partition allows no overtime.
        """
        if cluster is None:
            return build.CLUSTER_SECTIONS
        known, by_weights = self._client.known(), self._settings.price is Price.BILLING_WEIGHTS
        untold = by_weights or self._wakes(known) is not None or known.overtime_s > 0.0
        return ("partitions",) if untold else ()

    def _wakes(self, known: Controller, partitions: Iterable[RawPartition] = ()) -> WakeTimes | None:
        """How long nodes that sleep take. None: they count as down."""
        if known.wakes is None or self._settings.sleeping_nodes != "free":
            return None
        return known.wakes.in_partitions(partitions)

    def _waits_urgently(self, job: RawJob) -> bool:
        """Whether it is a waiting urgent job, of which squeue does not tell everything."""
        waits = state(job) is JobState.PENDING and not self._translated.has(job)
        return waits and self._is_urgent(job)

    def _is_urgent(self, job: RawJob) -> bool:
        classes = self._settings.classes
        found = job_class(with_counting_qos(job, classes), classes)
        return found is not None and found.kind is JobKind.ON_DEMAND


def _completed(
    cluster: ClusterRecords | None, sections: dict[str, list[str]], command: tuple[str, ...]
) -> ClusterRecords:
    """What is known of the cluster, with the sections that were read."""
    if cluster is None:
        return cluster_records(sections, command)
    if "partitions" not in sections:
        return cluster
    return replace(cluster, partitions=parse_cluster.partitions(sections["partitions"], command=command))
