"""An independent scheduler for small workloads on nodes that jobs share, written from the definitions alone.

It shares no code with the simulator and keeps nothing between two instants: what is free on a node at an
instant is added up again from the jobs that were started or planned there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

OrderName = Literal["fcfs", "wfp"]
BackfillName = Literal["none", "easy", "conservative"]
PackingName = Literal["dense", "least-loaded"]
Amounts = tuple[int, ...]
NEVER_S = float("inf")


@dataclass(frozen=True)
class SharedAsk:
    """One job: how many nodes, and how much of each it asks for. None: whole nodes."""

    submit_s: float
    runtime_s: float
    walltime_s: float
    size: int
    need: Amounts | None


@dataclass(frozen=True)
class Stay:
    """Amounts in use on some nodes from `start_s` until just before `end_s`."""

    start_s: float
    end_s: float
    held: dict[int, Amounts]


@dataclass(frozen=True)
class Site:
    """The machine, and how it places jobs. The first resource counts as the load of a node."""

    capacities: Sequence[Amounts]
    packing: PackingName = "dense"

    def unused(self, node: int, stays: Sequence[Stay], at_s: float) -> Amounts:
        """What nothing uses of a node at that instant."""
        left = list(self.capacities[node])
        for stay in stays:
            if stay.start_s <= at_s < stay.end_s and node in stay.held:
                left = [have - taken for have, taken in zip(left, stay.held[node], strict=True)]
        assert min(left) >= 0
        return tuple(left)

    def amounts(self, ask: SharedAsk, node: int) -> Amounts:
        """What the job would hold on that node."""
        return self.capacities[node] if ask.need is None else ask.need

    def serves(
        self, node: int, ask: SharedAsk, stays: Sequence[Stay], start_s: float, length_s: float
    ) -> bool:
        """Whether the node has enough for the job during all of `length_s`."""
        looked_at = {start_s} | {
            stay.start_s for stay in stays if start_s < stay.start_s < start_s + length_s
        }
        return all(
            have >= wanted
            for at_s in looked_at
            for have, wanted in zip(self.unused(node, stays, at_s), self.amounts(ask, node), strict=True)
        )

    def placed(
        self, ask: SharedAsk, stays: Sequence[Stay], start_s: float, length_s: float
    ) -> dict[int, Amounts] | None:
        """The nodes that the job gets if it starts at that instant. None: there are too few."""
        able = [
            node for node in range(len(self.capacities)) if self.serves(node, ask, stays, start_s, length_s)
        ]
        able.sort(key=lambda node: (self._rank(node, stays, start_s), node))
        if len(able) < ask.size:
            return None
        return {node: self.amounts(ask, node) for node in able[: ask.size]}

    def _rank(self, node: int, stays: Sequence[Stay], at_s: float) -> float:
        left = self.unused(node, stays, at_s)[0]
        return left if self.packing == "dense" else -left / self.capacities[node][0]


def shared_start_times(
    site: Site, asks: Sequence[SharedAsk], *, order: OrderName, backfill: BackfillName
) -> list[tuple[float, tuple[int, ...]]]:
    """When and on which nodes each job starts."""
    begun: dict[int, Stay] = {}
    instants = sorted({ask.submit_s for ask in asks})
    while instants:
        now_s = instants.pop(0)
        before = len(begun)
        _pass(now_s, site, asks, begun, order, backfill)
        if len(begun) > before:
            ends = {begun[number].start_s + asks[number].runtime_s for number in begun}
            instants = sorted(set(instants) | {end_s for end_s in ends if end_s > now_s})
    return [(begun[number].start_s, tuple(sorted(begun[number].held))) for number in range(len(asks))]


def _pass(
    now_s: float,
    site: Site,
    asks: Sequence[SharedAsk],
    begun: dict[int, Stay],
    order: OrderName,
    backfill: BackfillName,
) -> None:
    queue = [number for number, ask in enumerate(asks) if ask.submit_s <= now_s and number not in begun]
    queue.sort(key=lambda number: _turn(site, asks[number], number, now_s, order))
    planned: list[Stay] = []
    first: SharedAsk | None = None
    for number in queue:
        ask = asks[number]
        running = [stay for other, stay in begun.items() if stay.start_s + asks[other].runtime_s > now_s]
        held: dict[int, Amounts] | None = None
        match backfill:
            case "none":
                held = None if first is not None else site.placed(ask, running, now_s, ask.walltime_s)
            case "easy":
                held = site.placed(ask, running, now_s, ask.walltime_s)
                if held is not None and first is not None:
                    wanted = Stay(now_s, now_s + ask.walltime_s, held)
                    if _easy_s(now_s, site, first, [*running, wanted]) > _easy_s(now_s, site, first, running):
                        held = None
            case "conservative":
                stays = [*running, *planned]
                at_s = _earliest_s(now_s, site, ask, stays, ask.walltime_s)
                found = site.placed(ask, stays, at_s, ask.walltime_s)
                assert found is not None
                if at_s == now_s:
                    held = found
                else:
                    planned.append(Stay(at_s, at_s + ask.walltime_s, found))
        if held is not None:
            begun[number] = Stay(now_s, now_s + ask.walltime_s, held)
        elif first is None:
            first = ask


def _earliest_s(now_s: float, site: Site, ask: SharedAsk, stays: Sequence[Stay], length_s: float) -> float:
    """The first time from now on at which enough nodes serve the job for all of `length_s`."""
    for at_s in sorted({now_s} | {stay.end_s for stay in stays if stay.end_s > now_s}):
        if site.placed(ask, stays, at_s, length_s) is not None:
            return at_s
    return NEVER_S


def _easy_s(now_s: float, site: Site, first: SharedAsk, stays: Sequence[Stay]) -> float:
    """When the first job that waits will start if no other does."""
    return _earliest_s(now_s, site, first, stays, first.walltime_s)


def _turn(
    site: Site, ask: SharedAsk, number: int, now_s: float, order: OrderName
) -> tuple[float, float, int]:
    if order == "fcfs":
        return (0.0, ask.submit_s, number)
    largest = [max(column) for column in zip(*site.capacities, strict=True)]
    share = (
        1.0
        if ask.need is None
        else min(1.0, max(part / whole for part, whole in zip(ask.need, largest, strict=True) if whole))
    )
    score = ((now_s - ask.submit_s) / ask.walltime_s) ** 3 * (ask.size * share)
    return (-score, ask.submit_s, number)
