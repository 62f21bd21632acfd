"""What becomes of an announcement and of what is held for it, cycle by cycle."""

from dataclasses import replace

import pytest

from makeway.adapters.protocol import Rejected
from makeway.daemon.config.mode import Mode
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import LoopSettings
from makeway.daemon.control.sentence import outcome_text
from makeway.daemon.journal.store import Journal
from makeway.daemon.operation.handover import Watch, changes
from makeway.daemon.operation.observation import Timeouts
from makeway.policies.model import (
    CheckpointSpec,
    Cluster,
    Job,
    JobState,
    Method,
    Notice,
    Operation,
    OperationKind,
    OperationOutcome,
    Phase,
    Progress,
    Requeue,
)
from makeway.policies.registry import find
from tests.builders import cluster, node_names, pending, running, urgent
from tests.fakes import FakeAdapter

NOTICE = Notice(
    notice_id="notice-1", user="user", node_count=2, walltime_s=900.0, announced_s=900.0, expected_s=2000.0
)
HELD = "mw_notice-1"


def daemon(
    adapter: FakeAdapter, journal: Journal, policy: str = "cua-paa", *, mode: Mode = Mode.ACT
) -> Reconciler:
    chosen = find(policy)
    return Reconciler(
        adapter,
        journal,
        chosen,
        chosen.config_type(),
        LoopSettings(mode=mode),
        now=lambda: adapter.view.now_s,
    )


def told(notice: Notice = NOTICE) -> Journal:
    journal = Journal(None)
    journal.add_notice(notice)
    return journal


def arrives(view: Cluster, job: Job, now_s: float) -> Cluster:
    return replace(view, jobs=(*view.jobs, job), now_s=now_s)


def only(journal: Journal) -> Operation:
    (operation,) = journal.open_operations()
    return operation


def test_the_hold_passes_to_the_job_which_starts_and_gives_back() -> None:
    adapter = FakeAdapter(cluster(3, running("a", ("n1",), start_s=0.0)))
    journal = told()
    loop = daemon(adapter, journal)
    loop.reconcile()
    assert adapter.calls == [("reserve", HELD)]
    assert [kept.nodes for kept in adapter.view.reservations] == [("n2", "n3")]
    assert (only(journal).for_job_id, only(journal).give_up_s) == ("notice-1", 2600.0)
    loop.reconcile()
    assert len(adapter.calls) == 1, "nothing more to do but wait"

    adapter.view = arrives(adapter.view, urgent("u", 2, submit_s=2100.0), 2100.0)
    loop.reconcile()
    assert adapter.calls[1:] == [("reserve", HELD)]
    assert adapter.view.jobs_by_id()["u"].reservation == HELD
    assert (only(journal).for_job_id, only(journal).give_up_s) == ("u", 2100.0 + 600.0 + 600.0)
    assert only(journal).user == adapter.view.jobs_by_id()["u"].user
    assert [notice.job_id for notice in journal.notices()] == ["u"]

    started = replace(
        adapter.view.jobs_by_id()["u"], state=JobState.RUNNING, nodes=("n2", "n3"), start_s=2101.0
    )
    adapter.view = replace(adapter.view, jobs=(adapter.view.jobs[0], started), now_s=2110.0)
    assert loop.reconcile().urgent_started == (1.0,)
    assert only(journal).phase is Phase.LENT
    adapter.view = replace(adapter.view, jobs=adapter.view.jobs[:1], now_s=3000.0)
    loop.reconcile()
    report = loop.reconcile()
    assert adapter.calls[2:] == [("release", HELD)]
    assert [outcome_text(closed) for closed in report.closed] == [
        "the urgent job started on time; 0 lenders given back"
    ]
    assert journal.notices() == ()


