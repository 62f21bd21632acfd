"""The logs of P1's tables 2 and 3: solved, and those of table 3 replayed where no job is known in advance.

Reference:
    Nickolay et al., "Towards Accommodating Real-time Jobs on HPC Platforms" (arXiv 2021), sections 5.5 and
    7.3.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from types import MappingProxyType
from typing import Any

from makeway.policies.horizon.cp_sat import Proof
from makeway.simharness.papers.p1.cases import replayed_under
from makeway.simharness.papers.p1_offline.logs import (
    TABLE_2,
    TABLE_3,
    as_partitions,
    as_workload,
    random_log,
)
from makeway.simharness.papers.p1_offline.optimum import NoSchedule, OfflineProblem, solve_offline
from makeway.simharness.workloads.mira import BASELINE, HIGH_PRIORITY, JIT, LEAST_PRICE, Scheme

TIME_LIMIT_S = 600.0
REPLAYED: Mapping[str, Scheme] = MappingProxyType(
    {"base": BASELINE, "queue": HIGH_PRIORITY, "wcjs": JIT, "own": LEAST_PRICE}
)
"""The schemes that replay the logs of table 3, by how their columns of `OfflineResult` begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineTrial:
    """One log to solve."""

    batch: int
    urgent: int
    blocks: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineResult:
    """What the optimum of one log came to. None: there was no schedule in the time given."""

    batch: int
    urgent: int
    blocks: int
    seed: int
    proven: bool
    """Whether the optimum is proven, and that its limit is the tightest step."""
    batch_slowdown: float | None
    urgent_slowdown: float | None
    urgent_limit: float | None
    gap: float | None
    """(slowdown - bound) / slowdown."""
    interrupted: int
    wall_s: float
    base_batch_slowdown: float | None = None
    """The same log without precedence of urgent jobs. Neither this nor another replay knows a job in advance.
    None: not replayed (table 2)."""
    base_urgent_slowdown: float | None = None
    queue_batch_slowdown: float | None = None
    """The same with urgent jobs at the front of the queue, and without preemption."""
    queue_urgent_slowdown: float | None = None
    wcjs_batch_slowdown: float | None = None
    """The same under WCJS with JIT-CKPT."""
    wcjs_urgent_slowdown: float | None = None
    own_batch_slowdown: float | None = None
    """The same under policy least-price."""
    own_urgent_slowdown: float | None = None

    @property
    def size(self) -> tuple[int, int, int]:
        """The row of the table."""
        return (self.batch, self.urgent, self.blocks)


def trials(seeds: Sequence[int], logs: int) -> list[OfflineTrial]:
    """Every row of table 2 under each seed, then the given number of logs of table 3."""
    sizes = [(size, seed) for size in TABLE_2 for seed in seeds]
    sizes += [(TABLE_3, seed) for seed in range(logs)]
    return [OfflineTrial(batch=size[0], urgent=size[1], blocks=size[2], seed=seed) for size, seed in sizes]


def compute(trial: OfflineTrial) -> OfflineResult:
    """Solve one log; one of table 3 is replayed under `REPLAYED`, too."""
    problem = random_log(trial.batch, trial.urgent, trial.blocks, trial.seed)
    replays = (trial.batch, trial.urgent, trial.blocks) == TABLE_3
    replayed = [_slowdowns(problem, key) for key in REPLAYED] if replays else []
    online: dict[str, Any] = {name: value for found in replayed for name, value in found.items()}
    try:
        found = solve_offline(problem, time_limit_s=TIME_LIMIT_S)
    except NoSchedule:
        return OfflineResult(
            **asdict(trial),
            proven=False,
            batch_slowdown=None,
            urgent_slowdown=None,
            urgent_limit=None,
            gap=None,
            interrupted=0,
            wall_s=TIME_LIMIT_S,
            **online,
        )
    return OfflineResult(
        **asdict(trial),
        proven=found.proof is Proof.OPTIMAL and found.limit_proof is Proof.OPTIMAL,
        batch_slowdown=found.batch_slowdown,
        urgent_slowdown=found.urgent_slowdown,
        urgent_limit=found.urgent_limit,
        gap=max(0.0, found.batch_slowdown - found.bound) / found.batch_slowdown,
        interrupted=sum(len(place.parts) == 2 for place in found.placed),
        wall_s=found.wall_s,
        **online,
    )


def _slowdowns(problem: OfflineProblem, key: str) -> dict[str, float]:
    """The average slowdowns of batch and of urgent jobs under a scheme (section 7.3), under their names."""
    record = replayed_under(REPLAYED[key], as_workload(problem), as_partitions(problem), {})
    slowdowns: dict[bool, list[float]] = {True: [], False: []}
    for job, found in zip(problem.jobs, record.jobs, strict=True):
        assert found.end_s is not None
        slowdowns[job.urgent].append((found.end_s - job.submit_s) / job.runtime_s)
    return {
        f"{key}_batch_slowdown": fmean(slowdowns[False]),
        f"{key}_urgent_slowdown": fmean(slowdowns[True]),
    }


def solved(cases: Sequence[OfflineResult]) -> list[OfflineResult]:
    """The logs of table 3 that have a schedule."""
    return [case for case in cases if case.size == TABLE_3 and case.batch_slowdown is not None]


def mean_of(cases: Sequence[OfflineResult], name: str) -> float | None:
    """The mean of a column over the logs that have a value there. None: none has."""
    found = [value for case in cases if (value := getattr(case, name)) is not None]
    return fmean(found) if found else None


def figure(value: float | None) -> str:
    """A slowdown for a reader."""
    return "none" if value is None else f"{value:.2f}"
