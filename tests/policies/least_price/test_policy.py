"""What policy "least-price" wants done, as values."""

import math
from dataclasses import replace
from typing import Any

import pytest

from makeway.policies.least_price.policy import LEAST_PRICE
from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.policies.model import (
    CheckpointSpec,
    Cluster,
    Decision,
    Job,
    JobKind,
    Limits,
    Method,
    Prioritise,
    Progress,
    Reason,
    Requeue,
    Reservation,
    Reserve,
    Shrink,
    Task,
)
from tests.policies.arriving import BOTH, NOW_S, Build, BuildCluster, victims
from tests.policies.common.operations import operation


def decide(cluster: Cluster, **settings: Any) -> Decision:
    return LEAST_PRICE.decide(cluster, LeastPriceConfig(**settings))


def verbs(decision: Decision) -> list[str]:
    return [action.verb for action in decision.actions]


ENDS_SOON_S = 2000.0
"""A time limit with which it pays to wait for a job: half of it has passed."""
NO_LIMITS = {
    "ceiling_machine_hours": math.inf,
    "instant_machine_hours": 0.0,
    "waiting_machine_hours": math.inf,
}


def test_jobs_shrink_before_any_job_leaves(running: Build, waiting: Build, cluster_of: BuildCluster) -> None:
    malleable = running("m", "n0 n1 n2 n3", kind=JobKind.MALLEABLE, node_count_min=2)
    cluster = cluster_of(6, malleable, running("young", "n4 n5", start_s=NOW_S - 1.0), waiting("u", 2))
    decision = decide(cluster)
    hold, shrink = decision.actions
    assert isinstance(hold, Reserve)
    assert isinstance(shrink, Shrink)
    assert (hold.nodes, shrink.keep_nodes) == (("n2", "n3"), ("n0", "n1"))
    assert victims(decide(cluster, shrink=False)) == [("young", Method.KILL)]


