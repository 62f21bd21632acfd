"""P5's replays: one workload of Theta under one mechanism, or under the base scheduler alone.

Reference:
    Fan et al., "Hybrid Workload Scheduling on HPC Systems" (IPDPS 2022), section IV and tables II and III.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from makeway.policies.model import JobKind
from makeway.simharness.engine.scheduler import Backfill
from makeway.simharness.results.measures import ALL, measure
from makeway.simharness.run.experiment import Experiment, Workload, run
from makeway.simharness.workloads.synthesis import NOTICE_MIXES, HybridSettings, notice_mix, synthesise
from makeway.simharness.workloads.trace import Trace, read_trace

FROM_DAY = 77
"""The first day that counts: the ten weeks before have a few dozen jobs and would dilute utilisation."""
MIXES = tuple(NOTICE_MIXES)
USUAL_MIX = "W5"
"""Where the mix of notices does not matter, or the paper does not vary it."""
MECHANISMS = ("n-paa", "n-spaa", "cua-paa", "cua-spaa", "cup-paa", "cup-spaa")
IGNORE_NOTICES = MECHANISMS[:2]
"""The mechanisms that do nothing before an on-demand job arrives: the mixes differ in notices alone, so their
replays are the same under every mix."""
BASE = "none"
INTERVALS = (0.5, 1.0, 2.0)
"""Checkpoint intervals as shares of Daly's optimum: 0.5 is twice as often (figure 7)."""

_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseScheduler:
    """What schedules the jobs without a mechanism, or under one."""

    backfill: Backfill
    start_smaller: bool
    """Whether malleable jobs may start with fewer nodes than they ask for."""

    @property
    def label(self) -> str:
        """Its name, with the option."""
        return f"FCFS/{self.backfill.value} ({'start smaller' if self.start_smaller else 'full size'})"


FULL_SIZE_SCHEDULERS = tuple(
    BaseScheduler(backfill=backfill, start_smaller=False) for backfill in (Backfill.EASY, Backfill.EASY_CQSIM)
)
"""The paper's FCFS/EASY, which starts every job at the size that it asks for (section V)."""


def base_schedulers(under: BaseScheduler) -> tuple[BaseScheduler, ...]:
    """The schedulers that run without mechanisms, each once: the paper's, and that of the mechanisms."""
    return tuple(dict.fromkeys((*FULL_SIZE_SCHEDULERS, under)))


@dataclass(frozen=True, slots=True, kw_only=True)
class P5Trial:
    """One replay to compute."""

    trace: Path
    days: int | None
    """So many days of the trace, from `FROM_DAY` on. None: all the rest."""
    seed: int
    mix: str
    """W1 to W5."""
    policy: str
    backfill: str
    interval_share: float
    """Checkpoint interval of rigid jobs, as a share of Daly's optimum."""
    start_smaller: bool
    """Whether malleable jobs may start with fewer nodes than they ask for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class P5Result:
    """What one replay came to. None: nothing was there to be measured."""

    seed: int
    mix: str
    policy: str
    backfill: str
    start_smaller: bool
    interval_share: float
    jobs: int
    on_demand_jobs: int
    turnaround_h: float | None
    """Mean over all jobs."""
    rigid_turnaround_h: float | None
    malleable_turnaround_h: float | None
    on_demand_turnaround_h: float | None
    instant_start_rate: float | None
    """Of the on-demand jobs; the two minutes' warning is allowed for."""
    rigid_preemption_ratio: float | None
    malleable_preemption_ratio: float | None
    malleable_shrink_ratio: float | None
    utilisation: float | None
    useful_utilisation: float | None
    """The paper's utilisation: without work that was lost and setups done again."""
    lost_node_hours: float | None
    overhead_node_hours: float | None
    decision_p50_ms: float | None
    decision_p99_ms: float | None


