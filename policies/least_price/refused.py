"""Several urgent jobs that the ceiling refuses one by one: evictions that serve all of them may cost as much
as their ceilings together.

One job of many nodes may be too dear for one urgent job, and cheap for the six of a burst. So the choice is
made for urgent jobs of the summed size, the smallest first, which need the fewest nodes for the same number
of starts. Of all numbers of jobs, that one counts whose evictions leave most of the ceilings unspent: jobs
that are dear for themselves do not join only because others leave something.

The urgent jobs are served after all others, whose room they do not touch, and at once: a job that waits for
its last moment would have to find the others again then. Each of them has room in the same decision, so that
none is refused in the next one.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III: the eviction problem.

Differs from the paper:
    The paper has one urgent job at a time, and no ceiling.
"""

from collections.abc import Iterator
from dataclasses import replace

from makeway.policies.common.losses import evictions_node_s
from makeway.policies.least_price.bursts import (
    Burst,
    BurstChoice,
    Chosen,
    OneByOne,
    choice_for,
    is_on_time,
    keeps_room,
    may_join,
    rooms,
    waits,
)
from makeway.policies.least_price.ceiling import SharedCeiling, ceiling_node_s
from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.policies.model import Decision, Job, Rationale
from makeway.policies.safety.prices import hours_text

_MOST_SIZES = 6
"""How many numbers of urgent jobs are tried, so that one decision does not take long."""


def serve_refused(chosen: Chosen, config: LeastPriceConfig, one_by_one: OneByOne) -> Decision:
    """The decision with room for urgent jobs that share their ceilings, if it has refused some."""
    if config.ceiling_machine_hours is None:
        return chosen.decision
    for members in _refused(chosen, config):
        for burst, choice, ceiling in _attempts(members, chosen, config, one_by_one):
            sharing = {**chosen.terms.sharing, **dict.fromkeys(burst.job_ids, ceiling)}
            terms = replace(chosen.terms, sharing=sharing)
            other = chosen.by(burst, choice, config, one_by_one, terms)
            if _serves(other.decision, burst) and keeps_room(other.decision, chosen.decision, chosen.cluster):
                chosen = other.explained(burst, choice, _text(other, burst, ceiling, config))
                break
    return chosen.decision


def _refused(chosen: Chosen, config: LeastPriceConfig) -> list[list[tuple[Job, Rationale]]]:
    """The urgent jobs that are refused for what they would cost, those together that may have the same nodes,
    in the order of the decision. A job of which the ceiling is used up has none to share.
    """
    cluster, jobs = chosen.cluster, chosen.cluster.jobs_by_id()
    one_node_s = ceiling_node_s(cluster, config)
    found: dict[frozenset[str] | None, list[tuple[Job, Rationale]]] = {}
    for why in chosen.decision.rationale:
        job = jobs[why.for_job_id]
        if job.job_id not in chosen.outcome.refused or why.ready_s is not None:
            continue
        spent_node_s = SharedCeiling.of(cluster, (job.job_id,)).before_node_s(cluster, {})
        if may_join(job, cluster) and spent_node_s < one_node_s:
            found.setdefault(job.eligible_nodes, []).append((job, why))
    return [members for members in found.values() if len(members) > 1]


def _attempts(
    members: list[tuple[Job, Rationale]], chosen: Chosen, config: LeastPriceConfig, one_by_one: OneByOne
) -> list[tuple[Burst, BurstChoice, SharedCeiling]]:
    """Bursts of the urgent jobs, each with its joint choice, if that costs no more than the ceilings: those
    that leave most of them unspent first, then the larger ones.
    """
    cluster, found = chosen.cluster, list[tuple[float, Burst, BurstChoice, SharedCeiling]]()
    one_node_s = ceiling_node_s(cluster, config)
    # Those that are refused take nothing, and to decide on them again takes time.
    without = chosen.outcome.refused - rooms(chosen.decision).keys()
    for burst in _bursts(members):
        ceiling, first = SharedCeiling.of(cluster, burst.job_ids), burst.job_ids[0]
        terms = replace(chosen.terms, sharing={**chosen.terms.sharing, first: ceiling})
        choice = choice_for(burst, cluster, config, one_by_one, terms=terms, without=without)
        if choice is not None:
            left_node_s = ceiling.count * one_node_s - ceiling.before_node_s(cluster, {})
            unspent_node_s = left_node_s - evictions_node_s(choice.actions, cluster)
            found.append((unspent_node_s, burst, choice, ceiling))
    found.sort(key=lambda one: (-one[0], -len(one[1].jobs)))
    return [(burst, choice, ceiling) for _, burst, choice, ceiling in found]


def _bursts(members: list[tuple[Job, Rationale]]) -> Iterator[Burst]:
    """Bursts of two to all of the urgent jobs, the smallest of them each time."""
    count = len(members)
    by_size = sorted(range(count), key=lambda index: members[index][0].node_count)
    sizes = {round(count * step / _MOST_SIZES) for step in range(1, _MOST_SIZES + 1)}
    if count <= _MOST_SIZES:
        sizes = set(range(1, count + 1))
    for size in sorted(sizes - {0, 1}):
        yield Burst.of(members[index] for index in sorted(by_size[:size]))


def _serves(decision: Decision, burst: Burst) -> bool:
    """Whether each of the burst has room in time, for which jobs leave now."""
    found = rooms(decision)
    return all(
        job_id in found and is_on_time(found[job_id]) and not waits(found[job_id]) for job_id in burst.job_ids
    )


def _text(chosen: Chosen, burst: Burst, ceiling: SharedCeiling, config: LeastPriceConfig) -> str:
    """How the urgent jobs share their ceilings, in words."""
    actions = [one for one in chosen.decision.actions if one.for_job_id in burst.job_ids]
    limit_node_s = ceiling.count * ceiling_node_s(chosen.cluster, config)
    cost_node_s = evictions_node_s(actions, chosen.cluster)
    return (
        f"Urgent jobs {', '.join(burst.job_ids)} share their ceilings: all of them get room for "
        f"{hours_text(cost_node_s)} of {hours_text(limit_node_s)} node-hours"
    )
