"""A job that leaves after its regular checkpoint is looked at when that checkpoint is due."""

from dataclasses import replace

import pytest

from makeway.daemon.operation.due import NextCycle, regular_checkpoint_look_s
from makeway.daemon.operation.handover import LOOK_AGAIN_S
from makeway.policies.model import CheckpointSpec, Job, Method, Operation, Phase, Progress
from tests.builders import running
from tests.daemon.acting import NODES, PATIENCE, held_operation, holding, requeue

REGULAR = CheckpointSpec(interval_s=540.0, application_s=60.0)
DUE_S = 1200.0
WAITS = held_operation(requeue("v", Method.APPLICATION), spec=REGULAR)


def victim(saved_s: float | None = 600.0, spec: CheckpointSpec | None = REGULAR) -> Job:
    return running("v", NODES, checkpoint=spec, last_checkpoint_s=saved_s)


def look_s(now_s: float, job: Job | None = None, operation: Operation = WAITS) -> float | None:
    return regular_checkpoint_look_s(operation, holding(job or victim(), now_s=now_s))


def test_the_cluster_is_looked_at_when_the_checkpoint_is_due() -> None:
    assert look_s(1010.0) == DUE_S
    assert look_s(1199.5) == DUE_S


def test_a_late_checkpoint_is_looked_for_at_growing_intervals() -> None:
    """The time that the job works on in vain is at most doubled by it."""
    looks, now_s = [], DUE_S
    while now_s < DUE_S + 30.0:
        at_s = look_s(now_s)
        assert at_s is not None
        looks.append(at_s - DUE_S)
        now_s = at_s
    assert looks == [LOOK_AGAIN_S, 2.0, 4.0, 8.0, 16.0, 32.0]


def test_one_that_is_very_late_is_expected_at_the_next_multiple_of_its_period() -> None:
    assert look_s(DUE_S + 500.0) == DUE_S + 600.0


def test_the_earliest_of_several_counts() -> None:
    of_v = WAITS.tasks[-1]
    two = replace(WAITS, tasks=(of_v, replace(of_v, action=requeue("w", Method.APPLICATION))))
    other = running("w", NODES[:1], checkpoint=REGULAR, last_checkpoint_s=500.0)
    view = holding(victim(), other, now_s=1010.0)
    assert regular_checkpoint_look_s(two, view) == 1100.0


@pytest.mark.parametrize(
    "job",
    [
        victim(saved_s=1005.0),
        victim(spec=None),
        victim(spec=CheckpointSpec(interval_s=540.0)),
        replace(victim(), requeue_count=1),
        running("x", NODES, checkpoint=REGULAR),
    ],
    ids=["saved", "has none", "of unknown duration", "another run", "gone"],
)
def test_nothing_is_looked_for(job: Job) -> None:
    assert look_s(1010.0, job) is None


@pytest.mark.parametrize(
    "operation",
    [
        replace(WAITS, observe=True),
        replace(WAITS, phase=Phase.RETURNING),
        held_operation(requeue("v", Method.KILL), spec=REGULAR),
    ],
    ids=["observe mode", "given back", "killed"],
)
def test_only_an_operation_that_waits_for_a_checkpoint_looks(operation: Operation) -> None:
    assert look_s(1010.0, operation=operation) is None


def test_the_next_cycle_is_for_the_checkpoint_as_long_as_the_job_has_not_been_told_to_leave() -> None:
    view, following = holding(victim(), now_s=1010.0), NextCycle()
    following.note((WAITS,), view, PATIENCE, again_s=None, unsent=False)
    assert following.checkpoint_look_s(1010.0) == DUE_S
    assert following.wakeup_s((WAITS,), 1010.0, 30.0, PATIENCE) == 1040.0, "it may come at any poll"
    sent = replace(WAITS.tasks[-1], progress=Progress.DONE, issued_s=1005.0, ended_s=1010.0)
    left = replace(WAITS, tasks=(*WAITS.tasks[:-1], sent))
    following.note((left,), view, PATIENCE, again_s=None, unsent=False)
    assert following.checkpoint_look_s(1010.0) is None
    assert following.wakeup_s((left,), 1010.0, 30.0, PATIENCE) == left.give_up_s
