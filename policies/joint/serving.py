"""The joint choice for the components of one heterogeneous job: whether a better one than one after the other
is known, and what it leaves to each component.

Nothing is chosen jointly for a job that is late or gets whole placements, and where jobs may shrink.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from makeway.policies.choice.alternatives import with_alternatives
from makeway.policies.choice.instance import ChoiceInstance, Occupant, WayToLeave, serial_budget
from makeway.policies.common.commitments import Commitments
from makeway.policies.common.components import Together
from makeway.policies.common.departures import NodeRelease
from makeway.policies.common.losses import departures
from makeway.policies.common.requests import Proposal, Request, gone_by
from makeway.policies.common.shared_nodes import held_on
from makeway.policies.common.shrinking import spare_nodes
from makeway.policies.common.urgent_jobs import Guide
from makeway.policies.common.victims import SharedCandidates, VictimGroup, shared_candidates
from makeway.policies.joint.choose import choose_jointly, is_separate
from makeway.policies.joint.instance import JointChoice, JointComponent, JointInstance, JointJob
from makeway.policies.model import Cluster, Method, Resources

Ways = Callable[[Request, VictimGroup, float], tuple[WayToLeave, ...]]
"""How a job may leave a component's nodes by an instant, and what that costs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JointRules:
    """How a policy sees the jobs that leave for several components."""

    latest_s: Callable[[Request], float]
    """When the last job must have left for a component."""
    checkpoint_s: Callable[[Request, float], float]
    """How many seconds of checkpoints one after another are possible until then."""
    step_s: float
    """The resolution of time."""
    shrink: bool
    """Whether jobs may shrink."""
    whole_ways: Ways
    """Where jobs have their nodes for themselves."""
    shared_ways: Ways
    """Where jobs share nodes."""
    ending: Callable[[Request], Mapping[str, NodeRelease]]
    """The jobs that a component may be left to wait for, because they end by themselves in time, by id."""

    def ways(self, requests: Sequence[Request]) -> Ways:
        """How jobs may leave for these components."""
        parts = any(request.urgent.job.demand is not None for request in requests)
        return self.shared_ways if parts or requests[0].cluster.shared_nodes() else self.whole_ways


def jointly(
    commitments: Commitments,
    asked: Sequence[Request],
    found: Sequence[Proposal] | None,
    rules: JointRules,
) -> Together | None:
    """What is known about the choices for all components. None: nothing.

    The bound is that of all choices by which jobs leave from now on, also of those that wait for jobs to end.

    Args:
        commitments: what is promised or under way.
        asked: the requests of the components, each as if it were alone.
        found: what is proposed for one after the other. None: one of them finds no room.
        rules: those of the policy.
    """
    requests = sorted(asked, key=rules.latest_s)
    if commitments.cluster.placements or any(request.late for request in requests):
        return None
    plain = _instance(commitments, requests, {}, rules)
    if plain is None:
        return None
    prices = _Prices(plain, commitments.cluster)
    known = None if found is None else prices.of(found)
    if known == 0:
        return None
    ending = {job_id: one for request in requests for job_id, one in rules.ending(request).items()}
    after_ends = _instance(commitments, requests, ending, rules) if ending else None
    bounds, choices = list[int](), list[JointChoice]()
    for instance in (plain, after_ends):
        if instance is None or (known is not None and is_separate(instance)):
            continue
        result = choose_jointly(instance, known)
        if result is not None:
            bounds.append(result.bound_node_s)
            choices += [] if result.choice is None else [result.choice]
    if not bounds:
        return None
    choices.sort(key=lambda choice: choice.loss_node_s)
    guides = tuple(_guides(requests, choice) for choice in choices)
    return Together(bound_node_s=min(bounds), price_node_s=prices.of, guides=guides)


