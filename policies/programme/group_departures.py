"""The jobs of a chosen set that leave or shrink, the nodes that come free by it, and both in words. Pure
functions.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III-B: the ways in which jobs leave.

Differs from the paper:
    A malleable job may shrink instead of leaving.
"""

from dataclasses import dataclass

from makeway.policies.common.requests import Request, node_text
from makeway.policies.common.shrinking import shrink, spare_nodes
from makeway.policies.common.victims import VictimGroup
from makeway.policies.model import Action, Job, Method
from makeway.policies.programme.items import Departure
from makeway.policies.programme.leaving import WORDS, Turn, leave_actions


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDeparture:
    """Jobs of a chosen group that leave in one way because they use held nodes; or a job that shrinks."""

    jobs: tuple[Job, ...]
    departure: Departure
    nodes: tuple[str, ...]
    """The nodes that come free."""


def freed_nodes(group: VictimGroup, departure: Departure) -> tuple[str, ...]:
    """The nodes of a group that come free; a job that shrinks gives its last ones."""
    if departure.method is not Method.SHRINK:
        return group.nodes
    spare = spare_nodes(group)
    return spare[len(spare) - departure.given_node_count :]


def departure_actions(request: Request, eviction: GroupDeparture, when: Turn) -> list[Action]:
    """The actions by which the jobs leave or shrink. `when`: when the checkpoints are written."""
    actions: list[Action] = []
    method = eviction.departure.method
    for job in eviction.jobs:
        if method is Method.SHRINK:
            actions.append(shrink(request, job, frozenset(eviction.nodes)))
            continue
        actions.extend(leave_actions(request, job, method, when))
    return actions


def in_words(evictions: list[GroupDeparture]) -> str:
    """Which jobs leave and how, and which shrink, in words. Pure functions.

    Reference:
        Maurya et al., "Impact Analysis of Different Scheduling Policies for Preempting Jobs" (see `policy`).
    """
    evicted = [
        f"{_ids(eviction)} ({node_text(len(eviction.nodes))}, {WORDS[eviction.departure.method]})"
        for eviction in evictions
        if eviction.departure.method in WORDS
    ]
    shrunk = [
        f"{_ids(eviction)} (by {node_text(len(eviction.nodes))})"
        for eviction in evictions
        if eviction.departure.given_node_count
    ]
    parts = (("evict", evicted), ("shrink", shrunk))
    return " and ".join(f"{verb} {', '.join(texts)}" for verb, texts in parts if texts)


def _ids(eviction: GroupDeparture) -> str:
    return "+".join(job.job_id for job in eviction.jobs)
