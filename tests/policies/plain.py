"""What is free and what comes free, computed again for every request by the definitions: the tests'
oracle."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

from makeway.policies.common.departures import (
    NodeRelease,
    committed,
    node_release_of,
    node_releases,
    releasing_nodes,
)
from makeway.policies.common.losses import evictions_node_s
from makeway.policies.common.proposals import fits
from makeway.policies.common.requests import Proposal, Request
from makeway.policies.common.urgent_jobs import UrgentJob, unavailable_nodes, urgent_jobs
from makeway.policies.model import Action, Cluster, Job, NodeState, Reserve
from makeway.policies.safety.prices import killed_node_s


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


def requests(
    cluster: Cluster,
    policy: str,
    proposal: Callable[[Request], Proposal],
    start_within_s: float,
    hold_slack_s: float,
) -> list[Request]:
    """The asks of every request that free nodes do not serve, one after another, as submitted."""
    found = []
    commitments: set[str] = set()
    excluded = set(committed(cluster))
    leaves = node_releases(cluster)
    killed: dict[str, float] = {}
    costs: dict[str, float] = {}
    for urgent in urgent_jobs(cluster):
        deadline_s = urgent.deadline_s(start_within_s)
        until_s = max(cluster.now_s, deadline_s) + urgent.job.walltime_s + hold_slack_s
        unusable = set(unavailable_nodes(cluster, urgent, until_s=until_s)) | commitments
        blocked = unusable | set(urgent.kept_nodes)
        eligible = urgent.job.eligible_nodes
        wanted = urgent.most_missing if cluster.limits.max_nodes is None else urgent.missing
        free = [name for name in free_nodes(cluster, eligible) if name not in blocked]
        if len(free) > wanted:
            free = sorted(free, key=partial(claims, cluster))[: max(0, wanted)]
        releasing, releasing_s = releasing_in_time(cluster, urgent, leaves, deadline_s, blocked)
        releasing = releasing[: max(0, urgent.missing - len(free))]
        request = Request(
            cluster=cluster,
            urgent=urgent,
            policy=policy,
            deadline_s=deadline_s,
            duration_s=until_s - cluster.now_s,
            free=tuple(free),
            releasing=tuple(releasing),
            releasing_s=max((releasing_s[name] for name in releasing), default=cluster.now_s),
            unusable=frozenset(unusable.union(releasing)),
            excluded=frozenset(excluded),
            killed_node_s=dict(killed),
            spent_node_s=dict(killed),
            evictions_node_s=dict(costs),
        )
        given = fits(request) if request.shortage <= 0 else proposal(request)
        if request.shortage > 0:
            found.append(request)
        if lost_node_s := killed_node_s(given.actions, cluster):
            killed[urgent.job.job_id] = lost_node_s
        if cost_node_s := evictions_node_s(given.actions, cluster):
            costs[urgent.job.job_id] = cost_node_s
        promise(given.actions, cluster.now_s, commitments, excluded, leaves)
    return found


def claims(cluster: Cluster, name: str) -> int:
    """How many urgent jobs that may not have all nodes need nodes and may have this one."""
    eligible = [urgent.job.eligible_nodes for urgent in urgent_jobs(cluster)]
    return sum(nodes is not None and name in nodes for nodes in eligible)


def promise(
    actions: Iterable[Action],
    now_s: float,
    nodes: set[str],
    job_ids: set[str],
    leaves: dict[str, NodeRelease],
) -> None:
    """Add what these actions promise: the nodes, the jobs, and when those leave."""
    for action in actions:
        if isinstance(action, Reserve):
            nodes.update(action.nodes)
        else:
            job_ids.add(action.job_id)
        if (leave := node_release_of(action, now_s)) is not None:
            leaves[action.job_id] = leave


def releasing_in_time(
    cluster: Cluster,
    urgent: UrgentJob,
    leaves: Mapping[str, NodeRelease],
    deadline_s: float,
    blocked: set[str],
) -> tuple[list[str], dict[str, float]]:
    """Nodes that would serve the job and come free in time, the earliest first; and when nodes come free."""
    eligible = urgent.job.eligible_nodes
    ready_s = {
        name: at_s
        for name, at_s in releasing_nodes(cluster, leaves).items()
        if at_s <= deadline_s or cluster.now_s > deadline_s
    }
    releasing = [
        node.name
        for node in cluster.nodes
        if node.state is NodeState.UP
        and node.name in ready_s
        and node.name not in blocked
        and (eligible is None or node.name in eligible)
    ]
    return sorted(releasing, key=lambda name: ready_s[name]), ready_s


def groups(cluster: Cluster, urgent: UrgentJob, unusable: frozenset[str]) -> set[frozenset[str]]:
    """The ids of the jobs that can only leave together: connected by nodes that would serve the request."""
    eligible = urgent.job.eligible_nodes
    useful = {
        node.name
        for node in cluster.nodes
        if node.state is NodeState.UP
        and node.name not in unusable | set(urgent.kept_nodes)
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