def trials(
    trace: Path,
    seeds: Sequence[int],
    under: BaseScheduler,
    *,
    days: int | None = None,
    intervals: Sequence[float] = INTERVALS,
) -> list[P5Trial]:
    """Every replay of the experiment: tables II and III, figures 6 and 7. See `of_all_mixes`.

    `under`: the base scheduler under the mechanisms. `intervals`: those of figure 7.
    """
    asked: list[P5Trial] = []
    for seed in seeds:

        def ask(
            mix: str, policy: str, under: BaseScheduler, interval_share: float = 1.0, seed: int = seed
        ) -> P5Trial:
            return P5Trial(
                trace=trace,
                days=days,
                seed=seed,
                mix=mix,
                policy=policy,
                backfill=under.backfill.value,
                interval_share=interval_share,
                start_smaller=under.start_smaller,
            )

        asked += [ask(USUAL_MIX, BASE, alone) for alone in base_schedulers(under)]
        asked += [
            ask(mix, policy, under)
            for mix in MIXES
            for policy in MECHANISMS
            if mix == USUAL_MIX or policy not in IGNORE_NOTICES
        ]
        asked += [
            ask(USUAL_MIX, policy, under, share)
            for share in intervals
            if share != 1.0
            for policy in MECHANISMS
        ]
    return asked


def of_all_mixes(results: Sequence[P5Result]) -> list[P5Result]:
    """The results, and those of the mechanisms that ignore notices under the other mixes, too."""
    found: list[P5Result] = []
    for result in results:
        usual = result.mix == USUAL_MIX and result.interval_share == 1.0
        same = usual and result.policy in IGNORE_NOTICES
        found += [replace(result, mix=mix) for mix in MIXES] if same else [result]
    return found


def compute(trial: P5Trial) -> P5Result:
    """Make the workload and replay it.

    Raises:
        TraceError: the trace cannot be read.
        WorkloadError: there is no such mix of notices.
    """
    return replayed(trial, _workload(trial.trace, trial.days, trial.mix, trial.interval_share, trial.seed))


@lru_cache(maxsize=1)
def _workload(trace_path: Path, days: int | None, mix: str, interval_share: float, seed: int) -> Workload:
    """Made once for all the mechanisms that are replayed on it."""
    trace = _trace(trace_path)
    from_s = FROM_DAY * _DAY_S
    to_s = math.inf if days is None else from_s + days * _DAY_S
    cut = [job for job in trace.jobs if from_s <= job.submit_s < to_s]
    settings = HybridSettings(notices=notice_mix(mix), checkpoint_frequency=1.0 / interval_share)
    return Workload(
        name=mix, node_count=trace.node_count, jobs=synthesise(cut, trace.node_count, settings, seed)
    )


@lru_cache(maxsize=1)
def _trace(path: Path) -> Trace:
    """Read once for all the replays of a trace."""
    return read_trace(path)


def replayed(trial: P5Trial, workload: Workload) -> P5Result:
    """Replay a workload as the trial says; its trace is not read."""
    experiment = Experiment(
        trace=str(trial.trace),
        seed=trial.seed,
        policy=trial.policy,
        backfill=Backfill(trial.backfill),
        start_smaller=trial.start_smaller,
    )
    found = measure(run(experiment, workload))
    rigid, malleable = found.group(JobKind.RIGID), found.group(JobKind.MALLEABLE)
    urgent, all_jobs = found.group(JobKind.ON_DEMAND), found.group(ALL)
    return P5Result(
        seed=trial.seed,
        mix=trial.mix,
        policy=trial.policy,
        backfill=trial.backfill,
        start_smaller=trial.start_smaller,
        interval_share=trial.interval_share,
        jobs=all_jobs.jobs,
        on_demand_jobs=urgent.jobs,
        turnaround_h=_hours(all_jobs.turnaround_mean_s),
        rigid_turnaround_h=_hours(rigid.turnaround_mean_s),
        malleable_turnaround_h=_hours(malleable.turnaround_mean_s),
        on_demand_turnaround_h=_hours(urgent.turnaround_mean_s),
        instant_start_rate=urgent.instant_start_rate,
        rigid_preemption_ratio=rigid.preemption_ratio,
        malleable_preemption_ratio=malleable.preemption_ratio,
        malleable_shrink_ratio=malleable.shrink_ratio,
        utilisation=found.utilisation,
        useful_utilisation=found.useful_utilisation,
        lost_node_hours=all_jobs.lost_node_hours,
        overhead_node_hours=all_jobs.overhead_node_hours,
        decision_p50_ms=found.decision_p50_ms,
        decision_p99_ms=found.decision_p99_ms,
    )


def _hours(duration_s: float | None) -> float | None:
    return None if duration_s is None else duration_s / 3600.0
