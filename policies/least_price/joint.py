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

from collections.abc import Set as AbstractSet
from dataclasses import replace

from makeway.policies.common.losses import departures
from makeway.policies.least_price.bursts import (
    Burst,
    BurstChoice,
    Chosen,
    OneByOne,
    Terms,
    choice_for,
    keeps_room,
    late_departures,
    may_join,
    rooms,
    waits,
)
from makeway.policies.least_price.prices import price_node_s
from makeway.policies.least_price.refused import serve_refused
from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.policies.model import Cluster, Decision, Job, Rationale
from makeway.policies.safety.prices import HOUR_S


def decide_together(cluster: Cluster, config: LeastPriceConfig, one_by_one: OneByOne) -> Decision:
    """The decision of `one_by_one`, with the joint choice for each burst for which that costs less, and for
    those that the ceiling would refuse only one by one.

    Nothing is chosen jointly where jobs share nodes or urgent jobs get whole placements.
    """
    chosen = Chosen(outcome=one_by_one(cluster, config, Terms()), cluster=cluster)
    if cluster.placements or cluster.shared_nodes():
        return chosen.decision
    for burst in _bursts(chosen.decision, cluster, config):
        choice = _cheaper_choice(burst, chosen.decision, cluster, config, one_by_one)
        if choice is None:
            continue
        other = chosen.by(burst, choice, config, one_by_one, chosen.terms)
        if _is_better(other.decision, chosen.decision, cluster, config):
            text = f"Chosen for {len(burst.jobs)} urgent jobs together, which costs less"
            chosen = other.explained(burst, choice, text)
    return serve_refused(chosen, config, one_by_one)


def _bursts(decision: Decision, cluster: Cluster, config: LeastPriceConfig) -> tuple[Burst, ...]:
    """Urgent jobs that may have the same nodes and get room by evictions, at least two.

    The first of a burst is the first for which jobs leave. Those after it may use what is left over.
    """
    jobs, evicted_for = cluster.jobs_by_id(), _evicted_for(decision)
    found: dict[tuple[frozenset[str] | None, bool], list[tuple[Job, Rationale]]] = {}
    for why in decision.rationale:
        job = jobs[why.for_job_id]
        if why.ready_s is None or cluster.now_s > why.deadline_s or not may_join(job, cluster):
            continue
        kind = job.eligible_nodes, config.is_vital(job)
        if kind in found or job.job_id in evicted_for:
            found.setdefault(kind, []).append((job, why))
    return tuple(
        Burst.of(members)
        for members in found.values()
        if sum(job.job_id in evicted_for for job, _ in members) > 1
    )


def _evicted_for(decision: Decision) -> frozenset[str]:
    """The urgent jobs for which jobs leave, or shrink, now or at the last moment."""
    now = (action.for_job_id for action in decision.actions if action.job_id != action.for_job_id)
    later = (why.for_job_id for why in decision.rationale if why.postponed is not None)
    return frozenset((*now, *later))


def _cheaper_choice(
    burst: Burst, decision: Decision, cluster: Cluster, config: LeastPriceConfig, one_by_one: OneByOne
) -> BurstChoice | None:
    """The joint choice among what is left by those that are decided on before the first of the burst. None:
    there is none, or it does not cost less than the decision.
    """
    ids = frozenset(burst.job_ids)
    price = _price_node_s(decision, cluster, ids)
    if not price:
        return None
    order = [why.for_job_id for why in decision.rationale]
    after = frozenset(order[order.index(burst.job_ids[0]) :])
    no_ceiling = replace(config, ceiling_machine_hours=None)
    choice = choice_for(burst, cluster, no_ceiling, one_by_one, terms=Terms(), without=after)
    return choice if choice is not None and _price_node_s(choice.decision, cluster, ids) < price else None


def _is_better(other: Decision, decision: Decision, cluster: Cluster, config: LeastPriceConfig) -> bool:
    """Whether another decision costs less and keeps room for all. A start that is no longer at once costs
    `instant_machine_hours`.
    """
    if not keeps_room(other, decision, cluster):
        return False
    after = rooms(other)
    later = sum(
        _is_at_once(why, cluster, config) > _is_at_once(after[job_id], cluster, config)
        for job_id, why in rooms(decision).items()
    )
    allowed_node_s = 0.0
    if later:
        if config.instant_machine_hours is None:
            return False
        allowed_node_s = later * config.instant_machine_hours * HOUR_S * len(cluster.up_nodes())
    return _price_node_s(other, cluster) + allowed_node_s < _price_node_s(decision, cluster)


def _is_at_once(why: Rationale, cluster: Cluster, config: LeastPriceConfig) -> bool:
    since_s = cluster.jobs_by_id()[why.for_job_id].waits_since_s
    return not waits(why) and why.ready_s is not None and why.ready_s <= since_s + config.instant_s


def _price_node_s(decision: Decision, cluster: Cluster, for_job_ids: AbstractSet[str] | None = None) -> int:
    """What the evictions of a decision count as, in node-seconds: postponed ones as if they began now, and of
    several postponed ones of one job the dearest.

    `for_job_ids`: only those for these urgent jobs count. None: all.
    """
    jobs, now_s = cluster.jobs_by_id(), cluster.now_s
    actions = [one for one in decision.actions if for_job_ids is None or one.for_job_id in for_job_ids]
    whys = [one for one in decision.rationale if for_job_ids is None or one.for_job_id in for_job_ids]
    prices = {job.job_id: price_node_s(job, method, now_s) for job, method in departures(actions, cluster)}
    for late in late_departures(whys):
        price = price_node_s(jobs[late.job_id], late.method, now_s)
        prices[late.job_id] = max(price, prices.get(late.job_id, 0))
    return sum(prices.values())
