"""Which job is what, and where it may run: from Slurm's records and the site's classes to the model."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from math import inf
from types import MappingProxyType

from makeway.adapters.site.comment import (
    checkpoint_spec,
    comment_words,
    instant_in_run,
    notice_word,
    smallest_size,
)
from makeway.adapters.site.job_class import JobClass, first_class
from makeway.adapters.site.text import printable
from makeway.adapters.site.times import UNLIMITED_S
from makeway.adapters.slurm.build import FRONT_PRIORITY, queue_position_of
from makeway.adapters.slurm.holds import HoldNames, last_hold
from makeway.adapters.slurm.leaving.requeues import goes_back
from makeway.adapters.slurm.nodes.choice import Asked
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.parse_cluster import RawReservation
from makeway.adapters.slurm.partitions.rules import NO_RULES, PartitionRules
from makeway.adapters.slurm.resources.details import JobDetails
from makeway.adapters.slurm.resources.het_jobs import TOGETHER, het_job_id
from makeway.adapters.slurm.resources.holdings import Held, Holding
from makeway.adapters.slurm.resources.licenses import NO_LICENSES, FreeLicenses, asked_licenses
from makeway.adapters.slurm.resources.limits import NO_LIMITS, KnownLimits, quotas
from makeway.adapters.slurm.resources.view import SnapshotResources
from makeway.adapters.slurm.waiting import eligibility
from makeway.adapters.slurm.waiting.reasons import OF_LIMITS, OF_PARTITION, lacks_by_reason, looked_at
from makeway.policies.model import (
    Job,
    JobKind,
    JobState,
    Quota,
    Reservation,
    TakenFromJob,
    changed,
)

_STATES = MappingProxyType(
    {
        "PENDING": JobState.PENDING,
        "REQUEUED": JobState.PENDING,
        "REQUEUE_FED": JobState.PENDING,
        "REQUEUE_HOLD": JobState.PENDING,
        "SPECIAL_EXIT": JobState.PENDING,
        "RUNNING": JobState.RUNNING,
        "CONFIGURING": JobState.RUNNING,
        "RESIZING": JobState.RUNNING,
        "SIGNALING": JobState.RUNNING,
        "COMPLETING": JobState.COMPLETING,
        "STAGE_OUT": JobState.COMPLETING,
        "SUSPENDED": JobState.SUSPENDED,
        "STOPPED": JobState.SUSPENDED,
    }
)
_OVER = frozenset(
    {
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "LAUNCH_FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "RECONFIG_FAIL",
        "REVOKED",
        "TIMEOUT",
    }
)
_TOUCHABLE = frozenset({"RUNNING", "PENDING"})
"""A job that is configuring, resizing or signalled is left alone: Slurm is at work on it."""


def reservation(raw: RawReservation, *, owned: bool) -> Reservation:
    """A reservation as the model has it. `owned`: whether it is a hold of this makeway."""
    return Reservation(name=raw.name, nodes=raw.nodes, start_s=raw.start_s, end_s=raw.end_s, owned=owned)


def job_class(raw: RawJob, classes: tuple[JobClass, ...]) -> JobClass | None:
    """The first class whose conditions the job fulfils. None: no class.

    One in several partitions is urgent only if each makes it urgent: Slurm starts it in any that admits it.
    """
    found = _class_in(raw.partitions, raw, classes)
    if found is None or found.kind is not JobKind.ON_DEMAND or len(raw.partitions) < 2:
        return found
    each = ((name, _class_in((name,), raw, classes)) for name in raw.partitions)
    others = tuple(name for name, of in each if of is None or of.kind is not JobKind.ON_DEMAND)
    return _class_in(others, raw, classes) if others else found


def _class_in(partitions: tuple[str, ...], raw: RawJob, classes: tuple[JobClass, ...]) -> JobClass | None:
    return first_class(
        classes,
        partitions=partitions,
        qos=raw.qos.partition(",")[0],
        account=raw.account,
        user=raw.user,
        features=raw.features,
        words=frozenset(comment_words(raw.comment)),
    )


def class_of(raw: RawJob, classes: tuple[JobClass, ...]) -> JobClass | None:
    """The class that counts. None: no class.

    The components of a heterogeneous job start and end together, so that none is made to leave: they are of
    no class, except urgent ones.
    """
    found = job_class(raw, classes)
    urgent = found is not None and found.kind is JobKind.ON_DEMAND
    return found if urgent or not raw.heterogeneous else None


def over(raw: RawJob) -> bool:
    """Whether the job has ended: it is in no snapshot."""
    return raw.state in _OVER


def state(raw: RawJob) -> JobState:
    """The job's state. An unknown one is one that may not be acted upon."""
    if raw.state == eligibility.RESERVATION_LOST:
        return JobState.RUNNING if raw.nodes else JobState.PENDING
    return _STATES.get(raw.state, JobState.SUSPENDED if raw.nodes else JobState.PENDING)


