"""How Slurm's commands are run, and what the controller that answers them can do."""

import os
import secrets
import string
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf

from makeway.adapters.command import SEARCH_PATH, CommandRunner, CompletedCommand, Runner
from makeway.adapters.protocol import AdapterError, Capabilities, Gone, Rejected, Unavailable, Unreadable
from makeway.adapters.slurm import build, parse
from makeway.adapters.slurm.entitlement.known_names import has_database
from makeway.adapters.slurm.entitlement.qos import QosRules
from makeway.adapters.slurm.errors import broke_off, refusal, unread
from makeway.adapters.slurm.holds import hold_prefix
from makeway.adapters.slurm.nodes.hidden import hides_nodes
from makeway.adapters.slurm.nodes.network import (
    ONE_NETWORK,
    Network,
    Networks,
    confines,
    network,
    trees_confine,
)
from makeway.adapters.slurm.nodes.states import WakeTimes, wake_times
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.parse_cluster import NO_JOB_DEFAULTS, JobDefaults, RawPartition, job_defaults
from makeway.adapters.slurm.partitions.times import cluster_overtime_s
from makeway.adapters.slurm.reader.alike import ListedJobs
from makeway.adapters.slurm.reader.rows import JobReader
from makeway.adapters.slurm.resources.counting import Counting, counting
from makeway.adapters.slurm.settings import SlurmSettings
from makeway.adapters.slurm.translate import over, state
from makeway.adapters.slurm.waiting.federation import SHOW_FEDERATION, own_number
from makeway.policies.model import VERBS, JobState, RunIdentity

CONFIGURATION_KNOWN_S = 300.0
"""How long what the configuration says is used before it is read again, in seconds."""
GROWTH_ENDS_SLURMCTLD = ((25, 11, 0), (26, 5, 5))
"""From the first of these releases on, and before the second, slurmctld ends when a job grows.

Unless both jobs have licences, its `_valid_license_job_expansion` looks for one in a list that is NULL. Tried
on 2026-11-22: 25.11.7 crashed three times of three; 24.11.5 and 26.05.5 did not. Read in the sources on that
day: the line is in 25.11.0, 25.11.2, 25.11.5 and 25.11.7 and in 26.05 before 26.05.5, but not in 25.05.5.
"""
_QOS_RULES = (
    "sacctmgr",
    "--noheader",
    "--parsable2",
    "show",
    "qos",
    "format=name,flags,limitfactor,usagefactor",
)
_TOKEN_LETTERS = string.ascii_letters + string.digits


def runner_of(settings: SlurmSettings) -> CommandRunner:
    """What runs the commands of the Slurm that the settings name."""
    # In a federation, only this cluster's jobs are listed.
    environment = {"SQUEUE_LOCAL": "1", "SCONTROL_LOCAL": "1"}
    if settings.conf is not None:
        environment["SLURM_CONF"] = settings.conf
    if settings.bin_dir is not None:
        environment["PATH"] = f"{settings.bin_dir}:{SEARCH_PATH}"
    return CommandRunner(environment=environment)


def growth_ends_slurmctld(release: tuple[int, int, int]) -> bool:
    """Whether that release is one of `GROWTH_ENDS_SLURMCTLD`."""
    first, mended = GROWTH_ENDS_SLURMCTLD
    return first <= release < mended


def check_run(job: RawJob, run: RunIdentity | None) -> None:
    """Raise `Gone` if a running job is in another run than that one. None: any run will do."""
    if run is None:
        return
    if job.restarts != run.requeue_count or run.start_s not in {None, job.start_s}:
        raise Gone(f"job {job.job_id} has left the run that is meant, and is in another one")


