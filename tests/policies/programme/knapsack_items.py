"""Jobs for the exact programme, and how its plans compare."""

import math
import random

from makeway.policies.model import Method
from makeway.policies.programme.items import EvictionJob
from makeway.policies.programme.knapsack import EvictionPlan

STEP_S = 60.0

STEPS = 6


def item(
    job_id: str,
    node_count: int,
    loss_node_s: int = 0,
    system_s: float | None = None,
    application_s: float | None = None,
) -> EvictionJob:
    return EvictionJob(
        job_ids=(job_id,),
        node_count=node_count,
        loss_node_s=loss_node_s,
        system_s=system_s,
        application_s=application_s,
    )


def ways(plan: EvictionPlan | None) -> dict[str, Method] | None:
    if plan is None:
        return None
    return {"+".join(leaver.item.job_ids): leaver.method for leaver in plan.departures}


def price(plan: EvictionPlan | None) -> tuple[int, int, int, int, int] | None:
    """Everything that is compared, recomputed from the departures."""
    if plan is None:
        return None
    departures = plan.departures
    return (
        sum(leaver.item.loss_node_s for leaver in departures if leaver.method is Method.KILL),
        sum(math.ceil((leaver.item.duration_s(leaver.method) or 0.0) / STEP_S) for leaver in departures),
        len(departures),
        sum(leaver.item.node_count for leaver in departures),
        sum(leaver.method is Method.SYSTEM for leaver in departures),
    )


def random_items(rng: random.Random) -> list[EvictionJob]:
    """Up to nine items; half the time so alike that ties are the rule."""
    alike = rng.random() < 0.5
    return [
        item(
            f"j{index}",
            rng.randint(1, 3 if alike else 40),
            rng.choice((0, 1, 2)) if alike else rng.randint(0, 100_000),
            rng.choice((None, 60.0, 120.0) if alike else (None, rng.uniform(0, 300))),
            rng.choice((None, 60.0, 120.0) if alike else (None, rng.uniform(0, 500))),
        )
        for index in range(rng.randint(1, 9))
    ]
