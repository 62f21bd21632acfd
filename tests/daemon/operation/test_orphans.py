"""Reservations of makeway's that no operation accounts for."""

from dataclasses import replace

import pytest

from makeway.daemon.operation.orphans import left_behind
from makeway.policies.model import (
    Ending,
    JobState,
    Operation,
    Progress,
    Reason,
    Release,
    RestorePriority,
    Task,
)
from tests.builders import cluster, held, pending, running, urgent
from tests.daemon.acting import NODES, held_operation

HELD = cluster(4, urgent("u", 4, reservation="mw_u"), reservations=(held("u", NODES),))
RELEASE = Release(job_id="u", for_job_id="u", policy="test", reason=Reason.BLOCKED, reservation="mw_u")


def with_release(operation: Operation, task: Task) -> Operation:
    return replace(operation, tasks=(*operation.tasks, task))


def left(*operations: Operation) -> list[str]:
    """The reservations that are taken away."""
    found = left_behind(HELD, operations, "test", plans=False)
    return [one.reservation for one in found if isinstance(one, Release)]


def test_a_hold_of_no_operation_is_taken_away() -> None:
    assert left() == ["mw_u"]
    assert left(held_operation()) == []


@pytest.mark.parametrize(
    ("progress", "ending", "expected"),
    [
        (Progress.PLANNED, None, []),
        (Progress.ACCEPTED, None, []),
        (Progress.DONE, Ending.SEEN, ["mw_u"]),
        (Progress.DROPPED, Ending.JOB_STARTED, []),
    ],
)
def test_a_hold_that_was_released_and_is_there_again_is_left_behind(
    progress: Progress, ending: Ending | None, expected: list[str]
) -> None:
    task = Task(action=RELEASE, progress=progress, ending=ending, ended_s=1000.0 if ending else None)
    assert left(with_release(held_operation(), task)) == expected


@pytest.mark.parametrize(
    ("progress", "ending", "expected"),
    [(Progress.PLANNED, None, []), (Progress.DONE, Ending.SEEN, ["mw_u"])],
)
def test_another_hold_is_kept_only_until_its_release_has_ended(
    progress: Progress, ending: Ending | None, expected: list[str]
) -> None:
    """An operation also releases holds that its job had before."""
    other = replace(held_operation(), operation_id="b@0", for_job_id="w", reservation="mw_w")
    task = Task(action=RELEASE, progress=progress, ending=ending, ended_s=1000.0 if ending else None)
    assert left(with_release(other, task)) == expected


def places(*, plans: bool) -> list[str]:
    """The jobs that lose their place in a plan."""
    waits = replace(pending("a", 1), queue_position=1)
    runs = replace(running("b", NODES[:1]), queue_position=2)
    assert runs.state is JobState.RUNNING
    view = replace(cluster(4, waits, runs, pending("c", 1)), recomputes_priority=True)
    found = left_behind(view, (), "test", plans=plans)
    return [one.job_id for one in found if isinstance(one, RestorePriority)]


def test_places_of_an_earlier_plan_are_given_up_by_jobs_that_wait() -> None:
    assert places(plans=False) == ["a"]
    assert places(plans=True) == []


def test_a_job_that_started_from_the_front_gives_its_place_back_once() -> None:
    started = replace(running("v", NODES[:1]), prioritised=True)
    view = cluster(4, started, replace(pending("w", 1), prioritised=True))
    (given,) = left_behind(view, (), "test", plans=False)
    assert isinstance(given, RestorePriority)
    assert given.job_id == "v"
    under_way = with_release(held_operation(), Task(action=given, progress=Progress.ACCEPTED))
    assert left_behind(view, (under_way,), "test", plans=False) == ()
