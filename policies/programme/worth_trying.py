"""Which items of the eviction problem are in no best choice, by their sizes, prices and durations alone.

Where many jobs may leave for few nodes, that leaves out most of them. The plan is the same, ties included.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III-B: the problem.

Differs from the paper:
    Its Algorithm 1 tries every item.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import groupby
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from makeway.policies.model import Method
from makeway.policies.programme.items import METHODS, EvictionJob
from makeway.policies.programme.weights import PriceWeights

_MANY = 100
"""From so many items of one size on it pays to look at the durations, too."""
_ITEM = attrgetter(
    *("node_count", "past_evictions", "loss_node_s", "setup_node_s", "saving_node_s"),
    *("application_s", "system_s", "alone"),
)


def worth_trying(
    ordered: tuple[EvictionJob, ...], lacking: int, weights: PriceWeights, steps: int, step_s: float
) -> tuple[EvictionJob, ...]:
    """The items without those that are in no best choice.

    No choice has more items of one size than free all the nodes that are lacking. An item that takes no time
    of others is dropped if as many others of its size are cheaper without taking time, or come before it at
    the same price: one of these could take its place. Among many items of one size, one that takes time is
    dropped for the same reason, if for each of its ways as many others have one that takes no longer.

    Args:
        ordered: the items, in the order in which the programme tries them: by `extra_node_count`.
        lacking: how many nodes they have to free.
        weights: what is compared.
        steps: how many steps of time there are.
        step_s: the length of a step.
    """
    kept: list[EvictionJob] = []
    for node_count, group in groupby(ordered, key=attrgetter("extra_node_count")):
        items, most = list(group), math.ceil(lacking / node_count)
        if not lacking or len(items) <= most:
            kept += items
        elif len(items) < _MANY:
            kept += _cheapest(items, most, weights.price)
        else:
            kept += [items[index] for index in best_in_any_time(items, most, weights, steps, step_s)]
    return tuple(kept)


def _cheapest(
    items: Sequence[EvictionJob], most: int, price: Callable[[EvictionJob, Method], int]
) -> Iterable[EvictionJob]:
    """Some items of one size: those that take time, and the `most` that cost least without."""
    prices = [_price_at_once(item, price) for item in items]
    ranked = sorted(range(len(items)), key=prices.__getitem__)
    dropped = {index for index in ranked[most:] if not _takes_time(items[index])}
    return [item for index, item in enumerate(items) if index not in dropped]


def _price_at_once(item: EvictionJob, price: Callable[[EvictionJob, Method], int]) -> int:
    """The least price of the ways to leave that take no time of others. A kill takes none."""
    if _is_only_killed(item):
        return price(item, Method.KILL)
    return min(price(item, method) for method in METHODS if item.turn_s(method) == 0.0)


def _takes_time(item: EvictionJob) -> bool:
    return not _is_only_killed(item) and any(item.turn_s(method) for method in METHODS)


def _is_only_killed(item: EvictionJob) -> bool:
    return item.application_s is None and item.system_s is None


def best_in_any_time(
    items: Sequence[EvictionJob], most: int, weights: PriceWeights, steps: int, step_s: float
) -> list[int]:
    """The items that are, for some number of steps, among the `most` that cost least if each may take so many
    steps at most; of equal prices the first ones count.

    Returns:
        Their places, ascending.
    """
    price, turn = _ways(items, weights, step_s)
    item, way = np.nonzero(turn <= max(0, steps))
    turn, price = turn[item, way], price[item, way]
    order = np.argsort(turn, kind="stable")
    turn, price, item = turn[order], price[order], item[order]
    least = np.full(len(items), np.iinfo(np.int64).max)
    kept, best = np.zeros(len(items), dtype=np.bool_), np.zeros(0, dtype=np.int64)
    ends = np.append(np.flatnonzero(np.diff(turn)) + 1, len(turn))
    for begin, end in zip((0, *ends[:-1].tolist()), ends.tolist(), strict=True):
        np.minimum.at(least, item[begin:end], price[begin:end])
        # Only these got cheaper.
        pool = np.unique(np.concatenate((best, item[begin:end])))
        best = pool[np.argsort(least[pool], kind="stable")[:most]]
        kept[best] = True
    return np.flatnonzero(kept).tolist()


def _ways(
    items: Sequence[EvictionJob], weights: PriceWeights, step_s: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """(items, ways): the price of each way to leave of `METHODS`, and how many steps it takes; not a number
    where an item cannot leave so.
    """
    nodes, past, loss, setup, saving, application_s, system_s, alone = zip(*map(_ITEM, items), strict=True)
    own = weights.eviction * (1 + np.array(past, dtype=np.int64)) + weights.node * np.array(nodes)
    own += weights.loss * np.array(setup, dtype=np.int64)
    system = own + weights.system + weights.loss * np.array(saving, dtype=np.int64)
    price = np.stack((own, system, own + weights.loss * np.array(loss, dtype=np.int64)), axis=1)
    turns = [
        np.where(_have(alone, method), duration_s * 0.0, np.ceil(duration_s / step_s))
        for method, duration_s in (
            (Method.APPLICATION, np.array(application_s, dtype=np.float64)),
            (Method.SYSTEM, np.array(system_s, dtype=np.float64)),
        )
    ]
    return price, np.stack((*turns, np.zeros(len(items))), axis=1)


def _have(alone: Sequence[AbstractSet[Method]], method: Method) -> NDArray[np.bool_]:
    """In which of the sets a way to leave is. Mostly all are the same."""
    if len({*map(id, alone)}) == 1:
        return np.full(len(alone), method in alone[0])
    return np.array([method in one for one in alone])
