"""Who is let on nodes that are held for announced jobs, and how they leave: as values."""

from dataclasses import replace
from typing import Any

import pytest

from makeway.policies.common.holds import guests, lost_for_good, shortfall
from makeway.policies.gate.arbiter import arbitrate
from makeway.policies.hybrid.arrival import HybridConfig
from makeway.policies.hybrid.policy import CUA_PAA, CUA_SPAA, CUP_PAA, N_PAA
from makeway.policies.model import (
    Checkpoint,
    Cluster,
    Eviction,
    JobKind,
    Limits,
    Method,
    Phase,
    Reason,
    Release,
    Requeue,
    Reserve,
)
from makeway.policies.safety.protection import Refusal
from tests.policies.hybrid.held import (
    ANY,
    NOTICE,
    NOW_S,
    SAVES,
    Build,
    BuildCluster,
    collected,
    guests_of,
    loan,
    under_way,
)


def test_the_first_of_the_queue_that_fit_start_on_the_held_nodes(
    running: Build, queued: Build, cluster_of: BuildCluster
) -> None:
    jobs = (
        running("busy", "n3 n4"),
        queued("late", 1, submit_s=NOW_S - 10.0),
        queued("large", 4, submit_s=NOW_S - 900.0),
        queued("first", 2, submit_s=NOW_S - 800.0),
        queued("second", 2, submit_s=NOW_S - 700.0),
    )
    decision = CUA_PAA.decide(under_way(cluster_of(5, *jobs), collected("n0 n1 n2")), HybridConfig())
    assert decision.actions == (loan("first", "n0 n1"), loan("late", "n2"))
    assert [why.deadline_s for why in decision.rationale] == [NOW_S + 1200.0] * 2
    seen = under_way(cluster_of(5, *jobs), collected("n0 n1 n2"))
    assert all(verdict.allowed for verdict in arbitrate(decision.actions, seen))


@pytest.mark.parametrize(
    ("changes", "backfill_held", "starts"),
    [
        ({}, "lossless", True),
        ({}, "none", False),
        ({"checkpoint": None}, "lossless", False),
        ({"checkpoint": None}, "any", True),
        ({"checkpoint": None, "walltime_s": 1200.0}, "lossless", True),
        ({"kind": JobKind.RIGID}, "lossless", False),
        ({"preemptible": False}, "any", False),
        ({"requeue_count": 1}, "any", False),
        ({"reservation": "site"}, "any", False),
        ({"eligible_s": NOW_S + 60.0}, "any", False),
        ({"eligible_nodes": frozenset({"n0", "n3"})}, "any", False),
        ({"user": "root"}, "any", False),
    ],
)
def test_only_jobs_that_may_leave_at_once_are_let_in(
    queued: Build, cluster_of: BuildCluster, changes: dict[str, Any], backfill_held: Any, starts: bool
) -> None:
    seen = under_way(cluster_of(3, queued("w", 2, **changes)), collected("n0 n1 n2"))
    seen = replace(seen, limits=Limits(protected_users=frozenset({"root"})))
    decision = CUP_PAA.decide(seen, HybridConfig(backfill_held=backfill_held))
    assert [action.job_id for action in decision.actions] == (["w"] if starts else [])


def test_no_job_becomes_a_guest_that_would_be_too_young_to_leave(
    queued: Build, cluster_of: BuildCluster
) -> None:
    seen = under_way(cluster_of(3, queued("w", 2)), collected("n0 n1 n2"))
    for least_s, starts in ((1200.0, True), (1201.0, False)):
        limited = replace(seen, limits=Limits(min_runtime_s=least_s))
        assert bool(CUA_PAA.decide(limited, ANY).actions) == starts


def test_a_loan_may_span_two_holds_and_nothing_that_is_not_held(
    running: Build, queued: Build, cluster_of: BuildCluster
) -> None:
    other = replace(NOTICE, notice_id="notice-2", node_count=1, expected_s=NOW_S + 1500.0)
    holds = (collected("n0 n1 n2"), collected("n3", other))
    seen = under_way(cluster_of(5, queued("w", 4)), *holds)
    assert CUA_PAA.decide(seen, ANY).actions == (loan("w", "n3 n0 n1 n2", "mw_notice-1", "mw_notice-2"),)
    busy = under_way(cluster_of(5, running("r", "n3"), queued("w", 4)), holds[0])
    assert CUA_PAA.decide(busy, ANY).actions == (), "n4 is idle, and not held"


def test_a_hold_that_is_about_to_change_lends_nothing(
    running: Build, queued: Build, cluster_of: BuildCluster
) -> None:
    seen = under_way(cluster_of(4, running("r", "n3"), queued("w", 1)), collected("n0 n3"))
    decision = CUA_PAA.decide(seen, ANY)
    assert [action.job_id for action in decision.actions] == ["notice-1"]


