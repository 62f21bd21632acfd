"""The order in which urgent jobs are served, and heterogeneous ones: room is made for all components or for
none. Pure functions.

The components of a heterogeneous job start together. Each is a job of its own here, with its own request and
its own hold, but what is decided for one depends on the others.

The components are served one after another, those that fewest nodes may serve first. If one finds no room,
the order is tried again with that one first. The choice of each component is the policy's own.

A policy may also have a choice for all of them together. If that has a lower price, or makes room where the
other makes none, each component is served once more, by what the joint choice leaves to it. The second
decision counts only if it is better. Where no proof is found that none is, the rationale has a bound.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from makeway.policies.common.commitments import Commitments
from makeway.policies.common.requests import Proposal, Request
from makeway.policies.common.urgent_jobs import Guide, UrgentJob
from makeway.policies.common.victims import COMMITTED, VictimGroup
from makeway.policies.common.waiting import postponement
from makeway.policies.model import Cluster, OperationKind, Reserve, changed, unchosen
from makeway.policies.safety.prices import HOUR_S

Serve = Callable[[Commitments, UrgentJob], Proposal]
"""What is proposed for an urgent job, given what is promised already; the promises are added to that."""
Refuse = Callable[[Commitments, UrgentJob, str], Proposal]
"""The same for an urgent job that gets nothing, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """What is known about the choices for all components of a heterogeneous job."""

    bound_node_s: int
    """No choice has a lower price."""
    price_node_s: Callable[[Iterable[Proposal]], int]
    """The price of the evictions of proposals, as if all of them began now."""
    guides: tuple[Mapping[str, Guide], ...] = ()
    """Choices at lower prices than the one that is known: what each leaves to each component, by its id."""


Jointly = Callable[[Commitments, Sequence[Request], Sequence[Proposal] | None], Together | None]
"""A policy's choice for all components, given what is promised, their requests, and what is proposed for them
one after the other (None: one of them finds no room). None: nothing is known."""
_Together = Callable[[Commitments, Sequence[UrgentJob], Sequence[Proposal] | None], Together | None]


def serve_each(
    urgents: Iterable[UrgentJob],
    cluster: Cluster,
    serve: Serve,
    refuse: Refuse,
    together: _Together = lambda commitments, components, found: None,
    *,
    by_deadline: bool = False,
) -> list[Proposal]:
    """The proposals for urgent jobs that are served in this order, the components of one job together.

    One that could be on time may find no room because an earlier one, which may have other nodes than it, has
    got some that would serve it. Then those without room come first in a second try. It counts if it makes
    room for more jobs, and for all that had room before.

    `by_deadline`: the same holds if the earlier one has a later deadline, and came first because it has an
    operation. It keeps its room if both cannot have some: jobs may have been asked to leave for it.
    """
    groups = by_whole_job(urgents)

    def in_turn(groups: Iterable[tuple[UrgentJob, ...]]) -> list[list[Proposal]]:
        commitments = Commitments(cluster=cluster)
        return [serve_together(group, commitments, serve, refuse, together) for group in groups]

    found = in_turn(groups)
    lacking = _lacking(groups, found, cluster, by_deadline=by_deadline)
    if lacking:
        last = [group for group in groups if all(group is not one for one in lacking)]
        again = in_turn([*lacking, *last])
        if _served(again) > _served(found):
            found = again
    return list(chain.from_iterable(found))


def _served(proposals: Iterable[Iterable[Proposal]]) -> frozenset[str]:
    """The urgent jobs that have room."""
    return frozenset(one.rationale.for_job_id for one in chain.from_iterable(proposals) if _has_room(one))


def _has_room(proposal: Proposal) -> bool:
    return proposal.rationale.ready_s is not None or any(isinstance(one, Reserve) for one in proposal.actions)


def _lacking(
    groups: list[tuple[UrgentJob, ...]], found: list[list[Proposal]], cluster: Cluster, *, by_deadline: bool
) -> list[tuple[UrgentJob, ...]]:
    """Those without room that could be on time, and would be served by nodes of an earlier one that may have
    others; or `by_deadline`, of one with an operation and a later deadline.
    """
    sets, taken = cluster.node_sets(), dict[frozenset[str] | None, int]()
    under_way: list[tuple[float, int]] = []

    def is_passed(urgent: UrgentJob, given: Proposal) -> bool:
        deadline_s = given.rationale.deadline_s
        if _has_room(given) or given.again_s is not None or cluster.now_s > deadline_s:
            return False
        able = urgent.job.eligible_nodes
        wanted = sets.up if able is None else sets.of(able)
        return any(nodes & wanted for other, nodes in taken.items() if other != able) or any(
            nodes & wanted for other_s, nodes in under_way if other_s > deadline_s
        )

    lacking: list[tuple[UrgentJob, ...]] = []
    for group, proposals in zip(groups, found, strict=True):
        if any(map(is_passed, group, proposals)):
            lacking.append(group)
        for urgent, given in zip(group, proposals, strict=True):
            for action in given.actions:
                if isinstance(action, Reserve):
                    able, nodes = urgent.job.eligible_nodes, sets.of(action.nodes)
                    taken[able] = taken.get(able, 0) | nodes
                    if by_deadline and urgent.operation is not None:
                        added = nodes & ~sets.of(urgent.operation.nodes)
                        under_way.append((given.rationale.deadline_s, added))
    return lacking


