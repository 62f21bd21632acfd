"""A checkpoint that has to wait for those of other operations: it is requested when its turn comes."""

from dataclasses import replace

import pytest

from makeway.daemon.operation.due import wakeup_s
from makeway.daemon.operation.fitness import STALE_S
from makeway.daemon.operation.transitions import advance
from makeway.policies.model import Action, Cluster, Ending, Method, Operation, Phase, Progress, Task
from tests.builders import running
from tests.daemon.acting import COMMENTS, NODES, PATIENCE, due, held_operation, holding, requeue, signal

TURN_S = 1300.0
WAITS = replace(signal("v"), not_before_s=TURN_S)
VICTIM = running("v", NODES, checkpoint=COMMENTS)
OTHER = running("w", (), checkpoint=COMMENTS)


def other(
    *actions: Action, progress: Progress = Progress.ACCEPTED, phase: Phase = Phase.MAKING_ROOM
) -> Operation:
    """Another operation, whose victim `w` was signalled at 1000 s."""
    signalled = progress is not Progress.PLANNED
    tasks = tuple(
        Task(action=action, progress=progress, issued_s=1000.0 if signalled else None) for action in actions
    )
    return replace(held_operation(), operation_id="2", for_job_id="x", phase=phase, tasks=tasks)


def view(*others: Operation, now_s: float = 1010.0) -> Cluster:
    return replace(holding(VICTIM, OTHER, now_s=now_s), operations=(WAITING, *others))


WAITING = held_operation(WAITS, requeue("v", Method.SYSTEM))


def test_it_waits_for_its_turn_while_another_operation_writes() -> None:
    busy = other(signal("w"))
    assert due(WAITING, view(busy)) == []
    assert due(WAITING, view(busy, now_s=TURN_S)) == [WAITS]
    assert wakeup_s(WAITING, 1010.0, PATIENCE) == TURN_S


@pytest.mark.parametrize(
    "others",
    [
        (),
        (other(signal("w"), progress=Ending.ACKNOWLEDGED.progress),),
        (other(signal("w"), progress=Progress.PLANNED, phase=Phase.RETURNING),),
        (other(replace(signal("w"), not_before_s=TURN_S + 1.0), progress=Progress.PLANNED),),
    ],
)
def test_it_is_requested_as_soon_as_all_before_it_are_over(others: tuple[Operation, ...]) -> None:
    assert due(WAITING, view(*others)) == [WAITS]


@pytest.mark.parametrize("turn_s", [None, TURN_S - 1.0])
def test_those_before_it_that_are_not_requested_yet_are_awaited_too(turn_s: float | None) -> None:
    first = other(replace(signal("w"), not_before_s=turn_s), progress=Progress.PLANNED)
    assert due(WAITING, view(first)) == []


def test_so_is_a_regular_checkpoint_that_a_job_waits_for() -> None:
    spec = replace(COMMENTS, interval_s=500.0, application_s=100.0)
    regular = replace(OTHER, checkpoint=spec)
    waits = other(requeue("w", Method.APPLICATION), progress=Progress.PLANNED)
    cluster = replace(holding(VICTIM, regular), operations=(WAITING, waits))
    assert due(WAITING, cluster) == []


def test_the_job_is_not_made_to_leave_before_it_was_asked_to_save() -> None:
    """Nor in the same second, if its time is over by then: that is decided again."""
    busy = other(signal("w"))
    assert due(WAITING, view(busy, now_s=TURN_S - 1.0)) == []
    late = view(busy, now_s=requeue("v", Method.SYSTEM).not_after_s)
    assert due(WAITING, late) == [WAITS]
    assert due(advance(WAITING, late, PATIENCE), late) == []


def test_the_wait_for_a_turn_is_no_silence() -> None:
    now_s = TURN_S + STALE_S
    assert now_s > WAITING.opened_s + STALE_S
    waited = view(now_s=now_s)
    assert due(advance(WAITING, waited, PATIENCE), waited) == [WAITS]
