"""What a choice is asked by, and the ways in which a job can leave in time."""

import pytest

from makeway.policies.choice.instance import WayToLeave, serial_budget, ways_to_leave
from makeway.policies.model import Method
from tests.policies.choice.instances import application, instance, kill, occupant, system


def ways(within_s: float) -> tuple[WayToLeave, ...]:
    return ways_to_leave(700, system_s=61.0, application_s=120.0, within_s=within_s, step_s=60.0)


def test_durations_are_rounded_up_and_the_time_left_down() -> None:
    assert ways(179.0) == (kill(700), application(2), system(2))
    assert serial_budget(179.0, 60.0) == 2


def test_checkpoints_that_are_too_late_are_no_ways() -> None:
    assert ways(119.0) == (kill(700),)
    assert ways(-1.0) == (kill(700),)
    assert ways_to_leave(5, system_s=None, application_s=None, within_s=1e9, step_s=60.0) == (kill(5),)


def test_only_checkpoints_by_signal_wait_for_their_turn() -> None:
    assert [(way.method, way.serial_steps) for way in ways(600.0)] == [
        (Method.KILL, 0),
        (Method.APPLICATION, 0),
        (Method.SYSTEM, 2),
    ]


def test_a_step_has_a_length() -> None:
    with pytest.raises(ValueError, match=r"step_s is 0\.0"):
        ways_to_leave(5, system_s=None, application_s=None, within_s=60.0, step_s=0.0)


def test_a_job_that_may_leave_needs_no_turn_to_do_so() -> None:
    with pytest.raises(ValueError, match="job 7: 1 of 1 ways to leave use serial steps"):
        occupant("7", {"n0": {"cpu": 1}}, system(1))


def test_a_job_has_one_checkpoint_that_takes_its_turn() -> None:
    with pytest.raises(ValueError, match="job 7: 2 of 3 ways to leave use serial steps"):
        occupant("7", {"n0": {"cpu": 1}}, kill(1), system(1), system(2))


def test_a_job_occurs_once() -> None:
    job = occupant("7", {"n0": {"cpu": 1}}, kill(1))
    with pytest.raises(ValueError, match="each running job once"):
        instance({"n0": {}}, {"cpu": 1}, 1, job, job)
