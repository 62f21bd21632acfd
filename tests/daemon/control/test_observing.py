"""Observe mode: everything is decided, nothing is done, and a job that would have been served is watched
until it starts.
"""

from dataclasses import replace

from makeway.daemon.config.mode import Mode
from makeway.daemon.journal.command_log import Outcome
from makeway.daemon.journal.store import Journal
from makeway.daemon.operation.due import wakeup_s
from makeway.daemon.operation.transitions import advance
from makeway.policies.model import JobKind, Limits, OperationOutcome, Phase
from makeway.policies.safety.protection import Refusal
from tests.builders import cluster, pending, running, urgent
from tests.daemon.acting import NODES, PATIENCE, begun, requeue, reserve
from tests.daemon.control.loops import FOUR, busy, daemon
from tests.fakes import FakeAdapter


def test_observe_mode_sends_nothing_and_names_the_same_actions() -> None:
    acting, watching = FakeAdapter(busy()), FakeAdapter(busy())
    act = daemon(acting).reconcile()
    journal = Journal(None)
    observe = daemon(watching, journal, mode=Mode.OBSERVE)
    reports = [observe.reconcile() for _ in range(5)]

    assert watching.calls == []
    would = [(report.action.verb, report.action.job_id) for report in reports[0].actions]
    assert would == [("reserve", "u"), ("requeue", "v")]
    assert {report.outcome for report in reports[0].actions} == {Outcome.OBSERVED}
    assert act.actions[0].action == reports[0].actions[0].action
    assert all(report.actions == () for report in reports[1:])  # said once
    stored = journal.decision(1)
    assert stored is not None
    assert [action.verb for action in stored.decision.actions] == ["reserve", "requeue"]


def test_from_observe_to_act_the_story_begins_anew() -> None:
    adapter = FakeAdapter(busy())
    journal = Journal(None)
    daemon(adapter, journal, mode=Mode.OBSERVE).reconcile()
    adapter.view = replace(adapter.view, now_s=1010.0)
    acting = daemon(adapter, journal)
    acting.reconcile()
    acting.reconcile()

    assert adapter.calls[0] == ("reserve", "mw_u")


def test_from_act_to_observe_what_is_held_goes_back_and_nobody_leaves() -> None:
    adapter = FakeAdapter(busy())
    journal = Journal(None)
    daemon(adapter, journal).reconcile()
    watching = daemon(adapter, journal, mode=Mode.OBSERVE)
    for _ in range(4):
        watching.reconcile()

    assert adapter.calls == [("reserve", "mw_u"), ("release", "mw_u")]
    assert adapter.view.reservations == ()


def test_an_urgent_job_that_would_have_been_served_is_watched_until_it_starts() -> None:
    view = cluster(4, urgent("u", 4), running("v", NODES))
    operation = begun(view, reserve(), requeue("v"), observe=True)
    late = replace(view, now_s=operation.give_up_s)
    assert wakeup_s(operation, view.now_s, PATIENCE) == operation.give_up_s
    watched = advance(operation, late, PATIENCE)
    assert (watched.phase, watched.started_s) == (Phase.LENT, None), "its nodes would be lent by then"
    assert advance(watched, late, PATIENCE) is watched
    assert wakeup_s(watched, late.now_s, PATIENCE) is None

    started = cluster(4, running("u", NODES, kind=JobKind.ON_DEMAND, start_s=9000.0), now_s=9010.0)
    for one in (operation, watched):
        over = advance(one, started, PATIENCE)
        assert (over.phase, over.started_s) == (Phase.CLOSED, 9000.0)
    gone = advance(watched, cluster(4, now_s=9010.0), PATIENCE)
    assert (gone.phase, gone.started_s) == (Phase.CLOSED, None)


def test_a_batch_job_that_still_waits_is_not_watched_for_ever() -> None:
    view = cluster(4, pending("u", 4), running("v", NODES))
    operation = begun(view, reserve(), observe=True)
    assert advance(operation, replace(view, now_s=operation.give_up_s), PATIENCE).phase is Phase.CLOSED


def test_a_job_that_is_not_served_is_reported_once_and_served_as_soon_as_a_job_can_leave() -> None:
    """At first no job may be asked to leave; then one that may is on the nodes."""
    waits = urgent("u", 4, submit_s=990.0)
    adapter = FakeAdapter(cluster(4, waits, running("v", FOUR, preemptible=False)))
    journal = Journal(None)
    loop = daemon(adapter, journal, mode=Mode.OBSERVE)
    said = [[action.action.verb for action in loop.reconcile().actions] for _ in range(5)]
    assert said == [["prioritise"], [], [], [], []]
    assert len(journal.decisions(9)) == 1

    adapter.view = cluster(4, waits, running("v", FOUR, start_s=500.0), now_s=adapter.view.now_s + 30.0)
    said = [[action.action.verb for action in loop.reconcile().actions] for _ in range(3)]
    assert said == [["reserve", "requeue"], [], []]
    assert len(journal.decisions(9)) == 2
    assert adapter.calls == []

    adapter.view = cluster(4, running("u", FOUR, kind=JobKind.ON_DEMAND, start_s=5000.0), now_s=5010.0)
    loop.reconcile()
    assert journal.open_operations() == ()


def test_an_urgent_job_that_is_cancelled_while_it_waits_is_watched_no_longer() -> None:
    adapter = FakeAdapter(cluster(4, urgent("u", 4, submit_s=990.0), running("v", FOUR, preemptible=False)))
    journal = Journal(None)
    loop = daemon(adapter, journal, mode=Mode.OBSERVE)
    assert [action.action.verb for action in loop.reconcile().actions] == ["prioritise"]
    (watched,) = journal.open_operations()
    adapter.view = cluster(4, running("v", FOUR, preemptible=False), now_s=adapter.view.now_s + 30.0)
    report = loop.reconcile()
    assert (journal.open_operations(), report.urgent_waiting) == ((), 0)
    assert [(one.operation_id, one.outcome) for one in report.closed] == [
        (watched.operation_id, OperationOutcome.NOT_STARTED)
    ]


def test_what_is_refused_in_every_cycle_is_stored_once() -> None:
    for mode in Mode:
        journal = Journal(None)
        loop = daemon(FakeAdapter(busy()), journal, mode=mode, limits=Limits(evictions_per_hour=0))
        for _ in range(5):
            loop.reconcile()
        assert len(journal.decisions(9)) == 1


def test_an_adapter_that_only_reads_is_observed_as_if_it_could_act() -> None:
    view = replace(busy(), actions=frozenset())
    observed = daemon(FakeAdapter(view), mode=Mode.OBSERVE).reconcile()
    assert [(report.action.verb, report.outcome) for report in observed.actions] == [
        ("reserve", Outcome.OBSERVED),
        ("requeue", Outcome.OBSERVED),
    ]
    adapter = FakeAdapter(view)
    acted = daemon(adapter).reconcile()
    assert {report.refusal for report in acted.actions} == {Refusal.UNSUPPORTED}
    assert adapter.calls == []
