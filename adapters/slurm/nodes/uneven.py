"""Nodes of different sizes that hold a job together, although the even share fits on too few of them. Pure
functions.

Slurm gives each node as many tasks as fit. Which of them it fills first is not known before, so that only
whole nodes are sure to be enough.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from itertools import accumulate

MOST_TASKS_OF_NODE = 1 << 12
"""More tasks than this are not looked for on one node."""


def most_tasks(fits: Callable[[int], bool], task_count: int) -> int:
    """How many of so many tasks a node holds. `fits`: whether it holds a number of them."""
    most = min(task_count, MOST_TASKS_OF_NODE)
    return bisect_left(range(1, most + 1), True, key=lambda tasks: not fits(tasks))


def holding_together(
    sizes: Mapping[str, int], needed: int, least: int, most: int
) -> tuple[int, frozenset[str]] | None:
    """The least number of nodes that can hold a job together, and the nodes of which any so many do.

    Args:
        sizes: how much of the job each node holds; nodes that hold nothing are not looked at.
        needed: how much the job is.
        least: the least number of nodes.
        most: the largest one.

    Returns:
        None if there is no such number.
    """
    names = sorted((name for name, size in sizes.items() if size > 0), key=lambda name: (-sizes[name], name))
    sums = [0, *accumulate(sizes[name] for name in names)]
    count = max(least, bisect_left(sums, needed))
    if count > min(most, len(names)):
        return None
    # The smallest of a set decide. They are the last ones of the first `end` names.
    ends = range(count, len(names) + 1)
    enough = bisect_left(ends, True, key=lambda end: sums[end] - sums[end - count] < needed)
    return count, frozenset(names[: count + enough - 1])