def leave_one_by_one(groups: Iterable[VictimGroup], ending: Collection[str] = ()) -> bool:
    """Whether the jobs of groups leave one by one: if a group has several, or if a job shares a node that
    leaves for another component, or that ends by itself and may not be evicted. The node comes free only if
    the other jobs on it leave, too.

    `ending`: the jobs that end by themselves, by id.
    """
    return any(
        len(one.jobs) > 1
        or (one.shares_nodes and one.protected_by == COMMITTED)
        or (one.shares_nodes and bool(one.protected_by) and one.job_ids[0] in ending)
        for one in groups
    )


def by_whole_job(urgents: Iterable[UrgentJob]) -> list[tuple[UrgentJob, ...]]:
    """The urgent jobs, the components of one heterogeneous job together, in the order of the first of
    each.
    """
    groups: dict[str, list[UrgentJob]] = {}
    for urgent in urgents:
        groups.setdefault(urgent.job.het_job_id or urgent.job.job_id, []).append(urgent)
    return [tuple(group) for group in groups.values()]


def serve_together(
    components: tuple[UrgentJob, ...],
    commitments: Commitments,
    serve: Serve,
    refuse: Refuse,
    together: _Together,
) -> list[Proposal]:
    """The proposals for the components of one heterogeneous job, in their order: all have room, or no job
    leaves for any. A single job is served by itself.

    As long as one of them waits for jobs to end by themselves, no job leaves for the others.

    Args:
        components: those that need nodes now.
        commitments: what is promised; what is proposed is added to it.
        serve: how one of them is served.
        refuse: the proposal for one that gets nothing.
        together: what is known about the choices for all of them.
    """
    if len(components) == 1:
        return [serve(commitments, components[0])]
    order = sorted(components, key=lambda urgent: _width(urgent, commitments.cluster))
    found, lacking = _one_by_one(order, commitments, serve)
    known = together(commitments, order, None if lacking is not None else [*found.values()])
    if known is not None:
        found, lacking = _guided(order, commitments, serve, known, found, lacking)
    if lacking is not None:
        last = lacking.job.job_id
        commitments.add(found[last].actions)
        why = f"All components need room, and there is none for {last}: no job is evicted."
        for urgent in components:
            if urgent is not lacking:
                found[urgent.job.job_id] = refuse(commitments, urgent, why)
        return [found[urgent.job.job_id] for urgent in components]
    proposals = _at_one_time(components, found, commitments.cluster)
    for proposal in proposals:
        commitments.add(proposal.actions, proposal.rationale)
    return proposals


def _one_by_one(
    order: list[UrgentJob], commitments: Commitments, serve: Serve
) -> tuple[dict[str, Proposal], UrgentJob | None]:
    """The same as `_in_order`; a component without room comes first in another try."""
    found, lacking = _in_order(order, commitments, serve)
    tried: set[str] = set()
    while lacking is not None and lacking is not order[0] and lacking.job.job_id not in tried:
        tried.add(lacking.job.job_id)
        order = [lacking, *(urgent for urgent in order if urgent is not lacking)]
        found, lacking = _in_order(order, commitments, serve)
    return found, lacking


def _guided(
    order: list[UrgentJob],
    commitments: Commitments,
    serve: Serve,
    known: Together,
    found: dict[str, Proposal],
    lacking: UrgentJob | None,
) -> tuple[dict[str, Proposal], UrgentJob | None]:
    """The proposals by a joint choice if they are better than those found, with the bound that is known."""
    for guides in known.guides:
        guided = [_by(guides[urgent.job.job_id], urgent, commitments.cluster) for urgent in order]
        other, without = _in_order(guided, commitments, serve)
        if without is None and (lacking is not None or _is_better(other, found, known)):
            found = {
                job_id: _chosen_jointly(given, found.get(job_id), guides[job_id])
                for job_id, given in other.items()
            }
            lacking = None
    if lacking is None and known.price_node_s(found.values()) > known.bound_node_s:
        least_h = known.bound_node_s / HOUR_S
        least = f" Any choice for all components is priced at {least_h:.2f} node-hours or more."
        found = {job_id: _said(given, given.rationale.summary + least) for job_id, given in found.items()}
    return found, lacking


