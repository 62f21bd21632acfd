"""What makeway would have done in a past period: each policy at each ceiling of loss, and which to choose."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from makeway.policies.contract import PolicyFailed
from makeway.policies.model import JobKind, Limits
from makeway.simharness.engine.records import ReplayRecord
from makeway.simharness.engine.scheduler import Backfill, Order
from makeway.simharness.history.loading import WAITING_BEFORE_S, PastPeriod, load_history
from makeway.simharness.history.source import HistorySource, hidden
from makeway.simharness.results.formats import Unit, format_number
from makeway.simharness.results.measures import ALL, GroupMeasures, Measures, MeasureSettings, measure
from makeway.simharness.run.experiment import Experiment, run
from makeway.simharness.run.limits import ReplayLimits, limits_of, with_ceiling

NO_MAKEWAY = "none"
DEFAULT_POLICY = "least-price"
DEFAULT_CEILINGS: Final = (None, 100.0, 20.0, 5.0, 1.0, 0.0)
"""Node-hours that evictions for one urgent job may lose."""
NEAR_BEST = 0.01
"""By how much the on-time share of a choice may be below that of the best one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryTrial:
    """One replay of a history. A value that another process can be given."""

    source: HistorySource
    policy: str
    policy_settings: Mapping[str, object] = field(default_factory=dict[str, object])
    max_loss_node_hours: float | None = None
    """Node-hours that evictions for one urgent job may lose, on a machine of any size. None: no limit."""
    backfill: Backfill = Backfill.EASY
    order: Order = Order.FCFS
    poll_interval_s: float = 30.0
    requeue_delay_s: float = 120.0
    check: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerCost:
    """What the jobs of one user, charged to one account, paid."""

    user: str
    account: str
    jobs: int
    evicted: int
    """How many of them were evicted or shrunk at least once."""
    lost_node_hours: float
    overhead_node_hours: float
    turnaround_h: float
    """The sum of the hours from submission to completion."""

    @property
    def cost_node_hours(self) -> float:
        """Lost work, repeated setups and checkpoints."""
        return self.lost_node_hours + self.overhead_node_hours


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOutcome:
    """What one replay came to."""

    policy: str
    max_loss_node_hours: float | None
    measures: Measures
    """Waits, turnarounds and shares are those of the jobs of the measured time; evictions and costs are those
    of all jobs: see `measured`."""
    owners: tuple[OwnerCost, ...]
    """By cost, the highest first; those without jobs that makeway touched come last, by name."""

    @property
    def on_time(self) -> int:
        """Urgent jobs that started on time."""
        return self.measures.group(JobKind.ON_DEMAND).on_time

    @property
    def urgent(self) -> int:
        """Urgent jobs of the measured time."""
        return self.measures.group(JobKind.ON_DEMAND).jobs

    @property
    def cost_node_hours(self) -> float:
        """Lost work, repeated setups and checkpoints of all jobs."""
        total = self.measures.group(ALL)
        return total.lost_node_hours + total.overhead_node_hours


@lru_cache(maxsize=1)
def loaded(source: HistorySource) -> PastPeriod:
    """The history of a source, read once for several replays."""
    return load_history(source)


def replay_history(trial: HistoryTrial) -> HistoryOutcome:
    """Replay a history and measure: what one worker process does.

    Raises:
        PolicyFailed: a defect of the policy. The message names the ceiling.
    """
    try:
        record = record_of(trial)
    except PolicyFailed as error:
        ceiling = "none" if trial.max_loss_node_hours is None else f"{trial.max_loss_node_hours:g}"
        raise PolicyFailed(f"--max-loss {ceiling}: {error}") from error
    return HistoryOutcome(
        policy=trial.policy,
        max_loss_node_hours=trial.max_loss_node_hours,
        measures=measured(record, trial.source),
        owners=owners_of(record),
    )


def record_of(trial: HistoryTrial) -> ReplayRecord:
    """The record of a replay. Names are hidden in it, if the source says so, but not from the replay itself.

    Raises:
        UserError: the history, the policy or a setting cannot be used.
    """
    history = loaded(trial.source)
    experiment = Experiment(
        trace=history.workload.name,
        policy=trial.policy,
        policy_settings=trial.policy_settings,
        limits=limits_with(history.rules.limits, trial.max_loss_node_hours),
        backfill=trial.backfill,
        order=trial.order,
        poll_interval_s=trial.poll_interval_s,
        requeue_delay_s=trial.requeue_delay_s,
        check=trial.check,
    )
    record = run(experiment, history.workload)
    if (salt := trial.source.salt) is not None:
        for entry in record.jobs:
            user, account = hidden(entry.job.user, "user", salt), hidden(entry.job.account, "account", salt)
            entry.job = replace(entry.job, user=user, account=account)
    return record


def limits_with(limits: Limits | None, max_loss_node_hours: float | None) -> Limits:
    """The site's limits with this ceiling, whatever the size of the machine. None: those of replays, none."""
    return with_ceiling(limits_of(ReplayLimits.NONE) if limits is None else limits, max_loss_node_hours)


