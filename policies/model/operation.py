"""What is under way for one job: its tasks, and how far each is. Imported through `model`."""

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from makeway.policies.model.actions import Action, Method, Prioritise, Requeue, Reserve
from makeway.policies.model.entities import Notice
from makeway.policies.model.kind import OperationKind


class Progress(StrEnum):
    """How far a task is. ISSUING: recorded before it was sent, and no answer is recorded; it may or may not
    have arrived.
    """

    PLANNED = "planned"
    ISSUING = "issuing"
    ACCEPTED = "accepted"  # the cluster accepted it; no snapshot shows it yet
    DONE = "done"  # a snapshot shows it
    REFUSED = "refused"  # the cluster or the arbiter refused it
    GONE = "gone"  # its job ended first
    DROPPED = "dropped"  # no longer needed, never issued


class Ending(StrEnum):
    """How a task ended. Each way belongs to one `Progress`, see `progress`."""

    SEEN = "seen"  # a snapshot shows what was requested
    ACKNOWLEDGED = "acknowledged"  # the job has written that its checkpoint is complete
    UNACKNOWLEDGED = "unacknowledged"  # the grace is over, or the job was evicted before it acknowledged
    REQUEUED_ITSELF = "requeued_itself"  # the signalled job went back to the queue
    STARTED = "started"  # the job that was moved in the queue runs
    ENDED_ITSELF = "ended_itself"  # the job was over first
    LEFT_ITSELF = "left_itself"  # the job left its nodes before it was shrunk
    RUN_OVER = "run_over"  # the run that was to grow, or to get its priority back, is over
    REJECTED = "rejected"  # the cluster refused it
    FORBIDDEN = "forbidden"  # makeway's arbiter refused it
    REPLACED = "replaced"  # a newer hold takes the place of this one
    JOB_STARTED = "job_started"  # the job that the operation is for runs
    JOB_ARRIVED = "job_arrived"  # the announced job is here; its hold is made for the job
    JOB_WAITS_AGAIN = "job_waits_again"  # the urgent job waits in its hold once more
    TURNED_BACK = "turned_back"  # the operation gives back what it took
    NOT_NEEDED = "not_needed"  # the operation gives back already, and the task was never issued
    OUTDATED = "outdated"  # it did not fit any more when it could be issued: it is decided again
    LED_ELSEWHERE = "led_elsewhere"  # another daemon leads now

    @property
    def progress(self) -> Progress:
        """The progress of a task that ended in this way."""
        match self:
            case Ending.SEEN | Ending.ACKNOWLEDGED | Ending.UNACKNOWLEDGED:
                return Progress.DONE
            case Ending.REQUEUED_ITSELF | Ending.STARTED:
                return Progress.DONE
            case Ending.ENDED_ITSELF | Ending.LEFT_ITSELF | Ending.RUN_OVER:
                return Progress.GONE
            case Ending.REJECTED | Ending.FORBIDDEN:
                return Progress.REFUSED
            case Ending.REPLACED | Ending.JOB_STARTED | Ending.JOB_ARRIVED:
                return Progress.DROPPED
            case Ending.JOB_WAITS_AGAIN | Ending.TURNED_BACK | Ending.NOT_NEEDED | Ending.OUTDATED:
                return Progress.DROPPED
            case Ending.LED_ELSEWHERE:
                return Progress.DROPPED
            case _:
                assert_never(self)


