"""Several urgent jobs of one decision for which jobs leave: one choice for all of them, if that costs less.

One by one, the first urgent job takes what is cheapest for it alone. It may use up the time in which jobs can
save their work, or make small jobs leave where one large job makes room for all. So the choice is also made
for one urgent job of the summed size. Then each urgent job is decided on once more among the jobs that leave
by that choice, of which those that it kills are not asked to save their work. This second decision counts
only if it costs less.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III: the eviction problem.

Differs from the paper:
    The paper has one urgent job at a time.
"""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from makeway.policies.common.departures import committed
from makeway.policies.common.losses import departures
from makeway.policies.least_price.prices import price_node_s
from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.policies.model import (
    Cluster,
    Decision,
    Job,
    LateDeparture,
    Method,
    OperationKind,
    Rationale,
    Reserve,
)
from makeway.policies.safety.prices import HOUR_S
from makeway.policies.safety.protection import protection

Spared = Mapping[str, AbstractSet[str]]
"""By urgent job: the jobs that do not leave for it, though the site allows it."""
OneByOne = Callable[[Cluster, LeastPriceConfig, Spared], Decision]
"""The decision in which each urgent job is served for itself."""


def decide_together(cluster: Cluster, config: LeastPriceConfig, one_by_one: OneByOne) -> Decision:
    """The decision of `one_by_one`, with the joint choice for each burst for which that costs less.

    Nothing is chosen jointly where jobs share nodes or urgent jobs get whole placements.
    """
    spared, seen = dict[str, AbstractSet[str]](), cluster
    decision = one_by_one(cluster, config, spared)
    if cluster.placements or cluster.shared_nodes():
        return decision
    for burst in _bursts(decision, cluster, config):
        choice = _joint_choice(burst, decision, cluster, config, one_by_one)
        if choice is None:
            continue
        tried = {**spared, **dict.fromkeys(burst.job_ids, choice.staying)}
        to_kill = _without_signals(seen, choice.killed)
        other = one_by_one(to_kill, config, tried)
        if _is_better(other, decision, cluster, config):
            decision, spared, seen = _explained(other, burst, choice.staying), tried, to_kill
    return decision


@dataclass(frozen=True, slots=True, kw_only=True)
class _Burst:
    """Urgent jobs that may have the same nodes, in the order in which they are decided on."""

    jobs: tuple[Job, ...]
    deadline_s: float
    """The earliest of theirs."""

    @property
    def job_ids(self) -> tuple[str, ...]:
        """The ids of the urgent jobs."""
        return tuple(job.job_id for job in self.jobs)

    def as_one(self) -> Job:
        """One urgent job of the summed size, with the id of the first."""
        first = self.jobs[0]
        return replace(
            first,
            node_count=sum(job.node_count for job in self.jobs),
            node_count_max=None,
            walltime_s=max(job.walltime_s for job in self.jobs),
            start_within_s=self.deadline_s - first.waits_since_s,
            quotas=(),
        )


def _bursts(decision: Decision, cluster: Cluster, config: LeastPriceConfig) -> tuple[_Burst, ...]:
    """Urgent jobs that may have the same nodes and get room by evictions, at least two.

    The first of a burst is the first for which jobs leave. Those after it may use what is left over.
    """
    jobs, evicted_for = cluster.jobs_by_id(), _evicted_for(decision)
    found: dict[tuple[frozenset[str] | None, bool], list[tuple[Job, Rationale]]] = {}
    for why in decision.rationale:
        job = jobs[why.for_job_id]
        if why.ready_s is None or cluster.now_s > why.deadline_s or not _may_join(job, cluster):
            continue
        kind = job.eligible_nodes, config.is_vital(job)
        if kind in found or job.job_id in evicted_for:
            found.setdefault(kind, []).append((job, why))
    return tuple(
        _Burst(jobs=tuple(job for job, _ in members), deadline_s=min(why.deadline_s for _, why in members))
        for members in found.values()
        if sum(job.job_id in evicted_for for job, _ in members) > 1
    )


