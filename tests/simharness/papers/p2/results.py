"""Plans and results of paper P2, made by hand."""

from collections.abc import Sequence

from makeway.policies.programme.knapsack import EvictionPlan
from makeway.simharness.papers.p2.cases import (
    P2Result,
    TimedPlan,
    VariantAnswers,
)

HOUR_S = 3600


def plan(loss_node_hours: float, checkpoint_steps: int = 0) -> EvictionPlan:
    return EvictionPlan(
        departures=(),
        loss_node_s=round(loss_node_hours * HOUR_S),
        checkpoint_steps=checkpoint_steps,
        checkpoint_s=60.0 * checkpoint_steps,
        node_count=512,
    )


def made_case(
    scenario: int = 1,
    wanted_nodes: int = 512,
    *,
    seed: int = 0,
    losses: Sequence[float] = (50.0,) * 15 + (0.0,),
    excess: Sequence[float] = (20.0,) * 16,
    exact_s: float = 0.002,
    greedy_s: float = 1e-6,
    slow_s: float = 50.0,
    finished: int = 16,
) -> P2Result:
    """A case with given figures; every one of P2's claims but one holds on it."""
    return P2Result(
        scenario=scenario,
        seed=seed,
        wanted_nodes=wanted_nodes,
        job_count=12,
        busy_nodes=4352,
        now_s=0.0,
        exact=tuple(plan(hours) for hours in losses),
        exact_s=exact_s,
        greedy=tuple(
            TimedPlan(plan=plan(hours + more), elapsed_s=greedy_s)
            for hours, more in zip(losses, excess, strict=True)
        ),
        backtracking=tuple(TimedPlan(plan=plan(hours), elapsed_s=slow_s / 16) for hours in losses[:finished]),
        stopped_s=None if finished == 16 else slow_s / 4,
        shrinking=VariantAnswers(plans=tuple(plan(hours / 2) for hours in losses), elapsed_s=2 * exact_s),
        concurrent=VariantAnswers(plans=tuple(plan(hours / 4) for hours in losses), elapsed_s=4 * exact_s),
    )
