"""What an operation is for. Imported through `model`."""

from enum import StrEnum


class OperationKind(StrEnum):
    """What an operation is for, which decides how it goes on. (The `Reason` of an action is only a label.)"""

    MAKE_WAY = "make_way"
    """Nodes are held for a waiting urgent job, and other jobs leave them. The hold lasts until the job ends.
    """
    MAKE_WAY_SHARED = "make_way_shared"
    """As `MAKE_WAY`, for an urgent job that needs only a part of its nodes. The hold ends when it starts, so
    that the rest of the nodes serves other jobs."""
    NOTICE = "notice"
    """Nodes are held for an announced job that has not arrived."""
    ARRIVAL = "arrival"
    """The announced job has arrived; its hold still has the notice's id. The next hold makes it `MAKE_WAY`.
    """
    LEND_HELD = "lend_held"
    """A waiting job starts on idle nodes that are held for announced jobs, and leaves when one of these
    arrives."""
    EARLY_START = "early_start"
    """A waiting job starts before its turn on idle nodes, and leaves when the first job of the queue needs
    them."""
    QUEUE_HEAD = "queue_head"
    """The first job of the queue is to start by a certain time; jobs that passed it leave its nodes."""
    FRONT = "front"
    """No way can be made for an urgent job: it goes to the front of the queue."""
    REORDER = "reorder"
    """A waiting job gets its position in a planned order."""
    CLEAN_UP = "clean_up"
    """A reservation or a priority that no operation needs any more is removed, or a job gets back what no
    other operation gives back."""

    @property
    def holds_nodes(self) -> bool:
        """Whether such an operation has a reservation."""
        return self not in _WITHOUT_HOLD

    @property
    def holds_while_running(self) -> bool:
        """Whether the reservation lasts while its job runs. Else it ends at the job's start, or there is
        none.
        """
        return self in _HOLDS_WHILE_RUNNING

    @property
    def serves_urgent_job(self) -> bool:
        """Whether its hold is that of an urgent job which has been submitted."""
        return self in _SERVES_URGENT_JOB

    @property
    def starts_early(self) -> bool:
        """Whether a waiting job starts before its turn and may have to leave again."""
        return self in _STARTS_EARLY


_WITHOUT_HOLD = frozenset({OperationKind.FRONT, OperationKind.REORDER, OperationKind.CLEAN_UP})
_HOLDS_WHILE_RUNNING = frozenset({OperationKind.MAKE_WAY, OperationKind.NOTICE, OperationKind.ARRIVAL})
_SERVES_URGENT_JOB = frozenset({OperationKind.MAKE_WAY, OperationKind.MAKE_WAY_SHARED, OperationKind.ARRIVAL})
_STARTS_EARLY = frozenset({OperationKind.LEND_HELD, OperationKind.EARLY_START})
