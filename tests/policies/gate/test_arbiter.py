"""What the arbiter lets pass, rule by rule."""

from dataclasses import replace
from typing import Any

import pytest

from makeway.policies.gate.arbiter import arbitrate
from makeway.policies.gate.breaker import breaker_tripped
from makeway.policies.model import (
    VERBS,
    Action,
    Eviction,
    JobKind,
    JobState,
    Limits,
    OperationKind,
    Phase,
    Prioritise,
    Progress,
    Reason,
    RestoreLimit,
    RestorePriority,
    TakenFromJob,
    Task,
    Verb,
)
from makeway.policies.safety.protection import Refusal, hard_protection, protection
from tests.policies.gate.gate import (
    Build,
    BuildCluster,
    cancel,
    checkpoint,
    giving_back,
    hold,
    operation,
    refusals,
    requeue,
    shrink,
)


@pytest.mark.parametrize(
    ("changes", "limits", "expected"),
    [
        ({}, {}, None),
        ({"kind": JobKind.ON_DEMAND}, {}, Refusal.URGENT),
        ({"preemptible": False}, {}, Refusal.NOT_PREEMPTIBLE),
        ({"user": "root"}, {"protected_users": frozenset({"root"})}, Refusal.PROTECTED_USER),
        ({"account": "gold"}, {"protected_accounts": frozenset({"gold"})}, Refusal.PROTECTED_ACCOUNT),
        ({"qos": "vip"}, {"protected_qos": frozenset({"vip"})}, Refusal.PROTECTED_QOS),
        ({"partition": "gpu"}, {"protected_partitions": frozenset({"gpu"})}, Refusal.PROTECTED_PARTITION),
        ({"qos": "vipers"}, {"protected_qos": frozenset({"vip"})}, None),
        ({"partition": "cpu,gpus"}, {"protected_partitions": frozenset({"gpu"})}, None),
        ({"state": JobState.COMPLETING}, {}, Refusal.NOT_RUNNING),
        ({"state": JobState.SUSPENDED}, {}, Refusal.NOT_RUNNING),
        ({"state": JobState.SUSPENDED, "preemptible": False}, {}, Refusal.NOT_RUNNING),
        ({"state": JobState.PENDING, "start_s": None}, {}, Refusal.NOT_RUNNING),
        ({"start_s": 9_941.0}, {"min_runtime_s": 60.0}, Refusal.MIN_RUNTIME),
        ({"start_s": 9_940.0}, {"min_runtime_s": 60.0}, None),
        ({"requeue_count": 2}, {"evictions_per_job": 2}, Refusal.PER_JOB),
        ({"requeue_count": 1, "start_s": 8_200.0}, {"evictions_per_job": 2}, None),
        ({"requeue_count": 1, "start_s": 8_201.0}, {}, Refusal.MIN_PROGRESS),
        ({"requeue_count": 1, "start_s": 8_200.0, "setup_s": 1.0}, {}, Refusal.MIN_PROGRESS),
        ({"requeue_count": 1, "start_s": 9_941.0}, {"min_progress_s": 59.0}, None),
        ({"requeue_count": 1, "start_s": 9_990.0, "setup_s": 60.0}, {"min_progress_s": 0.0}, None),
    ],
)
def test_protection(
    running: Build,
    cluster_of: BuildCluster,
    changes: dict[str, Any],
    limits: dict[str, Any],
    expected: Refusal | None,
) -> None:
    job = running("a", "n0 n1", **changes)
    cluster = cluster_of(4, job, limits=replace(Limits(), **limits))
    assert protection(job, cluster) is expected
    wanted = [Refusal.GROUP if expected else None, expected]
    assert refusals((hold("u", "n0"), requeue("a")), cluster) == wanted


