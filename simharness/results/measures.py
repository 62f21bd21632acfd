"""The measures of a replay, computed from a `ReplayRecord`, by kind of job and for the machine.

Every field has its definition. Waits, turnarounds and slowdowns are the usual ones of the field;
instant start rate, preemption ratio and useful utilisation are those of P5's section on metrics. A value is
None where nothing is there to be measured (no job of that kind, none that started); it is never zero for lack
of data.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from makeway.policies.model import CPU, GPU, JobKind
from makeway.simharness.engine.records import ReplayRecord
from makeway.simharness.results.series import Floats, floats, nodes_held, queue_length
from makeway.simharness.workloads.job import SimJob

ALL = "all"
"""The name of the group that holds every job."""

Mask = npt.NDArray[np.bool_]
Number = float | int | None

_KINDS = tuple(JobKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureSettings:
    """What the definitions leave open."""

    bound_s: float = 10.0
    """Runtimes below this count as this in the slowdowns, so that the shortest jobs do not rule the mean."""
    instant_s: float = 180.0
    """A start at most this long after submission is instant.

    It covers the two minutes' warning of P5's malleable jobs.
    """
    start_within_s: float = 600.0
    """A start up to this long after submission is on time, for jobs that name no time of their own.

    The same as the policies' default.
    """
    from_s: float | None = None
    """Only jobs submitted at or after this count (warm-up left out). None: from the first job on."""
    to_s: float | None = None
    """Only jobs submitted before this count (drain left out). None: to the last job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMeasures:
    """The numbers of one group of jobs: a kind, all jobs, or a group that the caller names."""

    group: str
    jobs: int
    """Jobs submitted."""
    started: int
    """Jobs that started at least once."""
    completed: int
    """Jobs that completed."""
    wait_mean_s: float | None
    """Mean of first start - submission, over the jobs that started. None: none started."""
    wait_median_s: float | None
    """The median of these waits. None: none started."""
    wait_p95_s: float | None
    """What 95% of these waits do not exceed. None: none started."""
    turnaround_mean_s: float | None
    """Mean of completion - submission (P5), over the jobs that completed. None: none completed."""
    turnaround_median_s: float | None
    """The median of these turnarounds. None: none completed."""
    turnaround_by_nodes_s: float | None
    """Mean of the turnaround, each job weighted by the nodes that it asked for. None: none completed."""
    bounded_slowdown_mean: float | None
    """Mean of (wait + max(run, B)) / max(run, B) over the jobs that started. None: none started.

    run is how long the job runs if nothing interrupts it, B is `bound_s`.
    """
    bounded_slowdown_median: float | None
    """The median of these slowdowns. None: none started."""
    bounded_slowdown_p95: float | None
    """What 95% of these slowdowns do not exceed. None: none started."""
    completion_slowdown_mean: float | None
    """Mean of (turnaround - run + max(run, B)) / max(run, B), over the jobs that completed. None: none
    completed.

    It also counts what comes after the first start (evictions, work done again, shrinking); without any of
    these it equals the bounded slowdown. With B = 0 it is P1's slowdown, (end - submission) / run.
    """
    instant_start_rate: float | None
    """Share of the jobs that started within `instant_s` of their submission (P5). None: no jobs."""
    on_time: int
    """Jobs that started within their own `start_within_s`, or the setting's where they have none."""
    on_time_rate: float | None
    """`on_time` / `jobs`. None: no jobs."""
    preempted: int
    """Jobs that were evicted at least once."""
    preemption_ratio: float | None
    """`preempted` / `jobs` (P5, by class). None: no jobs."""
    shrunk: int
    """Jobs that were shrunk at least once."""
    shrink_ratio: float | None
    """`shrunk` / `jobs`. None: no jobs."""
    evictions: int
    """Evictions of these jobs, all of them: a job may be evicted several times."""
    shrinks: int
    """Shrinks of these jobs, all of them."""
    lost_node_hours: float
    """Node-hours of work that were done, lost and had to be done again, and of regular checkpoints that were
    cut short. On shared nodes a job counts by its dominant share of each."""
    overhead_node_hours: float
    """Node-hours of repeated setups, of checkpoints that a signal started, and of regular ones that such a
    checkpoint has replaced."""
    lost_core_hours: float | None
    """`lost_node_hours` counted in CPUs of the cluster. None: the nodes have no known CPUs."""
    lost_gpu_hours: float | None
    """The same in GPUs. None: the nodes have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """The numbers of one replay."""

    policy: str
    backfill: str
    workload: str
    node_count: int
    """Nodes of the machine; processors, where a trace is read by processors."""
    settings: MeasureSettings
    shared: bool
    """Whether jobs share nodes."""
    groups: tuple[GroupMeasures, ...]
    """The three kinds, then all jobs, then the caller's groups."""
    excluded: int
    """Jobs of the trace that this machine could never run."""
    first_submit_s: float | None
    """Submission of the first job that counts, in the trace's time. None: there is none."""
    last_end_s: float | None
    """The last instant at which a node was held, in the trace's time. None: none ever was."""
    makespan_s: float | None
    """Last end - first submission. None: there is no such time."""
    held_node_hours: float
    """Node-hours held by jobs over the measured span: first submission to last end, or `from_s` to `to_s`."""
    utilisation: float | None
    """Held node-hours / (nodes x measured span). None: nothing ran, or no span.

    Nodes that are down count as capacity. On shared nodes it is the dominant shares held, and can be above 1:
    a job counts by its dominant share of each of its nodes.
    """
    useful_utilisation: float | None
    """The same without lost and overhead node-hours (P5). None: nothing ran, or no span.

    With `from_s` or `to_s`, those of the jobs that count.
    """
    queue_length_mean: float | None
    """Mean over the measured span of the number of jobs that wait, evicted ones included. None: nothing ran,
    or no span."""
    queue_length_max: int
    """The largest number of jobs that wait in the measured span."""
    commands: int
    """Commands of makeway's that the cluster accepted."""
    decisions: int
    """Decisions while an urgent job waited."""
    decision_p50_ms: float | None
    """Median processor time of one decision. None: no decision was taken."""
    decision_p99_ms: float | None
    """What 99% of the decisions do not exceed. None: no decision was taken."""
    wall_s: float
    """Wall-clock time of the replay. Without makeway it is not measured: 0."""

    def group(self, name: str) -> GroupMeasures:
        """The group called `name`: a `JobKind`, `ALL`, or one that the caller named.

        Raises `KeyError` if there is none.
        """
        for group in self.groups:
            if group.group == name:
                return group
        raise KeyError(f"no group {name!r}; there are {', '.join(group.group for group in self.groups)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """The jobs of a record as arrays of shape (jobs,). NaN means None."""

    submit_s: Floats
    start_s: Floats
    end_s: Floats
    run_s: Floats
    node_count: Floats
    start_within_s: Floats
    lost_node_s: Floats
    overhead_node_s: Floats
    lost_cpu_s: Floats | None
    lost_gpu_s: Floats | None
    """None: the nodes have no known CPUs, or no GPUs."""
    evictions: npt.NDArray[np.int64]
    shrinks: npt.NDArray[np.int64]
    kind: npt.NDArray[np.int8]


def _columns(record: ReplayRecord) -> _Columns:
    capacities = record.capacities or ()
    cpus = any(capacity.amount(CPU) for capacity in capacities)
    gpus = any(capacity.amount(GPU) for capacity in capacities)
    code = {kind: index for index, kind in enumerate(_KINDS)}
    return _Columns(
        submit_s=floats(entry.job.submit_s for entry in record.jobs),
        start_s=floats(entry.start_s for entry in record.jobs),
        end_s=floats(entry.end_s for entry in record.jobs),
        run_s=floats(entry.job.runtime_s for entry in record.jobs),
        node_count=floats(entry.job.node_count for entry in record.jobs),
        start_within_s=floats(entry.job.start_within_s for entry in record.jobs),
        lost_node_s=floats(entry.lost_node_s for entry in record.jobs),
        overhead_node_s=floats(entry.overhead_node_s for entry in record.jobs),
        lost_cpu_s=floats(entry.lost_cpu_s for entry in record.jobs) if cpus else None,
        lost_gpu_s=floats(entry.lost_gpu_s for entry in record.jobs) if gpus else None,
        evictions=np.array([entry.evictions for entry in record.jobs], dtype=np.int64),
        shrinks=np.array([entry.shrinks for entry in record.jobs], dtype=np.int64),
        kind=np.array([code[entry.job.kind] for entry in record.jobs], dtype=np.int8),
    )


def measure(
    record: ReplayRecord,
    settings: MeasureSettings | None = None,
    *,
    groups: Mapping[str, Callable[[SimJob], bool]] | None = None,
) -> Measures:
    """All numbers of one replay.

    Args:
        record: what the replay left behind.
        settings: None: the defaults.
        groups: further groups of jobs to measure, by name (P1's narrow and wide, short and long).
    """
    settings = settings or MeasureSettings()
    columns = _columns(record)
    counts = np.ones(len(record.jobs), dtype=np.bool_)
    if settings.from_s is not None:
        counts &= columns.submit_s >= settings.from_s
    if settings.to_s is not None:
        counts &= columns.submit_s < settings.to_s
    masks: list[tuple[str, Mask]] = [
        (kind.value, counts & (columns.kind == code)) for code, kind in enumerate(_KINDS)
    ]
    masks.append((ALL, counts))
    for name, belongs in (groups or {}).items():
        member = np.array([belongs(entry.job) for entry in record.jobs], dtype=np.bool_)
        masks.append((name, counts & member))
    measured = tuple(_group(name, columns, mask, settings) for name, mask in masks)
    return _machine(record, columns, counts, settings, measured)


def _group(name: str, columns: _Columns, mask: Mask, settings: MeasureSettings) -> GroupMeasures:
    jobs = int(mask.sum())
    submit_s, start_s, run_s = columns.submit_s[mask], columns.start_s[mask], columns.run_s[mask]
    wait_s = start_s - submit_s
    turnaround_s = columns.end_s[mask] - submit_s
    started, completed = ~np.isnan(wait_s), ~np.isnan(turnaround_s)
    bounded_s = np.maximum(run_s, settings.bound_s)
    slowdown = ((wait_s + bounded_s) / bounded_s)[started]
    completion = ((turnaround_s - run_s + bounded_s) / bounded_s)[completed]
    within_s = columns.start_within_s[mask]
    within_s = np.where(np.isnan(within_s), settings.start_within_s, within_s)
    on_time = int((wait_s[started] <= within_s[started]).sum())
    evictions, shrinks = columns.evictions[mask], columns.shrinks[mask]
    preempted, shrunk = int((evictions > 0).sum()), int((shrinks > 0).sum())
    return GroupMeasures(
        group=name,
        jobs=jobs,
        started=int(started.sum()),
        completed=int(completed.sum()),
        wait_mean_s=_mean(wait_s[started]),
        wait_median_s=_percentile(wait_s[started], 50),
        wait_p95_s=_percentile(wait_s[started], 95),
        turnaround_mean_s=_mean(turnaround_s[completed]),
        turnaround_median_s=_percentile(turnaround_s[completed], 50),
        turnaround_by_nodes_s=_mean(turnaround_s[completed], columns.node_count[mask][completed]),
        bounded_slowdown_mean=_mean(slowdown),
        bounded_slowdown_median=_percentile(slowdown, 50),
        bounded_slowdown_p95=_percentile(slowdown, 95),
        completion_slowdown_mean=_mean(completion),
        instant_start_rate=_share(int((wait_s[started] <= settings.instant_s).sum()), jobs),
        on_time=on_time,
        on_time_rate=_share(on_time, jobs),
        preempted=preempted,
        preemption_ratio=_share(preempted, jobs),
        shrunk=shrunk,
        shrink_ratio=_share(shrunk, jobs),
        evictions=int(evictions.sum()),
        shrinks=int(shrinks.sum()),
        lost_node_hours=float(columns.lost_node_s[mask].sum()) / 3600.0,
        overhead_node_hours=float(columns.overhead_node_s[mask].sum()) / 3600.0,
        lost_core_hours=_hours(columns.lost_cpu_s, mask),
        lost_gpu_hours=_hours(columns.lost_gpu_s, mask),
    )


def _machine(
    record: ReplayRecord,
    columns: _Columns,
    counts: Mask,
    settings: MeasureSettings,
    groups: tuple[GroupMeasures, ...],
) -> Measures:
    total = next(group for group in groups if group.group == ALL)
    held, queue = nodes_held(record), queue_length(record)
    first_submit_s = float(columns.submit_s[counts].min()) if counts.any() else None
    last_end_s = float(held.times_s[-1]) if held.times_s.size else None
    from_s = settings.from_s if settings.from_s is not None else first_submit_s
    to_s = settings.to_s if settings.to_s is not None else last_end_s
    held_node_s, span_s, queue_mean, queue_max = 0.0, 0.0, None, 0
    if record.segments and from_s is not None and to_s is not None and to_s > from_s:
        span_s = to_s - from_s
        held_node_s = float(np.diff(held.integral(np.array([from_s, to_s])))[0])
        queue_mean, queue_max = queue.mean(from_s, to_s), int(queue.maximum(from_s, to_s))
    wasted_node_s = (total.lost_node_hours + total.overhead_node_hours) * 3600.0
    capacity_node_s = record.node_count * span_s
    decision_ms = np.array(record.decision_s, dtype=np.float64) * 1000.0
    return Measures(
        policy=record.policy,
        backfill=record.backfill,
        workload=record.workload,
        node_count=record.node_count,
        settings=settings,
        shared=record.capacities is not None,
        groups=groups,
        excluded=record.excluded,
        first_submit_s=first_submit_s,
        last_end_s=last_end_s,
        makespan_s=None if first_submit_s is None or last_end_s is None else last_end_s - first_submit_s,
        held_node_hours=held_node_s / 3600.0,
        utilisation=_share(held_node_s, capacity_node_s),
        useful_utilisation=_share(held_node_s - wasted_node_s, capacity_node_s),
        queue_length_mean=queue_mean,
        queue_length_max=queue_max,
        commands=sum(record.commands.values()),
        decisions=len(record.decision_s),
        decision_p50_ms=_percentile(decision_ms, 50),
        decision_p99_ms=_percentile(decision_ms, 99),
        wall_s=record.wall_s,
    )


def _hours(seconds: Floats | None, mask: Mask) -> float | None:
    return None if seconds is None else float(seconds[mask].sum()) / 3600.0


def _mean(values: Floats, weights: Floats | None = None) -> float | None:
    return float(np.average(values, weights=weights)) if values.size else None


def _percentile(values: Floats, percent: float) -> float | None:
    return float(np.percentile(values, percent)) if values.size else None


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


LABELS = frozenset({"policy", "backfill", "workload", "settings", "shared", "groups"})
"""The fields of `Measures` that are no numbers."""


def numbers(measures: Measures) -> dict[str, Number]:
    """Every number under a stable key, such as `machine.utilisation` or `on_demand.wait_mean_s`."""
    found: dict[str, Number] = {
        f"machine.{field.name}": getattr(measures, field.name)
        for field in fields(measures)
        if field.name not in LABELS
    }
    for group in measures.groups:
        for field in fields(group):
            if field.name != "group":
                found[f"{group.group}.{field.name}"] = getattr(group, field.name)
    return found
