"""What is under way for one job: its tasks, and how far each is. Imported through `model`."""

from dataclasses import dataclass
from enum import StrEnum

from makeway.policies.model.actions import Action, Method, Reason, Requeue, Reserve
from makeway.policies.model.entities import Notice


class Progress(StrEnum):
    """How far a task is. ISSUING is the state of doubt: written down, and no answer written down after it."""

    PLANNED = "planned"
    ISSUING = "issuing"
    ACCEPTED = "accepted"  # the cluster said yes; not yet seen
    DONE = "done"  # a snapshot shows it
    REFUSED = "refused"  # the cluster or the arbiter said no
    GONE = "gone"  # its job ended first
    DROPPED = "dropped"  # no longer needed, never issued


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
    nodes: tuple[str, ...] = ()
    """The nodes of the action's job when the task was planned."""
    planned_s: float | None = None
    """When it was planned. None: with its operation."""
    detail: str = ""

    @property
    def forgotten(self) -> bool:
        """Whether the cluster accepted it and forgot it: a controller that crashed had not yet saved it."""
        return isinstance(self.action, Requeue) and self.action.forgotten_run is not None


class Phase(StrEnum):
    """Where an operation is."""

    MAKING_ROOM = "making_room"
    LENT = "lent"  # the urgent job runs
    RETURNING = "returning"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Everything that is done for one urgent job, from the hold to the return of the nodes."""

    operation_id: str
    for_job_id: str
    policy: str
    reservation: str
    nodes: tuple[str, ...]
    """The nodes held for the urgent job."""
    opened_s: float
    deadline_s: float
    """The start is on time until then."""
    give_up_s: float
    """If the urgent job has not started by then, the nodes go back."""
    phase: Phase = Phase.MAKING_ROOM
    tasks: tuple[Task, ...] = ()
    started_s: float | None = None
    """When the urgent job started. None: not yet."""
    ended_s: float | None = None
    """When the urgent job was seen to be over, or was given up. None: not yet."""
    observe: bool = False
    """Opened in observe mode: its actions are recorded and never issued."""
    notice: Notice | None = None
    """The announcement that it was opened for: until the job arrives, that is what `for_job_id` names. None: none."""
    outcome: str = ""
    """One sentence, once closed."""

    @property
    def first_hold(self) -> Reserve | None:
        """The action that made its first hold. None: it has none."""
        for task in self.tasks:
            if isinstance(task.action, Reserve):
                return task.action
        return None

    @property
    def reason(self) -> Reason | None:
        """Why its first hold was made. None: it has none."""
        hold = self.first_hold
        return None if hold is None else hold.reason

    @property
    def out_of(self) -> tuple[str, ...]:
        """The reservations for announced jobs out of which its job was lent idle nodes. Empty: it was lent none."""
        hold = self.first_hold
        return () if hold is None else hold.out_of

    @property
    def speculative(self) -> bool:
        """Whether its job starts before its turn: it is lent nodes that it may have to leave for the queue's first job."""
        return self.reason is Reason.SPECULATIVE

    @property
    def keeps_hold(self) -> bool:
        """Whether its hold lasts as long as its job runs; else it ends when the job has started."""
        return self.reason not in (Reason.SPECULATIVE, Reason.HEAD_DUE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Nodes that a lender has given up for a borrower. It ends with the lender resumed or grown back."""

    lender_job_id: str
    borrower_job_id: str
    nodes: tuple[str, ...]
    since_s: float
    method: Method
