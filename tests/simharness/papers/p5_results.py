"""Outcomes of P5's replays made by hand."""

from dataclasses import replace

from makeway.simharness.engine.scheduler import Backfill
from makeway.simharness.papers.p5.cases import INTERVALS, MECHANISMS, MIXES, BaseScheduler, P5Result

EASY_FULL, CQSIM_FULL, EASY_SMALLER, CQSIM_SMALLER = (
    BaseScheduler(backfill=backfill, start_smaller=start_smaller)
    for start_smaller in (False, True)
    for backfill in (Backfill.EASY, Backfill.EASY_CQSIM)
)


def case(policy: str, mix: str = "W5", *, seed: int = 0, interval_share: float = 1.0) -> P5Result:
    return P5Result(
        seed=seed,
        mix=mix,
        policy=policy,
        backfill="easy",
        start_smaller=True,
        interval_share=interval_share,
        jobs=100,
        on_demand_jobs=10,
        turnaround_h=10.0,
        rigid_turnaround_h=11.0,
        malleable_turnaround_h=9.0,
        on_demand_turnaround_h=1.0,
        instant_start_rate=0.98,
        rigid_preemption_ratio=0.05,
        malleable_preemption_ratio=0.1,
        malleable_shrink_ratio=0.2,
        utilisation=0.9,
        useful_utilisation=0.88,
        lost_node_hours=100.0,
        overhead_node_hours=10.0,
        decision_p50_ms=1.0,
        decision_p99_ms=5.0,
    )


def alike() -> list[P5Result]:
    """Cases of one seed under which all mechanisms are alike, and the base schedulers are worse, all three
    alike.
    """
    worse = replace(case("none"), turnaround_h=9.0, instant_start_rate=0.3, useful_utilisation=0.8)
    return [
        replace(worse, start_smaller=False),
        replace(worse, backfill="easy-cqsim", start_smaller=False),
        worse,
        *(case(policy, mix) for mix in MIXES for policy in MECHANISMS),
        *(case(policy, interval_share=share) for share in INTERVALS if share != 1.0 for policy in MECHANISMS),
    ]
