"""What it costs that jobs are preempted: the overhead, by which the mechanisms of P5 rank them.

Reference:
    Fan et al., "Hybrid Workload Scheduling on HPC Systems" (IPDPS 2022), section III-A.

Differs from the paper:
    In the ranking, the work that a kill loses has its price, which past evictions raise (`safety.prices`).
    With the limit `price_past_evictions: false`, as in replays, the price is the loss.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from makeway.policies.model import Job, Method
from makeway.policies.safety.prices import (
    hours_text,
    loss_node_s,
    node_equivalents,
    price_node_s,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionOverhead:
    """What the preemption of some jobs costs, in node-seconds."""

    lost_node_s: int
    """The work since the last checkpoints, of jobs that are killed."""
    price_node_s: int
    """The same work at its price."""
    setup_node_s: int
    """The setups that are done again."""
    past_evictions: int
    """How often the jobs that are killed were evicted before."""

    @property
    def ranked_node_s(self) -> int:
        """What the jobs are ranked by."""
        return self.price_node_s + self.setup_node_s

    @property
    def is_raised(self) -> bool:
        """Whether past evictions raise it."""
        return self.price_node_s != self.lost_node_s

    @property
    def note(self) -> str:
        """What the jobs are ranked by, for the rationale. Empty: by the lost work alone."""
        if self.ranked_node_s == self.lost_node_s:
            return ""
        evictions = f"{self.past_evictions} past eviction{'' if self.past_evictions == 1 else 's'}"
        price = f" at its price after {evictions}," if self.is_raised else ""
        return f"ranked by {hours_text(self.ranked_node_s)} node-hours: lost work{price} and the setup"


def preemption_overhead(leaving: Iterable[tuple[Job, Method]], at_s: float) -> PreemptionOverhead:
    """The overhead if these jobs leave in these ways: another setup each, and for a kill the work since the
    last checkpoint.

    Args:
        leaving: the jobs, each with how it leaves.
        at_s: when they leave.
    """
    ways = tuple(leaving)
    killed = [job for job, method in ways if method is Method.KILL]
    return PreemptionOverhead(
        lost_node_s=sum(loss_node_s(job, at_s) for job in killed),
        price_node_s=sum(price_node_s(job, at_s) for job in killed),
        setup_node_s=sum(math.ceil(job.setup_s * node_equivalents(job)) for job, _ in ways),
        past_evictions=sum(job.past_evictions for job in killed),
    )
