"""What is taken from a job, one thing after another."""

import math
from dataclasses import replace

from makeway.policies.model import LostNodes, PastSize, TakenFromJob, fair_limit, grown_again, taken_anew


def taken(
    before: TakenFromJob | None,
    *,
    run: int = 0,
    node_count: int = 6,
    kept_count: int | None = None,
    walltime_s: float = 1800.0,
    raised_to_s: float | None = None,
    now_s: float = 0.0,
) -> TakenFromJob:
    return taken_anew(
        before,
        for_job_id="u",
        run=run,
        node_count=node_count,
        kept_count=kept_count,
        walltime_s=walltime_s,
        raised_to_s=raised_to_s,
        now_s=now_s,
    )


def test_the_limit_before_the_first_raise_is_kept() -> None:
    first = taken(None, raised_to_s=2100.0)
    assert first == TakenFromJob(run=0, for_job_id="u", walltime_s=1800.0, raised_to_s=2100.0)
    second = taken(first, run=1, walltime_s=2100.0, raised_to_s=2400.0)
    assert second == TakenFromJob(run=1, for_job_id="u", walltime_s=1800.0, raised_to_s=2400.0)
    assert taken(second, run=1, walltime_s=2400.0) == second


def test_a_limit_that_somebody_else_has_set_is_the_job_s_own() -> None:
    first = taken(None, raised_to_s=2100.0)
    assert first.usual_walltime_s(2100.0) == 1800.0
    assert first.usual_walltime_s(3000.0) is None
    assert taken(first, walltime_s=3000.0, raised_to_s=3300.0).walltime_s == 3000.0
    assert taken(first, walltime_s=3000.0) == TakenFromJob(run=0, for_job_id="u")


def test_the_time_that_shrinks_cost_adds_up() -> None:
    """100 s with half the nodes, then 300 s with a third of them: 50 s and 200 s."""
    first = taken(None, kept_count=3, raised_to_s=3600.0, now_s=100.0)
    assert first.lost_nodes == LostNodes(node_count=6, kept_count=3, walltime_s=1800.0, since_s=100.0)
    second = taken(first, node_count=3, kept_count=2, walltime_s=3600.0, raised_to_s=5400.0, now_s=200.0)
    assert second.lost_nodes == LostNodes(node_count=6, kept_count=2, walltime_s=1850.0, since_s=200.0)
    assert second.lost_nodes is not None
    assert math.isclose(second.lost_nodes.fair_walltime_s(500.0) or 0.0, 2050.0)
    assert second.walltime_s == 1800.0


def test_a_new_run_has_lost_no_nodes() -> None:
    first = taken(None, kept_count=3, raised_to_s=3600.0)
    assert taken(first, run=1, walltime_s=3600.0).lost_nodes is None


def test_a_job_without_a_limit_pays_nothing() -> None:
    first = taken(None, kept_count=3, walltime_s=math.inf)
    assert first.lost_nodes is not None
    assert first.lost_nodes.fair_walltime_s(1000.0) is None
    assert first.usual_walltime_s(math.inf) is None


def test_the_limit_without_shrinks_is_that_of_all_nodes() -> None:
    """100 s with half the nodes cost 50 s."""
    first = taken(None, kept_count=3, raised_to_s=3600.0, now_s=100.0)

    def fair(taken: TakenFromJob | None, **changes: float) -> tuple[float, int]:
        asked = {"run": 0, "node_count": 3, "walltime_s": 3600.0, "now_s": 200.0} | changes
        return fair_limit(
            taken,
            run=int(asked["run"]),
            node_count=int(asked["node_count"]),
            walltime_s=asked["walltime_s"],
            now_s=asked["now_s"],
        )

    assert fair(first) == (1850.0, 6)
    assert fair(None) == (3600.0, 3), "nothing was taken"
    assert fair(first, walltime_s=7200.0) == (7200.0, 3), "somebody else has set it"
    assert fair(first, run=1, node_count=6) == (1800.0, 6), "it was raised in an earlier run"
    assert fair(first, now_s=50.0) == (3600.0, 3), "the clock was set back"
    assert fair(taken(None, raised_to_s=3600.0)) == (3600.0, 3), "it was raised for a checkpoint"


def test_a_job_that_has_grown_loses_less_time() -> None:
    """100 s with half the nodes, then 60 s with five of six: 50 s and 10 s. Then none."""
    first = taken(None, kept_count=3, raised_to_s=3600.0, now_s=100.0)
    grown = grown_again(first, run=0, node_count=5, now_s=200.0)
    assert grown == replace(
        first, lost_nodes=LostNodes(node_count=6, kept_count=5, walltime_s=1850.0, since_s=200.0)
    )
    whole = grown_again(grown, run=0, node_count=6, now_s=260.0)
    assert whole is not None
    assert whole.lost_nodes is not None
    assert math.isclose(whole.lost_nodes.fair_walltime_s(9000.0) or 0.0, 1860.0)
    assert grown_again(first, run=1, node_count=6, now_s=200.0) == first
    assert grown_again(first, run=0, node_count=6, now_s=50.0) == first, "the clock was set back"
    assert grown_again(None, run=0, node_count=6, now_s=200.0) is None


def test_what_a_checkpoint_raises_on_few_nodes_stays() -> None:
    first = taken(None, kept_count=3, raised_to_s=3600.0, now_s=100.0)
    second = taken(first, node_count=3, walltime_s=3600.0, raised_to_s=3900.0, now_s=200.0)
    assert second.lost_nodes == LostNodes(node_count=6, kept_count=3, walltime_s=2150.0, since_s=200.0)
    third = taken(first, node_count=3, walltime_s=7200.0, raised_to_s=7500.0, now_s=200.0)
    assert third.lost_nodes is not None
    assert third.lost_nodes.walltime_s == 7500.0, "somebody else has set it meanwhile"


def test_the_sizes_of_a_run_before_its_last_change() -> None:
    once = taken(None, kept_count=3, now_s=100.0)
    assert once.past_sizes(0) == (PastSize(node_count=6, until_s=100.0),)
    assert once.past_sizes(1) == (), "of an earlier run"
    assert taken(once, node_count=3, kept_count=2, now_s=400.0).past_sizes(0) == (
        PastSize(node_count=6, until_s=400.0),
    ), "at most"
    assert taken(None, raised_to_s=2100.0).past_sizes(0) == ()
