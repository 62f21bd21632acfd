"""The six mechanisms of P5: what is done at the notice (N, CUA, CUP) and at the arrival (PAA, SPAA) of an
urgent job.

When the urgent job has ended, its nodes go back to their lenders; if an announced job does not arrive, its
hold is released. The daemon does both for every policy.

Reference:
    Fan et al., "Hybrid Workload Scheduling on HPC Systems" (IPDPS 2022), section III-B.

Differs from the paper:
    See `hybrid.notice`, `hybrid.preempting`, `hybrid.held_backfill`, `hybrid.arrival` and `hybrid.overhead`.
"""

from collections.abc import Callable

from makeway.policies.common.proposals import decide_each, no_room
from makeway.policies.common.requests import Proposal, Request, needed
from makeway.policies.contract import Policy
from makeway.policies.hybrid.arrival import HybridConfig, preempt_at_arrival, shrink_or_preempt_at_arrival
from makeway.policies.hybrid.held_backfill import evict_guests, lend_held
from makeway.policies.hybrid.notice import Collect, collect_each, collect_released, prepare
from makeway.policies.model import Cluster, Decision, Memo

Arrival = Callable[[Request, HybridConfig, Memo], Proposal]
"""What is done when an on-demand job has arrived and its free and held nodes are too few."""

HANDOVER_S = 90.0
"""Seconds in which an urgent job waits for what another one leaves of a shared node: see `decide_each`. It is
as long as the default of policy "eviction"."""


def _mechanism(name: str, summary: str, collect: Collect | None, arrival: Arrival) -> Policy[HybridConfig]:
    """One of the six policies, from what it does at the notice (`collect`) and at the arrival.

    `collect` None: nothing is done at the notice (section III-B-1, N).
    """

    def decide(cluster: Cluster, config: HybridConfig) -> Decision:
        memo = Memo()
        served = decide_each(
            cluster,
            name,
            lambda request: _while_on_time(request, config, arrival, memo),
            start_within_s=config.start_within_s,
            hold_slack_s=config.hold_slack_s,
            evict_guests=lambda request: evict_guests(request, config),
            handover_s=HANDOVER_S,
        )
        if collect is None:
            return served
        return lend_held(cluster, collect_each(cluster, served, collect, config), config)

    return Policy(
        name=name,
        summary=summary,
        config_type=HybridConfig,
        decide=decide,
        shares_nodes=True,
        serves_components=True,
        collects=collect is not None,
    )


def _while_on_time(request: Request, config: HybridConfig, arrival: Arrival, memo: Memo) -> Proposal:
    """What is proposed at the arrival; after the deadline, that the job waits."""
    if request.late:
        return no_room(
            request,
            f"{needed(request)} and the deadline has passed: no job is evicted.",
        )
    return arrival(request, config, memo)


N_PAA = _mechanism(
    "n-paa",
    "Preempt running jobs at the arrival, the least overhead first (P5, N&PAA).",
    None,
    preempt_at_arrival,
)
N_SPAA = _mechanism(
    "n-spaa",
    "Shrink malleable jobs evenly at the arrival if that is enough, else preempt (P5, N&SPAA).",
    None,
    shrink_or_preempt_at_arrival,
)
CUA_PAA = _mechanism(
    "cua-paa",
    "From the notice on, collect the nodes that come free; preempt at the arrival (P5, CUA&PAA).",
    collect_released,
    preempt_at_arrival,
)
CUA_SPAA = _mechanism(
    "cua-spaa",
    "From the notice on, collect the nodes that come free; shrink or preempt at the arrival (P5, CUA&SPAA).",
    collect_released,
    shrink_or_preempt_at_arrival,
)
CUP_PAA = _mechanism(
    "cup-paa",
    "Have the nodes ready at the predicted arrival, preempting after checkpoints; n-paa (P5, CUP&PAA).",
    prepare,
    preempt_at_arrival,
)
CUP_SPAA = _mechanism(
    "cup-spaa",
    "Have the nodes ready at the predicted arrival, preempting after checkpoints; n-spaa (P5, CUP&SPAA).",
    prepare,
    shrink_or_preempt_at_arrival,
)