_Translated = tuple[RawJob, TakenFromJob | None, Holding | None, Job]
"""What a job was made from, and the job."""


class Translator:
    """Turns the jobs of one snapshot into the model's.

    Args:
        classes: the site's classes.
        resources: what the nodes have, the running jobs hold and the waiting jobs ask.
        now_s: the instant of the snapshot.
        exclusive_shrink: whether this Slurm can take nodes from an exclusive job. If not, such a job is not
            malleable.
        holds: which reservations are makeway's.
        licenses: those of the cluster.
        limits: what the limits of QOS and associations leave, as far as they were read.
        details: of waiting urgent jobs, by their ids.
        no_room: why no room is made for jobs, by the ids of these or of their heterogeneous jobs.
        rules: what the partitions say of their jobs.
        cron_jobs: the jobs that are known to come from scrontab. Slurm lets nobody change such a job, and
            starts it after a requeue only at its next time.
    """

    def __init__(
        self,
        classes: tuple[JobClass, ...],
        resources: SnapshotResources,
        now_s: float,
        *,
        exclusive_shrink: bool,
        holds: HoldNames,
        licenses: FreeLicenses = NO_LICENSES,
        limits: KnownLimits = NO_LIMITS,
        details: Mapping[str, JobDetails] = MappingProxyType({}),
        no_room: Mapping[str, str] = MappingProxyType({}),
        rules: PartitionRules = NO_RULES,
        cron_jobs: frozenset[str] = frozenset(),
    ) -> None:
        self._classes = classes
        self._exclusive_shrink = exclusive_shrink
        self._holds = holds
        self._resources = resources
        self._licenses = licenses
        self._limits = limits
        self._details = details
        self._no_room = no_room
        self._rules = rules
        self._cron_jobs = cron_jobs
        self.now_s = now_s

    def job(self, raw: RawJob, taken: TakenFromJob | None = None) -> Job:
        """One job, from which `taken` is missing (None: nothing)."""
        found = self._job(raw, taken)
        by_s = self._start_by_s(raw, found.kind)
        return found if by_s is None else changed(found, start_by_s=by_s)

    def _job(self, raw: RawJob, taken: TakenFromJob | None) -> Job:
        pending = (present := state(raw)) is JobState.PENDING
        kind, words = self._kind(raw, found := class_of(raw, self._classes)), comment_words(raw.comment)
        asked = self._resources.asked(raw, urgent=kind is JobKind.ON_DEMAND) if pending else None
        return Job(
            job_id=raw.job_id,
            kind=kind,
            state=present,
            node_count=(size := asked.node_count if asked else len(raw.nodes) or raw.node_count),
            walltime_s=UNLIMITED_S if raw.limit_s is None else raw.limit_s,
            submit_s=raw.submit_s,
            user=printable(raw.user),
            account=printable(raw.account),
            qos=printable(raw.qos),
            partition=_partition(raw.partitions),
            node_count_min=smallest_size(found, words, size) if found and kind is JobKind.MALLEABLE else None,
            node_count_max=_largest_size(kind, asked, max(size, _size_before(raw, taken))),
            nodes=raw.nodes,
            allocation=(held := Held() if pending else self._resources.held(raw)).allocation,
            node_equivalents=held.node_equivalents,
            demand=asked.demand if asked else None,
            blocked_by=(blocked_by := self._blocked_by(raw, asked, kind, found) if asked else ""),
            examined=not pending or looked_at(raw, self._limits.tasks_left),
            quotas=self._quotas(raw, asked) if asked and kind is JobKind.ON_DEMAND else (),
            eligible_nodes=asked.eligible_nodes if asked else self._resources.serving(raw),
            start_s=(started_s := None if pending else raw.start_s),
            overtime_s=0.0 if pending else self._rules.overtime_of(raw),
            eligible_s=eligibility.eligible_s(raw, blocked_by, self.now_s) if pending else None,
            eligible_since_s=eligibility.eligible_since_s(raw, kind, blocked_by, self.now_s),
            setup_s=found.setup_s if found else 0.0,
            checkpoint=checkpoint_spec(found, words),
            het_job_id=het_job_id(raw),
            array_job_id=raw.job_id.rpartition("_")[0],
            job_class=found.name if found else "",
            last_checkpoint_s=instant_in_run(words.get("ckpt"), started_s, self.now_s),
            checkpointing_since_s=instant_in_run(words.get("ckpt-begin"), started_s, self.now_s),
            requeue_count=raw.restarts,
            preemptible=_preemptible(raw, found, self._rules, taken) and raw.job_id not in self._cron_jobs,
            reservation=self._holds.counting(raw),
            reservation_lost=(lost := eligibility.reservation_lost(raw)),
            last_hold=last_hold(raw, self._holds.prefix) if lost else None,
            start_within_s=found.start_within_s if found and kind is JobKind.ON_DEMAND else None,
            prioritised=raw.priority >= FRONT_PRIORITY or queue_position_of(raw.priority) is not None,
            queue_position=queue_position_of(raw.priority),
            notice_id=notice_word(raw.comment) if kind is JobKind.ON_DEMAND else None,
            priority=raw.priority,
            taken=taken,
            past_sizes=() if taken is None or pending else taken.past_sizes(raw.restarts),
        )

    def holding(self, raw: RawJob) -> Holding | None:
        """What is known of what the job holds. None: nothing, or it waits."""
        return self._resources.holding(raw) if raw.nodes else None

    def lasts(self, raw: RawJob, job: Job) -> bool:
        """Whether the job stays as it is while Slurm prints the same of it, of the nodes and the partitions.

        It does not if it depends on the time, on free licenses, on a reservation, or on more than squeue
        prints.
        """
        if raw.reservations or job.kind is JobKind.ON_DEMAND or (raw.licenses and not raw.nodes):
            return False
        # An instant in the future does not count yet.
        words = comment_words(raw.comment)
        written = (words.get("ckpt"), words.get("ckpt-begin"))
        instants = (*written, job.last_checkpoint_s, job.checkpointing_since_s, raw.eligible_s)
        return all(instant is None or instant < self.now_s for instant in instants)

    def _kind(self, raw: RawJob, found: JobClass | None) -> JobKind:
        kind = found.kind if found else JobKind.RIGID
        keeps_all = kind is JobKind.MALLEABLE and raw.exclusive and not self._exclusive_shrink
        return JobKind.RIGID if keeps_all else kind

    def _start_by_s(self, raw: RawJob, kind: JobKind) -> float | None:
        details = self._details.get(raw.job_id)
        return eligibility.start_by_s(raw, kind, details.least_limit_s if details else None)

    def _blocked_by(self, raw: RawJob, asked: Asked, kind: JobKind, found: JobClass | None) -> str:
        """What a waiting job of that class lacks besides nodes. Empty: nothing is known."""
        together = TOGETHER if raw.heterogeneous and not found else ""
        if why := self._no_room.get(het_job_id(raw) or raw.job_id, together):
            return why
        if asked.blocked_by:
            return asked.blocked_by
        if (by_s := self._start_by_s(raw, kind)) is not None and by_s < self.now_s:
            return "a later deadline: it could not be over by its own"
        if why := self._holds.kept_from(raw):
            return why
        if name := self._licenses.on_nodes(raw):
            return f"nodes that makeway cannot choose (--licenses={printable(name)})"
        left = self._licenses.left(raw, self.now_s)
        for name, count in asked_licenses(raw.licenses).items():
            if count > left.get(name, count):
                return f"a licence ({printable(name)}: it asks for {count}, {left[name]} free)"
        over = asked.over_limits_in
        of_one = (*OF_PARTITION, *(OF_LIMITS if over else ())) if len(raw.partitions) > 1 else ()
        lacks = lacks_by_reason(raw, self._limits.tasks_left)
        if lacks and not raw.reason.startswith(of_one):
            return f"{lacks} ({printable(raw.reason)})"
        if over and over.issuperset(raw.partitions):
            return "a limit of its QOS or account in each of its partitions"
        return "its release from a hold" if eligibility.is_held(raw) else ""

    def _quotas(self, raw: RawJob, asked: Asked) -> tuple[Quota, ...]:
        """The licenses and limits that a waiting urgent job shares with others."""
        free = self._licenses.left(raw, self.now_s)
        licenses = (
            Quota(name=f"licences {printable(name)}", needs=float(count), left=float(free[name]))
            for name, count in asked_licenses(raw.licenses).items()
            if name in free
        )
        least = self._resources.least_held(raw, asked) if self._limits.limited else dict[str, float]()
        left = tuple(name for name in raw.partitions if name not in asked.over_limits_in)
        there = replace(raw, partitions=left or raw.partitions)
        return (*licenses, *quotas(there, self._limits, least))


