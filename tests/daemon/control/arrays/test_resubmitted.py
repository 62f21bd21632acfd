"""An urgent job that its user cancels and submits again before makeway looks: the jobs that save their work
for the first one leave for the second one.
"""

from contextlib import closing, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from makeway.daemon.inspect.explain import explain
from makeway.daemon.journal.store import Journal
from makeway.policies.model import (
    Limits,
    Node,
    NodeState,
    Phase,
    Reservation,
    Reserve,
)
from makeway.simharness.swarm.journal import Killed, MortalJournal
from tests.builders import cluster, node_names, running
from tests.daemon.control.arrays.resubmission import (
    ACTS,
    FIRST,
    SECOND,
    FourNodes,
    daemon,
    goes_on,
    signalled,
)


@pytest.mark.parametrize("restarts", [False, True], ids=["one daemon", "a new daemon"])
def test_no_other_job_is_asked_to_leave(restarts: bool) -> None:
    slurm, journal, loop = signalled()
    slurm.cancel(FIRST)
    slurm.submit(SECOND)
    loop = daemon(slurm, journal) if restarts else loop
    goes_on(slurm, loop)
    assert slurm.job(SECOND).reservation == f"mw_{FIRST}"
    assert slurm.sent("checkpoint", "requeue", "release") == [("checkpoint", "v", FIRST)]
    slurm.saves("v")
    goes_on(slurm, loop)
    assert slurm.runs(SECOND)
    assert slurm.runs("w")
    assert slurm.sent("requeue") == [("requeue", "v", SECOND)]
    slurm.end(SECOND)
    goes_on(slurm, loop)
    assert slurm.runs("v")
    assert journal.open_operations() == ()
    assert slurm.view.reservations == ()
    assert [one[:2] for one in slurm.sent("checkpoint", "requeue", "prioritise")] == [
        ("checkpoint", "v"),
        ("requeue", "v"),
        ("prioritise", "v"),
    ]


def test_a_job_that_has_left_already_counts_too() -> None:
    """The first job is cancelled in the moment in which it could start."""
    slurm, _, loop = signalled()
    slurm.saves("v")
    loop.reconcile()
    assert slurm.sent("requeue") == [("requeue", "v", FIRST)]
    slurm.cancel(FIRST)
    slurm.submit(SECOND)
    goes_on(slurm, loop)
    assert slurm.runs(SECOND)
    assert slurm.runs("w")
    assert slurm.sent("requeue", "prioritise", "release") == [("requeue", "v", FIRST)]


def test_of_a_smaller_job_only_as_many_leave_as_it_needs() -> None:
    slurm, _, loop = signalled(node_count=4)
    assert len(slurm.sent("checkpoint")) == 2
    slurm.cancel(FIRST)
    slurm.submit(SECOND, 2)
    loop.reconcile()
    slurm.saves("v")
    slurm.saves("w")
    goes_on(slurm, loop)
    assert slurm.runs(SECOND)
    assert len(slurm.sent("requeue")) == 1


def test_of_two_jobs_the_one_that_uses_all_nodes_gets_them() -> None:
    slurm, journal, loop = signalled()
    slurm.cancel(FIRST)
    slurm.submit(SECOND, 1)
    slurm.submit("13", 2)
    loop.reconcile()
    assert slurm.job("13").reservation == f"mw_{FIRST}"
    assert {one.for_job_id for one in journal.open_operations()} == {SECOND, "13"}


def test_a_job_that_still_waits_keeps_what_was_asked_for_it() -> None:
    slurm, journal, loop = signalled()
    slurm.submit("21")
    goes_on(slurm, loop)
    slurm.cancel("21")
    slurm.submit("22")
    loop.reconcile()
    assert [one.for_job_id for one in journal.open_operations()] == [FIRST, "22"]
    assert slurm.job(FIRST).reservation == f"mw_{FIRST}"


def test_a_job_that_was_submitted_with_the_same_reservation_keeps_it() -> None:
    slurm, journal = FourNodes(), Journal(None)
    loop = daemon(slurm, journal)
    course = Reservation(name="course", nodes=(), start_s=0.0, end_s=1e6)
    slurm.view = replace(slurm.view, reservations=(course,))
    for job_id in (FIRST, SECOND):
        slurm.submit(job_id)
        slurm.put(replace(slurm.job(job_id), reservation="course"))
        goes_on(slurm, loop)
        if job_id == FIRST:
            slurm.cancel(FIRST)
    holds = [one for one in slurm.actions if isinstance(one, Reserve)]
    assert [(one.job_id, one.own_reservation) for one in holds] == [(FIRST, "course"), (SECOND, "course")]


def test_each_of_two_cancelled_jobs_is_replaced_by_one() -> None:
    slurm, journal, loop = signalled()
    slurm.submit("21")
    goes_on(slurm, loop)
    assert len(slurm.sent("checkpoint")) == 2
    for job_id in (FIRST, "21"):
        slurm.cancel(job_id)
    for job_id in (SECOND, "22"):
        slurm.submit(job_id)
    goes_on(slurm, loop)
    assert [one.for_job_id for one in journal.open_operations()] == [SECOND, "22"]
    assert len(slurm.sent("checkpoint")) == 2
    assert slurm.sent("release") == []


