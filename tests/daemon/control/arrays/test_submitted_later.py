"""An urgent job that its user submits again after makeway has seen that the first one is gone: a job that is
still saving its work for the first one gets no second signal, and leaves for the second one.
"""

from contextlib import closing, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.inspect.explain import explain
from makeway.daemon.journal.store import Journal
from makeway.simharness.swarm.journal import Killed, MortalJournal
from tests.daemon.control.arrays.resubmission import (
    FIRST,
    SECOND,
    SPEC,
    FourNodes,
    daemon,
    goes_on,
    signalled,
)

POLICIES = ("eviction", "least-price")


def given_back(policy: str = "eviction") -> tuple[FourNodes, Journal, Reconciler]:
    """`v` was asked to save its work for the first job, which was then cancelled: its operation is over."""
    slurm, journal, loop = signalled()
    slurm.cancel(FIRST)
    goes_on(slurm, loop, cycles=3)
    assert journal.open_operations() == ()
    assert slurm.view.reservations == ()
    return slurm, journal, daemon(slurm, journal, policy=policy)


@pytest.mark.parametrize("policy", POLICIES)
def test_no_job_gets_a_second_signal(policy: str) -> None:
    slurm, journal, loop = given_back(policy)
    slurm.submit(SECOND)
    goes_on(slurm, loop)
    assert slurm.job(SECOND).reservation == f"mw_{SECOND}"
    assert slurm.sent("checkpoint", "requeue") == [("checkpoint", "v", FIRST)]
    slurm.saves("v")
    goes_on(slurm, loop)
    assert slurm.runs(SECOND)
    assert slurm.runs("w")
    assert slurm.sent("checkpoint", "requeue") == [("checkpoint", "v", FIRST), ("requeue", "v", SECOND)]
    slurm.end(SECOND)
    goes_on(slurm, loop)
    assert slurm.runs("v")
    assert journal.open_operations() == ()
    assert slurm.view.reservations == ()


@pytest.mark.parametrize("policy", POLICIES)
def test_the_job_that_saves_is_chosen_though_another_one_costs_less(policy: str) -> None:
    """The checkpoint of `w` takes half a minute less than what is left of that of `v`."""
    slurm, _, loop = given_back(policy)
    slurm.put(replace(slurm.job("v"), checkpoint=replace(SPEC, system_s=60.0)))
    slurm.put(replace(slurm.job("w"), checkpoint=replace(SPEC, system_s=20.0)))
    if policy == "eviction":  # it goes by lost work, and then by the time of the checkpoints
        slurm.put(replace(slurm.job("w"), checkpoint=None))
    slurm.submit(SECOND)
    goes_on(slurm, loop)
    assert slurm.sent("checkpoint", "requeue") == [("checkpoint", "v", FIRST)]


def test_explain_says_why_no_signal_was_sent(tmp_path: Path) -> None:
    with closing(Journal(tmp_path / "j")) as journal:
        slurm, _, loop = signalled(journal=journal)
        slurm.cancel(FIRST)
        goes_on(slurm, loop, cycles=3)
        slurm.submit(SECOND)
        goes_on(slurm, loop)
        told = {one.action.verb: one.outcome for one in explain(journal, "last").actions}
    assert told["checkpoint"] == "not sent (it is saving its work already, and gets no second signal)"


def test_another_user_gets_the_nodes_as_well() -> None:
    slurm, _, loop = given_back()
    slurm.submit(SECOND)
    slurm.put(replace(slurm.job(SECOND), user="somebody"))
    goes_on(slurm, loop)
    slurm.saves("v")
    goes_on(slurm, loop)
    assert slurm.runs(SECOND)
    assert len(slurm.sent("checkpoint")) == 1


def test_the_job_leaves_at_the_end_of_its_new_grace() -> None:
    """It saves nothing. It was asked at some 1004 s, and the second urgent job may start until 1310 s."""
    slurm, _, loop = given_back()
    slurm.submit(SECOND)
    came_s = slurm.view.now_s
    while not slurm.sent("requeue"):
        goes_on(slurm, loop, cycles=1)
        assert slurm.view.now_s < came_s + 400.0
    assert slurm.view.now_s > came_s + SPEC.grace_s
    assert slurm.view.now_s <= came_s + 302.0
    assert len(slurm.sent("checkpoint")) == 1


@pytest.mark.parametrize("saved", [True, False], ids=["it has saved", "its grace is over"])
def test_a_job_that_goes_on_is_signalled_again_later(saved: bool) -> None:
    slurm, _, loop = given_back()
    if saved:
        slurm.saves("v")
    slurm.settle(400.0)
    slurm.submit(SECOND)
    goes_on(slurm, loop)
    assert [one[2] for one in slurm.sent("checkpoint")] == [FIRST, SECOND]


def test_its_next_run_gets_a_signal_of_its_own() -> None:
    slurm, _, loop = given_back()
    slurm.put(replace(slurm.job("v"), start_s=slurm.view.now_s - 1.0, requeue_count=1))
    slurm.submit(SECOND)
    goes_on(slurm, loop)
    assert slurm.sent("checkpoint") == [("checkpoint", "v", FIRST), ("checkpoint", "v", SECOND)]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_daemon_that_dies_at_any_write_asks_no_job_again(tmp_path: Path, after: bool) -> None:
    number = 0
    for number in count(1):
        path = tmp_path / f"{number}.sqlite"
        journal = MortalJournal(path, lambda: False)
        slurm, _, loop = signalled(journal=journal)
        journal.dies_in, journal.after = number, after
        slurm.cancel(FIRST)
        with suppress(Killed):
            goes_on(slurm, loop, cycles=2)
            slurm.submit(SECOND)
            goes_on(slurm, loop, cycles=2)
            slurm.saves("v")
            goes_on(slurm, loop)
        died = journal.dies_in <= 0
        journal.close()
        with closing(Journal(path)) as again:
            loop = daemon(slurm, again)
            if SECOND not in slurm.view.jobs_by_id():
                goes_on(slurm, loop, cycles=20)  # a release without an answer is looked for first
                slurm.submit(SECOND)
            goes_on(slurm, loop)
            if slurm.job("v").nodes:
                slurm.saves("v")
            goes_on(slurm, loop, cycles=20)
        assert slurm.runs(SECOND)
        assert slurm.runs("w")
        assert slurm.sent("checkpoint") == [("checkpoint", "v", FIRST)]
        assert {one[1] for one in slurm.sent("requeue")} == {"v"}
        if not died:
            break
    assert number > 5
