"""What the journal and the configuration add to a snapshot before the policy sees it."""

from dataclasses import replace

import pytest

from makeway.daemon.config.mode import Mode
from makeway.daemon.control.joining import joined
from makeway.daemon.control.report import LoopSettings
from makeway.daemon.estimate.run_times import Run
from makeway.daemon.journal.store import Journal
from makeway.policies.model import (
    Acknowledgement,
    CheckpointSpec,
    Cluster,
    Limits,
)
from makeway.policies.registry import find
from makeway.policies.safety.protection import Refusal
from tests.builders import cluster, pending, running, urgent
from tests.daemon.control.loops import daemon
from tests.fakes import FakeAdapter


def seen_by(policy: str, seen: Cluster, journal: Journal) -> Cluster:
    return joined(seen, (), journal, LoopSettings(mode=Mode.ACT), find(policy))


@pytest.mark.parametrize(
    ("later_s", "refusals"), [(3599.0, {Refusal.PER_HOUR, Refusal.GROUP}), (3600.0, set())]
)
def test_evictions_of_the_last_hour_count_for_the_limit(later_s: float, refusals: set[Refusal]) -> None:
    journal = Journal(None)
    adapter = FakeAdapter(cluster(4, urgent("u", 4, submit_s=990.0), running("v", ("n1", "n2", "n3", "n4"))))
    loop = daemon(adapter, journal, limits=Limits(evictions_per_hour=1))
    loop.reconcile()
    loop.reconcile()
    assert adapter.calls == [("reserve", "mw_u"), ("requeue", "v")]
    left = pending("v", 4, requeue_count=1)
    adapter.view = cluster(4, left, reservations=adapter.view.reservations)
    loop.reconcile()  # the urgent job was cancelled meanwhile
    later = cluster(4, urgent("w", 2, submit_s=4000.0), running("x", ("n1", "n2", "n3", "n4")), left)
    adapter.view = replace(later, now_s=1000.0 + later_s)
    report = loop.reconcile()
    assert {one.refusal for one in report.actions if one.refusal is not None} == refusals


REPORTS = CheckpointSpec(interval_s=60.0, application_s=5.0, acknowledgement=Acknowledgement.COMMENT)


def test_a_silent_job_counts_as_its_class_does_once_jobs_may_have_to_leave() -> None:
    """v has reported nothing; w was 30 s ago at its last checkpoint."""
    silent = replace(running("v", ("n1",), checkpoint=REPORTS), job_class="solver")
    reports = replace(running("w", ("n2",), checkpoint=REPORTS, last_checkpoint_s=970.0), job_class="solver")

    def usual(policy: str, seen: Cluster) -> dict[str, float | None]:
        return {job.job_id: job.usual_unsaved_s for job in seen_by(policy, seen, Journal(None)).jobs}

    quiet = cluster(4, silent, reports)
    assert usual("eviction", quiet) == {"v": None, "w": None}, "nothing is priced"
    assert usual("eviction", replace(quiet, jobs=(*quiet.jobs, urgent("u", 3)))) == {
        "v": 30.0,
        "w": None,
        "u": None,
    }
    assert usual("ckpt-backfill", quiet) == {"v": 30.0, "w": None}, "its victims make room for any job"


def test_what_users_usually_take_is_known_to_the_policies_that_go_by_it() -> None:
    journal = Journal(None)
    journal.add_runs(
        [Run(job_id=str(number), user="ada", ended_s=900.0 + number, share=0.5) for number in range(20)]
    )
    assert seen_by("ckpt-backfill", cluster(1), journal).usual_shares == {"ada": 0.5}
    assert seen_by("eviction", cluster(1), journal).usual_shares == {}
