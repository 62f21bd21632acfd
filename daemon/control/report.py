"""The settings of a cycle, and what it reports."""

from dataclasses import dataclass, field
from enum import StrEnum

from makeway.daemon.config.mode import Mode
from makeway.daemon.control.executor import ActionReport
from makeway.daemon.estimate.actual_losses import LeavingRun, RunLoss
from makeway.daemon.estimate.checkpoint_times import Measurement
from makeway.daemon.journal.command_log import UNANSWERED_NOW, Outcome
from makeway.daemon.leader.standing import ALONE, Standing
from makeway.daemon.operation.observation import Timeouts
from makeway.policies.model import Cluster, Limits, Operation, Rationale, Reserve
from makeway.policies.safety.prices import Spending


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """What one cycle needs to know of the configuration."""

    mode: Mode = Mode.OBSERVE
    limits: Limits = field(default_factory=Limits)
    timeouts: Timeouts = field(default_factory=Timeouts)
    keep_snapshots: bool = True
    """Whether decisions are stored with their snapshots, so that they can be decided again."""
    learn_durations: bool = True
    """Whether measured durations of checkpoints take the place of declared ones."""
    commands_per_cycle: int | None = None
    """How many commands one cycle sends at most. None: no limit, as in a replay, whose commands take no time.
    """
    view_age_max_s: float | None = None
    """Nothing that takes is sent when so much time has passed since the reading of the view began. None: no
    limit.
    """
    told: bool = True
    """Whether reports contain the sentence, the resumed jobs and the lost work. A replay leaves them out if
    nothing reads its reports.
    """
    restoring: bool = False
    """Whether everything goes back, also while urgent jobs run or wait: for policy `none` in act mode."""


class Deferral(StrEnum):
    """Why a command that is due waits for the next cycle. The value is also the metric label."""

    UNANSWERED = "unanswered"  # a command before it got no answer
    LIMIT = "limit"  # the cycle has sent as many commands as it may
    OLD_VIEW = "old_view"  # it takes something, and the view is too old for that
    NOT_LEADING = "not_leading"  # this daemon has no lease, or its lease may end before the command does
    PAUSED = "paused"  # it takes something, and an operator has paused makeway
    REFUSED = "refused"  # it takes something, and another eviction for the same job was refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferred:
    """Commands that were due and not sent."""

    why: Deferral
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleReport:
    """What one cycle saw and did."""

    at_s: float
    mode: Mode
    sentence: str
    snapshot_s: float = 0.0
    """Wall-clock duration of the snapshot."""
    decision_s: float = 0.0
    """Wall-clock duration of the policy's decision."""
    decision_cpu_s: float = 0.0
    """Processor time of it, which does not depend on what else the machine does. 0: it was not measured."""
    snapshot_age_s: float | None = None
    """Age of the latest snapshot. None: there was never one."""
    actions: tuple[ActionReport, ...] = ()
    deferred: tuple[Deferred, ...] = ()
    """The commands that are due and wait for the next cycle."""
    decision_id: int | None = None
    """The number under which the decision is stored. None: it was not worth storing."""
    stored_rationale: tuple[Rationale, ...] = ()
    """Why the stored decision was taken, job by job. Empty: none was stored."""
    operations_open: int = 0
    urgent_waiting: int = 0
    urgent_started: tuple[float, ...] = ()
    """For each urgent job whose operation saw it start: how long after it became eligible, in seconds."""
    served: tuple[str, ...] = ()
    """The urgent jobs whose operation saw them start."""
    resumed: tuple[str, ...] = ()
    """The jobs that makeway evicted before and that were seen to run again."""
    lost_node_s: float = 0.0
    """Node-seconds of work that the evictions begun in this cycle are expected to lose."""
    lost_in_a_day: tuple[Spending, ...] = ()
    """The work that the decisions of the last 24 hours have lost, or are expected to lose: of all urgent
    jobs, then of the user and of the account with the most, where they have limits. Empty: there was no
    snapshot.
    """
    leaving: tuple[LeavingRun, ...] = ()
    """The runs that are to leave by the decision of this cycle."""
    losses: tuple[RunLoss, ...] = ()
    """What the runs cost that this cycle has seen to have left."""
    closed: tuple[Operation, ...] = ()
    checkpoints: tuple[Measurement, ...] = ()
    """The checkpoints that this cycle has seen the end of."""
    restored: bool = False
    """Whether nothing more can be given back. False also where not everything is to go back."""
    not_given_back: tuple[str, ...] = ()
    """What is still held or missing, a sentence each. Empty: nothing is, or not everything is to go back."""
    error: str | None = None
    """Why nothing was decided. None: there was a whole snapshot."""
    starting: bool = False
    """Whether that is because the cluster has just started: it will have a whole view soon."""
    standing: Standing = ALONE
    """Whether this daemon leads."""
    paused: bool = False
    """Whether an operator has paused makeway."""
    planning_failure: str | None = None
    """Why the last plan could not be made: a defect of the policy. None: it could, or the policy does not
    plan.
    """

    @property
    def again(self) -> bool:
        """Whether a new snapshot is worth having at once: the cluster took a command, or some are left over.
        It may also show why the cluster refused a hold.

        A cluster that did not answer a command is left in peace until the next poll.
        """
        if not (self.actions or self.deferred):
            return False
        reasons = {deferred.why for deferred in self.deferred} - {Deferral.NOT_LEADING, Deferral.PAUSED}
        if reasons or any(action.outcome in UNANSWERED_NOW for action in self.actions):
            return bool(reasons) and Deferral.UNANSWERED not in reasons
        return any(
            action.outcome is Outcome.ACCEPTED or (action.final and isinstance(action.action, Reserve))
            for action in self.actions
        )


def start_delay_s(operation: Operation, cluster: Cluster) -> float:
    """How long an urgent job that runs has waited."""
    job = cluster.jobs_by_id()[operation.for_job_id]
    start_s = operation.started_s if operation.started_s is not None else cluster.now_s
    return start_s - job.waits_since_s
