"""Which job is the announced one."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from makeway.policies.common.notices import arrivals
from makeway.policies.model import Job, JobKind, JobState, Notice

NOW_S = 10_000.0
Build = Callable[..., Job]


def notice(notice_id: str = "notice-1", **changes: Any) -> Notice:
    base = Notice(
        notice_id=notice_id,
        user="urgent",
        node_count=4,
        walltime_s=900.0,
        announced_s=NOW_S - 1000.0,
        expected_s=NOW_S,
    )
    return replace(base, **changes)


def found(notices: list[Notice], *jobs: Job, served: tuple[str, ...] = ()) -> dict[str, str]:
    return {key: job.job_id for key, job in arrivals(notices, jobs, served).items()}


def test_a_job_of_the_same_user_that_is_not_larger_is_the_announced_one(waiting: Build) -> None:
    assert found([notice()], waiting("u", 4)) == {"notice-1": "u"}
    assert found([notice()], waiting("u", 3)) == {"notice-1": "u"}
    assert found([notice()], waiting("u", 5)) == {}
    assert found([notice()], waiting("u", 4, user="other")) == {}
    assert found([notice()], waiting("u", 4, kind=JobKind.RIGID)) == {}
    assert found([notice()], waiting("u", 4, state=JobState.COMPLETING)) == {}


def test_one_that_was_there_before_the_announcement_is_another(waiting: Build) -> None:
    assert found([notice()], waiting("u", 4, submit_s=NOW_S - 1001.0)) == {}
    # The cluster reports whole seconds: the job came in the same second as the announcement.
    late = notice(announced_s=NOW_S - 0.5)
    assert found([late], waiting("u", 4, submit_s=NOW_S - 1.0)) == {"notice-1": "u"}


def test_the_nearest_expected_arrival_wins(waiting: Build) -> None:
    far, near = notice("notice-a", expected_s=NOW_S + 600.0), notice("notice-b", expected_s=NOW_S - 100.0)
    assert found([far, near], waiting("u", 4)) == {"notice-b": "u"}
    assert found([far, near], waiting("u1", 4), waiting("u2", 4)) == {"notice-b": "u1", "notice-a": "u2"}
    twin = notice("notice-c", expected_s=NOW_S - 100.0)
    assert found([twin, near], waiting("u", 4)) == {"notice-b": "u"}


def test_a_job_that_names_its_notice_has_that_one_whatever_its_size(waiting: Build) -> None:
    far, near = notice("notice-a", expected_s=NOW_S + 600.0), notice("notice-b")
    named = waiting("z", 9, notice_id="notice-a")
    assert found([far, near], waiting("u", 4), named) == {"notice-a": "z", "notice-b": "u"}
    assert found([near], waiting("z", 4, notice_id="notice-a")) == {}, "it says that it is not this one"
    stolen = waiting("z", 4, notice_id="notice-a", user="thief")
    assert found([far], stolen) == {}


def test_a_job_or_a_notice_that_is_settled_takes_no_part(waiting: Build) -> None:
    settled = notice("notice-a", job_id="u1")
    assert found([settled, notice()], waiting("u1", 4)) == {}
    assert found([settled, notice()], waiting("u1", 4), waiting("u2", 4)) == {"notice-1": "u2"}
    assert found([notice()], waiting("u", 4), served=("u",)) == {}
    assert found([notice()], waiting("u", 4), served=("notice-1",)) == {"notice-1": "u"}


def test_one_that_runs_already_has_arrived(waiting: Build) -> None:
    started = waiting("u", 4, state=JobState.RUNNING, nodes=("n1", "n2", "n3", "n4"))
    assert found([notice()], started) == {"notice-1": "u"}
