"""What is free and what comes free, computed again for every request by the definitions: the tests'
oracle."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from makeway.policies.common.urgent_jobs import (
    LatestStart,
    UrgentJob,
    keeping_until,
    latest_starts,
    unavailable_nodes,
    urgent_jobs,
)
from makeway.policies.model import Action, Cluster, Job, NodeState, Reserve
from makeway.policies.safety.prices import killed_node_s
from makeway.policies.safety.protection import protection


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


@dataclass(slots=True)
class Promised:
    """What the proposals so far promise."""

    excluded: set[str]
    leaves: dict[str, NodeRelease]
    nodes: set[str] = field(default_factory=set[str])
    killed: dict[str, float] = field(default_factory=dict[str, float])
    costs: dict[str, float] = field(default_factory=dict[str, float])


def requests(
    cluster: Cluster,
    policy: str,
    proposal: Callable[[Request], Proposal],
    start_within_s: float,
    hold_slack_s: float,
) -> list[Request]:
    """The asks of every request that free nodes do not serve, one after another, as submitted."""
    found: list[Request] = []
    promised = Promised(excluded=set(committed(cluster)), leaves=node_releases(cluster))
    for urgent in urgent_jobs(cluster):
        own_s, now_s = urgent.deadline_s(start_within_s), cluster.now_s
        late = now_s > own_s
        starts = latest_starts(cluster, urgent.job, now_s + start_within_s if late else own_s)
        asked = [
            replace(
                request_at(cluster, urgent, start, own_s if start is starts[0] else start.at_s, promised),
                policy=policy,
                deadline_s=own_s if late or start.at_s <= now_s else start.at_s,
                duration_s=max(0.0, own_s - now_s) + urgent.job.walltime_s + hold_slack_s,
                now_only=start is not starts[0] and start.at_s == now_s,
            )
            for start in starts
        ]
        ready = [request for request in asked if request.shortage <= 0]
        given = fits((ready or asked)[0])
        if not ready:
            planned = asked[:1] if late else [request for request in asked if not request.now_only]
            refused: list[Proposal] = []
            for request in planned:
                found.append(request)
                given = proposal(request)
                if any(isinstance(action, Reserve) for action in given.actions):
                    break
                refused.append(given)
            else:
                given = refused[0]
        if lost_node_s := killed_node_s(given.actions, cluster):
            promised.killed[urgent.job.job_id] = lost_node_s
        if cost_node_s := evictions_node_s(given.actions, cluster):
            promised.costs[urgent.job.job_id] = cost_node_s
        promise(given.actions, cluster.now_s, promised.nodes, promised.excluded, promised.leaves)
    return found


def request_at(
    cluster: Cluster, urgent: UrgentJob, start: LatestStart, by_s: float, promised: Promised
) -> Request:
    """What is offered for a start by an instant."""
    urgent = keeping_until(cluster, urgent, start.ends_s)
    unusable = set(unavailable_nodes(cluster, urgent, until_s=start.ends_s)) | promised.nodes
    blocked = unusable | set(urgent.kept_nodes)
    wanted = urgent.most_missing if cluster.limits.max_nodes is None else urgent.missing
    free = [name for name in free_nodes(cluster, urgent.job.eligible_nodes) if name not in blocked]
    if len(free) > wanted:
        free = sorted(free, key=partial(claims, cluster))[: max(0, wanted)]
    releasing, releasing_s = releasing_in_time(cluster, urgent, promised.leaves, by_s, blocked)
    releasing = releasing[: max(0, urgent.missing - len(free))]
    awaited = {*releasing, *urgent.kept_nodes}
    return Request(
        cluster=cluster,
        urgent=urgent,
        policy="",
        deadline_s=by_s,
        duration_s=0.0,
        ends_s=start.ends_s,
        free=tuple(free),
        releasing=tuple(releasing),
        releasing_s=max(
            (at_s for name, at_s in releasing_s.items() if name in awaited), default=cluster.now_s
        ),
        unusable=frozenset(unusable.union(releasing)),
        excluded=frozenset(promised.excluded),
        concerned=frozenset(promised.excluded),
        killed_node_s=dict(promised.killed),
        spent_node_s=dict(promised.killed),
        evictions_node_s=dict(promised.costs),
    )


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
    """Nodes that would serve the job and come free in time, the earliest first; and when each node that is up
    comes free."""
    eligible = urgent.job.eligible_nodes
    up = {node.name for node in cluster.nodes if node.state is NodeState.UP}
    ready_s = {name: at_s for name, at_s in releasing_nodes(cluster, leaves).items() if name in up}
    releasing = [
        node.name
        for node in cluster.nodes
        if node.name in ready_s
        and (ready_s[node.name] <= deadline_s or cluster.now_s > deadline_s)
        and node.name not in blocked
        and (eligible is None or node.name in eligible)
    ]
    return sorted(releasing, key=lambda name: ready_s[name]), ready_s


def groups(cluster: Cluster, urgent: UrgentJob, unusable: frozenset[str]) -> set[frozenset[str]]:
    """The ids of the jobs that can only leave together: connected by nodes that would serve the request, or
    by those of jobs that stay.
    """
    eligible = urgent.job.eligible_nodes
    useful = {
        node.name
        for node in cluster.nodes
        if node.state is NodeState.UP
        and node.name not in unusable | set(urgent.kept_nodes)
        and (eligible is None or node.name in eligible)
    }
    kept = {name for job in cluster.jobs if protection(job, cluster) is not None for name in job.nodes}
    apart = [job for job in cluster.jobs if not useful.difference(kept).isdisjoint(job.nodes)]
    others = [job for job in cluster.jobs if job not in apart and not useful.isdisjoint(job.nodes)]
    return _connected(apart, useful - kept) | _connected(others, useful)


def _connected(jobs: Sequence[Job], useful: set[str]) -> set[frozenset[str]]:
    together: list[tuple[set[str], set[str]]] = []
    for job in jobs:
        ids, nodes = {job.job_id}, useful.intersection(job.nodes)
        for group in [group for group in together if group[1] & nodes]:
            together.remove(group)
            ids, nodes = ids | group[0], nodes | group[1]
        together.append((ids, nodes))
    return {frozenset(ids) for ids, _ in together}


def elsewhere(cluster: Cluster) -> Cluster:
    """An equal cluster of which no part is the same object, so that nothing can be remembered of it."""
    jobs: tuple[Job, ...] = tuple(replace(job) for job in cluster.jobs)
    return replace(cluster, jobs=jobs, nodes=tuple(replace(node) for node in cluster.nodes))
