"""The tasks of an urgent array with a limit, one after another, on the nodes of one lender."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from makeway.adapters.protocol import Rejected, Unavailable
from makeway.daemon.config.mode import Mode
from makeway.daemon.control.permission import Permission
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import LoopSettings
from makeway.daemon.control.sentence import outcome_text
from makeway.daemon.journal.store import Journal
from makeway.daemon.leader.pause import Pause
from makeway.daemon.operation.observation import Timeouts
from makeway.policies.model import Limits, Node, NodeState, Operation, Phase, Reserve
from makeway.policies.registry import find
from tests.builders import running
from tests.daemon.control.arrays.array_cluster import LENDER, TASKS, ArrayCluster, task
from tests.daemon.control.loops import daemon

FIRST, SECOND, THIRD = TASKS


def goes_on(slurm: ArrayCluster, loop: Reconciler, cycles: int = 6) -> None:
    for _ in range(cycles):
        loop.reconcile()
        slurm.settle()


def first_runs(
    slurm: ArrayCluster, journal: Journal, *, mode: Mode = Mode.ACT, limits: Limits | None = None
) -> Reconciler:
    """A daemon that has made room for the first task, which runs."""
    loop = daemon(slurm, journal, mode=mode, limits=limits)
    goes_on(slurm, loop)
    assert slurm.runs(FIRST) is (mode is Mode.ACT)
    return loop


def counted(slurm: ArrayCluster, verb: str) -> int:
    return sum(called == verb for called, _ in slurm.calls)


def served(journal: Journal) -> list[str]:
    """The jobs for which operations are open, the oldest first."""
    return [one.for_job_id for one in journal.open_operations()]


def only(journal: Journal) -> Operation:
    (operation,) = journal.open_operations()
    return operation


def last_hold(slurm: ArrayCluster) -> Reserve:
    return [action for action in slurm.actions if isinstance(action, Reserve)][-1]


@pytest.mark.parametrize("restarts", [False, True], ids=["one daemon", "a new daemon for each cycle"])
def test_the_tasks_of_an_array_with_a_limit_cost_one_eviction(restarts: bool) -> None:
    """Whatever protects the lender, which has just been requeued, the next task does not wait for it."""
    slurm, journal = ArrayCluster(), Journal(None)
    loop = daemon(slurm, journal)
    for job_id in TASKS:
        for _ in range(6):
            goes_on(slurm, daemon(slurm, journal) if restarts else loop, cycles=1)
        assert slurm.runs(job_id)
        assert served(journal) == [job_id]
        assert not slurm.runs("v")
        slurm.end(job_id)
    goes_on(slurm, loop)
    assert slurm.runs("v")
    assert slurm.job("v").requeue_count == 1
    assert [counted(slurm, verb) for verb in ("requeue", "prioritise", "release")] == [1, 1, 1]
    assert slurm.view.reservations == ()
    assert journal.open_operations() == ()


def test_each_task_has_an_operation_of_its_own_and_the_hold_of_the_first() -> None:
    slurm, journal = ArrayCluster(), Journal(None)
    loop = first_runs(slurm, journal)
    first = only(journal)
    slurm.end(FIRST)
    report = loop.reconcile()
    (over,) = report.closed
    assert (over.operation_id, over.for_job_id) == (first.operation_id, FIRST)
    assert "the next task of its array has its nodes" in outcome_text(over)
    second = only(journal)
    assert (second.phase, second.opened_s) == (Phase.MAKING_ROOM, first.opened_s)
    hold = last_hold(slurm)
    assert (hold.job_id, hold.reservation, hold.nodes) == (SECOND, first.reservation, first.nodes)
    assert second.give_up_s == slurm.view.now_s + 600.0
    assert slurm.view.reservations[0].end_s > second.give_up_s + slurm.job(SECOND).walltime_s
    slurm.settle()
    assert loop.reconcile().served == (SECOND,)


def test_while_makeway_is_paused_the_nodes_of_a_task_that_ends_go_back() -> None:
    slurm, journal = ArrayCluster(), Journal(None)
    first_runs(slurm, journal)
    found = find("eviction")
    pause = Pause(journal)
    pause.set(True)
    loop = Reconciler(
        slurm,
        journal,
        found,
        found.config_type(),
        LoopSettings(mode=Mode.ACT),
        now=lambda: slurm.view.now_s,
        permission=Permission(pause=pause),
    )
    slurm.end(FIRST)
    goes_on(slurm, loop)
    assert served(journal) == []
    assert ("release", "mw_7_0") in slurm.calls
    assert slurm.runs("v")


def test_a_task_that_no_snapshot_shows_running_is_followed_by_the_next() -> None:
    slurm, journal = ArrayCluster(), Journal(None)
    loop = daemon(slurm, journal)
    while not slurm.runs(FIRST):
        goes_on(slurm, loop, cycles=1)
    slurm.end(FIRST)
    (over,) = loop.reconcile().closed
    assert outcome_text(over) == "the urgent job did not start; the next task of its array has its nodes"
    goes_on(slurm, loop)
    assert slurm.runs(SECOND)
    assert counted(slurm, "requeue") == 1


def test_a_task_that_is_cancelled_while_jobs_leave_for_it_is_followed_by_the_next() -> None:
    slurm, journal = ArrayCluster(), Journal(None)
    loop = daemon(slurm, journal)
    loop.reconcile()
    slurm.end(FIRST)
    goes_on(slurm, loop)
    assert slurm.runs(SECOND)
    assert counted(slurm, "requeue") == 1
    assert counted(slurm, "release") == 0


def rest_is_held(slurm: ArrayCluster) -> None:
    for job_id in (SECOND, THIRD):
        slurm.put(replace(slurm.job(job_id), blocked_by="its release from a hold"))


def rest_is_not_eligible_yet(slurm: ArrayCluster) -> None:
    for job_id in (SECOND, THIRD):
        slurm.put(replace(slurm.job(job_id), eligible_s=slurm.view.now_s + 1000.0))


def rest_is_not_urgent(slurm: ArrayCluster) -> None:
    for job_id in (SECOND, THIRD):
        slurm.put(replace(slurm.job(job_id), kind=LENDER.kind))


def rest_needs_more(slurm: ArrayCluster) -> None:
    for job_id in (SECOND, THIRD):
        slurm.put(replace(slurm.job(job_id), node_count=3))


def rest_may_not_run_there(slurm: ArrayCluster) -> None:
    for job_id in (SECOND, THIRD):
        slurm.put(replace(slurm.job(job_id), eligible_nodes=frozenset({"n2", "n3", "n4"})))


def a_node_fails(slurm: ArrayCluster) -> None:
    others = tuple(one for one in slurm.view.nodes if one.name != "n1")
    slurm.view = replace(slurm.view, nodes=(Node(name="n1", state=NodeState.DOWN), *others))


def rest_is_of_another_array(slurm: ArrayCluster) -> None:
    for job_id in (SECOND, THIRD):
        slurm.put(replace(slurm.job(job_id), array_job_id="8"))


def hold_is_gone(slurm: ArrayCluster) -> None:
    slurm.view = replace(slurm.view, reservations=())


def time_is_over(slurm: ArrayCluster) -> None:
    slurm.settle(Timeouts().pass_on_s)


@pytest.mark.parametrize(
    "changes",
    [
        rest_is_held,
        rest_is_not_eligible_yet,
        rest_is_not_urgent,
        rest_needs_more,
        rest_may_not_run_there,
        a_node_fails,
        rest_is_of_another_array,
        hold_is_gone,
        time_is_over,
    ],
)
def test_the_nodes_go_back_if_the_next_task_cannot_have_them(
    changes: Callable[[ArrayCluster], None],
) -> None:
    slurm, journal = ArrayCluster(), Journal(None)
    loop = first_runs(slurm, journal)
    slurm.end(FIRST)
    changes(slurm)
    loop.reconcile()
    assert ("prioritise", "v") in slurm.calls


@pytest.mark.parametrize(
    "settings",
    [
        LoopSettings(mode=Mode.ACT, timeouts=Timeouts(pass_on_s=0.0)),
        LoopSettings(mode=Mode.ACT, restoring=True),
        LoopSettings(mode=Mode.OBSERVE),
    ],
    ids=["it is turned off", "everything goes back", "the mode is observe now"],
)
def test_the_nodes_go_back_if_the_site_wants_it(settings: LoopSettings) -> None:
    slurm, journal = ArrayCluster(), Journal(None)
    loop = first_runs(slurm, journal)
    policy = find("none" if settings.restoring else "eviction")
    loop.reconfigure(policy, policy.config_type(), settings)
    slurm.end(FIRST)
    loop.reconcile()
    assert ("prioritise", "v") in slurm.calls


def test_what_has_begun_to_go_back_goes_back() -> None:
    slurm, journal = ArrayCluster(), Journal(None)
    loop = first_runs(slurm, journal)
    rest_is_held(slurm)
    slurm.end(FIRST)
    slurm.errors["release"] = Rejected("in use", retryable=True)
    loop.reconcile()
    for job_id in (SECOND, THIRD):
        slurm.put(replace(slurm.job(job_id), blocked_by=""))
    loop.reconcile()
    (first, *_) = journal.open_operations()
    assert (first.for_job_id, first.phase) == (FIRST, Phase.RETURNING)


def test_a_task_that_ends_before_its_turn_leaves_the_nodes_to_the_one_after_it() -> None:
    slurm, journal = ArrayCluster(), Journal(None)
    loop = first_runs(slurm, journal)
    slurm.end(SECOND)
    slurm.end(FIRST)
    goes_on(slurm, loop)
    assert slurm.runs(THIRD)
    assert counted(slurm, "requeue") == 1


def test_a_refused_hold_for_the_next_task_gives_the_nodes_back() -> None:
    slurm, journal = ArrayCluster(), Journal(None)
    loop = first_runs(slurm, journal)
    slurm.errors["reserve"] = Rejected("no")
    slurm.end(FIRST)
    loop.reconcile()
    assert served(journal) == [SECOND]
    slurm.settle(70.0)
    loop.reconcile()
    assert ("prioritise", "v") in slurm.calls


@pytest.mark.parametrize("arrived", [False, True])
def test_a_hold_for_the_next_task_that_got_no_answer_is_looked_for(arrived: bool) -> None:
    """The daemon or the controller may have died at that very moment."""
    slurm, journal = ArrayCluster(), Journal(None)
    loop = first_runs(slurm, journal)
    slurm.errors["reserve"] = Unavailable("no answer")
    slurm.end(FIRST)
    loop.reconcile()
    assert last_hold(slurm).job_id == SECOND
    del slurm.errors["reserve"]
    if arrived:
        slurm.put(replace(slurm.job(SECOND), reservation=last_hold(slurm).reservation))
    loop = daemon(slurm, journal)
    goes_on(slurm, loop)
    assert slurm.runs(SECOND)
    assert counted(slurm, "reserve") == (2 if arrived else 3)
    assert counted(slurm, "requeue") == 1


def test_two_tasks_that_end_at_once_have_two_successors_in_the_order_of_their_numbers() -> None:
    tasks = tuple(f"7_{number}" for number in (8, 9, 10, 11))
    lenders = (running("v", ("n1", "n2"), start_s=500.0), running("w", ("n3", "n4"), start_s=500.0))
    slurm, journal = ArrayCluster(*lenders, tasks=tasks, limit=2), Journal(None)
    loop = daemon(slurm, journal)
    goes_on(slurm, loop)
    assert served(journal) == ["7_8", "7_9"]
    assert slurm.runs("7_8")
    assert slurm.runs("7_9")
    slurm.end("7_8")
    slurm.end("7_9")
    goes_on(slurm, loop)
    assert served(journal) == ["7_10", "7_11"]
    assert slurm.runs("7_10")
    assert slurm.runs("7_11")
    assert counted(slurm, "requeue") == 2


def test_what_the_first_task_cost_counts_for_the_next() -> None:
    """The array has paid 2 nodes x 510 s. The node of a task that is lost has to be made up for."""
    spare = running("x", ("n3",), start_s=0.0)
    slurm = ArrayCluster(LENDER, spare, running("y", ("n4",), preemptible=False))
    limits = Limits(max_loss_node_hours=1200.0 / 3600.0, max_loss_machine_share=0.0)
    journal = Journal(None)
    loop = first_runs(slurm, journal, limits=limits)
    slurm.end(FIRST)
    loop.reconcile()
    assert served(journal) == [SECOND]
    a_node_fails(slurm)
    report = loop.reconcile()
    summaries = [why.summary for why in report.stored_rationale]
    assert any("the limit is" in text for text in summaries), summaries
    assert counted(slurm, "requeue") == 1


def test_a_task_that_is_there_again_does_not_get_the_hold_of_the_next() -> None:
    other = running("w", ("n3", "n4"), start_s=0.0)
    slurm, journal = ArrayCluster(LENDER, other), Journal(None)
    loop = first_runs(slurm, journal)
    slurm.end(FIRST)
    goes_on(slurm, loop)
    assert slurm.runs(SECOND)
    again = replace(task(FIRST), node_count=1, requeue_count=1, array_job_id="")
    slurm.view = replace(slurm.view, jobs=(*slurm.view.jobs, again))
    hold = only(journal).reservation
    goes_on(slurm, loop)
    (kept,) = slurm.view.reservations
    assert (kept.name, kept.nodes) == (hold, ("n1", "n2"))
    assert last_hold(slurm).job_id == SECOND
