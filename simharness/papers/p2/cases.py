"""P2's comparison: exact programme, greedy and backtracking on one scenario, their times, two variants.

The additions are the exact programme where a share of the jobs is malleable (P5's share and smallest size,
drawn by the seed) and may shrink, and where checkpoints share the file system instead of being written one
after another.

Losses and plans depend on the seed alone. Times, and how far backtracking comes within its budget, depend on
the machine. Times are processor time of the thread that decides, so that other work on the machine does not
count; what takes a few milliseconds is measured five times, and the median counts.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section IV-D (deadlines and node counts) and IV-E (how response times are accumulated). Fan
    et al., "Hybrid Workload Scheduling on HPC Systems" (IPDPS 2022), section IV-A (malleable jobs).
"""

import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path

from makeway.policies.common.urgent_jobs import UrgentJob
from makeway.policies.common.victims import victim_groups
from makeway.policies.model import Cluster, Job, JobKind, JobState
from makeway.policies.programme.concurrent import plans_concurrent
from makeway.policies.programme.items import EvictionJob, eviction_job
from makeway.policies.programme.knapsack import EvictionPlan, solve
from makeway.policies.programme.reference import backtracking, greedy
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.papers.p2.timing import cpu_budget, timed
from makeway.simharness.workloads.scenarios import scenario

STEP_S = 60.0
HORIZON_S = 15 * STEP_S
"""The paper's T."""
DEADLINES_S = tuple(index * STEP_S for index in range(16))
"""From 0 to T by one minute."""