def test_one_that_does_not_come_is_forgotten_and_its_hold_released() -> None:
    adapter = FakeAdapter(cluster(3))
    journal = told()
    loop = daemon(adapter, journal)
    loop.reconcile()
    adapter.view = replace(adapter.view, now_s=2599.0)
    loop.reconcile()
    assert adapter.calls == [("reserve", HELD)]
    assert loop.wakeup_s(2599.0, 30.0) == 2600.0
    adapter.view = replace(adapter.view, now_s=2600.0)
    loop.reconcile()
    assert adapter.calls[1:] == [("release", HELD)]
    assert journal.notices() == ()
    loop.reconcile()
    assert journal.open_operations() == ()
    assert adapter.view.reservations == ()


def test_a_job_that_started_without_its_hold_gives_it_back() -> None:
    adapter = FakeAdapter(cluster(4))
    journal = told()
    loop = daemon(adapter, journal)
    loop.reconcile()
    started = running("u", ("n3", "n4"), start_s=1500.0, user="user", preemptible=False)
    adapter.view = arrives(adapter.view, replace(started, kind=urgent("u", 2).kind), 1501.0)
    loop.reconcile()
    assert adapter.calls[1:] == [("release", HELD)]
    assert loop.reconcile().operations_open == 0


def test_a_job_without_room_gives_its_hold_back_and_stands_in_front() -> None:
    stays = running("a", ("n1", "n2"), start_s=0.0, preemptible=False)
    adapter = FakeAdapter(cluster(3, stays))
    journal = told()
    loop = daemon(adapter, journal)
    loop.reconcile()
    assert adapter.view.reservations[0].nodes == ("n3", "n1", "n2")
    adapter.view = arrives(adapter.view, urgent("u", 2, submit_s=1900.0), 1900.0)
    loop.reconcile()
    assert adapter.calls[1:] == [("prioritise", "u")]
    front = replace(adapter.view.jobs_by_id()["u"], prioritised=True)
    adapter.view = replace(adapter.view, jobs=(stays, front))
    loop.reconcile()
    assert adapter.calls[2:] == [("release", HELD)], "once it is seen in front"


def test_a_hold_that_vanished_before_the_arrival_is_made_again() -> None:
    adapter = FakeAdapter(cluster(3))
    loop = daemon(adapter, told())
    loop.reconcile()
    loop.reconcile()
    adapter.view = replace(adapter.view, reservations=(), now_s=1100.0)
    loop.reconcile()
    assert adapter.calls == [("reserve", HELD), ("reserve", HELD)]


def test_a_refused_hold_is_given_up_and_thought_over_anew() -> None:
    adapter = FakeAdapter(cluster(3))
    adapter.errors["reserve"] = Rejected("Requested nodes are busy")
    journal = told()
    loop = daemon(adapter, journal)
    loop.reconcile()
    loop.reconcile()
    assert adapter.calls == [("reserve", HELD)], "not again on the same state"
    del adapter.errors["reserve"]
    for later_s in (60.0, 61.0, 62.0):
        adapter.view = replace(adapter.view, now_s=1000.0 + later_s)
        loop.reconcile()
    assert adapter.calls[-1] == ("reserve", HELD)
    assert only(journal).opened_s > 1000.0


def test_another_policy_gives_back_what_was_collected() -> None:
    adapter = FakeAdapter(cluster(3))
    journal = told()
    daemon(adapter, journal).reconcile()
    loop = daemon(adapter, journal, "n-paa")
    loop.reconcile()
    loop.reconcile()
    assert adapter.calls == [("reserve", HELD), ("release", HELD)]
    assert journal.open_operations() == ()


def test_observe_mode_tells_the_hold_and_then_the_arrival() -> None:
    adapter = FakeAdapter(cluster(3, running("a", ("n1", "n2"), start_s=0.0)))
    journal = told()
    loop = daemon(adapter, journal, mode=Mode.OBSERVE)
    assert "observed reserve ×1" in loop.reconcile().sentence
    loop.reconcile()
    assert only(journal).observe
    adapter.view = arrives(adapter.view, urgent("u", 2, submit_s=1900.0), 1900.0)
    report = loop.reconcile()
    assert [closed.outcome for closed in report.closed] == [OperationOutcome.ARRIVED]
    assert [(told.action.verb, told.action.for_job_id) for told in report.actions] == [
        ("reserve", "u"),
        ("requeue", "u"),
    ]
    assert adapter.calls == []