def test_the_hard_protections_ignore_age_and_history(running: Build, cluster_of: BuildCluster) -> None:
    job = running("a", "n0", start_s=9_999.0, requeue_count=7)
    limits = Limits(min_runtime_s=600.0, evictions_per_job=1)
    cluster = cluster_of(2, job, limits=limits)
    assert hard_protection(job, cluster) is None
    assert hard_protection(replace(job, preemptible=False), cluster) is Refusal.NOT_PREEMPTIBLE


def test_a_job_that_is_not_there_is_not_evicted(cluster_of: BuildCluster) -> None:
    assert refusals((hold("u", "n0"), requeue("ghost")), cluster_of(2)) == [
        Refusal.GROUP,
        Refusal.NOT_RUNNING,
    ]


@pytest.mark.parametrize("eviction", [requeue("a"), cancel("a"), checkpoint("a"), shrink("a", "n0")])
def test_no_job_is_evicted_without_a_hold(running: Build, cluster_of: BuildCluster, eviction: Action) -> None:
    cluster = cluster_of(4, running("a", "n0 n1", kind=JobKind.MALLEABLE, node_count_min=1))
    assert refusals((eviction,), cluster) == [Refusal.NO_HOLD]
    assert refusals((eviction, hold("u", "n0")), cluster) == [Refusal.NO_HOLD, Refusal.GROUP]
    assert refusals((hold("other", "n0"), eviction), cluster) == [None, Refusal.NO_HOLD]
    assert refusals((hold("u", "n0"), eviction), cluster) == [None, None]
    assert refusals((eviction,), replace(cluster, operations=(operation(),))) == [None]


def test_only_nodes_that_are_held_or_being_held_let_a_job_be_evicted(
    running: Build, cluster_of: BuildCluster
) -> None:
    """Another operation of the job, one that gives back, and a promise of later nodes hold none for it."""
    holds = operation(hold("u", "n0"))
    cluster = cluster_of(4, running("a", "n0"), operations=(holds,))
    without = [
        replace(holds, kind=OperationKind.FRONT, reservation="", nodes=(), tasks=()),
        replace(holds, kind=OperationKind.CLEAN_UP, reservation="", nodes=(), tasks=()),
        replace(holds, kind=OperationKind.QUEUE_HEAD, nodes=(), tasks=(Task(action=hold("u", "")),)),
        replace(holds, phase=Phase.LENT),
        replace(holds, phase=Phase.RETURNING),
    ]
    for one in without:
        assert refusals((requeue("a"),), replace(cluster, operations=(one,))) == [Refusal.NO_HOLD]
        assert refusals((requeue("a"),), replace(cluster, operations=(holds, one))) == [None]
    promised = (hold("u", ""), requeue("a"))
    assert refusals(promised, replace(cluster, operations=())) == [Refusal.GROUP, Refusal.NO_HOLD]


def test_a_group_is_allowed_or_refused_together_and_only_that_group(
    running: Build, cluster_of: BuildCluster
) -> None:
    cluster = cluster_of(6, running("a", "n0"), running("b", "n1", preemptible=False), running("c", "n2"))
    actions = (hold("u", "n0 n1"), requeue("a"), requeue("b"), hold("v", "n2"), requeue("c", "v"))
    assert refusals(actions, cluster) == [Refusal.GROUP, Refusal.GROUP, Refusal.NOT_PREEMPTIBLE, None, None]


def test_what_a_refused_group_would_have_used_is_free_for_the_next(
    running: Build, cluster_of: BuildCluster
) -> None:
    limits = Limits(evictions_per_hour=1, max_nodes=2)
    cluster = cluster_of(
        6, running("a", "n0"), running("b", "n1", preemptible=False), running("c", "n2"), limits=limits
    )
    actions = (hold("u", "n0 n1"), requeue("a"), requeue("b"), hold("v", "n1 n2"), requeue("c", "v"))
    assert refusals(actions, cluster)[3:] == [None, None]


