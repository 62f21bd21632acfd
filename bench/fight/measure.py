"""What an arm cost: how long urgent jobs waited, and the core- and GPU-seconds that interruptions took. Pure
but for reading the jobs' files.

All costs are of interruptions: a job that runs undisturbed costs nothing, whatever its setup and its regular
checkpoints take.
"""

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bench.fight.arms import START_WITHIN_S
from bench.fight.play import SACCT_FIELDS, Played
from bench.fight.progress import JobRunProgress, read_progress
from bench.fight.workload import FightJob, FightKind

_INTERRUPTED = ("REQUEUED", "PREEMPTED")
"""What accounting calls a run that was interrupted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """Core-seconds and GPU-seconds."""

    core_s: float = 0.0
    gpu_s: float = 0.0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(core_s=self.core_s + other.core_s, gpu_s=self.gpu_s + other.gpu_s)

    @staticmethod
    def of(job: FightJob, seconds: float) -> "Amount":
        """What a job, or one task of an array, holds in that time."""
        return Amount(core_s=seconds * job.cores, gpu_s=seconds * job.gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountedRun:
    """One run as accounting has it."""

    name: str
    """The name under which the job writes down what it does."""
    state: str
    start_s: float | None
    """None: it never started."""
    end_s: float | None
    """None: it still ran."""
    elapsed_s: float
    cores: int
    gpus: int

    @property
    def interrupted(self) -> bool:
        """Whether it was interrupted."""
        return self.state in _INTERRUPTED


@dataclass(frozen=True, slots=True, kw_only=True)
class UrgentStart:
    """How long an urgent job waited."""

    name: str
    kind: FightKind
    delay_s: float
    """From its submission to its start; to the end of the fight if it never started."""
    on_time: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one arm cost with one seed."""

    lost: Amount
    """Work done since the last checkpoint of a run that was interrupted: it has to be done again."""
    requested: Amount
    """Time in which jobs wrote checkpoints that were asked for."""
    restarts: Amount
    """Setup of runs after an interruption."""
    interruptions: int
    interrupted_jobs: int
    urgent: tuple[UrgentStart, ...]
    files_core_s: float
    """What interrupted runs held, by the jobs' files."""
    sacct_core_s: float
    """The same by accounting, in whole seconds and with prolog and epilog."""
    sacct_interruptions: int
    batch_turnaround_s: float
    """Mean time from the submission to the end of jobs that are not urgent."""
    makespan_s: float
    """From the first submission to the last end."""
    unfinished: int
    """Jobs that had not ended when the fight was cut."""

    @property
    def total(self) -> Amount:
        """Everything that the interruptions took."""
        return self.lost + self.requested + self.restarts

    @property
    def on_time(self) -> int:
        """Urgent jobs that started in time."""
        return sum(start.on_time for start in self.urgent)

    def delays_s(self, kind: FightKind | None = None) -> tuple[float, ...]:
        """The delays of the urgent jobs, of one kind or of all, sorted."""
        return tuple(sorted(start.delay_s for start in self.urgent if kind in (None, start.kind)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _NamedRun:
    """A run of a job, by the job's file and by accounting."""

    job: FightJob
    name: str
    run: JobRunProgress
    stop_s: float
    interrupted: bool


def measure(played: Played) -> Outcome:
    """Measure what an arm left. Raises BadProgress or OSError if a file cannot be read."""
    jobs = played.jobs
    accounted = accounted_runs(played.sacct)
    runs = tuple(_runs(played, accounted))
    broken = [one for one in runs if one.interrupted]
    ends_s = {one.name: one.stop_s for one in runs if one.run.finished}
    names = [name for job in jobs for name in job.run_names]
    lost = requested = restarts = Amount()
    for one in runs:
        requested += Amount.of(one.job, one.run.requested_s)
        if not one.run.first:
            restarts += Amount.of(one.job, one.run.setup_s)
        if one.interrupted:
            lost += Amount.of(one.job, _lost_s(one))
    in_sacct = [one for one in accounted if one.interrupted]
    return Outcome(
        lost=lost,
        requested=requested,
        restarts=restarts,
        interruptions=len(broken),
        interrupted_jobs=len({one.name for one in broken}),
        urgent=tuple(_urgent_starts(runs, played)),
        files_core_s=sum((one.stop_s - one.run.start_s) * one.job.cores for one in broken),
        sacct_core_s=sum(one.elapsed_s * one.cores for one in in_sacct),
        sacct_interruptions=len(in_sacct),
        batch_turnaround_s=_mean(
            ends_s.get(name, played.over_s) - played.submitted_s[job.name]
            for job in jobs
            if not job.urgent
            for name in job.run_names
        ),
        makespan_s=max(ends_s.values(), default=played.over_s) - min(played.submitted_s.values()),
        unfinished=sum(name not in ends_s for name in names),
    )


def accounted_runs(sacct: str) -> tuple[AccountedRun, ...]:
    """The rows of `sacct -D` that are of jobs. A waiting array has one row, which is left out."""
    runs: list[AccountedRun] = []
    for line in sacct.splitlines():
        row = dict(zip(SACCT_FIELDS, line.split("|"), strict=True))
        if "[" in row["JobID"]:
            continue
        _, _, task = row["JobID"].partition("_")
        tres = dict(pair.split("=", 1) for pair in row["AllocTRES"].split(",") if pair)
        runs.append(
            AccountedRun(
                name=f"{row['JobName']}_{task}" if task else row["JobName"],
                state=row["State"].split()[0],
                start_s=_epoch_s(row["Start"]),
                end_s=_epoch_s(row["End"]),
                elapsed_s=float(row["ElapsedRaw"]),
                cores=int(tres.get("cpu", "0")),
                gpus=int(tres.get("gres/gpu", "0")),
            )
        )
    return tuple(runs)


def _epoch_s(text: str) -> float | None:
    """An instant as sacct prints it with TZ=UTC. None: it has not come."""
    if text in ("Unknown", "None"):
        return None
    return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC).timestamp()


def _runs(played: Played, accounted: tuple[AccountedRun, ...]) -> Iterator[_NamedRun]:
    by_name: dict[str, list[AccountedRun]] = {}
    for one in accounted:
        by_name.setdefault(one.name, []).append(one)
    for job in played.jobs:
        for name in job.run_names:
            for run in read_progress(played.progress / f"{name}.log"):
                stop_s = run.stop_s
                if stop_s is None:
                    stop_s = _end_s(run, by_name.get(name, []), played.over_s)
                interrupted = not run.finished and stop_s < played.over_s
                yield _NamedRun(job=job, name=name, run=run, stop_s=stop_s, interrupted=interrupted)


def _end_s(run: JobRunProgress, accounted: list[AccountedRun], over_s: float) -> float:
    """When a run ended that was killed without a word: its end by accounting, which is in whole seconds."""
    starts = [one for one in accounted if one.start_s is not None and one.start_s <= run.start_s + 1.0]
    last = max(starts, key=lambda one: one.start_s or 0.0, default=None)
    return over_s if last is None or last.end_s is None else max(last.end_s, run.start_s)


def _lost_s(one: _NamedRun) -> float:
    run = one.run
    kept_s = run.gained_s + run.setup_s + run.regular_s + run.requested_s
    return max(0.0, one.stop_s - run.start_s - kept_s)


def _urgent_starts(runs: tuple[_NamedRun, ...], played: Played) -> Iterator[UrgentStart]:
    starts_s: Mapping[str, float] = {one.name: one.run.start_s for one in reversed(runs)}
    for job in played.jobs:
        if job.urgent:
            start_s = starts_s.get(job.name)
            delay_s = (played.over_s if start_s is None else start_s) - played.submitted_s[job.name]
            yield UrgentStart(
                name=job.name,
                kind=job.kind,
                delay_s=delay_s,
                on_time=start_s is not None and delay_s <= START_WITHIN_S,
            )


def _mean(values: Iterator[float]) -> float:
    found = tuple(values)
    return sum(found) / len(found) if found else 0.0
