"""All that makeway knows of a job that squeue lists, and all that it knows of one on shared nodes."""

from dataclasses import replace

import pytest

from makeway.adapters.site.job_class import JobClass
from makeway.adapters.site.times import UNLIMITED_S
from makeway.adapters.slurm.holds import HoldNames
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.translate import Translator
from makeway.policies.model import (
    CPU,
    MEMORY,
    Job,
    JobKind,
    JobState,
    Quota,
    Resources,
)
from tests.adapters.slurm.jobs.raw_jobs import NOW_S, PENDING, RUNNING, SPEC, translated
from tests.adapters.slurm.resources.captured_sharing import Shared, shared
from tests.adapters.slurm.test_parse import RELEASES

MALLEABLE = JobClass(
    name="solver", kind=JobKind.MALLEABLE, preemptible=True, node_count_min=1, checkpoint=SPEC, setup_s=30.0
)
URGENT = JobClass(name="beam", kind=JobKind.ON_DEMAND, start_within_s=60.0)
SAVED = f"makeway:ckpt={int(NOW_S) - 100} makeway:ckpt-begin={int(NOW_S) - 120}"


IN_QUEUE = Job(
    job_id="7",
    kind=JobKind.MALLEABLE,
    state=JobState.PENDING,
    node_count=2,
    walltime_s=3600.0,
    submit_s=NOW_S - 500.0,
    user="alice",
    account="physics",
    qos="normal",
    partition="batch",
    node_count_min=1,
    node_count_max=2,
    setup_s=30.0,
    checkpoint=SPEC,
    job_class="solver",
    requeue_count=1,
    preemptible=True,
    priority=500,
)


def test_a_running_job_that_may_shrink() -> None:
    raw = replace(RUNNING, restarts=1, priority=500, comment=SAVED)
    assert translated(raw, MALLEABLE) == replace(
        IN_QUEUE,
        state=JobState.RUNNING,
        nodes=("n1", "n2"),
        start_s=NOW_S - 400.0,
        last_checkpoint_s=NOW_S - 100.0 + 0.999,
        checkpointing_since_s=NOW_S - 120.0 + 0.999,
    )


def test_the_same_job_in_the_queue() -> None:
    """What it wrote in an earlier run is over, and so is its expected start."""
    assert translated(replace(PENDING, restarts=1, priority=500, comment=SAVED), MALLEABLE) == IN_QUEUE


def test_a_job_without_a_time_limit_ends_in_a_year_at_the_latest() -> None:
    assert translated(replace(RUNNING, limit_s=None)).walltime_s == UNLIMITED_S


def test_a_job_of_no_class_has_no_name_of_one() -> None:
    assert translated(RUNNING).job_class == ""


@pytest.fixture(params=sorted(RELEASES))
def found(request: pytest.FixtureRequest) -> Shared:
    return shared(str(request.param))


def on_shared_nodes(found: Shared, raw: RawJob, one: JobClass) -> Job:
    translator = Translator(
        (one,),
        found.resources(),
        NOW_S,
        exclusive_shrink=True,
        holds=HoldNames(prefix="makeway_c."),
        licenses=found.licenses,
    )
    return translator.job(raw)


def test_a_running_job_holds_its_part_of_its_node(found: Shared) -> None:
    """Five of eight cores, and 2,000 of 16,000 MB. One with all of its memory holds the node."""
    job = on_shared_nodes(found, found.job("commented"), MALLEABLE)
    assert (job.allocation, job.node_equivalents) == ((Resources.of({CPU: 5, MEMORY: 2000}),), 0.625)
    assert job.demand is None
    whole = on_shared_nodes(found, found.job("exclusive-user"), MALLEABLE)
    assert (whole.allocation, whole.node_equivalents) == (None, 0.25)


def test_a_waiting_urgent_job_asks_for_its_part_of_a_node_and_for_licences(found: Shared) -> None:
    raw = replace(found.job("-n1 -L fluent:2"), licenses="fluent:1", comment="makeway:notice=notice-1")
    job = on_shared_nodes(found, raw, URGENT)
    assert job.demand == found.resources().asked(raw, urgent=True).demand
    assert job.demand is not None
    assert (job.allocation, job.node_equivalents) == (None, None)
    assert job.quotas == (Quota(name="licences fluent", needs=1.0, left=1.0),)
    assert (job.notice_id, job.start_within_s) == ("notice-1", 60.0)
    other = on_shared_nodes(found, raw, MALLEABLE)
    assert (other.quotas, other.notice_id, other.start_within_s) == ((), None, None), "it is not urgent"
