"""An independent scheduler for small workloads, written from the definitions alone; it shares no code with
the simulator.

It keeps nothing between two instants: whatever it needs to know it works out from the start times so far.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

OrderName = Literal["fcfs", "wfp"]
BackfillName = Literal["none", "easy", "conservative", "easy-cqsim"]
NEVER_S = float("inf")


@dataclass(frozen=True)
class Ask:
    """One job: what it asks for, and what it will take."""

    submit_s: float
    runtime_s: float
    walltime_s: float
    size: int


@dataclass(frozen=True)
class Span:
    """So many nodes in use from `start_s` until just before `end_s`."""

    start_s: float
    end_s: float
    size: int


def start_times(
    node_count: int, asks: Sequence[Ask], *, order: OrderName, backfill: BackfillName
) -> list[float]:
    """When each job starts."""
    starts: dict[int, float] = {}
    instants = sorted({ask.submit_s for ask in asks})
    while instants:
        now_s = instants.pop(0)
        before = len(starts)
        _pass(now_s, node_count, asks, starts, order, backfill)
        if len(starts) > before:
            ends = {starts[number] + asks[number].runtime_s for number in starts}
            instants = sorted(set(instants) | {end_s for end_s in ends if end_s > now_s})
    return [starts[number] for number in range(len(asks))]


def in_use(spans: Iterable[Span], at_s: float) -> int:
    """How many nodes are in use at that instant."""
    return sum(span.size for span in spans if span.start_s <= at_s < span.end_s)


def earliest_s(now_s: float, spans: Sequence[Span], node_count: int, size: int, length_s: float) -> float:
    """The first time from now on at which `size` nodes are free for all of `length_s`."""
    for start_s in sorted({now_s} | {span.end_s for span in spans if span.end_s > now_s}):
        looked_at = {start_s} | {
            span.start_s for span in spans if start_s < span.start_s < start_s + length_s
        }
        if all(in_use(spans, at_s) + size <= node_count for at_s in looked_at):
            return start_s
    return NEVER_S


def _pass(
    now_s: float,
    node_count: int,
    asks: Sequence[Ask],
    starts: dict[int, float],
    order: OrderName,
    backfill: BackfillName,
) -> None:
    queue = [number for number, ask in enumerate(asks) if ask.submit_s <= now_s and number not in starts]
    queue.sort(key=lambda number: _turn(asks[number], number, now_s, order))
    planned: list[Span] = []
    known: dict[int, float] = dict(starts)
    passed: list[Span] = []
    first_blocked: Ask | None = None
    for number in queue:
        ask = asks[number]
        wanted = Span(now_s, now_s + ask.walltime_s, ask.size)
        running = _limits(now_s, asks, starts)
        fits = in_use(running, now_s) + ask.size <= node_count
        match backfill:
            case "none":
                may_start = fits and first_blocked is None
            case "easy":
                may_start = fits and _does_not_delay(first_blocked, wanted, now_s, running, node_count)
            case "easy-cqsim":
                # Those that passed in this very pass count by their real run times, like the one that is
                # looked at.
                running = [*_limits(now_s, asks, known), *passed]
                wanted = Span(now_s, now_s + ask.runtime_s, ask.size)
                may_start = fits and _does_not_delay(first_blocked, wanted, now_s, running, node_count)
                if may_start and first_blocked is None:
                    known[number] = now_s
                elif may_start:
                    passed.append(wanted)
            case "conservative":
                place_s = earliest_s(now_s, [*running, *planned], node_count, ask.size, ask.walltime_s)
                may_start = place_s == now_s
                if not may_start:
                    planned.append(Span(place_s, place_s + ask.walltime_s, ask.size))
        if may_start:
            starts[number] = now_s
        elif first_blocked is None:
            first_blocked = ask


def _does_not_delay(
    first: Ask | None, wanted: Span, now_s: float, running: Sequence[Span], node_count: int
) -> bool:
    """Whether the first job that does not fit starts as early although `wanted` runs. None: there is none."""
    return first is None or _easy_start_s(now_s, [*running, wanted], node_count, first) <= _easy_start_s(
        now_s, running, node_count, first
    )


def _easy_start_s(now_s: float, running: Sequence[Span], node_count: int, first: Ask) -> float:
    """When the first job that waits will start if no other does."""
    return earliest_s(now_s, running, node_count, first.size, first.walltime_s)


def _limits(now_s: float, asks: Sequence[Ask], starts: dict[int, float]) -> list[Span]:
    """The jobs that run, as far as a scheduler can know: each until its time limit."""
    return [
        Span(start_s, start_s + asks[number].walltime_s, asks[number].size)
        for number, start_s in starts.items()
        if start_s + asks[number].runtime_s > now_s
    ]


def _turn(ask: Ask, number: int, now_s: float, order: OrderName) -> tuple[float, float, int]:
    if order == "fcfs":
        return (0.0, ask.submit_s, number)
    score = ((now_s - ask.submit_s) / ask.walltime_s) ** 3 * ask.size
    return (-score, ask.submit_s, number)
