"""An urgent job that comes in the cycle in which another one has gone, and does not stand for that one."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from makeway.daemon.journal.store import Journal
from makeway.daemon.leader.pause import Pause
from makeway.daemon.operation.observation import Timeouts
from makeway.policies.model import (
    CPU,
    Job,
    JobKind,
    Notice,
    Reservation,
    Resources,
)
from tests.daemon.control.arrays.resubmission import (
    ACTS,
    FIRST,
    SECOND,
    FourNodes,
    daemon,
    goes_on,
    signalled,
)


def other_user(job: Job) -> Job:
    return replace(job, user="somebody")


def lacks_a_licence(job: Job) -> Job:
    return replace(job, blocked_by="a licence")


def starts_later(job: Job) -> Job:
    return replace(job, eligible_s=5000.0)


def is_in_a_hurry(job: Job) -> Job:
    return replace(job, start_within_s=10.0)


def larger(job: Job) -> Job:
    return replace(job, node_count=3)


def shares(job: Job) -> Job:
    return replace(job, demand=Resources.of({CPU: 1}))


def component(job: Job) -> Job:
    return replace(job, het_job_id=SECOND)


def other_nodes(job: Job) -> Job:
    return replace(job, eligible_nodes=frozenset({"n3", "n4"}))


def waited_before(job: Job) -> Job:
    return replace(job, submit_s=900.0)


def not_urgent(job: Job) -> Job:
    return replace(job, kind=JobKind.RIGID)


@pytest.mark.parametrize(
    "change",
    [
        other_user,
        lacks_a_licence,
        starts_later,
        is_in_a_hurry,
        larger,
        shares,
        component,
        other_nodes,
        waited_before,
        not_urgent,
    ],
)
def test_another_job_is_decided_on_by_itself(change: Callable[[Job], Job]) -> None:
    slurm, journal, loop = signalled()
    slurm.cancel(FIRST)
    slurm.submit(SECOND)
    slurm.put(change(slurm.job(SECOND)))
    loop.reconcile()
    assert journal.open_operations()[0].for_job_id == FIRST
    assert slurm.sent("release") == [("release", FIRST, FIRST)]


def test_one_that_finds_free_nodes_needs_no_job_to_leave() -> None:
    slurm, _, loop = signalled()
    slurm.cancel(FIRST)
    slurm.cancel("w")
    slurm.submit(SECOND)
    goes_on(slurm, loop)
    assert slurm.runs(SECOND)
    assert slurm.runs("v")
    assert slurm.sent("requeue") == []


def test_one_that_was_submitted_for_an_announcement_comes_for_that() -> None:
    slurm, journal, loop = signalled()
    notice = Notice(
        notice_id="notice-1",
        node_count=2,
        walltime_s=3600.0,
        expected_s=slurm.view.now_s + 10.0,
        announced_s=slurm.view.now_s,
        user="user",
    )
    journal.add_notice(notice)
    slurm.cancel(FIRST)
    slurm.submit(SECOND)
    loop.reconcile()
    assert [one.job_id for one in journal.notices()] == [SECOND]
    assert slurm.sent("release") == [("release", FIRST, FIRST)]


@pytest.mark.parametrize("pass_on_s", [0.0, 5.0])
def test_it_can_be_turned_off(pass_on_s: float) -> None:
    slurm, _, loop = signalled(replace(ACTS, timeouts=Timeouts(pass_on_s=pass_on_s)))
    slurm.cancel(FIRST)
    slurm.submit(SECOND)
    loop.reconcile()
    assert slurm.sent("release") == [("release", FIRST, FIRST)]


def test_while_makeway_is_paused_what_is_held_goes_back() -> None:
    slurm, journal, _ = signalled()
    Pause(journal).set(on=True)
    slurm.cancel(FIRST)
    slurm.submit(SECOND)
    goes_on(slurm, daemon(slurm, journal))
    assert slurm.sent("release") == [("release", FIRST, FIRST)]
    assert slurm.job(SECOND).reservation is None
    assert journal.open_operations() == ()


def test_the_reservation_that_the_first_job_was_submitted_with_stays_the_first_one_s() -> None:
    slurm, journal = FourNodes(), Journal(None)
    loop = daemon(slurm, journal)
    course = Reservation(name="course", nodes=(), start_s=0.0, end_s=1e6)
    slurm.view = replace(slurm.view, reservations=(course,))
    slurm.submit(FIRST)
    slurm.put(replace(slurm.job(FIRST), reservation="course"))
    for _ in range(3):
        loop.reconcile()
        slurm.settle(2.0)
    (operation,) = journal.open_operations()
    assert operation.own_reservation == "course"
    slurm.cancel(FIRST)
    slurm.submit(SECOND)
    loop.reconcile()
    assert journal.open_operations()[0].for_job_id == FIRST
    assert ("release", FIRST, FIRST) in slurm.sent("release")
