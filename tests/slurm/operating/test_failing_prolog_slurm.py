"""A prolog that always fails for an urgent job, which Slurm does not hold for that. Failing epilogs."""

import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from makeway.adapters.devcluster.cluster import DevCluster, dev_cluster
from makeway.adapters.devcluster.conf import PROMPT_SCHEDULING, DevSpec
from makeway.adapters.devcluster.state_folder import inner_folder
from makeway.policies.model import Requeue
from tests.slurm.conftest import StartDaemon
from tests.slurm.support.daemon import DaemonProcess
from tests.slurm.support.neighbours import MORE_CYCLES
from tests.slurm.support.story import (
    SAVES,
    SAVES_WHEN_TOLD,
    URGENT,
    WHOLE_NODES,
    Story,
    await_start,
    nothing_is_left,
    works_again,
)
from tests.slurm.support.world import slurm_settings
from tests.waiting import await_that

pytestmark = [pytest.mark.slurm, pytest.mark.any_release]

EPILOG = '#!/bin/sh\n[ ! -e "{folder}/epilogs-fail" ]\n'
PROLOG = '#!/bin/sh\n[ ! -e "{folder}/fails-$SLURM_JOB_ID" ]\n'


@pytest.fixture(scope="module")
def programs(slurm_root: str | None) -> Iterator[Path]:
    """Where prolog and epilog are. The prolog fails for each job of which there is a file, the epilog for all
    jobs if there is one.
    """
    folder = Path(tempfile.mkdtemp(prefix="mwprolog-", dir=f"{slurm_root or ''}/tmp"))
    folder.chmod(0o755)
    for name, text in (("prolog.sh", PROLOG), ("epilog.sh", EPILOG)):
        program = folder / name
        program.write_text(text.format(folder=inner_folder(folder, slurm_root)))
        program.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def eight_nodes(slurm_root: str | None, programs: Path) -> Iterator[DevCluster]:
    """A cluster of eight nodes on which a failed prolog holds no job."""
    settings = slurm_settings(
        Prolog=str(inner_folder(programs, slurm_root) / "prolog.sh"),
        Epilog=str(inner_folder(programs, slurm_root) / "epilog.sh"),
        SchedulerParameters=",".join((*PROMPT_SCHEDULING, "nohold_on_prolog_fail")),
    )
    with dev_cluster(DevSpec(node_count=8, root=slurm_root, settings=settings)) as cluster:
        yield cluster


def drained(story: Story) -> set[str]:
    shown = story.ask("sinfo", "--noheader", "--Node", "--format=%N %T").splitlines()
    return {name for name, state in (line.split() for line in shown) if state.startswith("drain")}


def has_restarted(story: Story, job_id: str, count: int) -> bool:
    return story.restarts(job_id) == count


def requeued(daemon: DaemonProcess) -> list[str]:
    return [one.action.job_id for one in daemon.commands() if isinstance(one.action, Requeue)]


@pytest.mark.parametrize("options", [WHOLE_NODES, ("--ntasks=1", "--time=30")], ids=["whole", "shared"])
def test_two_jobs_leave_at_most(
    story: Story, start_daemon: StartDaemon, programs: Path, options: tuple[str, ...]
) -> None:
    """Slurm tries the job again after two minutes; the test does not wait for that. The daemon is started
    again meanwhile. When the nodes are mended, the job is served.
    """
    story.works(*[story.submit(SAVES_WHEN_TOLD, 1, "saving") for _ in range(8)])
    daemon = start_daemon(start_within_s=600.0)
    urgent = story.submit(URGENT, 1, "urgent", *options)
    story.urgent.append(urgent)
    fails = programs / f"fails-{urgent}"
    fails.touch()
    story.may_save()
    explain = story.explain(daemon)
    for count in (1, 2):
        await_that("the start fails", partial(has_restarted, story, urgent, count), explain)
        assert daemon.stop() == 0
        story.world.cluster.run("scontrol", "update", f"JobId={urgent}", "StartTime=now")
        daemon.start()
    await_that("nothing is held", lambda: story.reservations() == [], explain)
    await_that("two nodes are drained", lambda: len(drained(story)) == 2, explain)
    cycles = daemon.status()["cycles"]
    await_that("more cycles pass", lambda: daemon.status()["cycles"] >= cycles + MORE_CYCLES, explain)
    assert (len(requeued(daemon)), story.reservations()) == (2, []), explain()
    assert "starts failed" in daemon.run("explain", "last").stdout
    assert f"job {urgent} waits for its nodes to be mended (2 starts failed; " in daemon.log()

    fails.unlink()
    story.world.cluster.run("scontrol", "update", f"NodeName={','.join(drained(story))}", "State=RESUME")
    await_start(story, daemon, urgent)
    story.ends(urgent)
    works_again(story, daemon, *story.lenders())
    nothing_is_left(story, daemon)


def test_three_jobs_leave_at_most_if_each_epilog_fails(
    story: Story, start_daemon: StartDaemon, programs: Path
) -> None:
    story.works(*[story.submit(SAVES, 1, "saving") for _ in range(8)])
    daemon = start_daemon(start_within_s=600.0)
    (programs / "epilogs-fail").touch()
    urgent = story.urgent_comes(1)
    explain = story.explain(daemon)
    await_that("makeway says why it waits", lambda: "holds have lost nodes" in daemon.log(), explain)
    await_that("nothing is held", lambda: story.reservations() == [], explain)
    cycles = daemon.status()["cycles"]
    await_that("more cycles pass", lambda: daemon.status()["cycles"] >= cycles + MORE_CYCLES, explain)
    assert (len(requeued(daemon)), story.reservations()) == (3, []), explain()

    (programs / "epilogs-fail").unlink()
    story.world.cluster.run("scontrol", "update", f"NodeName={','.join(drained(story))}", "State=RESUME")
    await_start(story, daemon, urgent)
    story.ends(urgent)
    works_again(story, daemon, *story.lenders())
    nothing_is_left(story, daemon)
