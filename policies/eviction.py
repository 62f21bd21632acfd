"""The eviction problem, solved exactly: who leaves, and how, so that enough nodes are free at the least loss.

Each running job (or bundle of jobs) is left alone, killed, or made to leave after an application or a system
checkpoint. A kill loses work and takes no time; a checkpoint loses nothing and takes time, and checkpoints run one
after another. One pass answers every deadline up to the horizon and, if wanted, every number of nodes.

Of several choices the best has, in this order: the least loss, the least checkpoint time, the fewest items evicted,
the fewest nodes freed, the fewest system checkpoints (application before system), and then the order of the items.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters" (DS-RT 2020),
    section III-C, Algorithm 1.

Differs from the paper:
    The node axis saturates at the number needed when only "at least K" is asked, which gives the same answer for less
    work. Strategies are found by backpointers rather than kept as sets. Durations are rounded up to whole steps, so
    that a plan never misses its deadline. Ties beyond loss and checkpoint time are settled as said above.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from makeway.policies.model import Method

_LEAVE = 0
METHODS = (Method.APPLICATION, Method.SYSTEM, Method.KILL)
"""The options in the order in which a tie is settled; option i has code i + 1."""
_UNREACHED = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionJob:
    """One item of the eviction problem: a job, or jobs that can only leave together."""

    job_ids: tuple[str, ...]
    node_count: int
    """Nodes that its leaving frees for the urgent job; at least 1."""
    loss_node_s: int
    """Node-seconds that a kill loses; never negative."""
    system_s: float | None = None
    """Duration of a checkpoint that a signal starts. None: there is none."""
    application_s: float | None = None
    """Wait for the next regular checkpoint and its duration. None: there is none."""

    def __post_init__(self) -> None:
        durations = [duration for duration in (self.system_s, self.application_s) if duration is not None]
        if (
            self.node_count < 1
            or self.loss_node_s < 0
            or any(not (math.isfinite(duration) and duration >= 0.0) for duration in durations)
        ):
            raise ValueError(
                f"no eviction job: {self!r} (wants node_count >= 1, no negative loss, no negative or infinite duration)"
            )

    def duration_s(self, method: Method) -> float | None:
        """How long leaving by `method` takes. None: it cannot leave so."""
        match method:
            case Method.KILL:
                return 0.0
            case Method.APPLICATION:
                return self.application_s
            case Method.SYSTEM:
                return self.system_s
            case Method.SHRINK:
                return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """One item that leaves, and how."""

    item: EvictionJob
    method: Method

    @property
    def loss_node_s(self) -> int:
        """Node-seconds that are lost by it."""
        return self.item.loss_node_s if self.method is Method.KILL else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A choice for every item; those that are not named are left alone. Departures are sorted by job ids."""

    departures: tuple[Departure, ...]
    loss_node_s: int
    checkpoint_steps: int
    """Steps that all checkpoints take one after another, each rounded up."""
    checkpoint_s: float
    """The same in seconds."""
    node_count: int
    """Nodes freed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curve:
    """The answers for every deadline 0, step, 2 * step, ... up to the horizon."""

    items: tuple[EvictionJob, ...]
    """In the order in which they were decided."""
    node_count_needed: int
    """The number of nodes that was solved for: all nodes of all items if none was named."""
    rows: int
    """The last row of the node axis. It stands for "this many or more" if there are more nodes than that."""
    step_s: float
    steps: int
    """Index of the last deadline. Negative: there is none."""
    _best: NDArray[np.int64]
    """(rows + 1, steps + 1): the composite price of each (nodes freed, steps used)."""
    _choice: NDArray[np.uint8]
    """(items, rows + 1, steps + 1): what item i does in the best way to that cell; 0: it stays."""
    _origin: NDArray[np.int32]
    """(items, steps + 1): the row from which the last row was reached by item i."""
    _weights: "_Weights"

    def plan(self, deadline_s: float, node_count: int | None = None) -> Plan | None:
        """The best choice that frees `node_count` nodes by `deadline_s` from now; None: there is none.

        Args:
            deadline_s: seconds from now; rounded down to a whole step, and to the horizon.
            node_count: None: the number that was solved for. Anything up to it can be asked.

        Raises:
            ValueError: more nodes than were solved for.
        """
        index = min(self.steps, math.floor(deadline_s / self.step_s))
        cell = self._cells(node_count)[index] if index >= 0 else None
        return None if cell is None else self._trace(*cell)

    def losses(self, node_count: int | None = None) -> tuple[int | None, ...]:
        """The least loss in node-seconds by each deadline; None: no choice. `node_count` as in `plan`."""
        prices = [None if cell is None else int(self._best[cell]) for cell in self._cells(node_count)]
        return tuple(None if price is None else price // self._weights.loss for price in prices)

    def _cells(self, node_count: int | None) -> list[tuple[int, int] | None]:
        """For each deadline the cell of the best choice: the line 22 of Algorithm 1."""
        needed = max(0, self.node_count_needed if node_count is None else node_count)
        if needed > sum(item.node_count for item in self.items):
            return [None] * (self.steps + 1)
        if needed > self.rows:
            raise ValueError(f"solved for up to {self.rows} nodes, {needed} asked")
        block = self._best[needed:]
        rows = block.argmin(axis=0)
        prices = block[rows, np.arange(block.shape[1])]
        cells: list[tuple[int, int] | None] = []
        best: tuple[int, int, int] | None = None  # loss, step, row
        for step, price in enumerate(prices.tolist()):
            loss = price // self._weights.loss
            if price < _UNREACHED and (best is None or loss < best[0]):
                best = (loss, step, needed + int(rows[step]))
            cells.append(None if best is None else (best[2], best[1]))
        return cells

    def _trace(self, row: int, step: int) -> Plan:
        """The strategy that leads to a cell, along the backpointers."""
        steps_used = step
        departures = []
        for index in range(len(self.items) - 1, -1, -1):
            code = int(self._choice[index, row, step])
            if code == _LEAVE:
                continue
            item = self.items[index]
            method = METHODS[code - 1]
            departures.append(Departure(item=item, method=method))
            row = int(self._origin[index, step]) if row == self.rows else row - item.node_count
            step -= duration_steps(item, method, self.step_s) or 0
        return make_plan(departures, steps_used, self.step_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Weights:
    """How a price packs its criteria into one integer, the least loss on top: comparing prices compares them all."""

    loss: int
    eviction: int
    node: int
    system: int

    def price(self, item: EvictionJob, method: Method) -> int:
        """What it adds to the price of a cell that the item leaves by `method`."""
        price = self.eviction + self.node * item.node_count
        if method is Method.SYSTEM:
            price += self.system
        return price + (self.loss * item.loss_node_s if method is Method.KILL else 0)


def _weigh(items: Sequence[EvictionJob], rows: int) -> _Weights:
    """Weights under which no criterion spills into the one above it.

    No cell is reached by more evictions than it has nodes, and none lies beyond the last row by more than one item.
    On a cluster so large that 62 bits do not hold them all, the last criteria are left to the order of the items.

    Raises:
        ValueError: not even the losses fit.
    """
    losses = sum(item.loss_node_s for item in items)
    evictions = min(len(items), rows)
    nodes = rows + max((item.node_count for item in items), default=0)
    for with_nodes, with_system in ((True, True), (True, False), (False, False)):
        node = evictions + 1 if with_system else 1
        eviction = node * (nodes + 1) if with_nodes else 1
        loss = eviction * (evictions + 1)
        if loss * (losses + 1) < _UNREACHED // 2:
            return _Weights(
                loss=loss, eviction=eviction, node=int(with_nodes) and node, system=int(with_system)
            )
    raise ValueError(f"losses of {losses} node-seconds in all are beyond what can be weighed")


def make_plan(departures: Sequence[Departure], checkpoint_steps: int, step_s: float) -> Plan:
    """The departures as a plan, with their totals."""
    return Plan(
        departures=tuple(sorted(departures, key=lambda departure: departure.item.job_ids)),
        loss_node_s=sum(departure.loss_node_s for departure in departures),
        checkpoint_steps=checkpoint_steps,
        checkpoint_s=checkpoint_steps * step_s,
        node_count=sum(departure.item.node_count for departure in departures),
    )


def solve(
    items: Sequence[EvictionJob], node_count_needed: int | None, horizon_s: float, step_s: float
) -> Curve:
    """The least loss, and who leaves, for every deadline up to the horizon (Algorithm 1).

    Time O(items * nodes * steps), with nodes = `node_count_needed`, or all nodes of all items for None.

    Args:
        items: who may leave. Their order does not matter.
        node_count_needed: answers "at least so many", and less. None: answers every number up to all nodes.
        horizon_s: the last deadline, in seconds from now. Negative: no answer at all.
        step_s: the resolution of time. Durations are rounded up to it, deadlines down.

    Raises:
        ValueError: a step that is not positive, or losses beyond 62 bits.
    """
    if not step_s > 0.0:
        raise ValueError(f"step_s is {step_s!r}, wants a positive number of seconds")
    ordered = tuple(sorted(items, key=lambda item: (item.node_count, item.job_ids)))
    total = sum(item.node_count for item in ordered)
    needed = total if node_count_needed is None else node_count_needed
    rows = min(max(0, needed), total)
    steps = math.floor(horizon_s / step_s) if horizon_s >= 0.0 else -1
    weights = _weigh(ordered, rows)
    best = np.full((rows + 1, steps + 1), _UNREACHED, dtype=np.int64)
    best[0, :1] = 0
    choice = np.zeros((len(ordered), rows + 1, steps + 1), dtype=np.uint8)
    origin = np.zeros((len(ordered), steps + 1), dtype=np.int32)
    reach_row, reach_step = 0, 0
    for index, item in enumerate(ordered):
        durations = [duration_steps(item, method, step_s) for method in METHODS]
        source = best[: min(reach_row, rows - 1) + 1, : min(reach_step, steps) + 1].copy()
        for code, (method, duration) in enumerate(zip(METHODS, durations, strict=True), start=1):
            if duration is not None and duration <= steps:
                price = weights.price(item, method)
                _relax(source, best, choice[index], origin[index], item.node_count, duration, price, code)
        reach_row = min(rows, reach_row + item.node_count)
        reach_step += max(duration for duration in durations if duration is not None)
    return Curve(
        items=ordered,
        node_count_needed=needed,
        rows=rows,
        step_s=step_s,
        steps=steps,
        _best=best,
        _choice=choice,
        _origin=origin,
        _weights=weights,
    )


def duration_steps(item: EvictionJob, method: Method, step_s: float) -> int | None:
    """The duration of leaving by `method` in whole steps, rounded up. None: the item cannot leave so."""
    duration_s = item.duration_s(method)
    return None if duration_s is None else math.ceil(duration_s / step_s)


def _relax(
    source: NDArray[np.int64],
    best: NDArray[np.int64],
    choice: NDArray[np.uint8],
    origin: NDArray[np.int32],
    node_count: int,
    duration: int,
    price: int,
    code: int,
) -> None:
    """Lines 10 to 18 of Algorithm 1 for one item and one option: better cells are written to `best` in place.

    `source` is the copy from before the item, without the last row: nobody need leave once enough nodes are free.
    """
    rows = best.shape[0] - 1
    width = min(source.shape[1], best.shape[1] - duration)
    inner = min(source.shape[0], max(0, rows - node_count))
    columns = slice(duration, duration + width)
    if inner > 0:
        target = best[node_count : node_count + inner, columns]
        offered = source[:inner, :width] + price
        better = offered < target
        np.copyto(target, offered, where=better)
        np.copyto(choice[node_count : node_count + inner, columns], code, where=better)
    if inner < source.shape[0]:
        block = source[inner:, :width]
        nearest = block.argmin(axis=0)
        offered_last = block[nearest, np.arange(width)] + price
        better_last = offered_last < best[rows, columns]
        np.copyto(best[rows, columns], offered_last, where=better_last)
        np.copyto(choice[rows, columns], code, where=better_last)
        np.copyto(origin[columns], (inner + nearest).astype(np.int32), where=better_last)
