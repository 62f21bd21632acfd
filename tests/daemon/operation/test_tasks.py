"""What single tasks say of their jobs and nodes."""

from dataclasses import replace

import pytest

from makeway.daemon.operation.tasks import (
    ended,
    freed_set,
    naming_its_run,
    open_evictions,
    signal_of,
    signals,
)
from makeway.policies.model import (
    Checkpoint,
    Ending,
    Method,
    Operation,
    Progress,
    Reason,
    Release,
    Requeue,
    RunIdentity,
    Shrink,
    Task,
)
from tests.builders import cluster, running
from tests.daemon.acting import NODES, held_operation, requeue, shrink, signal

RELEASE = Release(job_id="v", for_job_id="u", policy="test", reason=Reason.BLOCKED, reservation="mw_u")


def operation_of(*tasks: Task) -> Operation:
    return replace(held_operation(), tasks=tasks)


@pytest.mark.parametrize("action", [signal("v"), requeue("v"), shrink("v", NODES[:1])])
def test_what_concerns_a_run_names_it(action: Checkpoint | Requeue | Shrink) -> None:
    task = Task(action=action, nodes=NODES, requeue_count=2, start_s=30.0)
    assert naming_its_run(task) == replace(action, run=RunIdentity(requeue_count=2, start_s=30.0))
    assert naming_its_run(replace(task, nodes=())) == action, "the job waited when that was planned"


def test_a_release_names_no_run() -> None:
    assert naming_its_run(Task(action=RELEASE, nodes=NODES, start_s=30.0)) == RELEASE


def test_a_task_that_ends_keeps_the_last_answer_unless_there_is_a_newer_one() -> None:
    task = Task(action=requeue("v"), detail="busy")
    assert ended(task, Ending.REJECTED, 10.0).detail == "busy"
    assert ended(task, Ending.REJECTED, 10.0, "no such job").detail == "no such job"


def test_the_signal_of_an_eviction_is_the_last_one_before_it_for_the_same_job() -> None:
    first, again = Task(action=signal("v"), planned_s=1.0), Task(action=signal("v"), planned_s=2.0)
    other, later = Task(action=signal("w")), Task(action=signal("v"), planned_s=3.0)
    leave, early = Task(action=requeue("v", Method.SYSTEM)), Task(action=requeue("v"))
    operation = operation_of(first, early, other, again, leave, later)

    assert signal_of(operation, leave) is again
    assert signal_of(operation, early) is first
    assert signal_of(operation_of(other, leave), leave) is None
    assert signals(operation) == (first, other, again, later)


def test_evictions_that_are_over_are_not_open() -> None:
    waits, over = Task(action=requeue("v")), Task(action=requeue("w"), progress=Progress.DONE)
    assert open_evictions(operation_of(Task(action=signal("v")), waits, over)) == (waits,)


def test_a_job_that_shrinks_leaves_the_nodes_that_it_does_not_keep() -> None:
    job = running("v", NODES)
    sets = cluster(5, job).node_sets()
    assert freed_set(Task(action=requeue("v")), job, sets) == sets.of(NODES)
    assert freed_set(Task(action=shrink("v", NODES[:1])), job, sets) == sets.of(NODES[1:])
