"""What the start of an urgent job may cost: the ceiling on one start, and the budget of a day.

Reference:
    Fan et al., "Hybrid Workload Scheduling on HPC Systems" (IPDPS 2022), section III-A: the overhead of a
    preemption.

Differs from the paper:
    The paper limits nothing.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from makeway.policies.common.losses import evictions_loss_node_s, evictions_node_s
from makeway.policies.common.requests import Proposal, Request, node_text
from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.policies.model import Cluster
from makeway.policies.safety.prices import HOUR_S, hours_text, started_with

_MACHINE_HOURS = 2.0
_LEAST_NODE_HOURS = 200.0
"""On a machine of few nodes, two machine-hours are less than what one job has worked in a night."""


def machine_node_s(cluster: Cluster, machine_hours: float | None) -> float:
    """Machine-hours as node-seconds. None: without limit."""
    return math.inf if machine_hours is None else machine_hours * HOUR_S * len(cluster.up_nodes())


def ceiling_node_s(cluster: Cluster, config: LeastPriceConfig) -> float:
    """What the start of one urgent job may cost, in node-seconds. Infinite: whatever it costs."""
    if config.ceiling_machine_hours != "auto":
        return machine_node_s(cluster, config.ceiling_machine_hours)
    return max(machine_node_s(cluster, _MACHINE_HOURS), _LEAST_NODE_HOURS * HOUR_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedCeiling:
    """The ceilings of urgent jobs that evictions serve together, as one."""

    count: int
    """How many ceilings. Jobs that count as one urgent job have one."""
    payers: frozenset[str]
    """The ids of the jobs whose cost counts: the urgent jobs, and those that count as one with them."""

    @classmethod
    def of(cls, cluster: Cluster, job_ids: Iterable[str]) -> "SharedCeiling":
        """The ceilings of urgent jobs."""
        wholes = {frozenset(started_with(cluster, job_id)) for job_id in job_ids}
        return cls(count=len(wholes), payers=frozenset[str]().union(*wholes))

    def before_node_s(self, cluster: Cluster, evictions_node_s: Mapping[str, float]) -> float:
        """Node-seconds of the ceilings that are used. What earlier decisions cost besides lost work is not
        known.

        `evictions_node_s`: what earlier proposals of the same decision cost, by urgent job.
        """
        before = cluster.lost_node_s
        return sum(before.get(one, 0.0) + evictions_node_s.get(one, 0.0) for one in sorted(self.payers))


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingUse:
    """What of the ceilings that hold for an urgent job is used, in node-seconds."""

    before_node_s: float
    allowed_node_s: float

    @classmethod
    def of(
        cls, request: Request, config: LeastPriceConfig, sharing: Mapping[str, SharedCeiling]
    ) -> "CeilingUse":
        """`sharing`: the ceilings of the urgent jobs that share theirs, by id."""
        cluster, job_id = request.cluster, request.urgent.job.job_id
        ceiling = sharing.get(job_id) or SharedCeiling.of(cluster, (job_id,))
        return cls(
            before_node_s=ceiling.before_node_s(cluster, request.evictions_node_s),
            allowed_node_s=ceiling.count * ceiling_node_s(cluster, config),
        )

    def exceeds(self, cost_node_s: int) -> bool:
        """Whether a start may not cost so much. 0 is always allowed."""
        return cost_node_s > 0 and self.before_node_s + cost_node_s > self.allowed_node_s


def refusal_of(
    request: Request,
    given: Proposal,
    config: LeastPriceConfig,
    sharing: Mapping[str, SharedCeiling],
    at_s: float | None = None,
) -> str | None:
    """Why the urgent job may not cost so much, with the figures. None: it may.

    Args:
        request: what the urgent job needs.
        given: what is proposed for it.
        config: the settings.
        sharing: the ceilings of the urgent jobs that share theirs, by id.
        at_s: when its evictions begin. None: now.
    """
    cluster = request.cluster
    cost_node_s = evictions_node_s(given.actions, cluster, at_s)
    text = f"{node_text(request.shortage, 'more ')} would cost {hours_text(cost_node_s)} node-hours"
    use = CeilingUse.of(request, config, sharing)
    if use.exceeds(cost_node_s):
        before_node_s = use.before_node_s
        after = f" after {hours_text(before_node_s)} before" if before_node_s else ""
        limit = hours_text(use.allowed_node_s)
        return f"{text}{after}, the ceiling is {limit} (ceiling_machine_hours). No job is evicted."
    if config.budget_machine_hours is None:
        return None
    kills_node_s = evictions_loss_node_s(given.actions, cluster, at_s)
    used_node_s = sum(cluster.lost_node_s.values()) + sum(request.spent_node_s.values())
    budget_node_s = machine_node_s(cluster, config.budget_machine_hours)
    if kills_node_s and used_node_s + kills_node_s > budget_node_s:
        return (
            f"{text}, {hours_text(kills_node_s)} of them lost work, and {hours_text(used_node_s)} of "
            f"the {hours_text(budget_node_s)} of a day are used (budget_machine_hours). No job leaves."
        )
    return None
