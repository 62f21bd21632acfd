"""What enters a job's price: its past evictions, and what the jobs of its class report."""

from dataclasses import replace

import pytest

from makeway.daemon.estimate.prices import with_class_reports, with_past_evictions
from makeway.policies.model import CheckpointSpec, Job, JobState, TakenFromJob
from tests.builders import running

NOW_S = 10_000.0
REGULAR = CheckpointSpec(interval_s=1000.0, application_s=100.0)


def job(job_id: str, saved_s: float | None = None, *, start_s: float = 0.0, of_class: str = "long") -> Job:
    """On one node; `saved_s`: how long ago it saved."""
    last_s = None if saved_s is None else NOW_S - saved_s
    return replace(running(job_id, (job_id,), start_s=start_s, last_checkpoint_s=last_s), job_class=of_class)


def usual(*jobs: Job) -> dict[str, float]:
    found = with_class_reports(jobs, NOW_S)
    return {one.job_id: one.usual_unsaved_s for one in found if one.usual_unsaved_s is not None}


REPORT = (job("a", 100.0), job("b", 300.0), job("c", 900.0))


def test_a_silent_job_has_the_median_of_its_class() -> None:
    assert usual(*REPORT, job("silent"), job("elsewhere", of_class="short")) == {"silent": 300.0}


def test_without_reports_in_the_class_nothing_is_usual() -> None:
    assert usual(job("silent"), job("x", 5.0, of_class="short"), job("none", of_class="")) == {}
    alone = (job("silent"), job("none", of_class=""))
    assert with_class_reports(alone, NOW_S) is alone
    assert with_class_reports(REPORT, NOW_S) is REPORT


@pytest.mark.parametrize(("runs_s", "silent"), [(1099.0, False), (1101.0, True)])
def test_a_job_whose_first_checkpoint_is_not_due_yet_is_not_silent(runs_s: float, silent: bool) -> None:
    young = replace(job("young", start_s=NOW_S - runs_s), checkpoint=REGULAR)
    assert usual(*REPORT, young) == ({"young": 300.0} if silent else {})


def test_reports_of_the_future_of_earlier_runs_and_of_others_do_not_count() -> None:
    liar = job("liar", -50.0)
    earlier = job("earlier", 5000.0, start_s=NOW_S - 4000.0)
    suspended = replace(job("suspended", 1.0), state=JobState.SUSPENDED)
    assert usual(*REPORT, liar, earlier, suspended) == {"liar": 300.0, "earlier": 300.0}


def test_what_was_saved_because_makeway_asked_for_it_is_not_usual() -> None:
    """The others were not asked: a kill loses all of their work."""
    asked, silent = job("asked", 5.0, start_s=100.0), job("silent")
    assert with_class_reports((asked, silent), NOW_S, {"asked": NOW_S - 20.0}) == (asked, silent)
    earlier_run = with_class_reports((asked, silent), NOW_S, {"asked": 99.0})
    assert [one.usual_unsaved_s for one in earlier_run] == [None, 5.0]
    # With an empty journal, what the cluster keeps with the job tells it.
    taken = replace(asked, taken=TakenFromJob(run=0, for_job_id="u"))
    assert with_class_reports((taken, silent), NOW_S) == (taken, silent)


def test_past_evictions_by_job() -> None:
    counted = with_past_evictions(REPORT, {"b": 2, "gone": 7})
    assert [one.past_evictions for one in counted] == [0, 2, 0]
    assert with_past_evictions(REPORT, {}) is REPORT
