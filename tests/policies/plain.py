"""What is free and what comes free, worked out anew for every request as the definitions have it: the tests' oracle."""

from collections.abc import Callable
from dataclasses import replace

from makeway.policies.common.commitments import Answer, Ask, fits
from makeway.policies.common.victims import (
    Request,
    coming_free,
    departures,
    engaged,
    leave_of,
    spoken_for,
    urgent,
)
from makeway.policies.model import Cluster, Job, NodeState, Reserve


def free_nodes(cluster: Cluster, eligible: frozenset[str] | None) -> tuple[str, ...]:
    """Nodes that are up, held by no job, in no active reservation, and eligible."""
    taken: set[str] = set()
    for job in cluster.jobs:
        taken.update(job.nodes)
    for reservation in cluster.reservations:
        if reservation.start_s <= cluster.now_s < reservation.end_s:
            taken.update(reservation.nodes)
    return tuple(
        node.name
        for node in cluster.nodes
        if node.state is NodeState.UP
        and node.name not in taken
        and (eligible is None or node.name in eligible)
    )


def asks(
    cluster: Cluster, policy: str, answer: Callable[[Ask], Answer], start_within_s: float, hold_slack_s: float
) -> list[Ask]:
    """The asks of every request that free nodes do not serve, one after another."""
    found = []
    promised: set[str] = set()
    spared = set(engaged(cluster))
    leaves = departures(cluster)
    for request in urgent(cluster):
        deadline_s = request.deadline_s(start_within_s)
        until_s = max(cluster.now_s, deadline_s) + request.job.walltime_s + hold_slack_s
        unusable = set(spoken_for(cluster, request, until_s=until_s)) | promised
        eligible = request.job.eligible_nodes
        wanted = request.welcome if cluster.limits.max_nodes is None else request.missing
        free = [name for name in free_nodes(cluster, eligible) if name not in unusable | set(request.kept)][
            : max(0, wanted)
        ]
        ready_s = {
            name: at_s
            for name, at_s in coming_free(cluster, leaves).items()
            if at_s <= deadline_s or cluster.now_s > deadline_s
        }
        coming = [
            node.name
            for node in cluster.nodes
            if node.state is NodeState.UP
            and node.name in ready_s
            and node.name not in unusable | set(request.kept)
            and (eligible is None or node.name in eligible)
        ]
        coming = sorted(coming, key=lambda name: ready_s[name])[: max(0, request.missing - len(free))]
        ask = Ask(
            cluster=cluster,
            request=request,
            policy=policy,
            deadline_s=deadline_s,
            duration_s=until_s - cluster.now_s,
            free=tuple(free),
            coming=tuple(coming),
            coming_s=max((ready_s[name] for name in coming), default=cluster.now_s),
            unusable=frozenset(unusable.union(coming)),
            spared=frozenset(spared),
        )
        given = fits(ask) if ask.shortage <= 0 else answer(ask)
        if ask.shortage > 0:
            found.append(ask)
        for action in given.actions:
            leave = leave_of(action, cluster.now_s)
            if isinstance(action, Reserve):
                promised.update(action.nodes)
            else:
                spared.add(action.job_id)
            if leave is not None:
                leaves[action.job_id] = leave
    return found


def groups(cluster: Cluster, request: Request, unusable: frozenset[str]) -> set[frozenset[str]]:
    """The ids of the jobs that can only leave together: connected by nodes that would serve the request."""
    eligible = request.job.eligible_nodes
    useful = {
        node.name
        for node in cluster.nodes
        if node.state is NodeState.UP
        and node.name not in unusable | set(request.kept)
        and (eligible is None or node.name in eligible)
    }
    together: list[tuple[set[str], set[str]]] = []
    for job in cluster.jobs:
        ids, nodes = {job.job_id}, useful.intersection(job.nodes)
        if not nodes:
            continue
        for group in [group for group in together if group[1] & nodes]:
            together.remove(group)
            ids, nodes = ids | group[0], nodes | group[1]
        together.append((ids, nodes))
    return {frozenset(ids) for ids, _ in together}


def elsewhere(cluster: Cluster) -> Cluster:
    """An equal cluster of which no part is the same object, so that nothing can be remembered of it."""
    jobs: tuple[Job, ...] = tuple(replace(job) for job in cluster.jobs)
    return replace(cluster, jobs=jobs, nodes=tuple(replace(node) for node in cluster.nodes))
