"""What policy "eviction" wants done, as values."""

from dataclasses import replace
from typing import Any

import pytest

from makeway.policies.eviction.policy import EvictionConfig
from makeway.policies.model import (
    Acknowledgement,
    Candidate,
    Checkpoint,
    CheckpointSpec,
    Decision,
    JobState,
    Limits,
    Method,
    Node,
    NodeState,
    Reason,
    Reservation,
    SignalTarget,
)
from tests.policies.arriving import (
    BOTH,
    NOW_S,
    Build,
    BuildCluster,
    decide,
    hold,
    prioritise,
    requeue,
    victims,
)


def test_without_an_urgent_job_there_is_nothing_to_do(running: Build, cluster_of: BuildCluster) -> None:
    assert decide(cluster_of(4, running("a", "n0 n1"))) == Decision(policy="eviction")


def test_free_nodes_are_held_exactly_and_no_job_leaves(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    decision = decide(cluster_of(6, running("a", "n1"), waiting("u", 3)))
    assert decision.actions == (hold("u", "n0 n2 n3", 600.0 + 1800.0 + 600.0, Reason.URGENT_FITS),)
    (why,) = decision.rationale
    assert (why.free_node_count, why.loss_node_s, why.ready_s, why.candidates) == (3, 0, NOW_S, ())
    assert why.deadline_s == NOW_S + 600.0


@pytest.mark.parametrize(
    ("most", "limit", "nodes"),
    [
        (3, None, "n0 n2 n3"),
        (9, None, "n0 n2 n3 n4 n5"),
        (2, None, "n0 n2"),
        (9, 2, "n0 n2"),
        (None, None, "n0 n2"),
    ],
)
def test_of_a_range_the_most_is_held_that_is_free(
    running: Build, waiting: Build, cluster_of: BuildCluster, most: int | None, limit: int | None, nodes: str
) -> None:
    """Where the site limits the nodes that are held, no more than is needed."""
    cluster = cluster_of(
        6, running("a", "n1"), waiting("u", 2, node_count_max=most), limits=Limits(max_nodes=limit)
    )
    assert decide(cluster).actions == (hold("u", nodes, 3000.0, Reason.URGENT_FITS),)


def test_no_job_leaves_for_more_than_the_least_of_a_range(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = (running("a", "n0 n1 n2"), running("b", "n3 n4 n5"))
    decision = decide(cluster_of(7, *jobs, waiting("u", 2, node_count_max=5)))
    assert decision.actions[0] == hold("u", "n6 n0", 3000.0)
    assert victims(decision) == [("a", Method.KILL)]


def test_the_hold_comes_first_then_the_cheapest_leaves_after_a_signal(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = (running("dear", "n0 n1 n2"), running("saves", "n3 n4 n5", checkpoint=BOTH))
    decision = decide(cluster_of(7, *jobs, waiting("u", 3)))
    assert decision.actions == (
        hold("u", "n6 n3 n4", 3000.0),
        Checkpoint(
            job_id="saves",
            for_job_id="u",
            policy="eviction",
            reason=Reason.URGENT_ARRIVAL,
            signal="USR2",
            signal_to=SignalTarget.STEPS,
            grace_s=510.0,
            walltime_s=20_510.0,
            saved_by_s=NOW_S + 120.0,
            until_s=NOW_S + 510.0,
            grace_min_s=200.0,
        ),
        requeue("saves", "u", Method.SYSTEM, NOW_S + 510.0),
    )
    (why,) = decision.rationale
    assert why.candidates == (
        Candidate(job_ids=("dear",), method=Method.KILL, node_count=3, loss_node_s=3000, delay_s=0.0),
        Candidate(job_ids=("saves",), method=Method.KILL, node_count=3, loss_node_s=3000, delay_s=0.0),
        Candidate(job_ids=("saves",), method=Method.APPLICATION, node_count=3, loss_node_s=0, delay_s=260.0),
        Candidate(
            job_ids=("saves",), method=Method.SYSTEM, node_count=3, loss_node_s=0, delay_s=100.0, chosen=True
        ),
    )
    assert why.summary == (
        "2 more nodes are needed: evict saves (3 nodes, after a signal); 0 node-hours are lost "
        "and the nodes are free in 120 s."
    )
    assert why.ready_s == NOW_S + 120.0


def test_leaving_after_the_next_regular_checkpoint(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    job = running("a", "n0 n1", checkpoint=replace(BOTH, system_s=None), last_checkpoint_s=NOW_S - 580.0)
    decision = decide(cluster_of(2, job, waiting("u", 2)))
    assert decision.actions == (
        hold("u", "n0 n1", 3000.0),
        requeue("a", "u", Method.APPLICATION, NOW_S + 510.0),
    )


def test_without_time_for_a_checkpoint_the_least_loss_is_killed(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = (
        running("old", "n0 n1", checkpoint=BOTH),
        running("young", "n2 n3", start_s=NOW_S - 50.0),
    )
    decision = decide(cluster_of(4, *jobs, waiting("u", 2, start_within_s=60.0)))
    assert decision.actions == (
        hold("u", "n2 n3", 60.0 + 1800.0 + 600.0),
        requeue("young", "u", Method.KILL, NOW_S),
    )
    assert decision.rationale[0].loss_node_s == 100


@pytest.mark.parametrize("start_within_s", [0.0, 20.0])
def test_within_the_margin_kills_are_still_in_time(
    running: Build, waiting: Build, cluster_of: BuildCluster, start_within_s: float
) -> None:
    job = running("a", "n0", checkpoint=replace(BOTH, system_s=5.0))
    decision = decide(cluster_of(1, job, waiting("u", 1, start_within_s=start_within_s)))
    assert victims(decision) == [("a", Method.KILL)]


def test_checkpoints_are_counted_one_after_another(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """Three checkpoints of 100 s do not fit before 300 s - 30 s: the cheapest is killed."""
    spec = CheckpointSpec(system_s=100.0, grace_s=60.0)
    jobs = [running(name, node, checkpoint=spec) for name, node in (("a", "n0"), ("b", "n1"), ("c", "n2"))]
    jobs[1] = replace(jobs[1], start_s=NOW_S - 999.0)
    decision = decide(cluster_of(3, *jobs, waiting("u", 3, start_within_s=300.0)))
    assert victims(decision) == [("a", Method.SYSTEM), ("b", Method.KILL), ("c", Method.SYSTEM)]
    signals = [action for action in decision.actions if isinstance(action, Checkpoint)]
    assert {action.grace_s for action in signals} == {240.0}, (
        "each has as long as the plan, whatever its grace"
    )
    assert {action.saved_by_s for action in signals} == {NOW_S + 240.0}


def test_a_job_that_does_not_report_its_checkpoint_has_its_grace(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """Its node would stand idle until the deadline. It has longer if the plan's checkpoints take longer."""
    silent = CheckpointSpec(system_s=100.0, grace_s=150.0, acknowledgement=Acknowledgement.NONE)
    jobs = [running(name, node, checkpoint=silent) for name, node in (("a", "n0"), ("b", "n1"))]
    assert decide(cluster_of(1, jobs[0], waiting("u", 1))).actions[2] == requeue(
        "a", "u", Method.SYSTEM, NOW_S + 150.0
    )
    assert decide(cluster_of(2, *jobs, waiting("u", 2))).actions[2] == requeue(
        "a", "u", Method.SYSTEM, NOW_S + 240.0
    )


def test_no_choice_in_time_evicts_no_job(running: Build, waiting: Build, cluster_of: BuildCluster) -> None:
    jobs = (running("a", "n0 n1"), running("b", "n2", preemptible=False))
    decision = decide(cluster_of(4, *jobs, waiting("u", 4)))
    assert decision.actions == (prioritise("u"),)
    (why,) = decision.rationale
    assert why.ready_s is None
    assert "no choice among 2 nodes of 1 candidate" in why.summary
    assert [(found.job_ids, found.method, found.note) for found in why.candidates] == [
        (("a",), Method.KILL, ""),
        (("b",), None, "not_preemptible"),
    ]
    again = decide(cluster_of(4, *jobs, waiting("u", 4, prioritised=True)))
    assert again.actions == ()
    assert again.rationale == decision.rationale


def test_after_the_deadline_only_free_nodes_are_taken(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    late = waiting("u", 2, submit_s=NOW_S - 601.0)
    full = cluster_of(3, running("a", "n0 n1"), late)
    decision = decide(full)
    assert decision.actions == (prioritise("u"),)
    assert "the deadline has passed" in decision.rationale[0].summary
    roomy = decide(cluster_of(4, running("a", "n0 n1"), late))
    assert roomy.actions == (hold("u", "n2 n3", 1800.0 + 600.0, Reason.URGENT_FITS),)
    still = decide(full, late="evict")
    assert victims(still) == [("a", Method.KILL)]


def test_several_urgent_jobs_share_neither_nodes_nor_victims(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = (running("a", "n0 n1"), running("b", "n2 n3", start_s=NOW_S - 1001.0))
    urgent_jobs = (waiting("v", 2), waiting("u", 2), waiting("w", 2))
    decision = decide(cluster_of(5, *jobs, *urgent_jobs))
    assert decision.actions == (
        hold("u", "n4 n0", 3000.0),
        requeue("a", "u", Method.KILL, NOW_S),
        hold("v", "n1 n2", 3000.0),
        requeue("b", "v", Method.KILL, NOW_S),
        prioritise("w"),
    )
    assert "1 more node is needed" in decision.rationale[2].summary, "n3 comes free for v, and serves w"
    assert [why.for_job_id for why in decision.rationale] == ["u", "v", "w"]


def test_only_nodes_that_may_serve_the_job_count(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    cluster = cluster_of(
        6,
        running("a", "n0 n1"),
        running("b", "n2 n3", start_s=NOW_S - 2000.0),
        waiting("u", 2, eligible_nodes=frozenset({"n1", "n2", "n3", "n4"})),
    )
    drained = replace(
        cluster, nodes=(*cluster.nodes[:4], Node(name="n4", state=NodeState.DRAINED), cluster.nodes[5])
    )
    decision = decide(drained)
    assert decision.actions == (hold("u", "n2 n3", 3000.0), requeue("b", "u", Method.KILL, NOW_S))
    assert decide(cluster).actions[0] == hold("u", "n4 n1", 3000.0)


def test_nodes_in_a_reservation_that_begins_too_soon_are_left_alone(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    cluster = cluster_of(
        4,
        running("a", "n2 n3", start_s=NOW_S - 4000.0),
        running("b", "n1"),
        waiting("u", 2),
        reservations=(Reservation(name="site", nodes=("n0", "n1"), start_s=NOW_S + 1799.0, end_s=90_000.0),),
    )
    assert decide(cluster).actions == (hold("u", "n2 n3", 3000.0), requeue("a", "u", Method.KILL, NOW_S))


def test_jobs_that_share_nodes_leave_after_their_checkpoints(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = (running("a", "n0 n1", checkpoint=BOTH), running("b", "n1 n2", checkpoint=BOTH))
    decision = decide(cluster_of(3, *jobs, waiting("u", 3)))
    assert decision.actions[0] == hold("u", "n0 n1 n2", 3000.0)
    assert victims(decision) == [("a", Method.SYSTEM), ("b", Method.SYSTEM)]
    assert [action.verb for action in decision.actions] == [
        "reserve",
        "checkpoint",
        "requeue",
        "checkpoint",
        "requeue",
    ]
    assert decision.rationale[0].ready_s == NOW_S + 240.0, "each checkpoint takes whole steps"


def test_a_neighbour_on_a_node_that_is_not_held_stays(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """a and b share n1, b and c share n2: n0 and n1 are enough, so c stays, and its loss is not counted."""
    jobs = (running("a", "n0 n1"), running("b", "n1 n2"), running("c", "n2 n3"))
    decision = decide(cluster_of(4, *jobs, waiting("u", 2)))
    assert decision.actions[0] == hold("u", "n0 n1", 3000.0)
    assert victims(decision) == [("a", Method.KILL), ("b", Method.KILL)]
    assert decision.rationale[0].loss_node_s == 4000


def test_jobs_that_share_only_a_node_that_cannot_serve_are_asked_apart(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = (running("a", "n0 n1"), running("b", "n1 n2", start_s=NOW_S - 10.0))
    u = waiting("u", 1, eligible_nodes=frozenset({"n0", "n2"}))
    decision = decide(cluster_of(3, *jobs, u))
    assert decision.actions == (hold("u", "n2", 3000.0), requeue("b", "u", Method.KILL, NOW_S))


def test_what_a_victim_leaves_beyond_the_need_serves_the_next(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = (running("a", "n0 n1 n2 n3", checkpoint=BOTH), running("b", "n4 n5"))
    decision = decide(cluster_of(6, *jobs, waiting("u", 1), waiting("v", 2)))
    assert decision.actions == (
        hold("u", "n0", 3000.0),
        Checkpoint(
            job_id="a",
            for_job_id="u",
            policy="eviction",
            reason=Reason.URGENT_ARRIVAL,
            signal="USR2",
            signal_to=SignalTarget.STEPS,
            grace_s=510.0,
            walltime_s=20_510.0,
            saved_by_s=NOW_S + 120.0,
            until_s=NOW_S + 510.0,
            grace_min_s=200.0,
        ),
        requeue("a", "u", Method.SYSTEM, NOW_S + 510.0),
        hold("v", "n1 n2", 3000.0),
    )
    assert decision.rationale[1].ready_s == NOW_S + 510.0
    assert decision.rationale[1].summary == (
        "0 nodes are free and 2 more come free for other jobs: no other job has to leave."
    )


def test_a_job_with_an_earlier_deadline_comes_first_so_that_its_victim_serves_all(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """If it came last, it could not wait until `a` is gone for certain, and `b` would have to leave too."""
    jobs = (running("a", "n0 n1 n2 n3", checkpoint=BOTH), running("b", "n4 n5"))
    urgent_jobs = (waiting("u", 1), waiting("v", 2), waiting("w", 1, start_within_s=569.0))
    decision = decide(cluster_of(6, *jobs, *urgent_jobs))
    assert victims(decision) == [("a", Method.SYSTEM)]
    assert [why.for_job_id for why in decision.rationale] == ["w", "u", "v"]


def test_jobs_that_do_not_run_are_not_asked(running: Build, waiting: Build, cluster_of: BuildCluster) -> None:
    stuck = running("b", "n1", state=JobState.COMPLETING, completing_since_s=NOW_S - 300.0)
    jobs = (running("a", "n0", state=JobState.SUSPENDED), stuck)
    assert decide(cluster_of(2, *jobs, waiting("u", 1))).actions == (prioritise("u"),)


def test_a_deadline_far_away_is_looked_at_more_coarsely(
    running: Build, waiting: Build, cluster_of: BuildCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bounds on the work of one decision, made small enough to bite."""
    for name, limit in (("SMALL_CELLS", 0), ("MOST_STATES", -1), ("MOST_CELLS", 8)):
        monkeypatch.setattr(f"makeway.policies.programme.fixing.{name}", limit)
    job = running("a", "n0 n1", checkpoint=replace(BOTH, system_s=400.0, interval_s=None))
    cluster = cluster_of(2, job, waiting("u", 2, start_within_s=630.0))
    decision = decide(cluster)
    assert victims(decision) == [("a", Method.SYSTEM)]
    assert decision.rationale[0].ready_s == NOW_S + 450.0, "three steps of 150 s instead of 14 of 30 s"


@pytest.mark.parametrize(
    "wrong",
    [
        {"step_s": 0.0},
        {"step_s": 1e-300},
        {"step_s": float("nan")},
        {"margin_s": -1.0},
        {"start_within_s": float("inf")},
        {"hold_slack_s": float("nan")},
        {"aggregate_gb_s": 0.0},
        {"node_gb_s": float("inf")},
    ],
)
def test_absurd_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        EvictionConfig(**wrong)