def test_evictions_for_each_hour(running: Build, cluster_of: BuildCluster) -> None:
    jobs = (running("a", "n0"), running("b", "n1"), running("c", "n2"))
    cluster = cluster_of(4, *jobs, limits=Limits(evictions_per_hour=2))
    group = (hold("u", "n0 n1"), requeue("b"), checkpoint("a"), requeue("a"))
    assert refusals(group, cluster) == [None] * 4, "a checkpoint and the requeue of one job count once"
    assert refusals((*group, requeue("c")), cluster) == [Refusal.GROUP] * 4 + [Refusal.PER_HOUR]
    past = replace(cluster, evictions=(Eviction(job_id="x", at_s=6_400.0),))
    assert refusals(group, past) == [None] * 4, "an hour ago does not count"
    recent = replace(cluster, evictions=(Eviction(job_id="x", at_s=6_401.0),))
    assert refusals(group, recent)[2] is Refusal.PER_HOUR
    this_instant = replace(cluster, evictions=(Eviction(job_id="x", at_s=10_000.0),))
    assert refusals(group, this_instant)[2] is Refusal.PER_HOUR
    future = replace(cluster, evictions=(Eviction(job_id="x", at_s=10_001.0),))
    assert refusals(group, future) == [None] * 4, "the clock was wrong then"


@pytest.mark.parametrize("leaves", [requeue("a"), cancel("a"), shrink("a", "n0")])
def test_evictions_that_were_promised_and_not_yet_carried_out_count(
    running: Build, cluster_of: BuildCluster, leaves: Action
) -> None:
    jobs = (running("a", "n0"), running("b", "n1"))
    commitments = operation(hold("u", "n0"), checkpoint("a"), leaves)
    cluster = cluster_of(4, *jobs, limits=Limits(evictions_per_hour=1), operations=(commitments,))
    group = (hold("v", "n1"), requeue("b", "v"))
    assert refusals(group, cluster) == [Refusal.GROUP, Refusal.PER_HOUR]
    carried_out = replace(cluster, evictions=(Eviction(job_id="a", at_s=9_500.0),))
    assert refusals(group, carried_out) == [Refusal.GROUP, Refusal.PER_HOUR], "counted once, not twice"
    two = replace(carried_out, limits=Limits(evictions_per_hour=2))
    assert refusals(group, two) == [None, None]
    another = replace(
        cluster, evictions=(Eviction(job_id="x", at_s=9_500.0),), limits=Limits(evictions_per_hour=2)
    )
    assert refusals(group, another) == [Refusal.GROUP, Refusal.PER_HOUR], "a has still to leave"
    only_watched = replace(cluster, operations=(replace(commitments, observe=True),))
    assert refusals(group, only_watched) == [None, None]
    over = replace(commitments, tasks=tuple(replace(task, ended_s=9_900.0) for task in commitments.tasks))
    assert refusals(group, replace(cluster, operations=(over,))) == [None, None]


def test_an_operation_under_way_is_not_stranded(running: Build, cluster_of: BuildCluster) -> None:
    under_way = operation(hold("u", "n0 n1"), checkpoint("a"), requeue("a"))
    job = running("a", "n0 n1", start_s=9_990.0, requeue_count=9)
    limits = Limits(min_runtime_s=900.0, evictions_per_job=1, evictions_per_hour=0, max_nodes=2)
    cluster = cluster_of(4, job, limits=limits, operations=(under_way,))
    assert refusals((checkpoint("a"), requeue("a")), cluster) == [None, None]
    assert refusals((hold("u", "n0 n1"),), cluster) == [None], "the hold may be requested again"
    gone = replace(cluster, jobs=())
    assert refusals((requeue("a"),), gone) == [None], "the cluster itself says that it is gone"
    shrinks = replace(gone, operations=(operation(hold("u", "n1"), shrink("a", "n0")),))
    assert refusals((shrink("a", "n0"),), shrinks) == [None], "likewise"
    assert refusals((cancel("a"),), cluster) == [Refusal.MIN_RUNTIME], "no task of it: a new eviction"
    protected = replace(cluster, jobs=(replace(job, preemptible=False),))
    assert refusals((requeue("a"),), protected) == [Refusal.NOT_PREEMPTIBLE]


