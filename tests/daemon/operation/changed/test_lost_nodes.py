"""A hold loses a node before any job was asked to leave for it: all is decided on again."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from makeway.daemon.journal.store import Journal
from makeway.daemon.operation.transitions import advance
from makeway.daemon.operation.validation import validate
from makeway.policies.model import (
    Action,
    CheckpointSpec,
    Cluster,
    Ending,
    Job,
    JobKind,
    JobState,
    Method,
    NodeState,
    Operation,
    OperationKind,
    Progress,
)
from tests.builders import cluster, held, running, urgent
from tests.daemon.acting import COMMENTS, PATIENCE, begun, issue_all, requeue, reserve, shrink, signal
from tests.daemon.control.loops import daemon
from tests.fakes import FakeAdapter

POLICIES = pytest.mark.parametrize("policy", ["eviction", "least-price"])
SAVES = CheckpointSpec(system_s=100.0)


def drained(view: Cluster, *names: str) -> Cluster:
    nodes = tuple(
        replace(node, state=NodeState.DRAINED) if node.name in names else node for node in view.nodes
    )
    return replace(view, nodes=nodes)


def full(*sizes: int, wanted: int = 2, spec: CheckpointSpec | None = SAVES) -> FakeAdapter:
    """Nodes on which jobs of these sizes run, and an urgent job."""
    jobs: list[Job] = []
    first = 1
    for number, size in enumerate(sizes, start=1):
        nodes = tuple(f"n{one}" for one in range(first, first + size))
        jobs.append(running(f"v{number}", nodes, checkpoint=spec))
        first += size
    return FakeAdapter(cluster(first - 1, urgent("u", wanted, submit_s=990.0), *jobs))


def asked(adapter: FakeAdapter) -> list[str]:
    return [job_id for verb, job_id in adapter.calls if verb in ("checkpoint", "requeue")]


def hold_of(adapter: FakeAdapter) -> tuple[str, ...]:
    (hold,) = adapter.view.reservations
    return hold.nodes


def lose_one(adapter: FakeAdapter) -> None:
    """The hold was made, and one of its nodes is drained."""
    assert asked(adapter) == []
    adapter.view = replace(drained(adapter.view, hold_of(adapter)[0]), now_s=adapter.view.now_s + 1.0)


@POLICIES
@pytest.mark.parametrize("spec", [SAVES, None], ids=["saving", "killed"])
def test_one_job_leaves_where_one_suffices(policy: str, spec: CheckpointSpec | None, tmp_path: Path) -> None:
    """Also if the daemon dies after each cycle."""
    adapter = full(2, 2, 2, 2, spec=spec)
    with closing(Journal(tmp_path / "journal")) as journal:
        daemon(adapter, journal, policy=policy).reconcile()
    lose_one(adapter)
    for _ in range(5):
        with closing(Journal(tmp_path / "journal")) as journal:
            daemon(adapter, journal, policy=policy).reconcile()
    (leaves,) = asked(adapter)
    assert hold_of(adapter) == adapter.view.jobs_by_id()[leaves].nodes


@POLICIES
def test_what_is_kept_counts_where_it_makes_fewer_leave(policy: str) -> None:
    """Jobs of one node each: the one on the other held node leaves, and another one."""
    adapter = full(1, 1, 1, 1)
    loop = daemon(adapter, policy=policy)
    loop.reconcile()
    lose_one(adapter)
    for _ in range(3):
        loop.reconcile()
    assert len(asked(adapter)) == 2
    theirs = [adapter.view.jobs_by_id()[job_id].nodes for job_id in asked(adapter)]
    assert sorted(hold_of(adapter)) == sorted(name for nodes in theirs for name in nodes)


@POLICIES
def test_no_job_leaves_if_no_choice_is_enough(policy: str) -> None:
    adapter = full(2, wanted=2)
    loop = daemon(adapter, policy=policy)
    loop.reconcile()
    lose_one(adapter)
    for _ in range(3):
        loop.reconcile()
    assert asked(adapter) == []
    adapter.view = drained(adapter.view)
    nodes = tuple(replace(node, state=NodeState.UP) for node in adapter.view.nodes)
    adapter.view = replace(adapter.view, nodes=nodes, now_s=adapter.view.now_s + 1.0)
    for _ in range(3):
        loop.reconcile()
    assert asked(adapter) == ["v1"]


@POLICIES
def test_a_job_that_was_asked_goes_on_saving(policy: str) -> None:
    adapter = full(2, 2, 2, 2)
    loop = daemon(adapter, policy=policy)
    for _ in range(2):
        loop.reconcile()
    (first,) = asked(adapter)
    kept = hold_of(adapter)[1]
    adapter.view = replace(drained(adapter.view, hold_of(adapter)[0]), now_s=adapter.view.now_s + 1.0)
    for _ in range(3):
        loop.reconcile()
    assert asked(adapter)[0] == first
    assert len(asked(adapter)) == 2
    assert kept in hold_of(adapter)


# One operation

V1 = running("v1", ("n1", "n2"), checkpoint=COMMENTS)
V2 = running("v2", ("n3", "n4"), checkpoint=COMMENTS)
HOLD = ("n1", "n2", "n3", "n4")
PLANNED = (signal("v1"), requeue("v1", Method.SYSTEM), requeue("v2"))


def view_of(*jobs: Job, now_s: float = 1010.0, others: tuple[Operation, ...] = ()) -> Cluster:
    bound = urgent("u", 4, reservation="mw_u")
    return cluster(6, bound, *jobs, now_s=now_s, reservations=(held("u", HOLD),), operations=others)


def operation_of(*actions: Action) -> Operation:
    view = cluster(6, urgent("u", 4), V1, V2)
    operation, _ = issue_all(begun(view, reserve(HOLD), *actions), view)
    return operation


def after(operation: Operation, view: Cluster) -> list[Ending | None]:
    known = replace(view, operations=(*view.operations, operation))
    operation = advance(operation, known, PATIENCE)
    validate(operation)
    return [task.ending for task in operation.tasks[1:]]


def test_all_evictions_end_if_a_node_is_lost() -> None:
    assert after(operation_of(*PLANNED), view_of(V1, V2)) == [None] * 3
    assert after(operation_of(*PLANNED), drained(view_of(V1, V2), "n1")) == [Ending.OUTDATED] * 3


def test_so_do_they_if_a_job_may_not_be_made_to_leave_any_more() -> None:
    view = view_of(V1, replace(V2, preemptible=False))
    assert after(operation_of(*PLANNED), view) == [Ending.OUTDATED] * 3


def test_a_silent_node_is_not_lost() -> None:
    view = view_of(V1, V2)
    nodes = tuple(replace(one, state=NodeState.SILENT) if one.name == "n1" else one for one in view.nodes)
    assert after(operation_of(*PLANNED), replace(view, nodes=nodes)) == [None] * 3


def test_a_hold_that_is_larger_than_needed_may_lose_a_node() -> None:
    view = drained(view_of(V1, V2), "n1")
    smaller = replace(view, jobs=(replace(view.jobs[0], node_count=3), *view.jobs[1:]))
    assert after(operation_of(*PLANNED), smaller) == [None] * 3


def test_so_do_they_if_the_urgent_job_may_not_have_a_held_node_any_more() -> None:
    view = view_of(V1, V2)
    fewer = replace(view.jobs[0], eligible_nodes=frozenset({"n2", "n3", "n4", "n5", "n6"}))
    assert after(operation_of(*PLANNED), replace(view, jobs=(fewer, V1, V2))) == [Ending.OUTDATED] * 3


def test_a_node_whose_job_stays_does_not_make_up_for_the_lost_one() -> None:
    """`v2` is not to leave: of the three nodes that are left, one comes free."""
    view = drained(view_of(V1, V2), "n1")
    smaller = replace(view, jobs=(replace(view.jobs[0], node_count=3), V1, V2))
    assert after(operation_of(*PLANNED[:2]), smaller) == [Ending.OUTDATED] * 2


@pytest.mark.parametrize(
    "progress", [Progress.PLANNED, Progress.ISSUING, Progress.ACCEPTED, Progress.REFUSED]
)
def test_nothing_changes_once_anything_was_sent(progress: Progress) -> None:
    """Also if the signal was refused for a time only, and will be sent again."""
    operation = operation_of(*PLANNED)
    sent = replace(operation.tasks[1], progress=progress, issued_s=1005.0)
    if progress is Progress.REFUSED:
        sent = replace(sent, ending=Ending.REJECTED, ended_s=1005.0)
    operation = replace(operation, tasks=(operation.tasks[0], sent, *operation.tasks[2:]))
    endings = after(operation, drained(view_of(V1, V2), "n1"))
    assert endings[1:] == [None, None]


def test_nor_if_another_hold_counts_on_one_of_the_jobs() -> None:
    other = replace(
        begun(cluster(6, urgent("w", 1), V1, V2), replace(reserve(("n2",)), job_id="w", for_job_id="w")),
        operation_id="2",
        reservation="mw_w",
    )
    view = drained(view_of(V1, V2, urgent("w", 1), others=(other,)), "n1")
    assert after(operation_of(*PLANNED), view) == [None] * 3


def test_the_hold_of_the_first_job_of_the_queue_keeps_its_choice() -> None:
    """Its jobs leave one after another, as late as they may."""
    view = cluster(6, urgent("u", 4), V1, V2)
    head = replace(reserve(HOLD), kind=OperationKind.QUEUE_HEAD)
    operation, _ = issue_all(begun(view, head, *PLANNED), view)
    assert after(operation, drained(view_of(V1, V2), "n1")) == [None] * 3


def test_a_node_that_a_shrunk_job_keeps_may_be_in_another_hold() -> None:
    hold, shrunk = ("n2", "n3", "n4"), running("m", ("n1", "n2"), kind=JobKind.MALLEABLE, node_count_min=1)
    jobs = (urgent("u", 3, reservation="mw_u"), shrunk, V2, urgent("w", 1))
    before = cluster(6, *jobs, reservations=(held("u", hold),))
    operation, _ = issue_all(begun(before, reserve(hold), shrink("m", ("n1",)), requeue("v2")), before)
    other = replace(
        begun(before, replace(reserve(("n1",)), job_id="w", for_job_id="w")),
        operation_id="2",
        reservation="mw_w",
    )
    view = drained(replace(before, now_s=1010.0, operations=(other,)), "n3")
    assert after(operation, view) == [Ending.OUTDATED] * 2


def test_nor_once_the_urgent_job_runs() -> None:
    view = drained(view_of(V1, V2), "n1")
    runs = replace(running("u", HOLD), state=JobState.RUNNING)
    endings = after(operation_of(*PLANNED), replace(view, jobs=(runs, V1, V2)))
    assert endings[:3] == [Ending.JOB_STARTED] * 3
