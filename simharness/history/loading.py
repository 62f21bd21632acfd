"""From an export to a workload: which jobs ran, what they took, and what is left out of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from makeway.adapters.site.job_class import JobClass, first_class
from makeway.adapters.slurm.accounting.jobs import AccountedJob, AccountedRun, jobs_of
from makeway.policies.model import JobKind, Resources
from makeway.simharness.history.reading import export_rows
from makeway.simharness.history.shape import MachineShape, machine_shape
from makeway.simharness.history.source import HistoryError, HistorySource, SiteRules, site_rules
from makeway.simharness.run.experiment import Workload
from makeway.simharness.workloads.classes import ClassName, classify
from makeway.simharness.workloads.job import SimJob

NO_LIMIT_S = 365 * 86_400.0
"""The time limit of a job without one: Slurm's backfill takes a year for it, too."""
WAITING_BEFORE_S = -1.0
"""When jobs are submitted that waited when the measured time began."""
_RUNNING_BEFORE_S = -2.0
"""Jobs that ran then are submitted at the latest now: they come first."""
_HIDDEN = frozenset({"user", "group"})
"""The fields of a class of which no value is shown where names are hidden."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastJob:
    """What really became of one job of the workload."""

    wait_s: float
    """From when on it could start to its first start."""
    requeues: int
    requeued_node_s: float
    """What its requeued runs took, in node-seconds; on shared nodes it counts by its dominant share."""


@dataclass(slots=True, kw_only=True)
class LeftOut:
    """Jobs that the replay does not have, and what it has otherwise than the past."""

    never_started: int = 0
    urgent_never_started: int = 0
    too_short: int = 0
    """Jobs that ran for less than a second."""
    later: int = 0
    """Jobs that could start only after the measured time."""
    earlier: int = 0
    """Jobs that ended before the measured time."""
    running: int = 0
    """Jobs that still ran when the export was made: their run time up to then counts."""
    before: int = 0
    """Jobs that could start before the measured time: they run and may be evicted, but their waits and
    turnarounds are not measured."""
    rigid: int = 0
    """Malleable jobs that are rigid here, because they share nodes."""
    unseen_nodes: int = 0
    """Nodes of the partitions that the description of the machine does not show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastPeriod:
    """A past period as a workload."""

    workload: Workload
    """Second 0 is the beginning of the measured time."""
    past: dict[str, PastJob]
    """By job: what really became of it."""
    from_s: float
    """When the measured time began, in seconds since 1970."""
    to_s: float
    """When its last job could start."""
    left_out: LeftOut
    rules: SiteRules


def load_history(source: HistorySource) -> PastPeriod:
    """The history that a source describes.

    Raises:
        HistoryError, ConfigError, WorkloadError: a file, or an option, that cannot be used.
    """
    rules = site_rules(source.config)
    if rules.classes is not None and source.classes:
        raise HistoryError("--config and --class exclude each other: give one of them")
    if rules.classes is None and not source.classes:
        raise HistoryError("no job is urgent without a class; accepted: --config FILE, or --class")
    shape = machine_shape(source)
    jobs = [
        job
        for job in jobs_of(export_rows(source))
        if source.partition is None or source.partition in _partitions(job)
    ]
    if not any(job.runs for job in jobs):
        if source.partition is not None:
            raise HistoryError(
                f"--partition {source.partition}: no job of it has started; accepted: another one"
            )
        raise HistoryError(f"{source.exports[0]}: no job has started; accepted: an export with such jobs")
    return _Loading(source, rules, shape, jobs).history()