def test_an_urgent_job_may_have_two_open_operations(running: Build, cluster_of: BuildCluster) -> None:
    """One that makes way for it, and one that gives it its own priority back: the second must not hide the
    first.
    """
    makes_way = operation(hold("u", "n0 n1"), requeue("a"), nodes="n0 n1")
    restore = RestorePriority(job_id="u", for_job_id="u", policy="test", reason=Reason.STARTED)
    restores = replace(operation(restore, nodes=""), operation_id="u@2", reservation="")
    limits = Limits(max_nodes=3, evictions_per_hour=0)
    for operations in ((makes_way, restores), (restores, makes_way)):
        cluster = cluster_of(4, limits=limits, operations=operations)
        assert refusals((requeue("a"),), cluster) == [None], "the cluster itself says that it is gone"
        assert refusals((hold("v", "n2 n3"),), cluster) == [Refusal.MAX_NODES]
        assert refusals((hold("v", "n1"),), cluster) == [Refusal.NODE_TAKEN]


def test_a_task_under_way_is_judged_apart_from_a_new_hold_of_the_same_job(
    running: Build, cluster_of: BuildCluster
) -> None:
    jobs = (running("a", "n0"), running("b", "n1", preemptible=False))
    cluster = cluster_of(4, *jobs, operations=(operation(hold("u", "n0"), requeue("a")),))
    actions = (requeue("a"), hold("u", "n1"), requeue("b"))
    assert refusals(actions, cluster) == [None, Refusal.GROUP, Refusal.NOT_PREEMPTIBLE]


def test_shrinking(running: Build, cluster_of: BuildCluster) -> None:
    job = running("a", "n0 n1 n2 n3", kind=JobKind.MALLEABLE, node_count_min=2)
    cluster = cluster_of(6, job, operations=(operation(),))
    assert refusals((shrink("a", "n0 n3"),), cluster) == [None]
    assert refusals((shrink("a", "n0 n1 n2 n3"),), cluster) == [None], "only its time limit is raised"
    assert refusals((shrink("a", "n0"),), cluster) == [Refusal.TOO_SMALL]
    assert refusals((shrink("a", "n0 n0"),), cluster) == [Refusal.TOO_SMALL]
    assert refusals((shrink("a", "n1 n0"),), cluster) == [Refusal.BATCH_HOST]
    assert refusals((shrink("a", "n0 n5"),), cluster) == [Refusal.BATCH_HOST]
    assert refusals((shrink("a", ""),), cluster) == [Refusal.BATCH_HOST]
    rigid = replace(cluster, jobs=(replace(job, node_count_min=None),))
    assert refusals((shrink("a", "n0 n1 n2"),), rigid) == [Refusal.TOO_SMALL]
    under_way = replace(cluster, operations=(operation(shrink("a", "n0")),))
    assert refusals((shrink("a", "n0"),), under_way) == [Refusal.TOO_SMALL], "never below the minimum"


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_an_action_that_the_cluster_cannot_do_is_refused(
    verb: Verb, running: Build, cluster_of: BuildCluster
) -> None:
    job = running("a", "n0 n1", kind=JobKind.MALLEABLE, node_count_min=1)
    actions = (
        hold("u", "n2"),
        *(checkpoint("a"), requeue("a"), cancel("a"), shrink("a", "n0")),
        *giving_back(),
        RestorePriority(job_id="a", for_job_id="u", policy="test", reason=Reason.STARTED),
        RestoreLimit(
            job_id="a",
            for_job_id="a",
            policy="test",
            reason=Reason.TAKEN,
            walltime_s=None,
            taken=TakenFromJob(run=0),
        ),
    )
    action = next(one for one in actions if one.verb == verb)
    assert set(refusals(tuple(dict.fromkeys((actions[0], action))), cluster_of(4, job))) == {None}
    (verdict,) = arbitrate((action,), cluster_of(4, job, actions=VERBS - {verb}))
    assert verdict.refusal is Refusal.UNSUPPORTED
    assert verdict.detail == f"this cluster does not support the action {verb}"