MALLEABLE_SHARE = 0.3
"""How many of the jobs are malleable in the first addition."""
SMALLEST_SHARE = 0.2
"""The share of its nodes that a malleable job keeps at least."""
PARTS = 200
"""In how many parts concurrent checkpoints are dealt the bandwidth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class P2Trial:
    """One case to compute."""

    traces: Path
    scenario: int
    """1, 2 or 3."""
    wanted_nodes: int
    """The paper's K."""
    seed: int
    budget_s: float
    """Processor time that backtracking may take for all deadlines together; more than 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedPlan:
    """One answer for one deadline."""

    plan: EvictionPlan
    elapsed_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantAnswers:
    """What a variant of the exact programme answered, one entry for each of `DEADLINES_S`."""

    plans: tuple[EvictionPlan, ...]
    elapsed_s: float
    """For all deadlines together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class P2Result:
    """What the three approaches and the additions answered, one entry for each of `DEADLINES_S`."""

    scenario: int
    seed: int
    wanted_nodes: int
    job_count: int
    busy_nodes: int
    now_s: float
    """The paper's t0, in seconds of the trace."""
    exact: tuple[EvictionPlan, ...]
    exact_s: float
    """One pass for all deadlines, the strategies included."""
    greedy: tuple[TimedPlan, ...]
    backtracking: tuple[TimedPlan, ...]
    """The deadlines that it finished, from the first on."""
    stopped_s: float | None
    """How long the search had run that its budget ended. None: it finished every deadline."""
    shrinking: VariantAnswers
    concurrent: VariantAnswers

    @property
    def greedy_s(self) -> float:
        """All deadlines of greedy together."""
        return sum(run.elapsed_s for run in self.greedy)

    @property
    def backtracking_s(self) -> float:
        """All deadlines of backtracking together. If it was stopped: what it took until then."""
        return sum(run.elapsed_s for run in self.backtracking) + (self.stopped_s or 0.0)

    @property
    def excess_node_hours(self) -> tuple[float, ...]:
        """How much more greedy loses than the least, for each deadline (the paper's relative
        compute loss).
        """
        return tuple(
            (run.plan.loss_node_s - plan.loss_node_s) / 3600
            for run, plan in zip(self.greedy, self.exact, strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class P2SeedMeans:
    """One scenario and number of nodes, with every seed; each figure is the mean over the seeds."""

    cases: tuple[P2Result, ...]

    @property
    def scenario(self) -> int:
        """1, 2 or 3."""
        return self.cases[0].scenario

    @property
    def wanted_nodes(self) -> int:
        """The paper's K."""
        return self.cases[0].wanted_nodes

    @property
    def exact_node_hours(self) -> tuple[float, ...]:
        """The least loss by each deadline."""
        return _means([[plan.loss_node_s / 3600 for plan in case.exact] for case in self.cases])

    @property
    def shrinking_node_hours(self) -> tuple[float, ...]:
        """The least loss if some of the jobs may shrink."""
        return _means([[plan.loss_node_s / 3600 for plan in case.shrinking.plans] for case in self.cases])

    @property
    def concurrent_node_hours(self) -> tuple[float, ...]:
        """The least loss if checkpoints share the file system."""
        return _means([[plan.loss_node_s / 3600 for plan in case.concurrent.plans] for case in self.cases])

    @property
    def shrinking_s(self) -> float:
        """Response time of the programme with shrinking, all deadlines together."""
        return statistics.fmean(case.shrinking.elapsed_s for case in self.cases)

    @property
    def concurrent_s(self) -> float:
        """Response time of the programme with shared checkpoints, all deadlines together."""
        return statistics.fmean(case.concurrent.elapsed_s for case in self.cases)

    @property
    def greedy_node_hours(self) -> tuple[float, ...]:
        """Greedy's loss by each deadline."""
        return _means([[run.plan.loss_node_s / 3600 for run in case.greedy] for case in self.cases])

    @property
    def excess_node_hours(self) -> tuple[float, ...]:
        """How much more greedy loses."""
        return _means([case.excess_node_hours for case in self.cases])

    @property
    def backtracking_node_hours(self) -> tuple[float, ...]:
        """Backtracking's loss by each deadline that it finished on every seed."""
        return _means([[run.plan.loss_node_s / 3600 for run in case.backtracking] for case in self.cases])

    @property
    def exact_s(self) -> float:
        """Response time of the one pass."""
        return statistics.fmean(case.exact_s for case in self.cases)

    @property
    def greedy_s(self) -> tuple[float, ...]:
        """Response time of greedy, accumulated up to each deadline."""
        return _means([_accumulated(case.greedy) for case in self.cases])

    @property
    def backtracking_s(self) -> tuple[float, ...]:
        """Response time of backtracking, accumulated up to each deadline that it finished on every seed."""
        return _means([_accumulated(case.backtracking) for case in self.cases])

    @property
    def stopped_s(self) -> float | None:
        """A lower bound of backtracking's time up to the next deadline. None: it finished all of them."""
        reached = len(self.backtracking_s)
        if reached == len(DEADLINES_S):
            return None
        return statistics.fmean(
            _accumulated(case.backtracking)[reached]
            if len(case.backtracking) > reached
            else case.backtracking_s
            for case in self.cases
        )


def groups(cases: Sequence[P2Result]) -> list[P2SeedMeans]:
    """The cases by scenario and number of nodes."""
    found: dict[tuple[int, int], list[P2Result]] = {}
    for case in cases:
        found.setdefault((case.scenario, case.wanted_nodes), []).append(case)
    return [P2SeedMeans(cases=tuple(found[key])) for key in sorted(found)]


def _accumulated(runs: Sequence[TimedPlan]) -> list[float]:
    return list(accumulate(run.elapsed_s for run in runs))


def _means(rows: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """The means of the columns that every row has."""
    return tuple(statistics.fmean(column) for column in zip(*rows, strict=False))


def compute(trial: P2Trial) -> P2Result:
    """Build the scenario and ask the three approaches.

    Raises:
        TraceError: the trace cannot be read, or has no such scenario.
        ValueError: the scenario's jobs hold fewer nodes than are wanted.
    """
    cluster = scenario(trial.scenario, trial.traces, trial.seed)
    return compare(cluster, trial)


def compare(cluster: Cluster, trial: P2Trial) -> P2Result:
    """Compare the approaches on a cluster whose running jobs may all be evicted.

    `trial.traces` is not read.

    Raises:
        ValueError: the jobs hold fewer nodes than are wanted.
    """
    items = _items(cluster, trial.wanted_nodes)
    exact, exact_s = timed(partial(_exact, items, trial.wanted_nodes))
    shrinking, shrinking_s = timed(partial(_exact, _some_malleable(items, trial.seed), trial.wanted_nodes))
    concurrent, concurrent_s = timed(partial(_concurrent, cluster, items, trial.wanted_nodes))
    quick = [_run(greedy, items, trial.wanted_nodes, deadline_s) for deadline_s in DEADLINES_S]
    slow: list[TimedPlan] = []
    began_s = time.thread_time()

    def search() -> None:
        nonlocal began_s
        for deadline_s in DEADLINES_S:
            began_s = time.thread_time()
            slow.append(_run(backtracking, items, trial.wanted_nodes, deadline_s))

    with cpu_budget(trial.budget_s):
        search()
    ended_s = time.thread_time()
    return P2Result(
        scenario=trial.scenario,
        seed=trial.seed,
        wanted_nodes=trial.wanted_nodes,
        job_count=len(cluster.jobs),
        busy_nodes=sum(len(job.nodes) for job in cluster.jobs),
        now_s=cluster.now_s,
        exact=exact,
        exact_s=exact_s,
        greedy=tuple(quick),
        backtracking=tuple(slow),
        stopped_s=None if len(slow) == len(DEADLINES_S) else ended_s - began_s,
        shrinking=VariantAnswers(plans=shrinking, elapsed_s=shrinking_s),
        concurrent=VariantAnswers(plans=concurrent, elapsed_s=concurrent_s),
    )


def _items(cluster: Cluster, wanted_nodes: int) -> list[EvictionJob]:
    """The eviction problem that an urgent job of `wanted_nodes` nodes poses."""
    urgent_jobs = Job(
        job_id="urgent",
        kind=JobKind.ON_DEMAND,
        state=JobState.PENDING,
        node_count=wanted_nodes,
        walltime_s=3600.0,
        submit_s=cluster.now_s,
        user="",
    )
    found = victim_groups(cluster, UrgentJob(job=urgent_jobs), unusable=frozenset(), excluded=frozenset())
    return [eviction_job(group) for group in found if not group.protected_by]


def _exact(items: Sequence[EvictionJob], wanted_nodes: int) -> tuple[EvictionPlan, ...]:
    curve = solve(items, wanted_nodes, HORIZON_S, STEP_S)
    return tuple(_possible(curve.plan(deadline_s)) for deadline_s in DEADLINES_S)


def _some_malleable(items: Sequence[EvictionJob], seed: int) -> list[EvictionJob]:
    """The items, some of which may shrink: which ones depends on the seed, not on the number of nodes."""
    chosen = set(random.Random(seed).sample(range(len(items)), round(MALLEABLE_SHARE * len(items))))
    return [
        replace(item, spare_node_count=item.node_count - math.ceil(SMALLEST_SHARE * item.node_count))
        if index in chosen
        else item
        for index, item in enumerate(items)
    ]


def _concurrent(
    cluster: Cluster, items: Sequence[EvictionJob], wanted_nodes: int
) -> tuple[EvictionPlan, ...]:
    """The same with the file system that the durations of the scenario are of.

    What is complete in time one after another is so together: where parts are too coarse to see it, that plan
    counts.
    """
    storage = StorageSettings()
    jobs = cluster.jobs_by_id()
    sharing: list[EvictionJob] = []
    for item in items:
        spec = jobs[item.job_ids[0]].checkpoint
        writing_s = 0.0 if spec is None or spec.application_s is None else spec.application_s
        sharing.append(
            replace(
                item,
                bandwidth_share=min(1.0, item.node_count * storage.node_gb_s / storage.aggregate_gb_s),
                application_wait_s=max(0.0, (item.application_s or 0.0) - writing_s),
            )
        )
    together = plans_concurrent(sharing, wanted_nodes, HORIZON_S, STEP_S, PARTS)
    serial = _exact(sharing, wanted_nodes)
    return tuple(
        min(_possible(plan), alone, key=lambda plan: plan.loss_node_s)
        for plan, alone in zip(together, serial, strict=True)
    )


def _run(
    approach: Callable[[Sequence[EvictionJob], int, float, float], EvictionPlan | None],
    items: Sequence[EvictionJob],
    wanted_nodes: int,
    deadline_s: float,
) -> TimedPlan:
    plan, elapsed_s = timed(partial(approach, items, wanted_nodes, deadline_s, STEP_S))
    return TimedPlan(plan=_possible(plan), elapsed_s=elapsed_s)


def _possible(plan: EvictionPlan | None) -> EvictionPlan:
    """Every job may be killed at once, so that only a lack of nodes leaves no choice."""
    if plan is None:
        raise ValueError("the jobs of the scenario hold fewer nodes than are wanted")
    return plan