def _evicted_for(decision: Decision) -> frozenset[str]:
    """The urgent jobs for which jobs leave, or shrink, now or at the last moment."""
    now = (action.for_job_id for action in decision.actions if action.job_id != action.for_job_id)
    later = (why.for_job_id for why in decision.rationale if why.postponed is not None)
    return frozenset((*now, *later))


def _may_join(job: Job, cluster: Cluster) -> bool:
    """Whether an urgent job needs whole nodes and has no components, and no job is leaving for it yet: it has
    nothing but a hold, in which its start waits.
    """
    if job.demand is not None or job.het_job_id:
        return False
    operation = cluster.operations_by_job().get(job.job_id)
    if operation is None or (operation.observe and not operation.kind.holds_nodes):
        return True
    only_held = all(isinstance(task.action, Reserve) for task in operation.tasks)
    return operation.kind is OperationKind.MAKE_WAY and only_held


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """The joint choice for a burst."""

    staying: frozenset[str]
    """The jobs that may leave, and stay."""
    killed: frozenset[str]
    """The jobs that leave without saving their work."""


def _joint_choice(
    burst: _Burst, decision: Decision, cluster: Cluster, config: LeastPriceConfig, one_by_one: OneByOne
) -> _Choice | None:
    """None: there is none, or it does not cost less than the decision."""
    together, ids = burst.as_one(), frozenset(burst.job_ids)
    price = _price_node_s(decision, cluster, ids)
    if not price:
        return None
    joint = one_by_one(
        _before(cluster, decision, burst, together), replace(config, ceiling_machine_hours=None), {}
    )
    why = next((one for one in joint.rationale if one.for_job_id == together.job_id), None)
    if why is None or why.ready_s is None:
        return None
    if _price_node_s(joint, cluster, ids) >= price:
        return None
    actions = [action for action in joint.actions if action.for_job_id == together.job_id]
    held = frozenset(name for action in actions if isinstance(action, Reserve) for name in action.nodes)
    now = (job.job_id for job, method in departures(actions, cluster) if method is Method.KILL)
    later = (late.job_id for late in _late((why,)) if late.method is Method.KILL)
    return _Choice(
        staying=frozenset(
            job.job_id
            for job in cluster.holders()
            if held.isdisjoint(job.nodes) and protection(job, cluster) is None
        ),
        killed=frozenset((*now, *later)),
    )


def _without_signals(cluster: Cluster, job_ids: AbstractSet[str]) -> Cluster:
    """The snapshot in which these jobs cannot save their work when asked: the time is for others."""

    def without(job: Job) -> Job:
        if job.job_id not in job_ids or job.checkpoint is None:
            return job
        return replace(job, checkpoint=replace(job.checkpoint, system_s=None))

    return replace(cluster, jobs=tuple(map(without, cluster.jobs)))


def _before(cluster: Cluster, decision: Decision, burst: _Burst, together: Job) -> Cluster:
    """The snapshot with one urgent job instead of the burst and of those that are decided on after its first.

    No limit on what one urgent job or its user may lose holds in it.
    """
    order = [why.for_job_id for why in decision.rationale]
    without = {*burst.job_ids, *order[order.index(together.job_id) :]}
    holds = {one.reservation for one in cluster.operations if one.for_job_id in burst.job_ids}
    return replace(
        cluster,
        jobs=(*(job for job in cluster.jobs if job.job_id not in without), together),
        operations=tuple(one for one in cluster.operations if one.for_job_id not in burst.job_ids),
        reservations=tuple(one for one in cluster.reservations if one.name not in holds),
        limits=replace(
            cluster.limits,
            max_loss_node_hours=None,
            max_loss_node_hours_per_user_per_day=None,
            max_loss_node_hours_per_account_per_day=None,
        ),
    )