def _largest_size(kind: JobKind, asked: Asked | None, before: int) -> int | None:
    if kind is JobKind.MALLEABLE:
        return before
    return asked.node_count_max if asked and kind is JobKind.ON_DEMAND else None


def _size_before(raw: RawJob, taken: TakenFromJob | None) -> int:
    """The size of the job's present run before makeway shrank it. 0: it did not."""
    return taken.lost_nodes.node_count if taken and taken.lost_nodes and taken.run == raw.restarts else 0


class TranslatedJobs:
    """The jobs of the last snapshot as the model has them. Those of which nothing has changed are kept: most
    jobs of a long queue.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Translated] = {}
        self._at_s = inf

    def forget(self) -> None:
        """Keep no job: the nodes, the partitions or the classes have changed."""
        self._known = {}

    def has(self, raw: RawJob) -> bool:
        """Whether the job is kept. No urgent job that waits is."""
        last = self._known.get(raw.job_id)
        return last is not None and last[0] is raw

    def jobs(
        self,
        raws: Iterable[RawJob],
        translator: Translator,
        taken_from: Callable[[RawJob], TakenFromJob | None],
    ) -> tuple[Job, ...]:
        """The jobs of a snapshot.

        Args:
            raws: the jobs as they were read.
            translator: of that snapshot.
            taken_from: what makeway has taken from a job; None: nothing.
        """
        if translator.now_s < self._at_s:
            self.forget()  # the clock was set back: what was over may lie ahead again
        known, self._known, self._at_s = self._known, {}, translator.now_s
        found: list[Job] = []
        for raw in raws:
            taken, holding = taken_from(raw), translator.holding(raw)
            last = known.get(raw.job_id)
            if last is None or last[:3] != (raw, taken, holding):
                last = (raw, taken, holding, translator.job(raw, taken))
                if translator.lasts(raw, last[3]):
                    self._known[raw.job_id] = last
            else:
                self._known[raw.job_id] = last  # what has lasted does so later too
            found.append(last[3])
        return tuple(found)


@lru_cache(maxsize=1 << 12)
def _partition(names: tuple[str, ...]) -> str:
    """The partitions as one text, which many jobs share."""
    return printable(",".join(names))


def kept_jobs(
    jobs: Iterable[RawJob],
    classes: tuple[JobClass, ...],
    rules: PartitionRules,
    taken_from: Callable[[RawJob], TakenFromJob | None],
) -> tuple[RawJob, ...]:
    """The running jobs that may not be made to leave. `taken_from`: see `TranslatedJobs.jobs`."""
    return tuple(
        job
        for job in jobs
        if job.nodes
        and state(job) is not JobState.COMPLETING
        and (job.heterogeneous or not _preemptible(job, job_class(job, classes), rules, taken_from(job)))
    )


def _preemptible(
    raw: RawJob, found: JobClass | None, rules: PartitionRules, taken: TakenFromJob | None
) -> bool:
    """Whether the job may be touched: it is opted in, and would run again after a requeue. `taken`: what is
    missing from it.
    """
    return (
        found is not None
        and found.preemptible
        and found.kind is not JobKind.ON_DEMAND
        and raw.state in _TOUCHABLE
        and goes_back(raw, rules, _size_before(raw, taken))
    )
