"""The figures of P5's replays averaged over seeds and workloads, as the paper averages its ten traces."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from makeway.simharness.engine.scheduler import Backfill
from makeway.simharness.papers.p5.cases import BASE, BaseScheduler, P5Result, base_schedulers


@dataclass(frozen=True, slots=True, kw_only=True)
class P5Metric:
    """One figure of a replay, and how it is written."""

    key: str
    """For names and JSON."""
    label: str
    of: Callable[[P5Result], float | None]
    scale: float = 1.0
    """What is shown is the value times this."""
    unit: str = ""
    digits: int = 1

    def text(self, value: float | None) -> str:
        """A value with its unit; a dash where there is none."""
        return "–" if value is None else f"{value * self.scale:,.{self.digits}f}{self.unit}"


def _hours(key: str, label: str, of: Callable[[P5Result], float | None]) -> P5Metric:
    return P5Metric(key=key, label=label, of=of, unit=" h")


def _share(key: str, label: str, of: Callable[[P5Result], float | None], digits: int = 1) -> P5Metric:
    return P5Metric(key=key, label=label, of=of, scale=100.0, unit="%", digits=digits)


TURNAROUND = _hours("turnaround", "turnaround, all jobs", lambda c: c.turnaround_h)
RIGID_TURNAROUND = _hours("rigid-turnaround", "turnaround, rigid", lambda c: c.rigid_turnaround_h)
MALLEABLE_TURNAROUND = _hours(
    "malleable-turnaround", "turnaround, malleable", lambda c: c.malleable_turnaround_h
)
ON_DEMAND_TURNAROUND = _hours(
    "on-demand-turnaround", "turnaround, on-demand", lambda c: c.on_demand_turnaround_h
)
INSTANT = _share("instant-start", "instant start", lambda c: c.instant_start_rate)
RIGID_PREEMPTION = _share("rigid-preemption", "preempted, rigid", lambda c: c.rigid_preemption_ratio)
MALLEABLE_PREEMPTION = _share(
    "malleable-preemption", "preempted, malleable", lambda c: c.malleable_preemption_ratio
)
SHRUNK = _share("malleable-shrunk", "shrunk, malleable", lambda c: c.malleable_shrink_ratio)
UTILISATION = _share("utilisation", "useful utilisation", lambda c: c.useful_utilisation, digits=2)
LOST = P5Metric(key="lost", label="lost node-hours", of=lambda c: c.lost_node_hours, digits=0)
DECISION = P5Metric(
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
class P5Means:
    """Averages over what the cases hold; None where no case has such a figure."""

    cases: Sequence[P5Result]

    @property
    def under(self) -> BaseScheduler:
        """The base scheduler that the mechanisms ran on."""
        return next(_scheduler(case) for case in self.cases if case.policy != BASE)

    @property
    def alone(self) -> tuple[BaseScheduler, ...]:
        """The base schedulers that ran without mechanisms; the one that the mechanisms ran on is the last
        unless it is one of the paper's.
        """
        return base_schedulers(self.under)

    def mechanism(
        self, policy: str, metric: P5Metric, *, mix: str | None = None, interval_share: float = 1.0
    ) -> float | None:
        """A mechanism's mean, over all mixes of notices unless one is named."""
        return self._mean(
            metric,
            lambda case: (
                case.policy == policy and case.interval_share == interval_share and mix in (None, case.mix)
            ),
        )

    def base(self, scheduler: BaseScheduler, metric: P5Metric) -> float | None:
        """The mean of a base scheduler alone."""
        return self._mean(metric, lambda case: case.policy == BASE and _scheduler(case) == scheduler)

    def _mean(self, metric: P5Metric, belongs: Callable[[P5Result], bool]) -> float | None:
        values = [value for case in self.cases if belongs(case) and (value := metric.of(case)) is not None]
        return statistics.fmean(values) if values else None


def _scheduler(case: P5Result) -> BaseScheduler:
    return BaseScheduler(backfill=Backfill(case.backfill), start_smaller=case.start_smaller)
