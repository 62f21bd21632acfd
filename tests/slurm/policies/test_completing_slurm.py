"""Nodes on which jobs are completing, on a real Slurm whose epilog takes as long as a test wants."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from makeway.adapters.devcluster.cluster import DevCluster, dev_cluster
from makeway.adapters.devcluster.conf import DevSpec
from makeway.adapters.devcluster.state_folder import inner_folder
from makeway.daemon.estimate.run_times import ended_runs, running
from makeway.policies.common.departures import COMPLETING_S
from makeway.policies.model import JobState, Requeue, Reserve
from tests.slurm.conftest import StartDaemon
from tests.slurm.support.daemon import DaemonProcess
from tests.slurm.support.story import SAVES, WHOLE_NODES, Story, await_start, nothing_is_left, works_again
from tests.slurm.support.world import SlurmWorld, slurm_settings
from tests.waiting import await_that

pytestmark = pytest.mark.slurm

EPILOG = """#!/bin/sh
while [ -e "{folder}/lasts-$SLURM_JOB_ID" ]; do sleep 0.2; done
"""
ON_TIME_S = COMPLETING_S + 120.0
"""Long enough to count on a job that is completing, and to make another one leave if that is stuck."""


@pytest.fixture(scope="module")
def epilog_folder(slurm_root: str | None) -> Iterator[Path]:
    """Where the epilog is, and what makes it last: `lasts-JOB`."""
    folder = Path(tempfile.mkdtemp(prefix="mwepilog-", dir=f"{slurm_root or ''}/tmp"))
    folder.chmod(0o755)
    epilog = folder / "epilog.sh"
    epilog.write_text(EPILOG.format(folder=inner_folder(folder, slurm_root)))
    epilog.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def eight_nodes(slurm_root: str | None, epilog_folder: Path) -> Iterator[DevCluster]:
    """A cluster of eight nodes with that epilog."""
    epilog = str(inner_folder(epilog_folder, slurm_root) / "epilog.sh")
    spec = DevSpec(node_count=8, root=slurm_root, settings=slurm_settings(Epilog=epilog))
    with dev_cluster(spec) as cluster:
        yield cluster


@pytest.fixture
def epilogs(epilog_folder: Path, slurm_world: SlurmWorld) -> Iterator[Path]:
    """The same folder. After each test every epilog ends, before the cluster is emptied."""
    yield epilog_folder
    for lasts in epilog_folder.glob("lasts-*"):
        lasts.unlink()


def ending(story: Story, epilogs: Path) -> tuple[str, Path]:
    """Three workers, and a job on two nodes that has ended and whose epilog lasts as long as the file is
    there.
    """
    ends = story.submit('while [ ! -e "over-$SLURM_JOB_ID" ]; do sleep 0.2; done', 2, "other")
    story.works(*[story.submit(SAVES, 2, "saving") for _ in range(3)])
    lasts = epilogs / f"lasts-{ends}"
    lasts.touch()
    story.ends(ends)
    await_that(
        "the job is completing", lambda: story.state(ends) == "COMPLETING", story.world.cluster.log_end
    )
    return ends, lasts


def requeued(daemon: DaemonProcess) -> list[str]:
    return [one.action.job_id for one in daemon.commands() if isinstance(one.action, Requeue)]


def holds(daemon: DaemonProcess) -> list[set[str]]:
    """The nodes of each hold, in order."""
    return [
        set(one.action.nodes)
        for one in daemon.commands()
        if isinstance(one.action, Reserve) and one.action.nodes
    ]


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param("eviction", marks=pytest.mark.one_release(on="24.11")),
        pytest.param("least-price", marks=pytest.mark.one_release(on="22.05")),
    ],
)
def test_no_job_leaves_if_another_one_is_completing(
    story: Story, start_daemon: StartDaemon, epilogs: Path, policy: str
) -> None:
    ends, lasts = ending(story, epilogs)
    nodes = story.nodes(ends)
    daemon = start_daemon(policy=policy, start_within_s=ON_TIME_S)
    urgent = story.urgent_comes()
    await_that("its nodes are held", lambda: holds(daemon) == [nodes], story.explain(daemon))
    assert "2 completing" in daemon.run("explain", "last").stdout
    assert story.state(ends) == "COMPLETING"
    lasts.unlink()
    await_start(story, daemon, urgent)
    assert (story.nodes(urgent), requeued(daemon), len(holds(daemon))) == (nodes, [], 1)
    story.ends(urgent)
    nothing_is_left(story, daemon)


@pytest.mark.one_release(on="22.05")
def test_a_job_that_is_stuck_does_not_make_an_urgent_job_late(
    story: Story, start_daemon: StartDaemon, epilogs: Path
) -> None:
    """Its epilog hangs: one worker leaves, and only one, although its own epilog takes a while too."""
    ends, lasts = ending(story, epilogs)
    nodes = story.nodes(ends)
    daemon = start_daemon(start_within_s=ON_TIME_S)
    urgent = story.urgent_comes()
    await_that("its nodes are held", lambda: holds(daemon) == [nodes], story.explain(daemon))
    for worker in story.workers:
        (epilogs / f"lasts-{worker}").touch()
    await_that(
        "a worker leaves",
        lambda: len(requeued(daemon)) == 1,
        story.explain(daemon),
        waits_s=COMPLETING_S,
    )
    (lender,) = requeued(daemon)
    await_that("it is completing", lambda: story.state(lender) == "COMPLETING", story.explain(daemon))
    for worker in story.workers:
        (epilogs / f"lasts-{worker}").unlink()
    await_start(story, daemon, urgent)
    assert story.nodes(urgent).isdisjoint(nodes)
    assert (story.state(ends), requeued(daemon), len(holds(daemon))) == ("COMPLETING", [lender], 2)
    lasts.unlink()
    story.ends(urgent)
    works_again(story, daemon, lender)
    nothing_is_left(story, daemon)


def test_a_run_that_a_requeue_ends_says_nothing_of_how_long_its_user_s_jobs_take(
    story: Story, epilogs: Path
) -> None:
    """While the job completes, Slurm counts its next run already. The end of another job says it."""
    requeued_job, ends = (story.submit(SAVES, 2, "saving", *WHOLE_NODES, "--time=60") for _ in range(2))
    before = running(story.world.wait(lambda seen: {requeued_job, ends} <= running(seen).keys(), "both run"))
    for job_id in (requeued_job, ends):
        (epilogs / f"lasts-{job_id}").touch()
    story.ask("scontrol", "requeue", requeued_job)
    story.ask("scancel", ends)
    await_that(
        "both are completing",
        lambda: {story.state(one) for one in (requeued_job, ends)} == {"COMPLETING"},
        story.world.cluster.log_end,
    )
    seen = story.world.adapter.snapshot()
    assert {seen.jobs_by_id()[one].state for one in (requeued_job, ends)} == {JobState.COMPLETING}
    assert [one.job_id for one in ended_runs(before, seen)] == [ends]
