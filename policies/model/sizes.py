"""The sizes that a run has had, and what it has worked on them. Imported through `model`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PastSize:
    """A size that the present run of a job had before."""

    node_count: int
    until_s: float
    """Until when it had this size: since the previous `PastSize` ended, else since the start of the run."""


def worked_node_s(past_sizes: tuple[PastSize, ...], node_count: int, since_s: float, until_s: float) -> float:
    """Node-seconds that a run has had between two instants. 0 if the second one is not later.

    Args:
        past_sizes: the earlier sizes of the run, the first one first.
        node_count: its present size.
        since_s: the first instant, not before the start of the run.
        until_s: the second one, not after the present.
    """
    node_s, from_s = 0.0, since_s
    for past in past_sizes:
        if past.until_s > from_s and until_s > from_s:
            to_s = min(past.until_s, until_s)
            node_s += (to_s - from_s) * past.node_count
            from_s = to_s
    return node_s + max(0.0, until_s - from_s) * node_count
