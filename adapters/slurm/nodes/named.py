"""The nodes of an urgent job that asks for some of them by name, and gets others besides (`-N 3 -w n7`).

A set of nodes of which any so many serve cannot say that. So the others are chosen here, before the policy
looks at prices.
"""

from collections.abc import Collection
from dataclasses import replace

from makeway.adapters.slurm.nodes.choice import Asked
from makeway.adapters.slurm.nodes.reach import Reach


def lacks_others(required: Collection[str], asked: Asked) -> bool:
    """Whether a job names fewer nodes than it gets, or fewer than hold it."""
    return bool(required) and (len(required) < asked.node_count or asked.eligible_nodes == frozenset())


def completed(
    required: Collection[str], others: Asked, names: frozenset[str], reach: Reach, job_id: str = ""
) -> Asked | None:
    """What a job asks with just as many nodes as it gets: those that it names, and the best others.

    Nodes of its hold are best, then those that could come free: of these first the ones without jobs, then
    those of jobs that have to leave the named ones.

    Args:
        required: the nodes that it names.
        others: what it would ask if it named none.
        names: those of all nodes.
        reach: which nodes could come free.
        job_id: empty, if it is not submitted yet.

    Returns:
        None if a named node cannot serve it, or too few others can.
    """
    named = frozenset(required)
    there = names if others.eligible_nodes is None else others.eligible_nodes
    own = reach.own.get(job_id, frozenset())
    could = reach.of(there, others.demand)
    near = frozenset[str]().union(*(nodes for nodes in reach.of_jobs if not nodes.isdisjoint(named)))
    best = sorted(
        there - named,
        key=lambda name: (name not in own, name not in could, name in reach.busy, name not in near, name),
    )
    chosen = named.union(best[: max(0, others.node_count - len(named))])
    if not named <= there or len(chosen) != others.node_count:
        return None
    return replace(others, node_count_max=others.node_count, eligible_nodes=chosen)
