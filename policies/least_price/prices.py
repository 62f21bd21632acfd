"""What it costs that a job leaves: lost work, the setup that is done again, the time of a checkpoint.

The cost is in node-seconds that the machine has to spend again. The price, by which jobs are compared, is
the cost times the square of one more than the job's past evictions. Shrinking costs nothing.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III-B: the loss of a kill.
    Fan et al., "Hybrid Workload Scheduling on HPC Systems" (IPDPS 2022), section III-A: the overhead of a
    preemption, which adds the setup.

Differs from the paper:
    The time that a requested checkpoint takes is added. Of a setup, only what is done counts.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from makeway.policies.common.losses import cost_node_s
from makeway.policies.common.victims import VictimGroup
from makeway.policies.model import Job, Method
from makeway.policies.programme.items import EvictionJob
from makeway.policies.safety.prices import loss_node_s

_REGULAR = frozenset({Method.APPLICATION})
_BOTH = frozenset({Method.APPLICATION, Method.SYSTEM})
Price = Callable[[Job, Method, float], int]
"""What it counts as that a job leaves in one way at an instant, in node-seconds."""


def price_node_s(job: Job, method: Method, now_s: float) -> int:
    """What its leaving counts as when jobs are compared: the cost, times 4 if it was evicted once before,
    9 if twice, and so on.
    """
    return cost_node_s(job, method, now_s) * (1 + job.past_evictions) ** 2


def lost_node_s(job: Job, method: Method, now_s: float) -> int:
    """Node-seconds of work that its leaving loses: those of a kill, else 0."""
    return loss_node_s(job, now_s) if method is Method.KILL else 0


def priced(
    item: EvictionJob,
    group: VictimGroup,
    now_s: float,
    within_s: float,
    *,
    parallel: bool,
    price: Price = price_node_s,
) -> EvictionJob:
    """An item of the eviction problem with the total price of each way to leave.

    Args:
        item: the item, with the loss of work alone. Its wait for a regular checkpoint may be counted from
            the end of the checkpoints for other urgent jobs on.
        group: the jobs that it is made of.
        now_s: the instant of the snapshot.
        within_s: in how many seconds the jobs must have left. A regular checkpoint that is complete by then
            takes no time of others: it is written in any case.
        parallel: whether a requested checkpoint takes no time of others either.
        price: what it counts as that a job leaves in one way.
    """
    regular = sum(price(job, Method.APPLICATION, now_s) for job in group.jobs)
    requested = sum(price(job, Method.SYSTEM, now_s) for job in group.jobs)
    killed = sum(price(job, Method.KILL, now_s) for job in group.jobs)
    complete_in_time = _in_time(group.application_s, within_s) is not None
    return replace(
        item,
        setup_node_s=regular,
        saving_node_s=requested - regular,
        loss_node_s=killed - regular,
        application_s=item.application_s if complete_in_time else None,
        system_s=_in_time(item.system_s, within_s),
        application_wait_s=0.0,
        alone=_BOTH if parallel else _REGULAR,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalPricing:
    """`priced` as a value, so that what leaving costs is worked out once for equal ones. No time limits it:
    checkpoints that are too late are left out later.
    """

    now_s: float
    parallel: bool
    price: Price

    def __call__(self, item: EvictionJob, group: VictimGroup) -> EvictionJob:
        """The item with the total price of each way to leave."""
        return priced(item, group, self.now_s, math.inf, parallel=self.parallel, price=self.price)


def _in_time(duration_s: float | None, within_s: float) -> float | None:
    return duration_s if duration_s is not None and duration_s <= within_s else None
