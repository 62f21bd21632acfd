"""An urgent job that its user cancels and submits again before makeway looks: the jobs that save their work
for the first one leave for the second one.
"""

from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from makeway.daemon.config.mode import Mode
from makeway.daemon.control.permission import Permission
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import LoopSettings
from makeway.daemon.inspect.explain import explain
from makeway.daemon.journal.store import Journal
from makeway.daemon.leader.pause import Pause
from makeway.daemon.operation.observation import Timeouts
from makeway.policies.model import (
    CPU,
    CheckpointSpec,
    Job,
    JobKind,
    Limits,
    Node,
    NodeState,
    Notice,
    Phase,
    Reservation,
    Resources,
)
from makeway.policies.registry import find
from makeway.simharness.swarm.journal import Killed, MortalJournal
from tests.builders import node_names, pending, running
from tests.daemon.control.arrays.array_cluster import ArrayCluster

FIRST, SECOND = "11", "12"
SPEC = CheckpointSpec(system_s=20.0, grace_s=60.0)
ACTS = LoopSettings(mode=Mode.ACT, limits=Limits(min_runtime_s=0.0, min_progress_s=0.0))
NOW_S = 1000.0


def lender(job_id: str, nodes: tuple[str, ...], start_s: float) -> Job:
    return running(job_id, nodes, start_s=start_s, checkpoint=SPEC)


class FourNodes(ArrayCluster):
    """Two jobs of two nodes, which save their work at a signal. Of the two, `v` costs less."""

    def __init__(self) -> None:
        super().__init__(
            lender("v", node_names(2), 500.0), lender("w", node_names(2, first=3), 400.0), tasks=()
        )

    def submit(self, job_id: str, node_count: int = 2) -> None:
        """A user submits an urgent job."""
        job = pending(job_id, node_count, kind=JobKind.ON_DEMAND, submit_s=self.view.now_s)
        self.view = replace(self.view, jobs=(*self.view.jobs, replace(job, start_within_s=300.0)))

    def cancel(self, job_id: str) -> None:
        self.view = replace(self.view, jobs=tuple(one for one in self.view.jobs if one.job_id != job_id))

    def saves(self, job_id: str) -> None:
        """The job has saved its work now."""
        self.put(replace(self.job(job_id), last_checkpoint_s=self.view.now_s))

    def sent(self, *verbs: str) -> list[tuple[str, str, str]]:
        """The commands of these kinds: each with its job, and the urgent job."""
        actions = [action for action in self.actions if action.verb in verbs]
        return [(action.verb, action.job_id, action.for_job_id) for action in actions]


def daemon(
    slurm: FourNodes, journal: Journal, settings: LoopSettings = ACTS, policy: str = "eviction"
) -> Reconciler:
    found = find(policy)
    return Reconciler(
        slurm,
        journal,
        found,
        found.config_type(),
        settings,
        now=lambda: slurm.view.now_s,
        permission=Permission(pause=Pause(journal)),
    )


def signalled(
    settings: LoopSettings = ACTS, *, node_count: int = 2, journal: Journal | None = None
) -> tuple[FourNodes, Journal, Reconciler]:
    """The first urgent job waits in its hold, and `v` was asked to save its work for it."""
    slurm, journal = FourNodes(), journal or Journal(None)
    loop = daemon(slurm, journal, settings)
    slurm.submit(FIRST, node_count)
    for _ in range(3):
        loop.reconcile()
        slurm.settle(2.0)
    assert ("checkpoint", "v", FIRST) in slurm.sent("checkpoint")
    return slurm, journal, loop


def goes_on(slurm: FourNodes, loop: Reconciler, cycles: int = 4) -> None:
    for _ in range(cycles):
        loop.reconcile()
        slurm.settle(2.0)


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


def test_a_job_that_comes_in_a_later_cycle_is_decided_on_by_itself() -> None:
    slurm, _, loop = signalled()
    slurm.cancel(FIRST)
    loop.reconcile()
    slurm.submit(SECOND)
    goes_on(slurm, loop)
    assert ("release", FIRST, FIRST) in slurm.sent("release")
    assert [one[2] for one in slurm.sent("checkpoint")] == [FIRST, SECOND]


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
    slurm.submit("13", 1)
    slurm.submit(SECOND, 2)
    loop.reconcile()
    assert slurm.job(SECOND).reservation == f"mw_{FIRST}"
    assert {one.for_job_id for one in journal.open_operations()} == {SECOND, "13"}


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


def test_it_may_be_submitted_again_several_times() -> None:
    slurm, journal, loop = signalled()
    for number in range(12, 16):
        slurm.cancel(str(number - 1))
        slurm.submit(str(number))
        goes_on(slurm, loop)
    (operation,) = journal.open_operations()
    assert (operation.for_job_id, operation.phase) == ("15", Phase.MAKING_ROOM)
    assert len(slurm.sent("checkpoint")) == 1


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
        expected_s=NOW_S + 10.0,
        announced_s=NOW_S,
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
