"""Urgent jobs whose starts fail: no further job leaves for them until something has changed.

Slurm drains a node whose prolog fails, and puts the job back into the queue. With `nohold_on_prolog_fail` it
does not hold the job, which then lacks a node of its hold. If the prolog fails on every node, job after job
would leave for it, and node after node would be drained. So it is where the epilog fails: a node is drained
when the job on it has left.

Nothing is remembered for this. The journal has the holds of the job, each with the start that it was for. The
cluster shows which of their nodes are drained. Once these are mended and resumed, the job is served again.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from makeway.policies.model import Cluster, Job, Reserve

MOST_FAILED = 2
"""After so many failed starts no job leaves for the urgent job any more."""
MOST_LOST = 3
"""Nor after so many holds for one start that have lost drained nodes which other jobs have left for it.
Administrators drain nodes, too.
"""
COUNTS_S = 4 * 3600.0
"""How long a failed start counts, in seconds since its hold was made."""
_MOST_NAMED = 8
"""So many nodes are named in a sentence."""


class FailedStarts:
    """Finds the urgent jobs whose starts fail.

    Args:
        holds_since: the holds that a job was, or may have been, bound to since an instant, the oldest first.
        nodes_left_for: the nodes that other jobs have left for it since then, or may have. It takes longer.
    """

    def __init__(
        self,
        holds_since: Callable[[str, float], tuple[Reserve, ...]],
        nodes_left_for: Callable[[str, float], frozenset[str]],
    ) -> None:
        self._holds_since, self._nodes_left_for = holds_since, nodes_left_for
        self._known: Mapping[str, str] = {}
        self.news: tuple[str, ...] = ()
        """What the last snapshot showed and the one before did not, in words for the log."""

    def counted(self, seen: Cluster) -> Cluster:
        """The snapshot, in which such a job waits for its nodes to be mended: what was taken for it goes
        back, and nothing more is taken.
        """
        sets = seen.node_sets()
        found = dict(self._lacking(seen, frozenset(sets.names(sets.drained)))) if sets.drained else {}
        self.news = tuple(f"job {one} waits for {found[one]}" for one in found if one not in self._known)
        self._known = found
        if not found:
            return seen
        return replace(seen, jobs=tuple(_lacking(job, found.get(job.job_id, "")) for job in seen.jobs))

    def _lacking(self, seen: Cluster, drained: frozenset[str]) -> Iterable[tuple[str, str]]:
        """What such jobs lack, by id."""
        for job in seen.waiting_urgent_jobs():
            if job.blocked_by:
                continue
            since_s = seen.now_s - COUNTS_S
            holds = self._holds_since(job.job_id, since_s)
            failed = _failed(holds, job.requeue_count, drained)
            lost = _lost(holds, job.requeue_count, drained)
            if len(failed) < MOST_FAILED and len(lost) >= MOST_LOST:
                left = self._nodes_left_for(job.job_id, since_s)
                lost = _lost(holds, job.requeue_count, drained & left)
            if len(failed) >= MOST_FAILED:
                yield job.job_id, _to_be_mended(seen, failed, f"{len(failed)} starts failed")
            elif len(lost) >= MOST_LOST:
                yield job.job_id, _to_be_mended(seen, lost, f"{len(lost)} holds have lost nodes")


def _to_be_mended(seen: Cluster, groups: Sequence[frozenset[str]], why: str) -> str:
    """What a job lacks, in words. `groups`: the drained nodes."""
    nodes = _named([node.name for node in seen.nodes if any(node.name in one for one in groups)])
    return f"its nodes to be mended ({why}; {nodes} are drained)"


def _lacking(job: Job, lacks: str) -> Job:
    return replace(job, blocked_by=lacks, eligible_s=math.inf) if lacks else job


def _named(nodes: Sequence[str]) -> str:
    """The names of the nodes; of many, the first ones."""
    more = len(nodes) - _MOST_NAMED
    return ", ".join([*nodes[:_MOST_NAMED], *([f"{more} more"] if more > 0 else [])])


def _failed(
    holds: Iterable[Reserve], requeue_count: int, drained: frozenset[str]
) -> tuple[frozenset[str], ...]:
    """The starts of a job that failed, each as the nodes that were drained then: nodes of the last hold for
    that start that the hold for the next one does not have.

    `requeue_count`: of the job, which is in the queue.
    """
    last = {hold.requeue_count: frozenset(hold.nodes) for hold in holds if hold.requeue_count < requeue_count}
    found = (nodes & drained - later for nodes, later in pairwise([*last.values(), frozenset[str]()]))
    return tuple(nodes for nodes in found if nodes)


def _lost(
    holds: Iterable[Reserve], requeue_count: int, drained: frozenset[str]
) -> tuple[frozenset[str], ...]:
    """What the holds for the present start of a job have lost, each as the drained nodes that the next hold
    does not have.

    `requeue_count`: of the job, which is in the queue.
    """
    present = [frozenset(hold.nodes) for hold in holds if hold.requeue_count == requeue_count]
    found = (nodes & drained - later for nodes, later in pairwise([*present, frozenset[str]()]))
    return tuple(nodes for nodes in found if nodes)