class OperationOutcome(StrEnum):
    """How an operation ended."""

    DONE = "done"  # it held no nodes, and its actions are over
    STARTED = "started"  # the job that it was for was seen to start
    NOT_STARTED = "not_started"  # that job ended first, or did not start in time
    STILL_WAITS = "still_waits"  # observe mode: that job has waited for too long
    EXPIRED = "expired"  # observe mode: the time is over for which it counted as done
    ARRIVED = "arrived"  # observe mode: the announced job is here, and is decided on by itself
    MODE_CHANGED = "mode_changed"  # it was only observed, and this daemon acts now
    LED_ELSEWHERE = "led_elsewhere"  # another daemon leads now, which gives back what was taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One action of an operation, and how far it is."""

    action: Action
    progress: Progress = Progress.PLANNED
    issued_s: float | None = None
    """When it was last issued. None: never."""
    ended_s: float | None = None
    """When it was seen done, or given up. None: it is under way."""
    requeue_count: int = 0
    """The job's requeue count when the task was planned: which run of the job is meant."""
    start_s: float | None = None
    """When that run began. None: the job waited when the task was planned, or an older makeway planned it."""
    nodes: tuple[str, ...] = ()
    """The nodes of the action's job when the task was planned."""
    planned_s: float | None = None
    """When it was planned. None: with its operation."""
    ending: Ending | None = None
    """How it ended. None: it is under way."""
    ran_again: bool = False
    """Whether the job that it requeued was seen running again."""
    doubted: bool = False
    """Whether a requeue got no answer, and no snapshot showed that it was carried out: the cluster may have
    forgotten it."""
    detail: str = ""
    """The last answer of the cluster or the arbiter, for people only. Empty: none."""

    @property
    def puts_back(self) -> bool:
        """Whether its job was stopped already, and has to be put back into the queue: the cluster forgot the
        requeue, or makeway's signal may have ended the job.
        """
        return isinstance(self.action, Requeue) and self.action.puts_back


class Phase(StrEnum):
    """Where an operation is."""

    MAKING_ROOM = "making_room"
    LENT = "lent"  # the urgent job runs
    RETURNING = "returning"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Everything that is done for one job, for example from the hold for an urgent job to the return of the
    nodes.
    """

    operation_id: str
    """Given by the journal, and never given again."""
    kind: OperationKind
    for_job_id: str
    """The job that it is for; of a `NOTICE`, the announcement."""
    policy: str
    reservation: str
    """The name of its hold. Empty: operations of its kind hold no nodes."""
    nodes: tuple[str, ...]
    """The nodes of its latest hold."""
    opened_s: float
    deadline_s: float
    """The latest instant at which the start is on time."""
    give_up_s: float
    """If the job has not started by then, the nodes go back."""
    phase: Phase = Phase.MAKING_ROOM
    tasks: tuple[Task, ...] = ()
    started_s: float | None = None
    """When the job started. None: not yet."""
    ended_s: float | None = None
    """When the job was seen to be over, or was given up. None: not yet."""
    observe: bool = False
    """Opened in observe mode: its actions are recorded and never issued."""
    notice: Notice | None = None
    """The announcement that it was opened for. None: it was opened for a job."""
    out_of: tuple[str, ...] = ()
    """The holds for announced jobs out of which its job was lent idle nodes. Empty: its kind is not
    `LEND_HELD`."""
    outcome: OperationOutcome | None = None
    """How it ended. None: it is not closed."""
    short_since_s: float | None = None
    """Since when its hold lacks nodes that the urgent job can get. None: it has enough, or was not seen."""
    array_job_id: str = ""
    """The job array that its job is a task of. Empty: of none, or an older makeway opened it."""
    user: str = ""
    """The user of its job. Empty: the job was not there, or an older makeway opened it."""

    @property
    def own_reservation(self) -> str | None:
        """The reservation that its job was submitted with. None: none, or unknown."""
        holds = (task.action for task in self.tasks if isinstance(task.action, Reserve))
        return next((hold.own_reservation for hold in holds if hold.own_reservation is not None), None)


def kind_of(actions: tuple[Action, ...]) -> OperationKind:
    """The kind of operation that a group of actions opens, all of them for the same job.

    The hold has the kind. Without a hold, a job is moved in the queue, or something is undone.
    """
    for action in actions:
        if isinstance(action, Reserve):
            return action.kind
    for action in actions:
        if isinstance(action, Prioritise):
            if action.queue_position is not None:
                return OperationKind.REORDER
            return OperationKind.FRONT if action.job_id == action.for_job_id else OperationKind.CLEAN_UP
    return OperationKind.CLEAN_UP


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Nodes that a lender has given up for a borrower. It ends with the lender resumed or grown back."""

    lender_job_id: str
    borrower_job_id: str
    nodes: tuple[str, ...]
    since_s: float
    method: Method
