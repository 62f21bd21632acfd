"""Which items of the eviction problem are in no best choice, by their sizes and prices alone.

Where many jobs may leave for few nodes, that leaves out most of them. The plan is the same, ties included.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III-B: the problem.

Differs from the paper:
    Its Algorithm 1 tries every item.
"""

import math
from collections.abc import Callable
from itertools import groupby
from operator import attrgetter

from makeway.policies.model import Method
from makeway.policies.programme.items import METHODS, EvictionJob

PriceOf = Callable[[EvictionJob, Method], int]
"""What it counts as that an item leaves in one way; more than 0."""


def worth_trying(ordered: tuple[EvictionJob, ...], lacking: int, price: PriceOf) -> tuple[EvictionJob, ...]:
    """The items without those that are in no best choice.

    No choice has more items of one size than free all the nodes that are lacking. An item that takes no time
    of others is dropped if as many others of its size are cheaper without taking time, or come before it at
    the same price: one of these could take its place.

    Args:
        ordered: the items, in the order in which the programme tries them: by `extra_node_count`.
        lacking: how many nodes they have to free.
        price: what is compared.
    """
    kept: list[EvictionJob] = []
    for node_count, group in groupby(ordered, key=attrgetter("extra_node_count")):
        items, most = list(group), math.ceil(lacking / node_count)
        if not lacking or len(items) <= most:
            kept += items
            continue
        prices = [_price_at_once(item, price) for item in items]
        ranked = sorted(range(len(items)), key=prices.__getitem__)
        dropped = {index for index in ranked[most:] if not _takes_time(items[index])}
        kept += [item for index, item in enumerate(items) if index not in dropped]
    return tuple(kept)


def _price_at_once(item: EvictionJob, price: PriceOf) -> int:
    """The least price of the ways to leave that take no time of others. A kill takes none."""
    if _is_only_killed(item):
        return price(item, Method.KILL)
    return min(price(item, method) for method in METHODS if item.turn_s(method) == 0.0)


def _takes_time(item: EvictionJob) -> bool:
    return not _is_only_killed(item) and any(item.turn_s(method) for method in METHODS)


def _is_only_killed(item: EvictionJob) -> bool:
    return item.application_s is None and item.system_s is None
