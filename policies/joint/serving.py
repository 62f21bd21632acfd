"""The joint choice for the components of one heterogeneous job: whether a better one than one after the other
is known, and what it leaves to each component.

Nothing is chosen jointly for a job that is late or gets whole placements, and where jobs may shrink.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from makeway.policies.choice.alternatives import with_alternatives
from makeway.policies.choice.instance import ChoiceInstance, Occupant, WayToLeave, serial_budget
from makeway.policies.common.commitments import Commitments
from makeway.policies.common.components import Together
from makeway.policies.common.departures import NodeRelease
from makeway.policies.common.losses import departures
from makeway.policies.common.requests import Proposal, Request, gone_by
from makeway.policies.common.shared_nodes import held_on
from makeway.policies.common.shrinking import spare_nodes
from makeway.policies.common.urgent_jobs import Guide, asleep_too_late
from makeway.policies.common.victims import SharedCandidates, VictimGroup, shared_candidates
from makeway.policies.joint.choose import choose_jointly, is_separate
from makeway.policies.joint.instance import JointChoice, JointComponent, JointInstance, JointJob
from makeway.policies.model import Cluster, Job, JobKind, Method, NodeSet, Resources, total

Ways = Callable[[Request, VictimGroup, float], tuple[WayToLeave, ...]]
"""How a job may leave a component's nodes by an instant, and what that costs."""
SharedWays = Callable[[Request, Job, float], tuple[WayToLeave, ...]]
"""The same where it does not matter which nodes these are."""


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
    shared_ways: SharedWays
    """Where jobs share nodes."""
    ending: Callable[[Request], Mapping[str, NodeRelease]]
    """The jobs that a component may be left to wait for, because they end by themselves in time, by id."""

    def by_share(self, requests: Sequence[Request]) -> bool:
        """Whether jobs leave for these components as they do where jobs share nodes."""
        parts = any(request.urgent.job.demand is not None for request in requests)
        return parts or bool(requests[0].cluster.shared_nodes())


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
    requests, cluster = sorted(asked, key=rules.latest_s), commitments.cluster
    if cluster.placements or any(request.late for request in requests):
        return None
    if found is not None and not _leaving(found, cluster):
        return None
    joint_jobs = _JointJobs(rules, rules.by_share(requests))
    plain = _instance(commitments, requests, {}, rules, joint_jobs)
    if plain is None:
        return None
    prices = _Prices(plain, cluster)
    known = None if found is None else prices.of(found)
    if known == 0:
        return None
    ending = {job_id: one for request in requests for job_id, one in rules.ending(request).items()}
    after_ends = _instance(commitments, requests, ending, rules, joint_jobs) if ending else None
    bounds, guided = _results((plain,) if after_ends is None else (after_ends, plain), known)
    if not bounds:
        return None
    guided.sort(key=lambda one: (one[1].loss_node_s, one[0] is not plain))
    last = plain if after_ends is None else after_ends
    guides = tuple(_guides(requests, choice, last) for _, choice in guided)
    return Together(bound_node_s=min(bounds), price_node_s=prices.of, guides=guides)


def _results(
    instances: Iterable[JointInstance], known: int | None
) -> tuple[list[int], list[tuple[JointInstance, JointChoice]]]:
    """The bounds of the instances, and the choices below what is known. What is possible in one is possible
    in those before it.
    """
    bounds, guided = list[int](), list[tuple[JointInstance, JointChoice]]()
    for instance in instances:
        if known is not None and is_separate(instance):
            continue
        result = choose_jointly(instance, known)
        if result is not None:
            bounds.append(result.bound_node_s)
            guided += [] if result.choice is None else [(instance, result.choice)]
            if result.bound_node_s == known:
                break
    return bounds, guided


def _guides(requests: Sequence[Request], choice: JointChoice, instance: JointInstance) -> Mapping[str, Guide]:
    """What a choice leaves to each component, by its id. `instance`: with the jobs that end in time gone."""
    every = frozenset(name for nodes in choice.nodes for name in nodes)
    methods = {job_id: way.method for job_id, way in choice.leaving.items()}
    return {
        request.urgent.job.job_id: Guide(
            avoided=every.difference(nodes)
            | (component.free.keys() - _serving(component, instance, methods)),
            methods=methods,
        )
        for request, nodes, component in zip(requests, choice.nodes, instance.components, strict=True)
    }


def _serving(
    component: JointComponent, instance: JointInstance, leaving: Mapping[str, Method]
) -> AbstractSet[str]:
    """The nodes that serve a component once some jobs have left: the policy need not look at the others."""
    freed = defaultdict[str, list[Resources]](list)
    for job in instance.jobs:
        if job.job_id in leaving:
            for name, amounts in job.held.items():
                freed[name].append(amounts)
    if component.demand is None:
        used = {name for job in instance.jobs if job.job_id not in leaving for name in job.held}
        return component.free.keys() - used
    return {
        name
        for name, free in component.free.items()
        for room in [total([free, *freed[name]]) if name in freed else free]
        if any(room.covers(way) for way in component.ways_on(name) or ())
    }