def settings_of(source: HistorySource) -> MeasureSettings:
    """What is measured: the jobs of the measured time. For what evictions cost, see `measured`."""
    if source.start_within_s is None:
        return MeasureSettings(from_s=0.0)
    return MeasureSettings(from_s=0.0, start_within_s=source.start_within_s)


def measured(record: ReplayRecord, source: HistorySource) -> Measures:
    """The measures of a replay of a history.

    Evictions, shrinks, lost work and overhead are those of all jobs: jobs that ran when the measured time
    began pay for urgent jobs, too. All else is measured of the jobs of the measured time.
    """
    settings = settings_of(source)
    found, whole = measure(record, settings), measure(record, replace(settings, from_s=None))
    groups = tuple(_with_costs_of(one, whole.group(one.group)) for one in found.groups)
    total = next(one for one in groups if one.group == ALL)
    useful_node_hours = found.held_node_hours - total.lost_node_hours - total.overhead_node_hours
    share, held = found.utilisation, found.held_node_hours
    useful = found.useful_utilisation if share is None or not held else share * useful_node_hours / held
    return replace(found, groups=groups, useful_utilisation=useful)


def _with_costs_of(group: GroupMeasures, whole: GroupMeasures) -> GroupMeasures:
    return replace(
        group,
        evictions=whole.evictions,
        shrinks=whole.shrinks,
        lost_node_hours=whole.lost_node_hours,
        overhead_node_hours=whole.overhead_node_hours,
        lost_core_hours=whole.lost_core_hours,
        lost_gpu_hours=whole.lost_gpu_hours,
    )


def replay_remarks(records: Sequence[ReplayRecord]) -> list[str]:
    """What a report that measures the jobs of the measured time alone leaves out, in one sentence each."""
    found: list[str] = []
    before = [[entry for entry in record.jobs if entry.job.submit_s < 0.0] for record in records]
    if any(before):
        found.append("The curves of waits and slowdowns have the jobs from before the period, too.")
    for record, entries in zip(records, before, strict=True):
        hours = sum(entry.lost_node_s + entry.overhead_node_s for entry in entries) / 3600.0
        if hours:
            found.append(
                f"The table leaves out what jobs from before the period paid under {record.policy}: "
                f"{format_number(hours, Unit.NODE_HOURS)} node-hours."
            )
    return found


def from_the_beginning(record: ReplayRecord) -> ReplayRecord:
    """The record for pictures, without what was before the measured time. Jobs that ran when it began seem
    to start then.
    """
    first_s = WAITING_BEFORE_S
    return replace(
        record,
        jobs=[
            entry
            if entry.job.submit_s >= first_s
            else replace(
                entry,
                job=replace(entry.job, submit_s=first_s),
                start_s=None if entry.start_s is None else max(entry.start_s, first_s),
            )
            for entry in record.jobs
        ],
        segments=[
            replace(one, start_s=max(one.start_s, first_s)) for one in record.segments if one.end_s > first_s
        ],
        marks=[mark for mark in record.marks if mark.at_s >= first_s],
    )


def owners_of(record: ReplayRecord) -> tuple[OwnerCost, ...]:
    """The costs by user and account."""
    found: dict[tuple[str, str], OwnerCost] = {}
    for entry in record.jobs:
        key = (entry.job.user, entry.job.account)
        before = found.get(key) or OwnerCost(
            user=key[0],
            account=key[1],
            jobs=0,
            evicted=0,
            lost_node_hours=0.0,
            overhead_node_hours=0.0,
            turnaround_h=0.0,
        )
        turnaround_s = 0.0 if entry.end_s is None else entry.end_s - entry.job.submit_s
        found[key] = replace(
            before,
            jobs=before.jobs + 1,
            evicted=before.evicted + (entry.evictions + entry.shrinks > 0),
            lost_node_hours=before.lost_node_hours + entry.lost_node_s / 3600.0,
            overhead_node_hours=before.overhead_node_hours + entry.overhead_node_s / 3600.0,
            turnaround_h=before.turnaround_h + turnaround_s / 3600.0,
        )
    return tuple(sorted(found.values(), key=lambda one: (-one.cost_node_hours, one.account, one.user)))


def recommended(outcomes: Sequence[HistoryOutcome]) -> HistoryOutcome:
    """The cheapest of those that start nearly as many urgent jobs on time as the best one (`NEAR_BEST`).

    Of equal ones the one with fewer evictions, then with more starts on time, then the one without makeway,
    then the one with the lower ceiling, then the first. Without urgent jobs nothing can be recommended: it is
    the first of all.

    Args:
        outcomes: at least one.
    """
    if not any(one.urgent for one in outcomes):
        return outcomes[0]
    best = max(one.on_time for one in outcomes)
    near = [one for one in outcomes if one.on_time >= best - NEAR_BEST * one.urgent]

    def price(one: HistoryOutcome) -> tuple[float, int, int, float]:
        return (one.cost_node_hours, one.measures.group(ALL).evictions, -one.on_time, ceiling_order(one))

    return min(near, key=price)


def ceiling_order(one: HistoryOutcome) -> float:
    """By ceiling, the lowest first. The one without makeway, which evicts nothing, comes before them."""
    if one.policy == NO_MAKEWAY:
        return -1.0
    return float("inf") if one.max_loss_node_hours is None else one.max_loss_node_hours