SAVES = CheckpointSpec(interval_s=900.0, application_s=100.0, system_s=60.0)


def test_an_early_arrival_calls_off_who_was_to_leave_after_a_checkpoint() -> None:
    saver = running("a", ("n1", "n2"), start_s=0.0, checkpoint=SAVES, last_checkpoint_s=900.0)
    adapter = FakeAdapter(cluster(2, saver))
    journal = told()
    loop = daemon(adapter, journal, "cup-paa")
    loop.reconcile()
    (planned,) = [task.action for task in only(journal).tasks if isinstance(task.action, Requeue)]
    assert (planned.method, planned.not_after_s) == (Method.APPLICATION, 2000.0)
    loop.reconcile()
    assert adapter.calls == [("reserve", HELD)], "it leaves once it has saved its work"

    adapter.view = arrives(adapter.view, urgent("u", 2, submit_s=1500.0), 1500.0)
    loop.reconcile()
    loop.reconcile()
    assert adapter.calls[1:] == [("reserve", HELD), ("requeue", "a")]
    progress = [
        (task.progress, task.action.method)
        for task in only(journal).tasks
        if isinstance(task.action, Requeue)
    ]
    assert progress == [(Progress.DROPPED, Method.APPLICATION), (Progress.ACCEPTED, Method.KILL)]


def test_a_requeue_that_is_forgotten_after_the_arrival_is_done_again_for_the_job() -> None:
    runs = running("a", ("n1", "n2"), start_s=0.0)
    adapter = FakeAdapter(cluster(2, runs))
    journal = told()
    loop = daemon(adapter, journal, "cup-paa")
    loop.reconcile()
    for now_s in (1990.0, 1991.0, 1992.0):
        adapter.view = replace(adapter.view, now_s=now_s)
        loop.reconcile()
    adapter.view = replace(adapter.view, jobs=(pending("a", 2, requeue_count=1),), now_s=1995.0)
    loop.reconcile()
    assert adapter.calls.count(("requeue", "a")) == 1, adapter.calls
    adapter.view = arrives(adapter.view, urgent("u", 2, submit_s=1996.0), 1996.0)
    loop.reconcile()
    assert only(journal).kind is OperationKind.MAKE_WAY
    forgotten = (runs, *adapter.view.jobs[1:])
    adapter.view = replace(adapter.view, jobs=forgotten, now_s=2000.0)
    loop.reconcile()
    (requeue,) = (task for task in only(journal).tasks if isinstance(task.action, Requeue))
    assert (requeue.progress, requeue.action.for_job_id) == (Progress.ACCEPTED, "u")
    assert adapter.calls[-1] == ("requeue", "a")


def test_a_checkpoint_counts_from_when_the_job_was_asked() -> None:
    adapter = FakeAdapter(cluster(2, running("a", ("n1",), start_s=0.0, checkpoint=SAVES)))
    journal = told()
    loop = daemon(adapter, journal, "cup-paa")
    stays = running("a", ("n1",), start_s=0.0, checkpoint=SAVES, last_checkpoint_s=1100.0)
    adapter.view = replace(adapter.view, jobs=(replace(stays, preemptible=False),), now_s=1150.0)
    loop.reconcile()
    adapter.view = replace(adapter.view, jobs=(replace(stays, last_checkpoint_s=950.0),), now_s=1200.0)
    loop.reconcile()
    adapter.view = replace(adapter.view, jobs=(replace(stays, last_checkpoint_s=1199.0),), now_s=1210.0)
    loop.reconcile()
    assert ("requeue", "a") not in adapter.calls, "that checkpoint was before it was asked"
    adapter.view = replace(adapter.view, jobs=(replace(stays, last_checkpoint_s=1950.0),), now_s=1951.0)
    loop.reconcile()
    assert adapter.calls[-1] == ("requeue", "a")


