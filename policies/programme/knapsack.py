"""The eviction problem, solved exactly: which jobs leave, and how, so that enough nodes are free at the least
loss.

Each running job (or group of jobs) is left alone, killed, or leaves after an application or a system
checkpoint. A kill loses work and takes no time; a checkpoint loses nothing and takes time, and checkpoints
run one after another. One pass solves the problem for every deadline up to the horizon and, if wanted, for
every number of nodes.

A malleable job has one more option: it stays and gives any number of its spare nodes, at once and without
loss. Because this costs nothing, the programme counts all spare nodes as given, and for an item that leaves
only the nodes that it frees beyond its own spare ones. The items that leave have to free what all spare nodes
together lack. How many nodes each of the others gives is decided afterwards.

The best of several choices has, in this order: the least loss, the least checkpoint time, the fewest
evictions (past ones among them), the fewest nodes that these free, the fewest system checkpoints (application
before system), and the order of the items. What the staying items still have to give is spread evenly.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III-C, Algorithm 1.

Differs from the paper:
    The node axis ends at the number needed if only "at least K" is wanted, which gives the same result for
    less work. Strategies are found by backpointers rather than kept as sets. Durations are rounded up to
    whole steps, so that a plan never misses its deadline. Ties of loss and checkpoint time are broken as
    stated above. Shrinking is not in the paper.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from makeway.policies.common.shrinking import spread_evenly
from makeway.policies.model import Method
from makeway.policies.programme.items import METHODS, Departure, EvictionJob, duration_steps
from makeway.policies.programme.weights import UNREACHED, PriceWeights
from makeway.policies.programme.worth_trying import worth_trying

_LEAVE = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionPlan:
    """A choice for every item: items without a departure are left alone. Departures are sorted by job ids."""

    departures: tuple[Departure, ...]
    loss_node_s: int
    checkpoint_steps: int
    """Steps that all checkpoints take one after another, each one rounded up."""
    checkpoint_s: float
    """After how many seconds all checkpoints are complete."""
    node_count: int
    """Nodes freed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EvictionCurve:
    """The solutions for every deadline 0, step, 2 * step, ... up to the horizon."""

    items: "ProgrammeItems"
    rows: int
    """The last row of the node axis, of nodes beyond the spare ones: it means "this many or more"."""
    step_s: float
    steps: int
    """Index of the last deadline. Negative: there is none."""
    _best: NDArray[np.int64]
    """(rows + 1, steps + 1): the composite price of each cell (nodes freed, steps used)."""
    _choice: NDArray[np.uint8]
    """(items, rows + 1, steps + 1): what item i does in the best way to that cell; 0: it stays."""
    _origin: NDArray[np.int32]
    """(items, steps + 1): the row from which the last row was reached by item i."""

    def plan(self, deadline_s: float, node_count: int | None = None) -> EvictionPlan | None:
        """The best choice that frees `node_count` nodes by `deadline_s` from now; None: there is none.

        Args:
            deadline_s: seconds from now; rounded down to a whole step, and to the horizon.
            node_count: any number up to the one that was solved for. None: that number.

        Raises:
            ValueError: more nodes than were solved for.
        """
        index = min(self.steps, math.floor(deadline_s / self.step_s))
        if index < 0:
            return None
        row, step = self._cells(node_count)[:, index].tolist()
        return None if step < 0 else self._trace(row, step, self._needed(node_count))

    def losses(self, node_count: int | None = None) -> tuple[int | None, ...]:
        """The least loss in node-seconds for each deadline; None: there is no choice. `node_count` as in
        `plan`.
        """
        cells = self._cells(node_count).T.tolist()
        prices = [None if step < 0 else int(self._best[row, step]) for row, step in cells]
        return tuple(None if price is None else price // self.items.weights.loss for price in prices)

    def _needed(self, node_count: int | None) -> int:
        return max(0, self.items.needed if node_count is None else node_count)

    def _cells(self, node_count: int | None) -> NDArray[np.int64]:
        """(2, steps + 1): for each deadline the row and the step of the best choice, line 22 of Algorithm 1.
        The step is -1 where there is no choice.
        """
        spare = self.items.spare_node_count
        needed = max(0, self._needed(node_count) - spare)
        if needed > self.items.extra_node_count:
            return np.full((2, self.steps + 1), -1)
        if needed > self.rows:
            raise ValueError(f"solved for up to {self.rows + spare} nodes, {needed + spare} wanted")
        block = self._best[needed:]
        rows: NDArray[np.int64] = block.argmin(axis=0)
        each = np.arange(self.steps + 1, dtype=np.int64)
        prices = block[rows, each]
        losses = np.where(prices < UNREACHED, prices // self.items.weights.loss, UNREACHED)
        least_before = np.minimum.accumulate(np.concatenate(([UNREACHED], losses[:-1])))
        steps = np.maximum.accumulate(np.where(losses < least_before, each, -1))
        return np.stack((needed + rows[steps], steps))

    def _trace(self, row: int, step: int, needed: int) -> EvictionPlan:
        """The strategy that leads to a cell, along the backpointers, and the shrinking items."""
        steps_used = step
        departures: list[Departure] = []
        for index in range(len(self.items.ordered) - 1, -1, -1):
            code = int(self._choice[index, row, step])
            if code == _LEAVE:
                continue
            item = self.items.ordered[index]
            method = METHODS[code - 1]
            departures.append(Departure(item=item, method=method))
            row = int(self._origin[index, step]) if row == self.rows else row - item.extra_node_count
            step -= duration_steps(item, method, self.step_s) or 0
        return self.items.plan(departures, steps_used, self.step_s, needed)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgrammeItems:
    """What the programme chooses among, to free a number of nodes."""

    ordered: tuple[EvictionJob, ...]
    """The items that may have to leave, in the order in which they are processed: see `worth_trying`."""
    givers: tuple[EvictionJob, ...]
    """The items that can shrink."""
    needed: int
    """The number of nodes: all nodes of all items if none is named."""
    extra_node_count: int
    """How many nodes come free beyond the spare ones if all items leave."""
    weights: PriceWeights

    @classmethod
    def of(
        cls, items: Sequence[EvictionJob], node_count_needed: int | None, steps: int, step_s: float
    ) -> "ProgrammeItems":
        """The items in order.

        Args:
            items: the jobs that may leave.
            node_count_needed: the number of nodes. None: all nodes of all items.
            steps: the last deadline in steps.
            step_s: the resolution of time.

        Raises:
            ValueError: losses beyond 62 bits.
        """
        givers = tuple(item for item in items if item.spare_node_count)
        useful = [item for item in items if item.extra_node_count] if givers else list(items)
        useful.sort(key=attrgetter("job_ids"))  # mostly they are in this order already
        useful.sort(key=attrgetter("extra_node_count"))
        ordered = tuple(useful)
        total = sum(map(attrgetter("node_count"), ordered)) - _spare_nodes(ordered)
        spare = _spare_nodes(givers)
        needed = total + spare if node_count_needed is None else node_count_needed
        lacking = max(0, needed - spare)
        weights = PriceWeights.of(ordered, min(lacking, total))
        ordered = worth_trying(ordered, lacking, weights, steps, step_s)
        return cls(ordered=ordered, givers=givers, needed=needed, extra_node_count=total, weights=weights)

    @property
    def spare_node_count(self) -> int:
        """How many nodes can be had without any item leaving."""
        return _spare_nodes(self.givers)

    @property
    def lacking(self) -> int:
        """How many nodes the items that leave have to free beyond the spare ones."""
        return max(0, self.needed - self.spare_node_count)

    def plan(
        self, departures: Sequence[Departure], checkpoint_steps: int, step_s: float, needed: int
    ) -> EvictionPlan:
        """A choice of items that leave, with what the others still have to give to free `needed` nodes."""
        shrinks = self._shrinks(departures, needed)
        return make_plan([*departures, *shrinks], checkpoint_steps, step_s)

    def _shrinks(self, departures: Sequence[Departure], needed: int) -> list[Departure]:
        """Which items give how many nodes, if those that leave free too few."""
        missing = needed - sum(departure.node_count for departure in departures)
        if missing <= 0:
            return []
        leaving = {departure.item.job_ids for departure in departures}
        staying = {item.job_ids: item for item in self.givers if item.job_ids not in leaving}
        shares = spread_evenly({key: item.spare_node_count for key, item in staying.items()}, missing)
        return [
            Departure(item=staying[key], method=Method.SHRINK, given_node_count=share)
            for key, share in shares.items()
            if share
        ]


def _spare_nodes(items: Sequence[EvictionJob]) -> int:
    return sum(map(attrgetter("spare_node_count"), items))


def make_plan(departures: Sequence[Departure], checkpoint_steps: int, step_s: float) -> EvictionPlan:
    """The departures as a plan, with their totals."""
    alone_s = [one.item.duration_s(one.method) or 0.0 for one in departures if one.method in one.item.alone]
    return EvictionPlan(
        departures=tuple(sorted(departures, key=lambda departure: departure.item.job_ids)),
        loss_node_s=sum(departure.loss_node_s for departure in departures),
        checkpoint_steps=checkpoint_steps,
        checkpoint_s=max(checkpoint_steps * step_s, max(alone_s, default=0.0)),
        node_count=sum(departure.node_count for departure in departures),
    )


def solve(
    items: Sequence[EvictionJob], node_count_needed: int | None, horizon_s: float, step_s: float
) -> EvictionCurve:
    """The least loss, and the items that leave, for every deadline up to the horizon (Algorithm 1).

    Time O(items * nodes * steps), with nodes = `node_count_needed`, or all nodes of all items for None, less
    the spare ones.

    Args:
        items: the jobs that may leave. Their order does not matter.
        node_count_needed: solves for this number of nodes and any smaller one. None: for every number up to
            all nodes.
        horizon_s: the last deadline, in seconds from now. Negative: there is no solution.
        step_s: the resolution of time. Durations are rounded up to it, deadlines down.

    Raises:
        ValueError: a step that is not positive, or losses beyond 62 bits.
    """
    if not step_s > 0.0:
        raise ValueError(f"step_s is {step_s!r}; accepted: a positive number of seconds")
    steps = math.floor(horizon_s / step_s) if horizon_s >= 0.0 else -1
    chosen_from = ProgrammeItems.of(items, node_count_needed, steps, step_s)
    return solve_items(chosen_from, steps, step_s)


def solve_items(chosen_from: ProgrammeItems, steps: int, step_s: float) -> EvictionCurve:
    """The same for items that are in order already, and `steps` deadlines."""
    rows = min(chosen_from.lacking, chosen_from.extra_node_count)
    best, choice, origin = _tables(chosen_from, rows, steps, step_s)
    return EvictionCurve(
        items=chosen_from,
        rows=rows,
        step_s=step_s,
        steps=steps,
        _best=best,
        _choice=choice,
        _origin=origin,
    )


def _tables(
    items: ProgrammeItems, rows: int, steps: int, step_s: float
) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.int32]]:
    """The main loop of Algorithm 1 over the items: best prices, choices and origins (see `EvictionCurve`)."""
    best = np.full((rows + 1, steps + 1), UNREACHED, dtype=np.int64)
    best[0, :1] = 0
    choice = np.zeros((len(items.ordered), rows + 1, steps + 1), dtype=np.uint8)
    origin = np.zeros((len(items.ordered), steps + 1), dtype=np.int32)
    reach_row, reach_step = 0, 0
    for index, item in enumerate(items.ordered):
        durations = [duration_steps(item, method, step_s) for method in METHODS]
        source = best[: min(reach_row, rows - 1) + 1, : min(reach_step, steps) + 1].copy()
        for code, (method, duration) in enumerate(zip(METHODS, durations, strict=True), start=1):
            if duration is not None and duration <= steps:
                price = items.weights.price(item, method)
                _relax(
                    source, best, choice[index], origin[index], item.extra_node_count, duration, price, code
                )
        reach_row = min(rows, reach_row + item.extra_node_count)
        reach_step += max(duration for duration in durations if duration is not None)
    return best, choice, origin


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
    """Lines 10 to 18 of Algorithm 1 for one item and one option: writes better cells to `best`, in place.

    `source` is the copy from before the item, without the last row: no item needs to leave once enough nodes
    are free.
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