def test_the_total_price_decides_and_not_the_loss(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """A checkpoint of 100 s loses nothing, but its job repeats a setup of 900 s."""
    saves = running("saves", "n0", setup_s=900.0, checkpoint=CheckpointSpec(system_s=100.0))
    dies = running("dies", "n1", start_s=NOW_S - 400.0)
    decision = decide(cluster_of(2, saves, dies, waiting("u", 1)), **NO_LIMITS)
    assert victims(decision) == [("dies", Method.KILL)]
    (why,) = decision.rationale
    assert [(*one.job_ids, one.method, one.loss_node_s, one.price_node_s) for one in why.candidates] == [
        ("dies", Method.KILL, 400, 400),
        ("saves", Method.KILL, 1000, 1000),
        ("saves", Method.SYSTEM, 0, 1000),
    ]
    cheap = replace(saves, setup_s=200.0)
    decision = decide(cluster_of(2, cheap, dies, waiting("u", 1)), **NO_LIMITS)
    assert victims(decision) == [("saves", Method.SYSTEM)]


def test_a_start_at_once_is_preferred_if_it_costs_little_more(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """The cheapest way takes 300 s and costs 300 node-seconds; a kill costs 1,000."""
    saves = running("saves", "n0", checkpoint=CheckpointSpec(system_s=300.0))
    cluster = cluster_of(2, saves, running("dies", "n1", start_s=NOW_S - 1000.0), waiting("u", 1))
    machine_hour = 2 * 3600.0
    at_once = decide(cluster, instant_machine_hours=700.0 / machine_hour)
    assert victims(at_once) == [("dies", Method.KILL)]
    later = decide(cluster, instant_machine_hours=699.0 / machine_hour)
    assert victims(later) == [("saves", Method.SYSTEM)]


def test_at_once_counts_from_when_the_job_became_eligible(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """The cheapest way takes 300 s; a kill costs more."""
    saves = running("saves", "n0", checkpoint=CheckpointSpec(system_s=300.0))
    urgent = waiting("u", 1, submit_s=NOW_S - 300.0, start_within_s=900.0)
    cluster = cluster_of(2, saves, running("dies", "n1", start_s=NOW_S - 1000.0), urgent)
    assert victims(decide(cluster, instant_machine_hours=None)) == [("saves", Method.SYSTEM)]
    held_back = (*cluster.jobs[:2], replace(urgent, eligible_since_s=NOW_S))
    eligible = replace(cluster, jobs=held_back)
    assert victims(decide(eligible, instant_machine_hours=None)) == [("dies", Method.KILL)]


@pytest.mark.parametrize(
    ("start_within_s", "kill_s"),
    [
        (600.0, 170.0),  # a start at once: a kill leaves long before the deadline
        (240.0, 150.0),  # the same, with too little time after it
        (200.0, 110.0),  # a start by the deadline
    ],
)
def test_a_job_whose_checkpoint_is_overdue_is_killed_in_time_for_the_deadline(
    running: Build, waiting: Build, cluster_of: BuildCluster, start_within_s: float, kill_s: float
) -> None:
    """The last job has to have left 30 s before the deadline, and a kill takes 60 s."""
    saves = running("saves", "n0", checkpoint=CheckpointSpec(system_s=50.0, grace_s=60.0))
    decision = decide(cluster_of(1, saves, waiting("u", 1, start_within_s=start_within_s)))
    (leave,) = (action for action in decision.actions if isinstance(action, Requeue))
    assert (leave.method, leave.not_after_s) == (Method.SYSTEM, NOW_S + kill_s)


def test_no_job_is_killed_for_a_start_at_once_that_waits_for_other_nodes(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """One node comes free at 500 s. Until then the other job completes a checkpoint; its kill costs 60."""
    leaves = Requeue(
        job_id="leaver",
        for_job_id="x",
        policy="test",
        reason=Reason.URGENT_ARRIVAL,
        method=Method.SYSTEM,
        not_after_s=NOW_S + 500.0,
    )
    under_way = replace(operation("x", "n2"), tasks=(Task(action=leaves, progress=Progress.ACCEPTED),))
    spec = CheckpointSpec(interval_s=320.0, application_s=40.0)
    cluster = cluster_of(
        3,
        running("leaver", "n2 n0"),
        running("b", "n1", last_checkpoint_s=NOW_S - 60.0, checkpoint=spec),
        waiting("x", 1, submit_s=NOW_S - 1.0, reservation="mw_x"),
        waiting("u", 2),
        operations=(under_way,),
        reservations=(Reservation(name="mw_x", nodes=("n2",), start_s=NOW_S, end_s=NOW_S + 9000.0),),
    )
    assert victims(decide(cluster)) == [("b", Method.APPLICATION)]
    soon = replace(leaves, not_after_s=NOW_S + 170.0)
    under_way = replace(under_way, tasks=(Task(action=soon, progress=Progress.ACCEPTED),))
    assert victims(decide(replace(cluster, operations=(under_way,)))) == [("b", Method.KILL)]


def test_a_dear_start_holds_its_nodes_until_the_last_moment(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    cluster = cluster_of(1, running("a", "n0", walltime_s=ENDS_SOON_S), waiting("u", 1))
    decision = decide(cluster, waiting_machine_hours=0.1)
    (held,) = decision.actions
    assert isinstance(held, Reserve)
    assert held.nodes == ("n0",)
    assert decision.again_s == NOW_S + 600.0 - 30.0 - 60.0
    (why,) = decision.rationale
    assert why.summary.startswith("A start now costs 0.28 node-hours. No job leaves for 510 s")
    assert not any(candidate.chosen for candidate in why.candidates)
    last = replace(cluster, now_s=decision.again_s)
    assert victims(decide(last, waiting_machine_hours=0.1)) == [("a", Method.KILL)]
    for cheap in (0.3, None):
        assert victims(decide(cluster, waiting_machine_hours=cheap)) == [("a", Method.KILL)]


def test_without_a_hold_a_dear_start_waits_at_the_front(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    cluster = cluster_of(1, running("a", "n0", walltime_s=ENDS_SOON_S), waiting("u", 1))
    decision = decide(cluster, waiting_machine_hours=0.1, waiting_holds=False)
    assert [type(action) for action in decision.actions] == [Prioritise]
    assert decision.again_s == NOW_S + 510.0


def test_a_start_that_waits_keeps_its_hold_and_takes_it_in_the_end(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    held = replace(operation("u", "n0"), deadline_s=NOW_S + 600.0)
    own = Reservation(name="mw_u", nodes=("n0",), start_s=NOW_S, end_s=NOW_S + 9000.0)
    urgent = waiting("u", 1, reservation="mw_u")
    cluster = cluster_of(
        1, running("a", "n0", walltime_s=ENDS_SOON_S), urgent, operations=(held,), reservations=(own,)
    )
    decision = decide(replace(cluster, now_s=NOW_S + 100.0), waiting_machine_hours=0.1)
    assert (decision.actions, decision.again_s) == ((), NOW_S + 510.0)
    last = decide(replace(cluster, now_s=NOW_S + 510.0), waiting_machine_hours=0.1)
    assert victims(last) == [("a", Method.KILL)]


def test_no_start_waits_in_its_hold_while_another_urgent_job_finds_no_room(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = (running("a", "n0", walltime_s=ENDS_SOON_S), running("b", "n1", preemptible=False))
    cluster = cluster_of(2, *jobs, waiting("u", 1), waiting("v", 1, submit_s=NOW_S + 1.0))
    assert not victims(decide(cluster, waiting_machine_hours=0.1)), "a start of u at once is of no use to v"
    short = replace(cluster.jobs_by_id()["u"], walltime_s=100.0)
    decision = decide(cluster_of(2, *jobs, short, cluster.jobs[-1]), waiting_machine_hours=0.1)
    assert victims(decision) == [("a", Method.KILL)], "v is on time when u has ended"
    alone = cluster_of(2, *jobs, short)
    assert not victims(decide(alone, waiting_machine_hours=0.1))


def test_waiting_leaves_time_for_the_checkpoints(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    saves = running("a", "n0", setup_s=500.0, checkpoint=CheckpointSpec(system_s=200.0))
    decision = decide(cluster_of(1, saves, waiting("u", 1)), waiting_machine_hours=0.0)
    assert decision.again_s == NOW_S + 600.0 - 30.0 - 60.0 - 200.0


@pytest.mark.parametrize("ceiling", [0.0, 0.2, 0.27])
def test_beyond_the_ceiling_no_job_leaves(
    running: Build, waiting: Build, cluster_of: BuildCluster, ceiling: float
) -> None:
    """A kill loses 1,000 s; by the last moment it would lose more."""
    cluster = cluster_of(1, running("a", "n0"), waiting("u", 1))
    settings = {"ceiling_machine_hours": ceiling, "waiting_machine_hours": math.inf}
    first = decide(cluster, **settings)
    assert verbs(first) == ["prioritise"]
    assert first.again_s == NOW_S + 510.0, "it is priced again"
    late = decide(replace(cluster, now_s=NOW_S + 550.0), **settings)
    assert (verbs(late), late.again_s) == (["prioritise"], None)
    assert "would cost 0.43 node-hours, the ceiling is" in late.rationale[0].summary
    assert victims(decide(cluster, ceiling_machine_hours=0.28)) == [("a", Method.KILL)]


def test_what_was_lost_for_the_job_before_counts(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    cluster = cluster_of(1, running("a", "n0"), waiting("u", 1))
    settings = {"ceiling_machine_hours": 0.5}
    assert victims(decide(replace(cluster, lost_node_s={"other": 1000.0}), **settings))
    used = replace(cluster, lost_node_s={"u": 1000.0})
    assert not victims(decide(used, **settings))
    late = decide(replace(used, now_s=NOW_S + 550.0), **settings)
    assert "node-hours after 0.28 before, the ceiling is 0.50 " in late.rationale[0].summary


def test_the_budget_of_a_day_counts_earlier_days_and_this_decision(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    cluster = cluster_of(2, running("a", "n0"), running("b", "n1"), waiting("u", 1), waiting("v", 1))
    settings = {**NO_LIMITS, "budget_machine_hours": 1500.0 / 7200.0}
    assert len(victims(decide(cluster, **NO_LIMITS))) == 2
    assert victims(decide(cluster, **settings)) == [("a", Method.KILL)]
    assert not victims(decide(replace(cluster, lost_node_s={"earlier": 600.0}), **settings))


@pytest.mark.parametrize(
    "vital",
    [{"vital_users": ["urgent"]}, {"vital_accounts": ["fire"]}, {"vital_qos": ["now"]}],
)
def test_a_vital_job_starts_whatever_it_costs(
    running: Build, waiting: Build, cluster_of: BuildCluster, vital: dict[str, list[str]]
) -> None:
    urgent = waiting("u", 1, account="fire", qos="now")
    cluster = cluster_of(1, running("a", "n0"), urgent)
    none = {"ceiling_machine_hours": 0.0, "waiting_machine_hours": 0.0, "budget_machine_hours": 0.0}
    assert not victims(decide(cluster, **none))
    named = {key: frozenset(names) for key, names in vital.items()}
    assert victims(decide(cluster, **none, **named)) == [("a", Method.KILL)]


def test_regular_checkpoints_are_awaited_side_by_side(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """Both are complete in 260 s; one after the other they would take 520 s of 270."""

    def job(name: str, node: str) -> Job:
        return running(name, node, checkpoint=replace(BOTH, system_s=None))

    cluster = cluster_of(2, job("a", "n0"), job("b", "n1"), waiting("u", 2, start_within_s=300.0))
    decision = decide(cluster, **NO_LIMITS, instant_s=0.0)
    assert victims(decision) == [("a", Method.APPLICATION), ("b", Method.APPLICATION)]
    (why,) = decision.rationale
    assert (why.ready_s, why.loss_node_s) == (NOW_S + 260.0, 0)
    assert "the nodes are free in 260 s" in why.summary


@pytest.mark.parametrize(("checkpoints", "method"), [("parallel", Method.SYSTEM), ("serial", Method.KILL)])
def test_requested_checkpoints_take_turns_unless_they_are_parallel(
    running: Build, waiting: Build, cluster_of: BuildCluster, checkpoints: str, method: Method
) -> None:
    """Each takes 200 s of 270."""

    def job(name: str, node: str) -> Job:
        return running(name, node, checkpoint=CheckpointSpec(system_s=200.0))

    cluster = cluster_of(2, job("a", "n0"), job("b", "n1"), waiting("u", 2, start_within_s=300.0))
    decision = decide(cluster, **NO_LIMITS, instant_s=0.0, checkpoints=checkpoints)
    assert Method.SYSTEM in dict(victims(decision)).values()
    assert method in dict(victims(decision)).values()
    assert decision.rationale[0].ready_s == NOW_S + 200.0


def test_after_the_deadline_a_job_is_served_as_a_new_one_if_the_site_wants_it(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    late = waiting("u", 1, submit_s=NOW_S - 601.0)
    cluster = cluster_of(1, running("a", "n0"), late)
    assert victims(decide(cluster, **NO_LIMITS, late="evict")) == [("a", Method.KILL)]
    assert verbs(decide(cluster, **NO_LIMITS)) == ["prioritise"]
    refused = decide(cluster, ceiling_machine_hours=0.1, late="evict")
    assert (verbs(refused), refused.again_s) == (["prioritise"], None)
    limits = Limits(max_loss_node_hours=0.1, max_loss_machine_share=0.0)
    assert verbs(decide(replace(cluster, limits=limits), late="evict")) == ["prioritise"]


def test_after_the_deadline_a_job_may_save_its_work_but_no_start_waits(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    late = waiting("u", 1, submit_s=NOW_S - 9000.0)
    saves = running("a", "n0", checkpoint=CheckpointSpec(system_s=200.0))
    assert victims(decide(cluster_of(1, saves, late), late="evict")) == [("a", Method.SYSTEM)]
    dear = decide(cluster_of(1, running("a", "n0"), late), waiting_machine_hours=0.0, late="evict")
    assert victims(dear) == [("a", Method.KILL)]
    ends = running("a", "n0", walltime_s=1300.0)
    assert victims(decide(cluster_of(1, ends, late), instant_machine_hours=0.0, late="evict")) == [
        ("a", Method.KILL)
    ]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("ceiling_machine_hours", -1.0),
        ("instant_machine_hours", math.nan),
        ("waiting_machine_hours", -2.0),
        ("budget_machine_hours", -0.1),
        ("step_s", 0.0),
        ("step_s", 1e-300),
        ("step_s", math.inf),
        ("leave_s", math.inf),
    ],
)
def test_settings_that_cannot_be_are_refused(setting: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{setting} is .*accepted"):
        LeastPriceConfig(**{setting: value})


def test_on_shared_nodes_the_ceiling_holds_too(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """Two jobs share the node, and both have to leave."""
    jobs = (running("a", "n0"), running("b", "n0"))
    cluster = cluster_of(1, *jobs, waiting("u", 1))
    requeued = [one.job_id for one in decide(cluster, **NO_LIMITS).actions if isinstance(one, Requeue)]
    assert requeued == ["a", "b"]
    assert verbs(decide(cluster, ceiling_machine_hours=0.5)) == ["prioritise"]


def test_without_a_ceiling_any_price_is_paid(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    cluster = cluster_of(1, running("a", "n0", start_s=NOW_S - 9000.0), waiting("u", 1))
    settings = {"waiting_machine_hours": None, "instant_machine_hours": None}
    assert not victims(decide(cluster, ceiling_machine_hours=2.0, **settings))
    assert victims(decide(cluster, ceiling_machine_hours=None, **settings)) == [("a", Method.KILL)]
