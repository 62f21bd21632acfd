"""One cell of a sweep: one replay, and its numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from makeway.policies.model import JobKind
from makeway.simharness.engine.scheduler import Backfill, Order
from makeway.simharness.results.measures import MeasureSettings, Number, measure, numbers
from makeway.simharness.run.experiment import Experiment, run
from makeway.simharness.run.limits import ReplayLimits, limits_of
from makeway.simharness.run.loading import load_workload
from makeway.simharness.workloads.unit import TraceUnit

BATCH = "batch"
"""The jobs that are not urgent."""
SMALL, MEDIUM, LARGE = "small", "medium", "large"
_MEDIUM_FROM, _LARGE_FROM = 0.01, 0.1
"""Jobs are medium or large from these shares of the machine's nodes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepCell:
    """What to replay. A value that another process can be given."""

    trace: str
    trace_name: str
    """What the trace is called in the results."""
    synthesis: str | None
    seed: int
    label: str
    """What the policy with its settings is called."""
    policy: str
    policy_settings: Mapping[str, object] = field(default_factory=dict[str, object])
    max_loss_node_hours: float | None = None
    """What evictions for one urgent job may lose. None: what `limits` says of it."""
    limits: ReplayLimits = ReplayLimits.NONE
    backfill: Backfill = Backfill.EASY
    order: Order = Order.FCFS
    unit: TraceUnit | None = None
    node_count: int | None = None
    urgent_share: float | None = None
    start_within_s: float | None = None
    poll_interval_s: float = 30.0

    @property
    def columns(self) -> dict[str, str | int | float | None]:
        """What identifies the cell in the results."""
        return {
            "trace": self.trace_name,
            "workload": self.synthesis,
            "seed": self.seed,
            "policy": self.label,
            "max_loss_node_hours": self.max_loss_node_hours,
            "limits": self.limits.value,
            "backfill": self.backfill.value,
            "order": self.order.value,
            "unit": None if self.unit is None else self.unit.value,
            "node_count": self.node_count,
            "urgent_share": self.urgent_share,
            "start_within_s": self.start_within_s,
            "poll_interval_s": self.poll_interval_s,
        }

    def described(self) -> str:
        """Which cell it is, in words: also the settings that are not the usual ones."""
        usual = SweepCell(
            trace=self.trace,
            trace_name=self.trace_name,
            synthesis=self.synthesis,
            seed=self.seed,
            label=self.label,
            policy=self.policy,
        ).columns
        columns = self.columns
        names = [
            *("policy", "trace", "workload", "seed"),
            *(key for key in usual if columns[key] != usual[key]),
        ]
        return ", ".join(f"{name} {columns[name]}" for name in names if columns[name] is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellResult:
    """The numbers of one replay, by the keys of `measures.numbers`. Its groups are also the batch jobs and
    the sizes.
    """

    numbers: dict[str, Number]


def experiment_of(cell: SweepCell) -> Experiment:
    """What a cell replays."""
    return Experiment(
        trace=cell.trace,
        synthesis=cell.synthesis,
        seed=cell.seed,
        policy=cell.policy,
        policy_settings=cell.policy_settings,
        limits=limits_of(cell.limits, cell.max_loss_node_hours),
        backfill=cell.backfill,
        order=cell.order,
        unit=cell.unit,
        node_count=cell.node_count,
        urgent_share=cell.urgent_share,
        start_within_s=cell.start_within_s,
        poll_interval_s=cell.poll_interval_s,
    )


def run_cell(cell: SweepCell) -> CellResult:
    """Replay and measure one cell: what one worker process does.

    Raises:
        UserError: the trace, the policy or a setting cannot be used.
    """
    experiment = experiment_of(cell)
    workload = load_workload(experiment)
    record = run(experiment, workload)
    medium, large = (share * workload.node_count for share in (_MEDIUM_FROM, _LARGE_FROM))
    settings = MeasureSettings()
    if cell.start_within_s is not None:
        settings = replace(settings, start_within_s=cell.start_within_s)
    measured = measure(
        record,
        settings,
        groups={
            BATCH: lambda job: job.kind is not JobKind.ON_DEMAND,
            SMALL: lambda job: job.node_count < medium,
            MEDIUM: lambda job: medium <= job.node_count < large,
            LARGE: lambda job: job.node_count >= large,
        },
    )
    return CellResult(numbers=numbers(measured))
