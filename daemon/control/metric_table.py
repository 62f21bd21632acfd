"""The numbers that a cycle reports, each declared once.

The daemon exports every entry of both tables (`service/metrics.py`). `makeway explain` shows every entry of
`RATIONALE_METRICS` for a stored decision. A test asks for a panel of the dashboard for each. Labels are
values of enumerations only: no text from a user becomes a label.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from math import inf

from makeway.daemon.control.report import CycleReport, Deferral
from makeway.daemon.estimate.actual_losses import Cost
from makeway.daemon.journal.command_log import Outcome
from makeway.daemon.leader.standing import Role
from makeway.policies.model import Rationale, Reason

CYCLE_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
DECISION_BUCKETS_S = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
START_BUCKETS_S = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0)
FAILED = (Outcome.REJECTED, Outcome.IN_DOUBT, Outcome.UNSENT)
"""The outcomes of an action that the cluster did not take."""
COUNT_BUCKETS = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0)


class MetricKind(Enum):
    """The types of Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleSample:
    """One value to add to a counter, set a gauge to, or observe in a histogram."""

    value: float
    labels: tuple[str, ...] = ()
    """The values of the metric's labels, in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleMetric:
    """A metric that is read from the report of each cycle."""

    name: str
    """Without the unit, and without the `_total` of a counter."""
    help: str
    kind: MetricKind
    read: Callable[[CycleReport], Iterable[CycleSample]]
    unit: str = ""
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram."""
    at_start: float = 0.0
    """The value of a gauge without labels before the first cycle."""
    series: tuple[tuple[str, ...], ...] = ()
    """The values of a counter's labels that exist from the start, at 0. The alerts need them: Prometheus sees
    no increase in a series whose first value is 1.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class RationaleMetric:
    """A number of what was decided for one job: a line of `makeway explain`, and a histogram over stored
    decisions.
    """

    name: str
    help: str
    title: str
    """How `makeway explain` calls it."""
    read: Callable[[Rationale], float]
    buckets: tuple[float, ...]

    def of_cycles(self) -> CycleMetric:
        """The histogram over the stored decisions of all cycles."""
        return CycleMetric(
            name=self.name,
            help=self.help,
            kind=MetricKind.HISTOGRAM,
            read=lambda report: [CycleSample(value=self.read(why)) for why in report.stored_rationale],
            buckets=self.buckets,
        )


def _one(value: float) -> list[CycleSample]:
    return [CycleSample(value=value)]


def _if_seen(report: CycleReport, value: float) -> list[CycleSample]:
    """A value that a cycle without a snapshot does not have."""
    return _one(value) if report.error is None else []


def _hours(parts_s: Iterable[float | None]) -> float:
    """The sum of the known ones, in hours."""
    return sum(part_s for part_s in parts_s if part_s is not None) / 3600.0


def _actual(report: CycleReport, amount: Callable[[Cost], float | None]) -> list[CycleSample]:
    """What was measured in a cycle, in hours of one resource."""
    return [
        CycleSample(value=_hours(amount(loss.lost) for loss in report.losses), labels=("work",)),
        CycleSample(value=_hours(amount(loss.overhead) for loss in report.losses), labels=("overhead",)),
    ]


CYCLE_METRICS = (
    CycleMetric(
        name="makeway_snapshot_duration",
        help="Duration of reading the cluster.",
        kind=MetricKind.HISTOGRAM,
        unit="seconds",
        buckets=CYCLE_BUCKETS_S,
        read=lambda report: _if_seen(report, report.snapshot_s),
    ),
    CycleMetric(
        name="makeway_decision_duration",
        help="Duration of the policy's decision.",
        kind=MetricKind.HISTOGRAM,
        unit="seconds",
        buckets=DECISION_BUCKETS_S,
        read=lambda report: _if_seen(report, report.decision_s),
    ),
    CycleMetric(
        name="makeway_actions",
        help="Actions by verb, reason and outcome in their cycle.",
        kind=MetricKind.COUNTER,
        labels=("verb", "reason", "outcome"),
        read=lambda report: [
            CycleSample(value=1, labels=(one.action.verb, one.action.reason.value, one.outcome.value))
            for one in report.actions
        ],
        series=(("requeue", Reason.ENDED_BY_SIGNAL.value, Outcome.ACCEPTED.value),),
    ),
    CycleMetric(
        name="makeway_actions_failed",
        help="Actions that the cluster rejected, or whose commands it did not answer, by outcome.",
        kind=MetricKind.COUNTER,
        labels=("outcome",),
        read=lambda report: [
            CycleSample(value=1, labels=(one.outcome.value,))
            for one in report.actions
            if one.outcome in FAILED
        ],
        series=tuple((outcome.value,) for outcome in FAILED),
    ),
    CycleMetric(
        name="makeway_refusals",
        help="Actions that makeway's own limits refused, by limit.",
        kind=MetricKind.COUNTER,
        labels=("refusal",),
        read=lambda report: [
            CycleSample(value=1, labels=(one.refusal.value,))
            for one in report.actions
            if one.refusal is not None
        ],
    ),
    CycleMetric(
        name="makeway_commands_deferred",
        help="Commands that were due and wait for the next cycle, by why.",
        kind=MetricKind.COUNTER,
        labels=("why",),
        read=lambda report: [
            CycleSample(value=one.count, labels=(one.why.value,)) for one in report.deferred
        ],
        series=tuple((why.value,) for why in Deferral),
    ),
    CycleMetric(
        name="makeway_leader",
        help="1 for what this daemon is among those of its instance, 0 for the other roles.",
        kind=MetricKind.GAUGE,
        labels=("role",),
        read=lambda report: [
            CycleSample(value=float(report.standing.role is role), labels=(role.value,)) for role in Role
        ],
    ),
    CycleMetric(
        name="makeway_paused",
        help="1 while an operator has paused makeway, else 0.",
        kind=MetricKind.GAUGE,
        read=lambda report: _one(float(report.paused)),
    ),
    CycleMetric(
        name="makeway_operations_open",
        help="Operations that are not closed.",
        kind=MetricKind.GAUGE,
        read=lambda report: _one(report.operations_open),
    ),
    CycleMetric(
        name="makeway_urgent_waiting",
        help="Urgent jobs that wait in the queue.",
        kind=MetricKind.GAUGE,
        read=lambda report: _if_seen(report, report.urgent_waiting),
    ),
    CycleMetric(
        name="makeway_planning_failed",
        help="1 if the last plan that was asked for could not be made, else 0.",
        kind=MetricKind.GAUGE,
        read=lambda report: _if_seen(report, float(report.planning_failure is not None)),
    ),
    CycleMetric(
        name="makeway_urgent_start_delay",
        help="Time from when an urgent job became eligible to its start.",
        kind=MetricKind.HISTOGRAM,
        unit="seconds",
        buckets=START_BUCKETS_S,
        read=lambda report: [CycleSample(value=delay_s) for delay_s in report.urgent_started],
    ),
    CycleMetric(
        name="makeway_lost_node_hours",
        help="Node-hours of work that evictions were expected to lose.",
        kind=MetricKind.COUNTER,
        read=lambda report: _one(report.lost_node_s / 3600.0),
    ),
    CycleMetric(
        name="makeway_lost_in_a_day_node_hours",
        help="Node-hours of work that urgent jobs of the last 24 hours have cost, or are expected to cost.",
        kind=MetricKind.GAUGE,
        read=lambda report: [CycleSample(value=_hours((one.node_s,))) for one in report.lost_in_a_day[:1]],
    ),
    CycleMetric(
        name="makeway_lost_in_a_day_limit_node_hours",
        help="The most that they may cost. +Inf: there is no limit, or the cluster was not read yet.",
        kind=MetricKind.GAUGE,
        at_start=inf,
        read=lambda report: [
            CycleSample(value=inf if one.limit_node_s is None else _hours((one.limit_node_s,)))
            for one in report.lost_in_a_day[:1]
        ],
    ),
    CycleMetric(
        name="makeway_lost_core_hours",
        help="Core-hours of work that evictions were expected to lose, where they are known.",
        kind=MetricKind.COUNTER,
        read=lambda report: _one(_hours(run.expected.core_s for run in report.leaving)),
    ),
    CycleMetric(
        name="makeway_lost_gpu_hours",
        help="GPU-hours of work that evictions were expected to lose, where they are known.",
        kind=MetricKind.COUNTER,
        read=lambda report: _one(_hours(run.expected.gpu_s for run in report.leaving)),
    ),
    CycleMetric(
        name="makeway_actual_loss_node_hours",
        help="Node-hours that evictions were measured to cost: work, and overhead such as checkpoints.",
        kind=MetricKind.COUNTER,
        labels=("kind",),
        read=lambda report: _actual(report, lambda cost: cost.node_s),
    ),
    CycleMetric(
        name="makeway_actual_loss_core_hours",
        help="Core-hours that evictions were measured to cost, where they are known.",
        kind=MetricKind.COUNTER,
        labels=("kind",),
        read=lambda report: _actual(report, lambda cost: cost.core_s),
    ),
    CycleMetric(
        name="makeway_actual_loss_gpu_hours",
        help="GPU-hours that evictions were measured to cost, where they are known.",
        kind=MetricKind.COUNTER,
        labels=("kind",),
        read=lambda report: _actual(report, lambda cost: cost.gpu_s),
    ),
    CycleMetric(
        name="makeway_checkpoint",
        help=(
            "Time from the request for a checkpoint to its acknowledgement, or to the end of the grace "
            "without one."
        ),
        kind=MetricKind.HISTOGRAM,
        unit="seconds",
        labels=("acknowledged",),
        buckets=START_BUCKETS_S,
        read=lambda report: [
            CycleSample(value=one.duration_s, labels=("yes" if one.acknowledged else "no",))
            for one in report.checkpoints
        ],
    ),
)

RATIONALE_METRICS = (
    RationaleMetric(
        name="makeway_decision_shortage_nodes",
        help="Nodes that a job lacked when it was decided on.",
        title="nodes short",
        buckets=COUNT_BUCKETS,
        read=lambda why: max(0, why.node_count - why.free_node_count),
    ),
    RationaleMetric(
        name="makeway_decision_candidates",
        help="Jobs, or groups of jobs on shared nodes, whose cost was compared for a job.",
        title="candidates",
        buckets=COUNT_BUCKETS,
        read=lambda why: len(why.candidates),
    ),
)