def test_a_death_between_the_arrival_and_the_hand_over_is_made_good() -> None:
    adapter = FakeAdapter(cluster(3))
    journal = told()
    daemon(adapter, journal).reconcile()
    adapter.view = arrives(adapter.view, urgent("u", 2, submit_s=1900.0), 1900.0)
    journal.add_notice(replace(NOTICE, job_id="u"))
    daemon(adapter, journal).reconcile()
    assert only(journal).for_job_id == "u"
    assert adapter.view.jobs_by_id()["u"].reservation == HELD


def test_announcements_are_kept_as_long_as_their_job_is_here() -> None:
    timeouts = Timeouts(give_up_after_s=100.0)
    mine = replace(NOTICE, job_id="u")
    other = replace(NOTICE, notice_id="notice-2", node_count=1)
    here = cluster(3, urgent("u", 2, submit_s=950.0), pending("b", 1), now_s=2099.0)
    assert changes([mine, other], (), here, timeouts, Watch()).over == ()
    later = replace(here, now_s=2100.0)
    assert changes([mine, other], (), later, timeouts, Watch()).over == ("notice-2",)
    gone = replace(here, jobs=())
    assert changes([mine, other], (), gone, timeouts, Watch()).over == ("notice-1",)
    late = replace(later, jobs=(urgent("x", 1, submit_s=2100.0),))
    assert [found.job_id for found in changes([other], (), late, timeouts, Watch()).arrived] == ["x"]


WATCHED = Watch(first_s=1000.0, last_s=2070.0)


@pytest.mark.parametrize(
    ("watch", "missed"),
    [
        (WATCHED, True),
        (Watch(), False),
        (replace(WATCHED, first_s=2000.5), False),
        (replace(WATCHED, last_s=1999.5), False),
    ],
)
def test_a_job_that_does_not_come_is_missed_if_the_cluster_was_watched(watch: Watch, missed: bool) -> None:
    """It was expected at 2,000 s."""
    timeouts = Timeouts(give_up_after_s=100.0)
    assert changes([NOTICE], (), cluster(3, now_s=2099.0), timeouts, watch).missed == ()
    found = changes([NOTICE], (), cluster(3, now_s=2100.0), timeouts, watch)
    assert found.over == ("notice-1",)
    assert found.missed == (("notice-1",) if missed else ())


@pytest.mark.parametrize(("node_count", "missed"), [(2, True), (3, False), (5, False)])
def test_a_job_with_less_than_half_of_the_announced_nodes_is_missed(node_count: int, missed: bool) -> None:
    notice = replace(NOTICE, node_count=5)
    job = replace(urgent("u", node_count, submit_s=1900.0), notice_id="notice-1")
    found = changes([notice], (), cluster(5, job, now_s=1950.0), Timeouts(), Watch())
    assert [one.job_id for one in found.arrived] == ["u"]
    assert found.missed == (("notice-1",) if missed else ())


def test_a_missed_job_counts_once_and_a_restart_forgets_the_watch_alone() -> None:
    adapter = FakeAdapter(cluster(3))
    journal = told()
    daemon(adapter, journal).reconcile()
    loop = daemon(adapter, journal)
    for now_s in (1500.0, 2000.0, 2599.0, 2600.0):
        adapter.view = replace(adapter.view, now_s=now_s)
        loop.reconcile()
    assert journal.notices() == ()
    assert [one.missed_s for one in journal.announcements().values()] == [2600.0]


def test_a_hold_waits_until_another_of_ours_has_let_go() -> None:
    adapter = FakeAdapter(cluster(2, running("a", node_names(2), start_s=0.0)))
    journal = told()
    loop = daemon(adapter, journal)
    loop.reconcile()
    assert [kept.nodes for kept in adapter.view.reservations] == [("n1", "n2")]
    mine = replace(urgent("v", 1, submit_s=1000.0), user="other")
    adapter.view = arrives(adapter.view, mine, 1000.0)
    loop.reconcile()
    assert adapter.calls[1:] == [("reserve", HELD)], "in what was seen, the other still has the node"
    loop.reconcile()
    assert adapter.calls[2:] == [("reserve", "mw_v")]
