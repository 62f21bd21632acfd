"""What a day has cost, who pays, and which tasks under way are asked about what they would lose by now."""

from dataclasses import replace

import pytest

from makeway.policies.gate.arbiter import arbitrate
from makeway.policies.model import (
    Acknowledgement,
    Action,
    Cancel,
    Checkpoint,
    CheckpointSpec,
    Limits,
    Method,
    Notice,
    Reason,
)
from makeway.policies.safety.prices import payer_of, spending
from makeway.policies.safety.protection import Refusal
from tests.policies.arriving import NOW_S, Build, BuildCluster, hold, requeue
from tests.policies.eviction.test_policy_under_way import operation

HOUR_S = 3600.0
REPORTS = CheckpointSpec(interval_s=540.0, application_s=60.0, acknowledgement=Acknowledgement.COMMENT)
NO_LOSS = Limits(max_loss_node_hours=0.0, max_loss_machine_share=0.0)


def test_the_user_and_the_account_with_the_most_of_a_day_are_named(cluster_of: BuildCluster) -> None:
    cluster = replace(
        cluster_of(4),
        limits=Limits(
            max_loss_node_hours_per_day=100.0,
            max_loss_machine_share_per_day=0.0,
            max_loss_node_hours_per_user_per_day=40.0,
            max_loss_node_hours_per_account_per_day=60.0,
        ),
        lost_node_s={"1": 10.0 * HOUR_S, "2": 30.5 * HOUR_S},
        lost_by_user={"beam": 30.5 * HOUR_S, "eve": 10.0 * HOUR_S},
        lost_by_account={"dark": 10.0 * HOUR_S, "light": 30.5 * HOUR_S},
    )
    assert [one.text for one in spending(cluster)] == [
        "40.50 of 100 node-hours",
        "user beam: 30.50 of 40 node-hours",
        "account light: 30.50 of 60 node-hours",
    ]
    unlimited = replace(cluster, limits=Limits(max_loss_node_hours_per_day=None))
    assert [one.text for one in spending(unlimited)] == ["40.50 node-hours"]
    nothing = replace(cluster, lost_node_s={}, lost_by_user={}, lost_by_account={})
    assert [one.text for one in spending(nothing)] == ["0 of 100 node-hours"]


def test_each_announcement_is_paid_for_by_its_own_user(cluster_of: BuildCluster) -> None:
    one = Notice(notice_id="1", user="beam", node_count=1, walltime_s=60.0, announced_s=0.0, expected_s=NOW_S)
    cluster = replace(cluster_of(4), notices=(one, replace(one, notice_id="2", user="eve", account="dark")))
    assert payer_of(cluster, "2") == ("eve", "dark")
    assert payer_of(cluster, "3") == ("", ""), "unknown"


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(4000.0, [None] * 3), (3999.0, [Refusal.GROUP, Refusal.MAX_LOSS, Refusal.MAX_LOSS])],
)
def test_the_jobs_that_leave_for_one_urgent_job_are_counted_once(
    running: Build, cluster_of: BuildCluster, limit: float, expected: list[Refusal | None]
) -> None:
    """Each loses 2,000 node-seconds."""
    jobs = (running("a", "n0 n1"), running("b", "n2 n3"))
    limits = Limits(max_loss_node_hours=limit / HOUR_S, max_loss_machine_share=0.0)
    actions = (
        hold("u", "n0 n1 n2 n3", 60.0),
        requeue("a", "u", Method.KILL, NOW_S),
        requeue("b", "u", Method.KILL, NOW_S),
    )
    verdicts = arbitrate(actions, cluster_of(4, *jobs, limits=limits))
    assert [verdict.refusal for verdict in verdicts] == expected


def cancel(job_id: str, method: Method) -> Cancel:
    return Cancel(
        job_id=job_id,
        for_job_id="u",
        policy="eviction",
        reason=Reason.URGENT_ARRIVAL,
        method=method,
        not_after_s=NOW_S,
    )


SIGNAL = Checkpoint(
    job_id="a",
    for_job_id="u",
    policy="eviction",
    reason=Reason.URGENT_ARRIVAL,
    signal="USR1",
    grace_s=60.0,
    walltime_s=3660.0,
)


@pytest.mark.parametrize(
    ("tasks", "sent", "saved_s", "refused"),
    [
        ((cancel("a", Method.KILL),), 0, None, True),
        ((cancel("a", Method.APPLICATION),), 0, None, True),
        ((cancel("a", Method.APPLICATION),), 0, NOW_S - 60.0, True),  # by the report of before the decision
        ((cancel("a", Method.APPLICATION),), 0, NOW_S - 59.0, False),
        ((requeue("a", "u", Method.APPLICATION, NOW_S),), 0, NOW_S - 59.0, False),
        ((SIGNAL, cancel("b", Method.KILL)), 0, None, False),  # a signal loses nothing
        ((cancel("b", Method.KILL), cancel("a", Method.KILL)), 0, None, True),
        ((cancel("b", Method.KILL), cancel("a", Method.KILL)), 1, None, True),
        ((cancel("gone", Method.APPLICATION),), 0, None, False),
    ],
)
def test_a_kill_of_an_open_operation_is_asked_about_and_nothing_else(
    running: Build,
    cluster_of: BuildCluster,
    tasks: tuple[Action, ...],
    sent: int,
    saved_s: float | None,
    refused: bool,
) -> None:
    """The decision is 60 s old. Another urgent job has an operation, too."""
    jobs = (running("a", "n0 n1", checkpoint=REPORTS, last_checkpoint_s=saved_s), running("b", "n2"))
    known = operation((hold("u", "n0 n1 n2", 60.0), *tasks), "n0 n1 n2")
    other = replace(operation((hold("v", "n3", 60.0),), "n3"), operation_id="v@1", for_job_id="v")
    cluster = cluster_of(4, *jobs, operations=(other, known), limits=NO_LOSS)
    (verdict,) = arbitrate((tasks[sent],), cluster)
    assert verdict.refusal == (Refusal.MAX_LOSS if refused else None)