def new_token() -> str:
    """Nothing that a user could have written; it begins with no digit, which would be read as a width.

    One of 2e14, and another one in each command. It follows every field, so that it is short.
    """
    return "m" + "".join(secrets.choice(_TOKEN_LETTERS) for _ in range(8))


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """What the configuration of a Slurm cluster says about it."""

    capabilities: Capabilities
    release: tuple[int, int]
    """Its year and month."""
    counts: Counting
    """What it gives to jobs in amounts."""
    superuser: bool = False
    """Whether makeway runs as root."""
    has_database: bool = False
    """See `known_names.has_database`."""
    enforces_limits: bool = False
    """Whether the limits of QOS and associations hold."""
    starts_safely: bool = False
    """Whether Slurm starts a job only if it cannot use more minutes than its limits leave."""
    job_defaults: JobDefaults = NO_JOB_DEFAULTS
    """What jobs get that do not say."""
    wakes: WakeTimes | None = None
    """How long it takes to wake nodes. None: it wakes none."""
    overtime_s: float = 0.0
    """How long a job may run on after its time limit (OverTimeLimit)."""
    confines: bool = False
    """Whether its topology says which nodes one job may have."""
    network: Network = ONE_NETWORK
    """What it says."""
    trees_confine: bool = True
    """See `network.trees_confine`."""
    hides_nodes: bool = False
    """See `hidden.hides_nodes`."""


def known_from(done: CompletedCommand, *, superuser: bool, instance: str | None = None) -> Controller:
    """What the configuration says about the cluster.

    Jobs can grow where slurm.conf permits it and makeway may act as their users, but never on 22.05 and on
    25.11: see `build.RESIZES_CLEANLY` and `GROWTH_ENDS_SLURMCTLD`. Queue positions can be taken back
    where Slurm computes priorities: with priority/basic, a job whose priority is set again comes behind all
    others.

    Args:
        done: `scontrol show config`, as it answered.
        superuser: whether makeway may act as any user.
        instance: see `SlurmSettings.instance`.

    Raises:
        Unreadable: it has no version.
    """
    settings = parse.config(done.stdout)
    try:
        version = settings["SLURM_VERSION"]
        release = parse.release(version)
    except (KeyError, ValueError) as error:
        message = f"no version in the configuration ({error})"
        raise Unreadable(message, command=done.argv, text=done.stdout) from None
    permitted = "permit_job_expansion" in settings.get("SchedulerParameters", "").split(",")
    enforced = frozenset(settings.get("AccountingStorageEnforce", "").lower().split(","))
    crashes = growth_ends_slurmctld(parse.exact_release(version))
    grows = permitted and release >= build.RESIZES_CLEANLY and not crashes and superuser
    capabilities = Capabilities(
        name=f"{settings.get('ClusterName', 'cluster')}, Slurm {version}",
        actions=VERBS if grows else VERBS - {"expand"},
        recomputes_priority=settings.get("PriorityType") == "priority/multifactor",
        reservation_prefix=hold_prefix(settings.get("ClusterName", ""), instance),
    )
    return Controller(
        capabilities=capabilities,
        release=release,
        counts=counting(settings),
        superuser=superuser,
        has_database=has_database(settings),
        enforces_limits=not enforced.isdisjoint({"limits", "safe"}),
        starts_safely="safe" in enforced,
        job_defaults=job_defaults(settings),
        wakes=wake_times(settings),
        overtime_s=cluster_overtime_s(settings.get("OverTimeLimit", "")),
        confines=confines(settings),
        trees_confine=trees_confine(settings),
        hides_nodes=hides_nodes(settings, release),
    )


