"""Future events: the ends of runs, and all others except arrivals."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from makeway.simharness.engine.job_run import JobRun


class ChangeKind(StrEnum):
    """What can happen."""

    ANNOUNCED = "announced"  # an on-demand job that has not arrived
    SUBMITTED = "submitted"
    STARTED = "started"
    ENDED = "ended"  # finally: completed, cancelled or at its time limit
    REQUEUED = "requeued"
    ELIGIBLE = "eligible"  # its requeue delay is over
    SIGNALLED = "signalled"  # it has begun a checkpoint on demand
    ACKNOWLEDGED = "acknowledged"  # that checkpoint is complete
    RESIZED = "resized"
    PRIORITISED = "prioritised"
    RESERVED = "reserved"  # the job was bound to a reservation
    RESERVATION_ENDED = "reservation_ended"  # by itself or by command
    NODE_DOWN = "node_down"
    NODE_UP = "node_up"


class Change(NamedTuple):
    """Something that happened. `job_id` None: it concerns no job."""

    at_s: float
    kind: ChangeKind
    job_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFailure:
    """A node goes down: its job is requeued, and nothing starts on it for `repair_s`."""

    at_s: float
    node: int
    """Number of the node; the first is 0."""
    repair_s: float


class EventOrder(IntEnum):
    """The order of events at one instant. Ends of runs come before all of them, arrivals after."""

    CHECKPOINT = 0
    FAILURE = 1
    REPAIR = 2
    HOLD_END = 3
    ELIGIBLE = 4
    ANNOUNCED = 5
    CALL = 6


_Event = tuple[float, EventOrder, int, Callable[[], bool], Callable[[], None]]


class EventQueue:
    """Two heaps. An entry that is no longer valid stays in its heap and is skipped."""

    def __init__(self) -> None:
        self.ends: list[tuple[float, int, JobRun]] = []
        """Ends of runs: valid while the token is still the job's."""
        self.events: list[_Event] = []
        self._token = 0

    def token(self) -> int:
        """A new number."""
        self._token += 1
        return self._token

    def end_run(self, at_s: float, live: JobRun) -> None:
        """Set the end of the job's present run; an earlier setting is void."""
        self._token += 1
        live.end_token = self._token
        heappush(self.ends, (at_s, self._token, live))

    def add(
        self,
        at_s: float,
        order: EventOrder,
        action: Callable[[], None],
        valid: Callable[[], bool] = lambda: True,
    ) -> None:
        """Call `action` at that time, if `valid` is true then."""
        heappush(self.events, (at_s, order, self.token(), valid, action))

    def next_s(self) -> float:
        """When the first valid entry is due. Infinite: there is none."""
        ends, events = self.ends, self.events
        while ends and ends[0][2].end_token != ends[0][1]:
            heappop(ends)
        next_s = ends[0][0] if ends else inf
        while events and not events[0][3]():
            heappop(events)
        if events and events[0][0] < next_s:
            return events[0][0]
        return next_s

    def take_ends(self, now_s: float) -> list[JobRun]:
        """Take out the jobs whose runs end by now."""
        ends = self.ends
        ended: list[JobRun] = []
        while ends and ends[0][0] <= now_s:
            _, token, live = heappop(ends)
            if live.end_token == token:
                ended.append(live)
        return ended

    def run_events(self, now_s: float) -> None:
        """Handle the events that are due, including those added at this instant."""
        events = self.events
        while events and events[0][0] <= now_s:
            _, _, _, valid, action = heappop(events)
            if valid():
                action()
