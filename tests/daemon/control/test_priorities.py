"""Priorities and queue positions that makeway set: when it gives them back."""

from dataclasses import replace

import pytest

from makeway.adapters.protocol import Rejected
from makeway.daemon.journal.store import Journal
from tests.builders import cluster, held, pending, running, urgent
from tests.daemon.control.loops import FOUR, daemon
from tests.fakes import FakeAdapter


def test_a_job_that_has_started_from_the_front_gets_its_own_priority_back() -> None:
    waits = replace(pending("a", 2), prioritised=True)
    adapter = FakeAdapter(cluster(4, waits))
    journal = Journal(None)
    loop = daemon(adapter, journal)
    loop.reconcile()
    assert adapter.calls == []

    runs = replace(running("a", FOUR[:2], start_s=1000.0), prioritised=True)
    adapter.view = replace(adapter.view, now_s=1001.0, jobs=(runs,))
    for _ in range(3):
        loop.reconcile()
    assert adapter.calls == [("restore_priority", "a")]

    adapter.view = replace(adapter.view, now_s=1002.0, jobs=(replace(runs, prioritised=False),))
    loop.reconcile()
    assert journal.open_operations() == ()
    assert adapter.calls == [("restore_priority", "a")]


def test_places_of_a_plan_that_nobody_follows_are_given_back() -> None:
    waits = replace(pending("a", 2), prioritised=True, queue_position=3)
    front = replace(pending("b", 2), prioritised=True)
    adapter = FakeAdapter(replace(cluster(4, waits, front), recomputes_priority=True))
    journal = Journal(None)
    loop = daemon(adapter, journal)
    for _ in range(3):
        loop.reconcile()
    assert adapter.calls == [("restore_priority", "a")]

    back = replace(waits, prioritised=False, queue_position=None)
    adapter.view = replace(adapter.view, now_s=1001.0, jobs=(back, front))
    loop.reconcile()
    assert journal.open_operations() == ()
    assert adapter.calls == [("restore_priority", "a")]


def test_places_are_kept_where_giving_them_back_would_put_jobs_behind_all_others() -> None:
    waits = replace(pending("a", 2), prioritised=True, queue_position=3)
    adapter = FakeAdapter(replace(cluster(4, waits), recomputes_priority=False))
    daemon(adapter).reconcile()
    assert adapter.calls == []


def test_a_refused_priority_is_not_asked_back_in_every_cycle() -> None:
    runs = replace(running("a", FOUR[:2], start_s=1000.0), prioritised=True)
    adapter = FakeAdapter(cluster(4, runs))
    adapter.errors = {"restore_priority": Rejected("Access/permission denied")}
    loop = daemon(adapter)
    for second in range(1, 40):
        adapter.view = replace(adapter.view, now_s=1000.0 + second)
        loop.reconcile()
    assert adapter.calls == [("restore_priority", "a")]


def test_what_else_is_left_of_a_job_is_taken_away_while_its_priority_is_refused() -> None:
    """The reservation goes at once, and the refused priority is still not asked for in every cycle."""
    runs = replace(running("u", FOUR[:2], start_s=900.0), prioritised=True)
    adapter = FakeAdapter(cluster(4, runs))
    adapter.errors = {"restore_priority": Rejected("Access/permission denied")}
    loop = daemon(adapter)
    loop.reconcile()
    adapter.view = replace(adapter.view, now_s=1001.0, reservations=(held("u", FOUR[:2]),))
    loop.reconcile()
    assert adapter.calls == [("restore_priority", "u"), ("release", "mw_u")]
    for second in range(2, 40):
        adapter.view = replace(adapter.view, now_s=1000.0 + second, reservations=())
        loop.reconcile()
    assert adapter.calls == [("restore_priority", "u"), ("release", "mw_u")]


@pytest.mark.parametrize("what", ["front", "orphan"])
def test_what_was_refused_is_not_asked_for_again_for_a_while(what: str) -> None:
    """Neither the front of the queue for an urgent job without room, nor the end of an earlier life's hold,
    also if the cluster shows no change.
    """
    stays = running("v", FOUR, start_s=500.0, preemptible=False)
    waiting = (urgent("u", 2, submit_s=990.0),) if what == "front" else ()
    left = () if what == "front" else (held("u", FOUR[:2]),)
    adapter = FakeAdapter(cluster(4, stays, *waiting, reservations=left))
    verb, subject = ("prioritise", "u") if what == "front" else ("release", "mw_u")
    adapter.errors[verb] = Rejected("access denied")
    loop, sent_s = daemon(adapter), list[float]()
    for step in range(13):
        adapter.view = replace(adapter.view, now_s=1000.0 + 10.0 * step)
        before = len(adapter.calls)
        loop.reconcile()
        sent_s += [adapter.view.now_s for call in adapter.calls[before:] if call == (verb, subject)]
    assert sent_s == [1000.0, 1070.0]
    del adapter.errors[verb]
    adapter.view = replace(adapter.view, now_s=1131.0)
    loop.reconcile()
    assert adapter.calls[-1] == (verb, subject)
