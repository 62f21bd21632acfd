"""The figures of P5's replays averaged over seeds and workloads, as the paper averages its ten traces."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from makeway.simharness.reproduce_p5_cases import BASE, Case
from makeway.simharness.scheduler import Backfill


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One figure of a replay, and how it is told."""

    key: str
    """For names and JSON."""
    label: str
    of: Callable[[Case], float | None]
    scale: float = 1.0
    """What is shown is the value times this."""
    unit: str = ""
    digits: int = 1

    def text(self, value: float | None) -> str:
        """A value with its unit; a dash where there is none."""
        return "–" if value is None else f"{value * self.scale:,.{self.digits}f}{self.unit}"


TURNAROUND = Metric(key="turnaround", label="turnaround, all jobs", of=lambda c: c.turnaround_h, unit=" h")
RIGID_TURNAROUND = Metric(
    key="rigid-turnaround", label="turnaround, rigid", of=lambda c: c.rigid_turnaround_h, unit=" h"
)
MALLEABLE_TURNAROUND = Metric(
    key="malleable-turnaround",
    label="turnaround, malleable",
    of=lambda c: c.malleable_turnaround_h,
    unit=" h",
)
ON_DEMAND_TURNAROUND = Metric(
    key="on-demand-turnaround",
    label="turnaround, on-demand",
    of=lambda c: c.on_demand_turnaround_h,
    unit=" h",
)
INSTANT = Metric(
    key="instant-start", label="instant start", of=lambda c: c.instant_start_rate, scale=100.0, unit="%"
)
RIGID_PREEMPTION = Metric(
    key="rigid-preemption",
    label="preempted, rigid",
    of=lambda c: c.rigid_preemption_ratio,
    scale=100.0,
    unit="%",
)
MALLEABLE_PREEMPTION = Metric(
    key="malleable-preemption",
    label="preempted, malleable",
    of=lambda c: c.malleable_preemption_ratio,
    scale=100.0,
    unit="%",
)
SHRUNK = Metric(
    key="malleable-shrunk",
    label="shrunk, malleable",
    of=lambda c: c.malleable_shrink_ratio,
    scale=100.0,
    unit="%",
)
UTILISATION = Metric(
    key="utilisation",
    label="useful utilisation",
    of=lambda c: c.useful_utilisation,
    scale=100.0,
    unit="%",
    digits=2,
)
LOST = Metric(key="lost", label="lost node-hours", of=lambda c: c.lost_node_hours, digits=0)
DECISION = Metric(
    key="decision-p99", label="decision, p99", of=lambda c: c.decision_p99_ms, unit=" ms", digits=2
)
METRICS = (
    TURNAROUND,
    RIGID_TURNAROUND,
    MALLEABLE_TURNAROUND,
    ON_DEMAND_TURNAROUND,
    INSTANT,
    RIGID_PREEMPTION,
    MALLEABLE_PREEMPTION,
    SHRUNK,
    UTILISATION,
    LOST,
    DECISION,
)


@dataclass(frozen=True, slots=True)
class Means:
    """Averages over what the cases hold; None where no case has such a figure."""

    cases: Sequence[Case]

    @property
    def under(self) -> Backfill:
        """The base scheduler that the mechanisms ran on."""
        return Backfill(next(case.backfill for case in self.cases if case.policy != BASE))

    def mechanism(
        self, policy: str, metric: Metric, *, mix: str | None = None, interval_share: float = 1.0
    ) -> float | None:
        """A mechanism's mean, over all mixes of notices unless one is named."""
        return self._mean(
            metric,
            lambda case: (
                case.policy == policy and case.interval_share == interval_share and mix in (None, case.mix)
            ),
        )

    def base(self, backfill: Backfill, metric: Metric) -> float | None:
        """The mean of the base scheduler alone."""
        return self._mean(metric, lambda case: case.policy == BASE and case.backfill == backfill.value)

    def _mean(self, metric: Metric, belongs: Callable[[Case], bool]) -> float | None:
        values = [value for case in self.cases if belongs(case) and (value := metric.of(case)) is not None]
        return statistics.fmean(values) if values else None
