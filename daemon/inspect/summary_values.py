"""The values of a summary: what was decided for urgent jobs, what it costs other jobs, and what was sent."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean

from makeway.daemon.estimate.actual_losses import NO_COST, Cost, RunLoss
from makeway.policies.model import Method

UNKNOWN = "unknown"
"""The user or the account of a job whose snapshot was not kept."""


class UrgentAnswer(StrEnum):
    """What was decided for an urgent job."""

    FREE = "free"  # nodes that are free, or come free by themselves, are enough
    WAIT = "wait"  # its nodes are held; jobs leave at the last moment if there is no room before
    ROOM = "room"  # other jobs have to leave or shrink
    LIMIT = "limit"  # a limit forbids that other jobs leave for it
    NONE = "none"  # no job leaves for it, for another reason


@dataclass(frozen=True, slots=True, kw_only=True)
class UrgentJobSummary:
    """One urgent job in the summary."""

    job_id: str
    user: str
    account: str
    node_count: int
    decided_s: float
    """When the first decision about it was taken."""
    waits_since_s: float
    """When it became eligible; equal to `decided_s` if the snapshot was not kept."""
    deadline_s: float
    answer: UrgentAnswer
    ready_s: float | None
    """When its nodes were expected to be free. None: never."""
    started_s: float | None
    """When it started. None: no start was seen."""
    still_waiting: bool
    """Whether no start was seen and its operation is still open, so that a start may yet come."""
    why: str = ""
    """Why no job leaves for it, in words. Empty: it is served."""

    @property
    def expected_on_time(self) -> bool:
        """Whether its nodes were expected in time."""
        return self.ready_s is not None and self.ready_s <= self.deadline_s

    @property
    def started_on_time(self) -> bool:
        """Whether it started in time."""
        return self.started_s is not None and self.started_s <= self.deadline_s


@dataclass(frozen=True, slots=True, kw_only=True)
class ActualTotals:
    """What was measured of lenders after they had left."""

    departures: int = 0
    """How many departures were measured."""
    lost: Cost = NO_COST
    """Work that is lost."""
    overhead: Cost = NO_COST
    """Requested checkpoints, and setups that have to be repeated although the work is saved."""

    def plus(self, loss: RunLoss) -> "ActualTotals":
        """With what one more run cost."""
        return ActualTotals(
            departures=self.departures + loss.evicted,
            lost=self.lost.plus(loss.lost),
            overhead=self.overhead.plus(loss.overhead),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LenderTotals:
    """What the lenders of one account have lent, those of one urgent user's jobs, or all."""

    jobs: int
    """Number of different jobs."""
    departures: Mapping[Method, int]
    """How often one was made to leave or to shrink, by method. In observe mode: would have been."""
    loss_node_s: int
    """Node-seconds of work that were expected to be lost. For one account or user: as far as the snapshots
    were kept.
    """
    loss_core_s: float | None
    """CPU-seconds of work that were expected to be lost. None: unknown of some of them."""
    loss_gpu_s: float | None
    """GPU-seconds of work that were expected to be lost. None: unknown of some of them."""
    actual: ActualTotals
    postponed: int = 0
    """How many of these departures would come at the last moment, and only if there were no room before. They
    are counted where an operation is only observed: elsewhere a later decision makes the jobs leave.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedCheckpoints:
    """A job that should have left after its next regular checkpoint, and left without one."""

    job_id: str
    user: str
    account: str
    times: int
    """How often it did."""
    lost: Cost
    """The work that it lost by that."""

    def plus(self, lost: Cost) -> "MissedCheckpoints":
        """With one more time."""
        return replace(self, times=self.times + 1, lost=self.lost.plus(lost))


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionTotals:
    """What became of the actions with one verb and one reason."""

    verb: str
    reason: str
    decided: int
    sent: int
    """Number of commands. It may exceed `decided`: commands are repeated, and policies do not decide on
    returns.
    """
    accepted: int
    refused: int
    """Rejected by the cluster, or never answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionSummary:
    """The whole summary."""

    from_s: float
    to_s: float
    decisions: int
    policies: tuple[str, ...]
    observed: int
    """Operations of observe mode: those that were opened in this time, and older ones that it is about."""
    acted: int
    """Operations of act mode, likewise."""
    urgent: tuple[UrgentJobSummary, ...]
    """In the order of their first decisions."""
    lenders: Mapping[str, LenderTotals]
    """By account, greatest loss first."""
    urgent_users: Mapping[str, LenderTotals]
    """The same lenders by the user of the urgent job that they left for, greatest loss first."""
    all_lenders: LenderTotals
    actions: tuple[ActionTotals, ...]
    missed_checkpoints: tuple[MissedCheckpoints, ...] = ()
    """Greatest loss first."""
    unrecorded: int = 0
    """Urgent jobs for which jobs would leave at the last moment, but which ones was not recorded."""
    only_observed: int = 0
    """How many of the departures of the lenders are of observe mode: no job left by them."""
    to_come: int = 0
    """Departures of act mode that are decided, and whose commands are still to be sent. They are not counted
    among those of the lenders."""
    called_off: int = 0
    """Departures of act mode that were decided and did not come about, likewise: the commands were never
    sent, or were refused."""

    def expected_wait_s(self) -> float | None:
        """Mean time from submission until the nodes were expected to be free, of the jobs that were served.
        None: none was.
        """
        waits = [
            max(job.ready_s, job.waits_since_s) - job.waits_since_s
            for job in self.urgent
            if job.ready_s is not None
        ]
        return fmean(waits) if waits else None

    def actual_wait_s(self) -> float | None:
        """Mean time from submission to start, of the jobs whose start was seen. None: none was."""
        waits = [job.started_s - job.waits_since_s for job in self.urgent if job.started_s is not None]
        return fmean(waits) if waits else None