def test_nodes_with_guests_stay_collected(running: Build, cluster_of: BuildCluster) -> None:
    seen = under_way(
        cluster_of(5, running("w", "n0 n1"), running("busy", "n3 n4")),
        collected("n0 n1 n2"),
        guests_of(loan("w", "n0 n1")),
    )
    assert [job.job_id for job in guests(seen)["mw_notice-1"]] == ["w"]
    assert shortfall(seen.operations[0], seen) == ("n0", "n1")
    assert lost_for_good(seen.operations[0], seen) == 0
    assert CUA_PAA.decide(seen, ANY).actions == ()
    protected = replace(seen, limits=Limits(protected_users=frozenset({"alice"})))
    lost = protected.node_sets().names(lost_for_good(protected.operations[0], protected))
    assert lost == ("n0", "n1"), "it may not be evicted"


def test_another_urgent_job_may_not_have_nodes_with_guests(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    seen = under_way(
        cluster_of(5, running("w", "n0 n1"), running("busy", "n3 n4"), waiting("u", 2)),
        collected("n0 n1 n2"),
        guests_of(loan("w", "n0 n1")),
    )
    [hold, *leaving] = CUA_PAA.decide(seen, ANY).actions
    assert isinstance(hold, Reserve)
    assert hold.nodes == ("n3", "n4")
    assert [action.job_id for action in leaving] == ["busy"]


def test_at_the_arrival_only_the_guests_leave(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    cheap = running("cheap", "n3 n4", start_s=NOW_S - 1.0)
    rigid = running("rigid", "n0", start_s=NOW_S - 300.0)
    saving = running("saving", "n1", kind=JobKind.MALLEABLE, checkpoint=SAVES, setup_s=10.0)
    seen = under_way(
        cluster_of(5, cheap, rigid, saving, waiting("u", 3, notice_id="notice-1")),
        collected("n0 n1 n2", job_id="u"),
        guests_of(loan("rigid", "n0")),
        guests_of(loan("saving", "n1")),
    )
    for policy in (CUA_PAA, CUA_SPAA):
        hold, *leaving = policy.decide(seen, ANY).actions
        assert isinstance(hold, Reserve)
        assert hold.nodes == ("n2", "n1", "n0")
        assert hold.reason is Reason.URGENT_ARRIVAL
        assert [(type(action), action.job_id) for action in leaving] == [
            (Checkpoint, "saving"),
            (Requeue, "saving"),
            (Requeue, "rigid"),
        ]
        killed, saved = leaving[2], leaving[1]
        assert isinstance(killed, Requeue)
        assert isinstance(saved, Requeue)
        assert (killed.method, killed.not_after_s) == (Method.KILL, NOW_S)
        assert (saved.method, saved.not_after_s) == (Method.SYSTEM, NOW_S + 120.0)
    smaller = replace(seen, jobs=(*seen.jobs[:-1], waiting("u", 2, notice_id="notice-1")))
    hold, *leaving = CUA_PAA.decide(smaller, ANY).actions
    assert {action.job_id for action in leaving} == {"saving"}, (
        "no more than are needed, the least overhead first"
    )


def test_guests_that_would_lose_too_much_stay(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """Then what is free is not kept for the job that they stay in the way of."""
    guest = running("guest", "n0 n1", start_s=NOW_S - 3600.0)
    seen = under_way(
        cluster_of(4, guest, waiting("u", 3, notice_id="notice-1")),
        collected("n0 n1 n2", job_id="u"),
        guests_of(loan("guest", "n0 n1")),
    )
    allowed = CUA_PAA.decide(seen, ANY).actions
    assert [(action.verb, action.job_id) for action in allowed] == [("reserve", "u"), ("requeue", "guest")]
    limited = replace(seen, limits=Limits(max_loss_node_hours=0.5))
    refused = CUA_PAA.decide(limited, ANY)
    assert [(action.verb, action.job_id) for action in refused.actions] == [
        ("prioritise", "u"),
        ("release", "u"),
    ]
    assert refused.rationale[0].summary == (
        "Guests have to leave 1 of the nodes held for it: it would cost 2 node-hours, the limit is 0.50 "
        "(max_loss_node_hours). No job is evicted."
    )


def test_guests_leave_first_and_others_for_what_is_still_missing(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    seen = under_way(
        cluster_of(4, running("w", "n0"), running("busy", "n2 n3"), waiting("u", 3)),
        collected("n0 n1", job_id="u"),
        guests_of(loan("w", "n0")),
    )
    hold, *leaving = CUA_PAA.decide(seen, ANY).actions
    assert isinstance(hold, Reserve)
    assert sorted(hold.nodes) == ["n0", "n1", "n2"]
    assert [action.job_id for action in leaving] == ["busy", "w"]
    assert all(verdict.allowed for verdict in arbitrate((hold, *leaving), seen))
    late = replace(seen, now_s=NOW_S + 700.0)
    assert not any(isinstance(action, Requeue) for action in CUA_PAA.decide(late, ANY).actions)


def test_a_guest_next_to_another_job_does_not_leave_alone(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """Its node would not be free."""
    seen = under_way(
        cluster_of(4, running("w", "n0"), running("other", "n0 n2 n3"), waiting("u", 2)),
        collected("n0 n1", job_id="u"),
        guests_of(loan("w", "n0")),
    )
    hold, *leaving = CUA_PAA.decide(seen, ANY).actions
    assert isinstance(hold, Reserve)
    assert len(hold.nodes) == 2
    assert {action.job_id for action in leaving} == {"w", "other"}


def test_who_is_too_young_at_an_early_arrival_stays(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    seen = under_way(
        cluster_of(4, running("w", "n0", start_s=NOW_S - 5.0), running("busy", "n2 n3"), waiting("u", 2)),
        collected("n0 n1", job_id="u"),
        guests_of(loan("w", "n0")),
    )
    seen = replace(seen, limits=Limits(min_runtime_s=10.0))
    assert [action.job_id for action in CUA_PAA.decide(seen, ANY).actions] == ["u", "busy"]


def test_a_start_that_has_not_come_about_is_called_off_at_the_arrival(
    queued: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    bound = queued("w", 2, reservation="mw_w")
    seen = under_way(
        cluster_of(3, bound, waiting("u", 3)),
        collected("n0 n1 n2", job_id="u"),
        guests_of(loan("w", "n0 n1"), Phase.MAKING_ROOM),
    )
    release, hold = CUA_PAA.decide(seen, ANY).actions
    assert isinstance(release, Release)
    assert (release.for_job_id, release.reservation) == ("w", "mw_w")
    assert isinstance(hold, Reserve)
    assert set(hold.nodes) == {"n0", "n1", "n2"}
    assert all(verdict.allowed for verdict in arbitrate((release, hold), seen))


def test_without_collecting_there_are_no_guests(queued: Build, cluster_of: BuildCluster) -> None:
    seen = replace(cluster_of(3, queued("w", 2)), notices=(NOTICE,))
    assert N_PAA.decide(seen, ANY).actions == ()


def test_the_arbiter_lends_only_what_is_held_for_announced_jobs(
    queued: Build, cluster_of: BuildCluster
) -> None:
    seen = under_way(cluster_of(4, queued("w", 1), queued("x", 1)), collected("n0 n1 n2"))

    def refusals(cluster: Cluster, *actions: Reserve) -> list[Refusal | None]:
        return [verdict.refusal for verdict in arbitrate(actions, cluster)]

    assert refusals(seen, loan("w", "n0"), loan("x", "n1")) == [None, None]
    assert refusals(seen, loan("w", "n0"), loan("x", "n0")) == [None, Refusal.NODE_TAKEN]
    assert refusals(seen, loan("w", "n3")) == [Refusal.NODE_TAKEN]
    assert refusals(seen, loan("w", "n0", "mw_other")) == [Refusal.NODE_TAKEN]
    here = under_way(seen, collected("n0 n1 n2", job_id="u"))
    assert refusals(here, loan("w", "n0")) == [Refusal.NODE_TAKEN], "its job has come"
    for phase in (Phase.LENT, Phase.RETURNING):
        over = under_way(seen, replace(collected("n0 n1 n2"), phase=phase))
        assert refusals(over, loan("w", "n0")) == [Refusal.NODE_TAKEN], "its job has started, or it goes back"
    observed = under_way(seen, replace(collected("n0 n1 n2"), observe=True))
    assert refusals(replace(observed, reservations=()), loan("w", "n0")) == [Refusal.NODE_TAKEN]
    two = under_way(seen, collected("n0 n1 n2"), collected("n3", replace(NOTICE, notice_id="notice-2")))
    assert refusals(two, loan("w", "n3")) == [Refusal.NODE_TAKEN], "it is lent out of the hold of the other"
    for most in (3, 0):
        full = replace(seen, limits=Limits(max_nodes=most))
        assert refusals(full, loan("w", "n0")) == [None], (
            "what is lent is held already, whatever the limit is by now"
        )


def test_every_guest_keeps_an_eviction_of_the_hour_free(
    running: Build, queued: Build, cluster_of: BuildCluster
) -> None:
    limits = Limits(evictions_per_hour=2)
    past = (Eviction(job_id="x", at_s=NOW_S - 60.0),)
    seen = under_way(cluster_of(3, queued("w", 1), queued("x", 1)), collected("n0 n1 n2"))
    seen = replace(seen, limits=limits, evictions=past)
    verdicts = arbitrate((loan("w", "n0"), loan("x", "n1")), seen)
    assert [verdict.refusal for verdict in verdicts] == [None, Refusal.PER_HOUR]
    lent = under_way(
        cluster_of(5, running("w", "n0"), running("busy", "n3")),
        collected("n0 n1 n2"),
        guests_of(loan("w", "n0")),
    )
    lent = replace(lent, limits=limits, evictions=past)

    def eviction(job_id: str) -> Requeue:
        return Requeue(
            job_id=job_id,
            for_job_id="notice-1",
            policy="cua-paa",
            reason=Reason.ANNOUNCED,
            method=Method.KILL,
            not_after_s=NOW_S,
        )

    assert [arbitrate((eviction(name),), lent)[0].refusal for name in ("busy", "w")] == [
        Refusal.PER_HOUR,
        None,
    ]
