"""Which jobs leave a placement for an urgent job of policy "wcjs", and what that costs.

Reference:
    Nickolay et al., "Towards Accommodating Real-time Jobs on HPC Platforms" (arXiv 2021), section 6.3,
    Algorithm 2, lines 6 to 24.

Differs from the paper:
    The set of jobs of least total cost is found exactly, by P2's programme.
"""

from dataclasses import dataclass

from makeway.policies.common.victims import VictimGroup
from makeway.policies.model import Placement
from makeway.policies.programme.fixing import best_plans
from makeway.policies.programme.items import EvictionJob

_PARTS = 1_000_000
"""To choose a set of jobs, costs become whole parts of their sum: fine enough, and no sum overflows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedGroup:
    """A victim group, why it is not preempted (empty: it may be), and the cost of its preemption."""

    group: VictimGroup
    protected_by: str
    cost: float


Part = tuple[PricedGroup, tuple[str, ...]]
"""A group that may leave, and the nodes of a placement that it frees."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A placement that some jobs have to leave, with their total cost."""

    placement: Placement
    leaving: tuple[VictimGroup, ...]
    freed: tuple[str, ...]
    """The nodes of the placement that come free."""
    cost: float


def offer_of(place: Placement, missing: int, parts: list[Part]) -> Offer | None:
    """The cheapest of the groups that may leave (Algorithm 2, lines 6 to 24). None: all of them free too few
    nodes.
    """
    supply = sum(len(names) for _, names in parts)
    if supply < missing:
        return None
    chosen = _cheapest(parts, missing) if supply > missing else parts
    return Offer(
        placement=place,
        leaving=tuple(priced.group for priced, _ in chosen),
        freed=tuple(name for _, names in chosen for name in names),
        cost=sum(priced.cost for priced, _ in chosen),
    )


def _cheapest(parts: list[Part], needed: int) -> list[Part]:
    """The groups that free `needed` nodes at the least total cost: P2's programme with kills only."""
    total = sum(priced.cost for priced, _ in parts)
    items = [
        EvictionJob(
            job_ids=priced.group.job_ids,
            node_count=len(names),
            loss_node_s=max(1, round(_PARTS * priced.cost / total)),
        )
        for priced, names in parts
    ]
    (plan,) = best_plans(items, needed, (0.0,), 1.0)
    leaving = set[tuple[str, ...]]() if plan is None else {left.item.job_ids for left in plan.departures}
    return [part for part in parts if part[0].group.job_ids in leaving]