def test_the_breaker_stops_what_takes_and_never_what_gives_back(
    running: Build, cluster_of: BuildCluster
) -> None:
    limits = Limits(breaker_failures=2, breaker_window_s=100.0)
    job = running("a", "n0 n1", kind=JobKind.MALLEABLE, node_count_min=1)
    cluster = cluster_of(4, job, limits=limits, failures_s=(9_950.0, 9_951.0))
    assert breaker_tripped(cluster.failures_s, limits, cluster.now_s)
    takes = (hold("u", "n0"), checkpoint("a"), requeue("a"), cancel("a"), shrink("a", "n0"))
    assert refusals(takes, cluster) == [Refusal.BREAKER] * 5
    assert refusals(giving_back(), cluster) == [None] * 3
    under_way = replace(cluster, operations=(operation(requeue("a")),))
    assert refusals((requeue("a"),), under_way) == [Refusal.BREAKER]
    for failures_s in ((9_899.0, 9_900.0, 9_951.0), (9_951.0,), ()):
        assert refusals(takes, replace(cluster, failures_s=failures_s)) == [None] * 5
    assert not breaker_tripped(cluster.failures_s, Limits(breaker_failures=None), cluster.now_s)


def test_an_operation_that_is_closed_is_no_operation(running: Build, cluster_of: BuildCluster) -> None:
    closed = operation(requeue("a"), phase=Phase.CLOSED)
    cluster = cluster_of(2, running("a", "n0"), operations=(closed,))
    assert refusals((requeue("a"),), cluster) == [Refusal.NO_HOLD]


def test_a_refused_task_no_longer_promises_an_eviction(running: Build, cluster_of: BuildCluster) -> None:
    commitments = operation(hold("u", "n0"), requeue("a"))
    refused = replace(
        commitments,
        tasks=tuple(
            replace(task, progress=Progress.REFUSED, ended_s=9_100.0, detail="no")
            for task in commitments.tasks
        ),
    )
    limits = Limits(evictions_per_hour=1)
    cluster = cluster_of(4, running("b", "n1"), limits=limits, operations=(refused,))
    assert refusals((hold("v", "n1"), requeue("b", "v")), cluster) == [None, None]


WAITS = {"kind": JobKind.ON_DEMAND, "preemptible": False, "blocked_by": "its release from a hold"}


def test_nothing_is_taken_for_a_job_that_lacks_something_besides_nodes(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = (running("a", "n0 n1"), waiting("u", 1, **WAITS))
    assert refusals((hold("u", "n0"), requeue("a")), cluster_of(4, *jobs)) == [
        Refusal.BLOCKED,
        Refusal.BLOCKED,
    ]
    begun = cluster_of(4, *jobs, operations=(operation(hold("u", "n0"), nodes="n0"),))
    assert refusals((requeue("a"),), begun) == [Refusal.BLOCKED]
    assert refusals(giving_back(), begun) == [None, None, None]
    lender = waiting("a", 1, **{**WAITS, "kind": JobKind.RIGID})
    assert refusals(giving_back(), cluster_of(4, lender)) == [None, None, None], (
        "a lender gets back what it had"
    )


def test_such_a_job_does_not_go_to_the_front(waiting: Build, cluster_of: BuildCluster) -> None:
    front = Prioritise(job_id="u", for_job_id="u", policy="test", reason=Reason.NO_ROOM)
    assert refusals((front,), cluster_of(4, waiting("u", 1, **WAITS))) == [Refusal.BLOCKED]
    free = {**WAITS, "blocked_by": ""}
    assert refusals((front,), cluster_of(4, waiting("u", 1, **free))) == [None]