@dataclass(frozen=True, slots=True)
class _Prices:
    """What it counts as that jobs leave, as the instance has it."""

    instance: JointInstance
    cluster: Cluster

    def of(self, proposals: Iterable[Proposal]) -> int:
        """The price of the evictions of proposals, those that wait too, in node-seconds."""
        leaving = _leaving(proposals, self.cluster)
        prices = {
            job.job_id: {way.method: way.loss_node_s for way in job.ways}
            for job in self.instance.jobs
            if job.job_id in leaving
        }
        return sum(
            known.get(method, 0 if method is Method.SHRINK else max(known.values(), default=0))
            for job_id, method in leaving.items()
            if (known := prices.get(job_id)) is not None
        )


def _leaving(proposals: Iterable[Proposal], cluster: Cluster) -> dict[str, Method]:
    """The jobs that leave by proposals, those that wait too, by id, and how."""
    leaving: dict[str, Method] = {}
    for given in proposals:
        late = given.rationale.postponed
        leaving.update((one.job_id, one.method) for one in (late.departures if late else ()))
        leaving.update((job.job_id, how) for job, how in departures(given.actions, cluster))
    return leaving


@dataclass(frozen=True, slots=True)
class _JointJobs:
    """The running jobs as the joint choices of one decision see them, each made once."""

    rules: JointRules
    by_share: bool
    """Whether jobs leave as they do where jobs share nodes."""
    made: dict[tuple[str, float, bool], JointJob] = field(
        default_factory=dict[tuple[str, float, bool], JointJob]
    )
    """By id, by when it must have left, and whether it stays."""

    def of(self, request: Request, candidates: SharedCandidates, latest_s: float) -> list[JointJob] | None:
        """The candidates for a component. None: some of them may shrink."""
        cluster, stays = request.cluster, candidates.protected_by
        if self.rules.shrink:
            malleable = tuple(job for job in candidates.jobs if job.kind is JobKind.MALLEABLE)
            if any(map(spare_nodes, replace(candidates, jobs=malleable).groups(cluster))):
                return None
        keys = [(job.job_id, latest_s, job.job_id in stays) for job in candidates.jobs]
        for job, key in zip(candidates.jobs, keys, strict=True):
            if key not in self.made:
                ways = () if key[2] else self._ways(request, candidates, job, latest_s)
                self.made[key] = JointJob(job_id=job.job_id, held=held_on(job, cluster), ways=ways)
        return [self.made[key] for key in keys]

    def _ways(
        self, request: Request, candidates: SharedCandidates, job: Job, latest_s: float
    ) -> tuple[WayToLeave, ...]:
        if self.by_share:
            return self.rules.shared_ways(request, job, latest_s)
        group = replace(candidates, jobs=(job,)).groups(request.cluster)[0]
        return self.rules.whole_ways(request, group, latest_s)


def _instance(
    commitments: Commitments,
    requests: Sequence[Request],
    ending: Mapping[str, NodeRelease],
    rules: JointRules,
    joint_jobs: _JointJobs,
) -> JointInstance | None:
    """The choice for all components. None: some jobs may shrink.

    Args:
        commitments: what is promised or under way.
        requests: those of the components, the one with the earliest deadline first.
        ending: jobs that leave by themselves in time, by id.
        rules: those of the policy.
        joint_jobs: the jobs that are known already.
    """
    components: list[JointComponent] = []
    jobs: dict[str, JointJob] = {}
    steps = 0
    for request in requests:
        latest_s = rules.latest_s(request)
        candidates = _candidates(commitments, request, ending)
        here = joint_jobs.of(request, candidates, latest_s)
        if here is None:
            return None
        jobs.update((job.job_id, job) for job in here)
        components.append(_component(request, candidates, here))
        steps = max(steps, serial_budget(rules.checkpoint_s(request, latest_s), rules.step_s))
    return JointInstance(components=tuple(components), jobs=tuple(jobs.values()), budget_steps=steps)


def _candidates(
    commitments: Commitments, request: Request, ending: Mapping[str, NodeRelease]
) -> SharedCandidates:
    """The nodes that could serve a component if it were alone, free ones too, and the jobs on them."""
    urgent, cluster = request.urgent, request.cluster
    too_late = asleep_too_late(cluster, urgent.job, request.latest_start_s, request.wakes_s)
    return shared_candidates(
        cluster,
        urgent,
        unusable=NodeSet(cluster.node_sets(), commitments.unusable(urgent, request.ends_s).bits | too_late),
        excluded=request.excluded,
        latest_s=request.deadline_s,
        ending={**gone_by(request, request.deadline_s), **ending},
    )


def _component(request: Request, candidates: SharedCandidates, jobs: Sequence[JointJob]) -> JointComponent:
    """What a component needs."""
    demand, alternatives = request.urgent.job.demand, dict[str, tuple[Resources, ...]]()
    if demand is not None and any(name.startswith("gres/") for name, _ in demand.amounts):
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