def _by(guide: Guide, urgent: UrgentJob, cluster: Cluster) -> UrgentJob:
    """The component as one that may only have what a joint choice leaves to it."""
    able = urgent.job.eligible_nodes
    nodes = frozenset(cluster.up_nodes()) if able is None else able
    return replace(urgent, job=replace(urgent.job, eligible_nodes=nodes - guide.avoided), guide=guide)


def staying(guide: Guide, cluster: Cluster) -> frozenset[str]:
    """The jobs that do not leave for a component by a joint choice."""
    return frozenset(job.job_id for job in cluster.jobs if job.nodes and job.job_id not in guide.methods)


def _is_better(other: Mapping[str, Proposal], found: Mapping[str, Proposal], known: Together) -> bool:
    """Whether other proposals have a lower price, none of them is late that was on time, and none waits if
    none waited.
    """
    late = any(_is_on_time(found[job_id]) and not _is_on_time(given) for job_id, given in other.items())
    waits = [any(one.again_s is not None for one in each.values()) for each in (found, other)]
    if late or waits == [False, True]:
        return False
    return known.price_node_s(other.values()) < known.price_node_s(found.values())


def _is_on_time(given: Proposal) -> bool:
    why = given.rationale
    return why.ready_s is not None and why.ready_s <= why.deadline_s


def _chosen_jointly(given: Proposal, before: Proposal | None, guide: Guide) -> Proposal:
    """The proposal with the reason why the other jobs stay.

    Args:
        given: what is proposed by the joint choice.
        before: what was proposed without it, from more nodes and jobs. None: nothing.
        guide: what the joint choice leaves to the component.
    """
    why = given.rationale
    known = {job_id for one in why.candidates for job_id in one.job_ids}.union(guide.methods)
    stays = "stays by the joint choice"
    others = {
        one.job_ids: one
        for one in (() if before is None else before.rationale.candidates)
        if known.isdisjoint(one.job_ids)
    }
    candidates = (
        *(changed(one, note=stays) if one.note == COMMITTED else one for one in why.candidates),
        *(
            changed(one, method=None, loss_node_s=0, delay_s=0.0, chosen=False, note=stays)
            if one.note in {"", COMMITTED}
            else one
            for one in others.values()
        ),
    )
    why = replace(why, candidates=candidates)
    return _said(replace(given, rationale=why), f"Chosen for all components together. {why.summary}")


def _said(given: Proposal, summary: str) -> Proposal:
    return replace(given, rationale=replace(given.rationale, summary=summary))


def _in_order(
    order: list[UrgentJob], commitments: Commitments, serve: Serve
) -> tuple[dict[str, Proposal], UrgentJob | None]:
    """The proposals by job id, up to the first component that finds no room, which is named. None: all do."""
    branch, found = commitments.branch(), dict[str, Proposal]()
    for urgent in order:
        given = found[urgent.job.job_id] = serve(branch, urgent)
        # A job that shrinks for one component cannot do so sooner if the next one waits: they start together.
        branch.shrinking = dict(commitments.shrinking)
        if not _has_room(given):
            return found, urgent
    return found, None


def _at_one_time(
    components: tuple[UrgentJob, ...], found: dict[str, Proposal], cluster: Cluster
) -> list[Proposal]:
    """The proposals for the components; if one of them waits, only the holds of all."""
    proposals = [found[urgent.job.job_id] for urgent in components]
    again_s = min((one.again_s for one in proposals if one.again_s is not None), default=None)
    if again_s is None:
        return proposals
    return [
        one if one.again_s is not None else _waiting(urgent, one, again_s, cluster)
        for urgent, one in zip(components, proposals, strict=True)
    ]


def _waiting(urgent: UrgentJob, proposal: Proposal, again_s: float, cluster: Cluster) -> Proposal:
    """The proposal without its evictions. A hold that is there stays as it is, unless a node of it is lost:
    it would be made again in every cycle.
    """
    holds, why = tuple(one for one in proposal.actions if isinstance(one, Reserve)), proposal.rationale
    if len(holds) == len(proposal.actions):
        return proposal
    present = urgent.operation
    keeps = (
        present is not None
        and present.kind is not OperationKind.ARRIVAL
        and cluster.up_nodes().keys() >= set(present.nodes)
    )
    return Proposal(
        actions=() if keeps else holds,
        rationale=replace(
            why,
            summary=f"No job leaves as long as another component waits for jobs to end. Else: {why.summary}",
            candidates=unchosen(why.candidates),
            loss_node_s=0,
            ready_s=None if why.ready_s is None else max(why.ready_s, again_s),
            postponed=postponement(proposal, cluster, again_s),
        ),
        again_s=again_s,
    )


def _width(urgent: UrgentJob, cluster: Cluster) -> tuple[int, int, str]:
    """Sorts components: those with fewest nodes to choose from first, large ones before small ones."""
    eligible = urgent.job.eligible_nodes
    able = len(cluster.nodes) if eligible is None else len(eligible)
    return able, -urgent.job.node_count, urgent.job.job_id