def _is_better(other: Decision, decision: Decision, cluster: Cluster, config: LeastPriceConfig) -> bool:
    """Whether another decision costs less, makes room for all urgent jobs that had it, no later than on time,
    and makes none wait that did not. A start that is no longer at once costs `instant_machine_hours`.
    """
    before = {why.for_job_id: why for why in decision.rationale if why.ready_s is not None}
    after = {why.for_job_id: why for why in other.rationale if why.ready_s is not None}
    if not before.keys() <= after.keys():
        return False
    pairs = [(why, after[job_id]) for job_id, why in before.items()]
    if any(_is_on_time(old) > _is_on_time(new) or _waits(old) < _waits(new) for old, new in pairs):
        return False
    if not _keeps_to_the_hour(other, decision, cluster):
        return False
    later = sum(_is_at_once(old, cluster, config) > _is_at_once(new, cluster, config) for old, new in pairs)
    allowed_node_s = 0.0
    if later:
        if config.instant_machine_hours is None:
            return False
        allowed_node_s = later * config.instant_machine_hours * HOUR_S * len(cluster.up_nodes())
    return _price_node_s(other, cluster) + allowed_node_s < _price_node_s(decision, cluster)


def _is_on_time(why: Rationale) -> bool:
    return why.ready_s is not None and why.ready_s <= why.deadline_s


def _waits(why: Rationale) -> bool:
    return why.postponed is not None


def _is_at_once(why: Rationale, cluster: Cluster, config: LeastPriceConfig) -> bool:
    since_s = cluster.jobs_by_id()[why.for_job_id].waits_since_s
    return not _waits(why) and why.ready_s is not None and why.ready_s <= since_s + config.instant_s


def _keeps_to_the_hour(other: Decision, decision: Decision, cluster: Cluster) -> bool:
    """Whether the other decision makes no more jobs leave, or no more than the site allows in an hour."""
    limit, leaving = cluster.limits.evictions_per_hour, _leaving(other)
    if limit is None or leaving <= _leaving(decision):
        return True
    return len(cluster.evictions) + len(committed(cluster)) + leaving <= limit


def _leaving(decision: Decision) -> int:
    """How many jobs leave or shrink, now or at the last moment."""
    now = {action.job_id for action in decision.actions if action.job_id != action.for_job_id}
    return len(now | {late.job_id for late in _late(decision.rationale)})


def _late(rationale: Iterable[Rationale]) -> tuple[LateDeparture, ...]:
    return tuple(late for why in rationale if why.postponed is not None for late in why.postponed.departures)


def _price_node_s(decision: Decision, cluster: Cluster, for_job_ids: AbstractSet[str] | None = None) -> int:
    """What the evictions of a decision count as, in node-seconds: postponed ones as if they began now, and of
    several postponed ones of one job the dearest.

    `for_job_ids`: only those for these urgent jobs count. None: all.
    """
    jobs, now_s = cluster.jobs_by_id(), cluster.now_s
    actions = [one for one in decision.actions if for_job_ids is None or one.for_job_id in for_job_ids]
    whys = [one for one in decision.rationale if for_job_ids is None or one.for_job_id in for_job_ids]
    prices = {job.job_id: price_node_s(job, method, now_s) for job, method in departures(actions, cluster)}
    for late in _late(whys):
        price = price_node_s(jobs[late.job_id], late.method, now_s)
        prices[late.job_id] = max(price, prices.get(late.job_id, 0))
    return sum(prices.values())


def _explained(decision: Decision, burst: _Burst, staying: frozenset[str]) -> Decision:
    """The decision with the reason why the other jobs stay."""
    text = f"Chosen for {len(burst.jobs)} urgent jobs together, which costs less"

    def explained(why: Rationale) -> Rationale:
        candidates = tuple(
            replace(one, note="stays by the joint choice") if staying.issuperset(one.job_ids) else one
            for one in why.candidates
        )
        return replace(why, candidates=candidates, summary=f"{text}. {why.summary}")

    return replace(
        decision,
        rationale=tuple(
            explained(why) if why.for_job_id in burst.job_ids else why for why in decision.rationale
        ),
    )