@dataclass(slots=True)
class _Loading:
    """The jobs of an export on their way into a workload."""

    source: HistorySource
    rules: SiteRules
    shape: MachineShape
    jobs: Sequence[AccountedJob]
    left_out: LeftOut = field(default_factory=LeftOut)
    past: dict[str, PastJob] = field(default_factory=dict[str, PastJob])
    impossible: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    heterogeneous: set[str] = field(default_factory=set[str])

    def history(self) -> PastPeriod:
        """The history; called once."""
        from_s = self.source.from_s if self.source.from_s is not None else self._first_end_s()
        found = [one for job in self.jobs if (one := self._sim_job(job, from_s)) is not None]
        if not found:
            raise self._nothing_left()
        found.sort(key=lambda job: job.submit_s)
        if self.source.classes:
            hidden = () if self.source.salt is None else _HIDDEN
            found = classify(found, self.source.classes, hidden=hidden)
        found = [self._finished(job) for job in found]
        workload = Workload(
            name=self.source.exports[0].name,
            node_count=self.shape.node_count,
            jobs=found,
            impossible=tuple(self.impossible),
            dropped=self.left_out.never_started + self.left_out.too_short,
            sharing=self.shape.sharing,
        )
        self.left_out.unseen_nodes = self.shape.unseen_count
        last_s = max(job.submit_s for job in found)
        return PastPeriod(
            workload=workload,
            past=self.past,
            from_s=from_s,
            to_s=from_s + last_s,
            left_out=self.left_out,
            rules=self.rules,
        )

    def _nothing_left(self) -> HistoryError:
        """Why the replay would have no job."""
        out = self.left_out
        why = {
            "ended before the measured time": out.earlier,
            "could start only after it": out.later,
            "never started": out.never_started,
            "ran for less than a second": out.too_short,
            "need more than the machine has": len(self.impossible),
        }
        counted = ", ".join(f"{count:,} {what}" for what, count in why.items() if count)
        return HistoryError(
            f"{self.source.exports[0]}: no job is left to replay: {counted}; accepted: an export of jobs "
            "that ran between --from and --to, and a machine for them"
        )

    def _finished(self, job: SimJob) -> SimJob:
        """The job after it was classed: with the time that options give."""
        within_s = job.start_within_s
        if job.kind is JobKind.ON_DEMAND and self.source.start_within_s is not None:
            within_s = self.source.start_within_s
        return replace(
            job,
            start_within_s=within_s,
            preemptible=job.preemptible and job.job_id not in self.heterogeneous,
        )

    def _first_end_s(self) -> float:
        """The first end of a run: before it, jobs that have ended are not in the export."""
        ends = [run.end_s for job in self.jobs for run in job.runs if run.end_s is not None]
        return min(ends) if ends else min(job.eligible_s for job in self.jobs)

    def _sim_job(self, job: AccountedJob, from_s: float) -> SimJob | None:
        """The job as the simulator has it. None: it is left out, and counted."""
        found = self._class_of(job)
        if not job.runs:
            self.left_out.never_started += 1
            self.left_out.urgent_never_started += self._is_urgent(job, found)
            return None
        if self.source.to_s is not None and job.eligible_s >= self.source.to_s:
            self.left_out.later += 1
            return None
        if _run_time_s(job, found) < 1.0:
            self.left_out.too_short += 1
            return None
        if (end_s := job.runs[-1].end_s) is not None and end_s < from_s:
            self.left_out.earlier += 1
            return None
        size, demand = job.runs[-1].node_count, self.shape.demand(job.runs[-1], job.partition)
        if not 1 <= size <= self.shape.able_count(demand):
            self.impossible.append((job.job_id, size))
            return None
        submit_s, runtime_s, limit_s = _times_from(job, found, from_s)
        self.left_out.before += submit_s < 0
        self.left_out.running += job.runs[-1].end_s is None
        if job.heterogeneous:
            self.heterogeneous.add(job.job_id)
        self.past[job.job_id] = self._past(job, demand)
        return self._classed(job, found, submit_s, runtime_s, limit_s, demand)

    def _class_of(self, job: AccountedJob) -> JobClass | None:
        if self.rules.classes is None:
            return None
        return first_class(
            self.rules.classes,
            partitions=_partitions(job),
            qos=job.qos,
            account=job.account,
            user=job.user,
            features=job.features,
            words=job.words,
        )

    def _is_urgent(self, job: AccountedJob, found: JobClass | None) -> bool:
        """Whether a job that has not run is urgent."""
        if self.rules.classes is not None:
            return found is not None and found.kind is JobKind.ON_DEMAND
        asked = SimJob(job.job_id, 0.0, 0.0, 0.0, 0, job.user, job.account, queue=job.qos)
        may_run = [replace(asked, partition=partition) for partition in _partitions(job)]
        urgent = [rule for rule in self.source.classes if rule.name is ClassName.URGENT]
        return any(rule.matches(one) for rule in urgent for one in may_run)

    def _classed(
        self,
        job: AccountedJob,
        found: JobClass | None,
        submit_s: float,
        runtime_s: float,
        limit_s: float,
        demand: Resources | None,
    ) -> SimJob:
        """The job with what is true of its class. With a configuration, jobs without one are not touched."""
        spec = None if found is None else found.checkpoint
        kind = JobKind.RIGID if found is None else found.kind
        if kind is JobKind.MALLEABLE and (demand is not None or job.heterogeneous):
            kind = JobKind.RIGID
            self.left_out.rigid += 1
        size = job.runs[-1].node_count
        smallest = None if found is None or kind is not JobKind.MALLEABLE else found.node_count_min
        return SimJob(
            job_id=job.job_id,
            submit_s=submit_s,
            runtime_s=runtime_s,
            walltime_s=max(runtime_s, limit_s),
            node_count=size,
            user=job.user,
            account=job.account,
            kind=kind,
            node_count_min=min(size, smallest or size) if kind is JobKind.MALLEABLE else None,
            setup_s=0.0 if found is None else min(found.setup_s, 0.5 * runtime_s),
            checkpoint_interval_s=None if spec is None else spec.interval_s,
            checkpoint_cost_s=0.0 if spec is None else spec.application_s or 0.0,
            save_s=None if spec is None else spec.system_s,
            start_within_s=None if found is None else found.start_within_s,
            queue=job.qos,
            partition=job.partition,
            preemptible=self.rules.classes is None or (found is not None and found.preemptible),
            demand=demand,
        )

    def _past(self, job: AccountedJob, demand: Resources | None) -> PastJob:
        share = 1.0 if demand is None else self.shape.share(demand)
        lost = [run for run in job.runs if run.requeued]
        return PastJob(
            wait_s=job.runs[0].start_s - job.eligible_s,
            requeues=len(lost),
            requeued_node_s=share * sum(run.elapsed_s * run.node_count for run in lost),
        )