class SlurmClient:
    """Runs Slurm's commands for one cluster and looks at its jobs.

    Args:
        settings: where Slurm is.
        runner: what runs the commands. None: one that follows the settings.
        clock: a monotonic clock, in seconds.

    The first use reads the controller's version and configuration, and raises `Unavailable` if it does not
    answer.
    """

    def __init__(
        self,
        settings: SlurmSettings,
        runner: Runner | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._runner: Runner = runner if runner is not None else runner_of(settings)
        self._clock = clock
        self._known: Controller | None = None
        self._read_s = -inf
        """When the configuration was read, or could not be, the last time."""
        self._is_silent = False
        """Whether the last command got no answer from a controller."""
        self._may_send: Callable[[], bool] = lambda: True
        self._has_changed = False
        """Whether the present action has sent a command that changes the cluster."""
        self._reader = JobReader()
        self._federation: tuple[int | None] | None = None
        """What `number_in_federation` returns. None: not read yet."""
        self._networks: dict[str, Network] = {}
        """Those that were read of topologies of partitions, by the names of these."""

    def known(self) -> Controller:
        """What the configuration says. Read once, and by `read_again` and `refresh`."""
        return self._known or self.read_again()

    def refresh(self) -> bool:
        """Read the configuration again if that was long ago, or if a controller answers that did not before.

        Returns whether it says something else now. What cannot be read stays as it is known.
        """
        known = self.known()
        if self._clock() - self._read_s < CONFIGURATION_KNOWN_S:
            return False
        try:
            return self.read_again() != known
        except AdapterError:
            self._is_silent = False  # the next command shows whether it is
            return False

    def read_again(self) -> Controller:
        """What the configuration says now: slurmctld may have been replaced by another release."""
        try:
            self._settings.require_paths()
            done = self.run(build.show_config())
        finally:
            self._read_s = self._clock()
        if done.returncode != 0:
            raise unread(done)
        found = known_from(done, superuser=os.geteuid() == 0, instance=self._settings.instance)
        if found.confines:
            found = replace(found, network=network(self.run(build.show_topology()).stdout.splitlines()))
        if found != self._known:
            self._reader = JobReader()  # other fields are asked for
        self._known = found
        self._federation, self._networks = None, {}
        return found

    def networks(self, partitions: Iterable[RawPartition]) -> Networks:
        """The networks of the cluster. Each topology is read once for each configuration."""
        known, topologies = self.known(), {one.name: one.topology for one in partitions if one.topology}
        for name in set(topologies.values()) - self._networks.keys():
            with suppress(Rejected):  # a name that cannot be asked for
                said = self.run(build.show_topology(name)).stdout.splitlines()
                self._networks[name] = network(said, trees=known.trees_confine)
        of_partitions = {one: self._networks.get(name, ONE_NETWORK) for one, name in topologies.items()}
        return Networks(default=known.network, of_partitions=of_partitions)

    def number_in_federation(self) -> int | None:
        """The number of this cluster in its federation, read once a configuration. None: it is in none."""
        if self._federation is None:
            done = self.run(SHOW_FEDERATION)
            if done.returncode != 0:
                raise unread(done)
            self._federation = (own_number(done.stdout),)
        return self._federation[0]

    def qos_rules(self) -> QosRules | None:
        """What sacctmgr says of all QOS. None: the database does not say."""
        try:
            done = self.run(_QOS_RULES)
        except Unavailable:
            return None
        return QosRules.of(done.stdout.splitlines()) if done.returncode == 0 else None

    def all_jobs(self) -> ListedJobs:
        """All jobs that are not over. Those that are as they were the last time are the same objects."""
        fields, token, command = build.job_fields(self.known().release), new_token(), build.squeue()
        text = self._reader.begin(fields, token)
        self.run_squeue(command, fields, token, text.take)
        try:
            return self._reader.jobs(text)
        except (ValueError, KeyError) as error:
            message = f"squeue printed what cannot be read: {error}"
            raise Unreadable(message, command=command, text="") from None

    def squeue(
        self, job_id: str | None = None, reservation: str | None = None, *, ended: bool = False
    ) -> tuple[RawJob, ...]:
        """All jobs, one, or those bound to a reservation; with `ended` those too that are over."""
        return self.listed(build.squeue(job_id, reservation, ended=ended))

    def listed(self, command: tuple[str, ...]) -> tuple[RawJob, ...]:
        """The jobs that a command of `build.squeue` lists; it may have further options."""
        fields, token = build.job_fields(self.known().release), new_token()
        done = self.run_squeue(command, fields, token)
        return parse.jobs(done.stdout, fields=fields, token=token, command=command)

    def run_squeue(
        self,
        command: tuple[str, ...],
        fields: tuple[str, ...],
        token: str,
        take: Callable[[bytes], object] | None = None,
    ) -> CompletedCommand:
        """Run squeue with these fields, each followed by the token. `take`: see `CommandRunner.run`.

        Raises:
            AdapterError: squeue failed, or lacks a field.
        """
        done = self.run(command, environment=build.squeue_environment(fields, token), take=take)
        if done.returncode != 0:
            raise unread(done)
        if "Invalid job format" in done.stderr:
            # It goes on all the same, with an empty field.
            raise Unreadable(f"this squeue lacks a field: {done.words}", command=command, text=done.stdout)
        return done

    def look(self, job_id: str) -> RawJob:
        """The job as it is now, before a command for it. Raises `Gone` if it is over or was never there."""
        try:
            jobs = self.squeue(job_id)
        except Unavailable as error:
            raise Unavailable(str(error), sent=False) from error
        for job in jobs:
            if job.job_id == job_id and not over(job):
                return job
        raise Gone(f"job {job_id} is over")

    def running(self, job_id: str, run: RunIdentity | None = None) -> RawJob:
        """The job, which runs. Raises `Gone` if it does not, or if it is in another run than `run`."""
        job = self.look(job_id)
        if state(job) is not JobState.RUNNING:
            raise Gone(f"job {job_id} does not run: it is {job.state}")
        check_run(job, run)
        return job

    def pending(self, job_id: str) -> RawJob:
        """The job, which waits. Raises `Gone` if it does not."""
        job = self.look(job_id)
        if state(job) is not JobState.PENDING:
            raise Gone(f"job {job_id} does not wait: it is {job.state}")
        return job

    def ask_first(self, may_send: Callable[[], bool]) -> None:
        """From now on, ask this before each command that changes the cluster."""
        self._may_send = may_send

    def begin_action(self) -> None:
        """Say that the next command that changes the cluster is the first of an action."""
        self._has_changed = False

    @property
    def may_change(self) -> bool:
        """Whether a command that changes the cluster may be sent now."""
        return self._may_send()

    def do(self, argv: tuple[str, ...]) -> None:
        """Run one command that changes the cluster. Raises what its refusal means."""
        done = self.change(argv)
        if done.returncode != 0:
            raise refusal(done)

    def change(self, argv: tuple[str, ...], *, until: str = "") -> CompletedCommand:
        """Run one command that changes the cluster. Raises `Unavailable` also if it may not be sent now; only
        before the first one of an action does that mean that nothing was sent. `until`: see `run`.
        """
        if not self.may_change:
            what = " ".join(argv[:3])
            raise Unavailable(f"{what}: not sent, the lease may end first", sent=self._has_changed)
        self._has_changed = True
        return self.run(argv, until=until)

    def run(
        self,
        argv: tuple[str, ...],
        *,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        take: Callable[[bytes], object] | None = None,
        until: str = "",
    ) -> CompletedCommand:
        """Run one command that only reads, or that writes a lease. Raises `Unavailable` if no controller
        answered it; any other failure is the caller's to read. `take` and `until`: see `CommandRunner.run`;
        a command that has said `until` was answered.
        """
        timeout_s, given = self._settings.timeout_s, environment or {}
        try:
            done = self._runner.run(
                argv, timeout_s=timeout_s, stdin=stdin, environment=given, take=take, until=until
            )
            answered = (done.returncode == 0 and not broke_off(done)) or (until and until in done.stderr)
            if not answered and isinstance(refusal(done), Unavailable):
                raise refusal(done)  # in no variable: the error refers to this frame, which may have much
        except Unavailable:
            self._is_silent = True
            raise
        if self._is_silent:
            # It may have been replaced, or read another slurm.conf at its start.
            self._is_silent, self._read_s = False, -inf
        return done