def _guides(requests: Sequence[Request], choice: JointChoice) -> Mapping[str, Guide]:
    """What a choice leaves to each component, by its id."""
    every = frozenset(name for nodes in choice.nodes for name in nodes)
    methods = {job_id: way.method for job_id, way in choice.leaving.items()}
    return {
        request.urgent.job.job_id: Guide(avoided=every.difference(nodes), methods=methods)
        for request, nodes in zip(requests, choice.nodes, strict=True)
    }


@dataclass(frozen=True, slots=True)
class _Prices:
    """What it counts as that jobs leave, as the instance has it."""

    instance: JointInstance
    cluster: Cluster

    def of(self, proposals: Iterable[Proposal]) -> int:
        """The price of the evictions of proposals, those that wait too, in node-seconds."""
        prices = {job.job_id: {way.method: way.loss_node_s for way in job.ways} for job in self.instance.jobs}
        leaving: dict[str, Method] = {}
        for given in proposals:
            late = given.rationale.postponed
            leaving.update((one.job_id, one.method) for one in (late.departures if late else ()))
            leaving.update((job.job_id, how) for job, how in departures(given.actions, self.cluster))
        return sum(
            known.get(method, 0 if method is Method.SHRINK else max(known.values(), default=0))
            for job_id, method in leaving.items()
            if (known := prices.get(job_id)) is not None
        )


def _instance(
    commitments: Commitments,
    requests: Sequence[Request],
    ending: Mapping[str, NodeRelease],
    rules: JointRules,
) -> JointInstance | None:
    """The choice for all components. None: some jobs may shrink.

    Args:
        commitments: what is promised or under way.
        requests: those of the components, the one with the earliest deadline first.
        ending: jobs that leave by themselves in time, by id.
        rules: those of the policy.
    """
    components: list[JointComponent] = []
    jobs: dict[str, JointJob] = {}
    ways, steps = rules.ways(requests), 0
    for request in requests:
        cluster, latest_s = request.cluster, rules.latest_s(request)
        candidates = _candidates(commitments, request, ending)
        groups = candidates.groups(cluster)
        if rules.shrink and any(map(spare_nodes, groups)):
            return None
        here = [
            JointJob(
                job_id=group.jobs[0].job_id,
                held=held_on(group.jobs[0], cluster),
                ways=() if group.protected_by else ways(request, group, latest_s),
            )
            for group in groups
        ]
        jobs.update((job.job_id, job) for job in here)
        components.append(_component(request, candidates, here))
        steps = max(steps, serial_budget(rules.checkpoint_s(request, latest_s), rules.step_s))
    return JointInstance(components=tuple(components), jobs=tuple(jobs.values()), budget_steps=steps)


def _candidates(
    commitments: Commitments, request: Request, ending: Mapping[str, NodeRelease]
) -> SharedCandidates:
    """The nodes that could serve a component if it were alone, free ones too, and the jobs on them."""
    urgent, cluster = request.urgent, request.cluster
    return shared_candidates(
        cluster,
        urgent,
        unusable=commitments.unusable(urgent, request.ends_s),
        excluded=request.excluded,
        latest_s=request.deadline_s,
        ending={**gone_by(request, request.deadline_s), **ending},
    )


def _component(request: Request, candidates: SharedCandidates, jobs: Sequence[JointJob]) -> JointComponent:
    """What a component needs."""
    demand, alternatives = request.urgent.job.demand, dict[str, tuple[Resources, ...]]()
    if demand is not None:
        choice = ChoiceInstance(
            free=candidates.room,
            demand=demand,
            node_count=0,
            occupants=tuple(
                Occupant(
                    job_id=job.job_id,
                    nodes=tuple(job.held),
                    allocation=tuple(job.held.values()),
                    ways=job.ways,
                )
                for job in jobs
            ),
        )
        alternatives = {**with_alternatives(choice, request.cluster.capacities()).alternatives}
    return JointComponent(
        node_count=max(0, request.urgent.missing),
        free=candidates.room,
        demand=demand,
        alternatives=alternatives,
    )