def _partitions(job: AccountedJob) -> tuple[str, ...]:
    """The partition of a job that has run; those that one could run in that has not."""
    return tuple(job.partition.split(","))


def _run_time_s(job: AccountedJob, found: JobClass | None) -> float:
    """What one uninterrupted run would have taken.

    In its last run, a job that cannot save its work began from the start. A job that can save went on from
    where it was, after its setup.
    """
    return job.runs[-1].elapsed_s + _saved_s(job.runs[:-1], found)


def _saved_s(runs: Sequence[AccountedRun], found: JobClass | None) -> float:
    """The work of requeued runs with which the job went on later."""
    if found is None or found.checkpoint is None:
        return 0.0
    return sum(max(0.0, run.elapsed_s - found.setup_s) for run in runs)


def _times_from(job: AccountedJob, found: JobClass | None, from_s: float) -> tuple[float, float, float]:
    """When the job is submitted, its run time and its limit, if the measured time begins at `from_s`.

    A job that ran at that time is submitted when that run started: it has then done the same work when the
    measured time begins, and an eviction loses it. Between two of its runs a job waits.
    """
    runtime_s, limit_s = _run_time_s(job, found), job.limit_s or NO_LIMIT_S
    if job.eligible_s >= from_s:
        return job.eligible_s - from_s, runtime_s, limit_s
    ended = [run for run in job.runs[:-1] if run.end_s is not None and run.end_s <= from_s]
    left_s = runtime_s - _saved_s(ended, found)
    start_s = job.runs[len(ended)].start_s - from_s
    if start_s >= 0:
        return WAITING_BEFORE_S, left_s, limit_s
    # A job that was suspended has run for less long: it would have ended before. It has one second left.
    return min(_RUNNING_BEFORE_S, max(start_s, 1.0 - left_s)), left_s, limit_s


def notes(history: PastPeriod) -> list[str]:
    """What the replay has otherwise than the past, in one sentence each."""
    left_out, workload = history.left_out, history.workload
    parts = sum("+" in job.job_id for job in workload.jobs)
    found = {
        "jobs from before the measured time, of which only what they pay counts": left_out.before,
        "jobs that end with the export, because they still ran": left_out.running,
        "jobs left out, because they never started": left_out.never_started,
        "urgent ones among these": left_out.urgent_never_started,
        "jobs left out, because they ran for less than a second": left_out.too_short,
        "jobs left out, because they ended before the measured time": left_out.earlier,
        "jobs left out, because they could start only after the measured time": left_out.later,
        "jobs left out, because they need more than the machine has": len(workload.impossible),
        "jobs that are parts of heterogeneous jobs, and start apart from each other here": parts,
        "malleable jobs that keep their size, because they share nodes": left_out.rigid,
        "nodes that the machine lacks here, because scontrol hides them, such as sleeping cloud nodes": (
            left_out.unseen_nodes
        ),
    }
    lines = [f"{text}: {count:,}" for text, count in found.items() if count]
    if not any(job.kind is JobKind.ON_DEMAND and job.submit_s >= 0 for job in workload.jobs):
        lines.append("no job of the measured time is urgent: see the classes")
    return lines