def test_free_nodes_that_are_enough_for_one_of_two_jobs_count_once() -> None:
    """Both were cancelled and submitted again, while a job ended on two more nodes."""
    slurm, journal, loop = signalled()
    ends = running("x", node_names(2, first=5), preemptible=False)
    slurm.view = replace(slurm.view, nodes=cluster(6).nodes, jobs=(*slurm.view.jobs, ends))
    slurm.submit("21")
    goes_on(slurm, loop)
    assert slurm.sent("checkpoint") == [("checkpoint", "v", FIRST), ("checkpoint", "w", "21")]
    for job_id in (FIRST, "21", "x"):
        slurm.cancel(job_id)
    for job_id in (SECOND, "22"):
        slurm.submit(job_id)
    loop.reconcile()
    nodes = {one.for_job_id: one.nodes for one in journal.open_operations()}
    assert nodes["22"] == node_names(2)
    assert nodes[SECOND] == node_names(2, first=5)
    goes_on(slurm, loop)
    assert len(slurm.sent("checkpoint")) == 2


def test_it_may_be_submitted_again_several_times() -> None:
    slurm, journal, loop = signalled()
    for number in range(12, 16):
        slurm.cancel(str(number - 1))
        slurm.submit(str(number))
        goes_on(slurm, loop)
    (operation,) = journal.open_operations()
    assert (operation.for_job_id, operation.phase) == ("15", Phase.MAKING_ROOM)
    assert len(slurm.sent("checkpoint")) == 1


def test_a_hold_that_the_cluster_has_removed_is_made_for_the_new_job() -> None:
    slurm, _, loop = signalled()
    slurm.cancel(FIRST)
    slurm.submit(SECOND)
    slurm.view = replace(slurm.view, reservations=())
    goes_on(slurm, loop)
    (hold,) = slurm.view.reservations
    assert (hold.name, hold.nodes) == (f"mw_{FIRST}", node_names(2))
    assert slurm.sent("checkpoint") == [("checkpoint", "v", FIRST)]


def test_nothing_is_taken_before_the_hold_of_the_new_job_is_seen() -> None:
    slurm, _, loop = signalled()
    slurm.cancel(FIRST)
    slurm.submit(SECOND)
    slurm.saves("v")
    loop.reconcile()
    assert slurm.calls[-1] == ("reserve", f"mw_{FIRST}")
    assert slurm.sent("requeue") == []
    slurm.put(replace(slurm.job(SECOND), reservation=None))
    loop.reconcile()
    assert slurm.sent("requeue") == []
    slurm.put(replace(slurm.job(SECOND), reservation=f"mw_{FIRST}"))
    loop.reconcile()
    assert slurm.sent("requeue") == [("requeue", "v", SECOND)]


def test_what_the_first_job_cost_counts_for_the_second() -> None:
    """The first job has cost 2 nodes x 500 s, and job `x` would cost 1000 s more."""
    slurm = FourNodes()
    spare = running("x", ("n3",), start_s=0.0)
    stays = running("y", ("n4",), preemptible=False)
    slurm.view = replace(slurm.view, jobs=(running("v", node_names(2), start_s=500.0), spare, stays))
    limits = Limits(max_loss_node_hours=1200.0 / 3600.0, max_loss_machine_share=0.0)
    loop = daemon(slurm, Journal(None), replace(ACTS, limits=limits))
    slurm.submit(FIRST)
    loop.reconcile()
    loop.reconcile()
    assert slurm.sent("requeue") == [("requeue", "v", FIRST)]
    slurm.cancel(FIRST)
    slurm.submit(SECOND)
    loop.reconcile()
    assert slurm.job(SECOND).reservation == f"mw_{FIRST}"
    others = tuple(one for one in slurm.view.nodes if one.name != "n1")
    slurm.view = replace(slurm.view, nodes=(Node(name="n1", state=NodeState.DOWN), *others))
    report = loop.reconcile()
    summaries = [why.summary for why in report.stored_rationale]
    assert any("0.28 before, the limit is" in text for text in summaries), summaries
    assert len(slurm.sent("requeue")) == 1


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_daemon_that_dies_at_any_write_asks_no_other_job(tmp_path: Path, after: bool) -> None:
    """The next one finds the first job gone and the second one there, whatever was written down."""
    number = 0
    for number in count(1):
        path = tmp_path / f"{number}.sqlite"
        journal = MortalJournal(path, lambda: False)
        slurm, _, loop = signalled(journal=journal)
        slurm.cancel(FIRST)
        slurm.submit(SECOND)
        slurm.saves("v")
        journal.dies_in, journal.after = number, after
        with suppress(Killed):
            goes_on(slurm, loop)
        died = journal.dies_in <= 0
        journal.close()
        with closing(Journal(path)) as again:
            goes_on(slurm, daemon(slurm, again), cycles=20)
        assert slurm.runs(SECOND)
        assert slurm.runs("w")
        assert slurm.sent("checkpoint", "release") == [("checkpoint", "v", FIRST)]
        assert {one[1] for one in slurm.sent("requeue")} == {"v"}
        if not died:
            break
    assert number > 5


def test_explain_shows_what_was_sent_for_the_second_job() -> None:
    slurm, journal, loop = signalled()
    slurm.cancel(FIRST)
    slurm.submit(SECOND)
    slurm.saves("v")
    goes_on(slurm, loop)
    told = explain(journal, "1")
    assert [why.for_job_id for why in told.stored.decision.rationale] == [FIRST]
    outcomes = {one.action.verb: one.outcome for one in told.actions}
    assert outcomes == {"reserve": "accepted", "checkpoint": "accepted", "requeue": "accepted"}


def test_what_was_decided_for_the_first_job_was_begun(tmp_path: Path) -> None:
    with closing(Journal(tmp_path / "journal.sqlite")) as journal:
        slurm, _, loop = signalled(journal=journal)
        slurm.cancel(FIRST)
        slurm.submit(SECOND)
        goes_on(slurm, loop)
        outcomes = {one.action.verb: one.outcome for one in explain(journal, "1").actions}
    assert outcomes == {"reserve": "accepted", "checkpoint": "accepted", "requeue": "not sent"}
