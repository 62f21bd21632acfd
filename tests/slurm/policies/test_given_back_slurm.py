"""The daemon's journal is lost for good, and a new daemon gives back what jobs say was taken from them."""

from collections.abc import Callable

import pytest

from makeway.adapters.slurm.build import FRONT_PRIORITY, RESIZES_CLEANLY
from makeway.adapters.slurm.parse import duration_s
from tests.slurm.conftest import StartDaemon
from tests.slurm.support.daemon import DaemonProcess
from tests.slurm.support.story import (
    IGNORES,
    Story,
    nothing_is_left,
    starts_on_the_held_nodes,
    works_again,
)
from tests.waiting import await_that

pytestmark = pytest.mark.slurm

OWN = "the site's own words"


def loses_its_journal(daemon: DaemonProcess) -> None:
    """The daemon stops, its journal goes, and a new one starts."""
    daemon.stop()
    for path in daemon.folder.glob("journal.sqlite*"):
        path.unlink()
    daemon.start()


def kept(story: Story, job_id: str) -> str:
    """What AdminComment says."""
    told = story.ask("squeue", "-h", f"--jobs={job_id}", "-O", "admin_comment:200").strip()
    return "" if told == "(null)" else told


def limit_s(story: Story, job_id: str) -> float:
    """The job's time limit."""
    limit = duration_s(story.field(job_id, "TimeLimit"))
    assert limit is not None
    return limit


def says_nothing_more(story: Story, job_id: str, explain: Callable[[], str]) -> None:
    await_that(
        f"nothing is missing from job {job_id}", lambda: "makeway:" not in kept(story, job_id), explain
    )


@pytest.mark.one_release(on="24.11")
def test_a_requeued_job_gets_back_its_turn_and_its_limit(story: Story, start_daemon: StartDaemon) -> None:
    story.fill()
    for worker in story.workers:
        story.world.cluster.run("scontrol", "update", f"JobId={worker}", f"AdminComment={OWN}")
    limit = limit_s(story, story.workers[0])
    daemon = start_daemon()
    urgent = story.urgent_comes()
    starts_on_the_held_nodes(story, daemon, urgent)
    (lender,) = story.lenders()
    assert kept(story, lender).startswith(f"{OWN} makeway:taken=")
    assert limit_s(story, lender) != limit
    rival = story.submit(IGNORES, 2, "other")

    loses_its_journal(daemon)
    await_that(
        "the lender is the next to start",
        lambda: (
            story.field(lender, "PriorityLong") == str(FRONT_PRIORITY)
            and story.field(lender, "Reason") == "Resources"
        ),
        story.explain(daemon),
    )
    story.ends(urgent)
    works_again(story, daemon, lender)
    assert story.state(rival) == "PENDING"
    assert limit_s(story, lender) == limit
    assert kept(story, lender) == OWN
    assert story.restarts(lender) == 1
    story.world.cluster.run("scancel", rival)
    nothing_is_left(story, daemon)


def test_a_shrunk_job_gets_back_its_size_and_its_limit(story: Story, start_daemon: StartDaemon) -> None:
    """Where jobs cannot grow, both come back with its next run."""
    worker = story.fill_malleable()
    limit = limit_s(story, worker)
    daemon = start_daemon(policy="n-spaa")
    explain = story.explain(daemon)
    urgent = story.urgent_comes(3)
    starts_on_the_held_nodes(story, daemon, urgent)
    assert len(story.nodes(worker)) == 3
    assert "size=6,kept=3" in kept(story, worker)
    raised = limit_s(story, worker)

    loses_its_journal(daemon)
    story.ends(urgent)
    grows = story.world.cluster.version >= RESIZES_CLEANLY
    if grows:
        await_that("the job has all its nodes", lambda: len(story.nodes(worker)) == 6, explain)
        await_that("its limit is lowered", lambda: limit <= limit_s(story, worker) < raised, explain)
        assert story.restarts(worker) == 0
    story.world.cluster.run("scontrol", "requeue", worker)
    if grows:  # it has got its turn already, so that nobody lifts the requeue delay
        await_that("it waits", lambda: story.state(worker) == "PENDING", explain)
        story.world.cluster.run("scontrol", "update", f"JobId={worker}", "StartTime=now+3seconds")
    await_that("its next run begins", lambda: story.restarts(worker) == 1 and story.runs(worker), explain)
    assert len(story.nodes(worker)) == 6
    says_nothing_more(story, worker, explain)
    assert limit_s(story, worker) == limit
    nothing_is_left(story, daemon)
