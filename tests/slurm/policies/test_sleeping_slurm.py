"""Nodes that sleep to save power, on a real Slurm whose programs switch slurmds off and on."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from makeway.adapters.devcluster.cluster import DevCluster, dev_cluster
from makeway.adapters.devcluster.conf import DevSpec
from makeway.adapters.devcluster.state_folder import inner_folder
from makeway.policies.model import Requeue
from tests.slurm.conftest import StartDaemon
from tests.slurm.support.daemon import DaemonProcess
from tests.slurm.support.neighbours import MORE_CYCLES
from tests.slurm.support.story import SAVES, SAVES_WHEN_TOLD, Story, await_start, nothing_is_left, works_again
from tests.slurm.support.world import slurm_settings
from tests.waiting import await_that

pytestmark = [pytest.mark.slurm, pytest.mark.any_release]

WAKE = """#!/bin/sh
for node in $(scontrol show hostnames "$1"); do
    echo "$node" >>"{folder}/woken"
    pid=$(cat "$(dirname "$SLURM_CONF")/slurmd.$node.pid")
    kill "$pid"
    while kill -0 "$pid" 2>/dev/null; do sleep 0.2; done
    slurmd -b -N "$node"
done
"""
"""A slurmd that was started with -b says that its node has booted."""
RESUME_TIMEOUT_S = 600
PAIR = frozenset({"n7", "n8"})
"""The nodes that sleep at some time."""
ELSEWHERE = ("--ntasks-per-node=2", "--time=30", f"--exclude={','.join(sorted(PAIR))}")


@pytest.fixture(scope="module")
def programs(slurm_root: str | None) -> Iterator[Path]:
    """Where the program is that wakes nodes, and the list of those that it woke."""
    folder = Path(tempfile.mkdtemp(prefix="mwwake-", dir=f"{slurm_root or ''}/tmp"))
    folder.chmod(0o755)
    program = folder / "wake.sh"
    program.write_text(WAKE.format(folder=inner_folder(folder, slurm_root)))
    program.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def eight_nodes(slurm_root: str | None, programs: Path) -> Iterator[DevCluster]:
    """A cluster of eight nodes that sleep when they are told to."""
    saves_power = slurm_settings(
        ResumeProgram=str(inner_folder(programs, slurm_root) / "wake.sh"),
        SuspendProgram="/bin/true",
        SuspendTime="86400",
        SuspendTimeout="1",
        ResumeTimeout=str(RESUME_TIMEOUT_S),
        SuspendRate="0",
        ResumeRate="0",
    )
    with dev_cluster(DevSpec(node_count=8, root=slurm_root, settings=saves_power)) as cluster:
        yield cluster


def asleep(story: Story) -> set[str]:
    """The nodes that sleep."""
    shown = story.ask("sinfo", "--noheader", "--Node", "--format=%N %T").splitlines()
    return {name for name, state in (line.split() for line in shown) if state.endswith("~")}


def requeued(daemon: DaemonProcess) -> list[str]:
    return [one.action.job_id for one in daemon.commands() if isinstance(one.action, Requeue)]


@pytest.fixture(autouse=True)
def _all_awake(story: Story) -> None:
    """A test that failed may have left nodes asleep."""
    if asleep(story):
        story.world.cluster.run("scontrol", "update", f"NodeName={','.join(sorted(PAIR))}", "State=POWER_UP")
        await_that("all nodes are awake", lambda: not asleep(story), story.world.cluster.log_end)


def falls_asleep(story: Story) -> None:
    """Two nodes are switched off."""
    story.world.cluster.run("scontrol", "update", f"NodeName={','.join(sorted(PAIR))}", "State=POWER_DOWN")
    await_that("two nodes sleep", lambda: asleep(story) == PAIR, story.world.cluster.log_end)


def fill_the_others(story: Story, script: str = SAVES) -> None:
    """Three workers on the other six nodes."""
    story.workers += [story.submit(script, 2, "saving", *ELSEWHERE) for _ in range(3)]
    await_that("every worker works", lambda: all(len(story.steps(one)) > 1 for one in story.workers))


def no_further_job_leaves(
    story: Story, start_daemon: StartDaemon, falls_asleep: Callable[[Story], None]
) -> None:
    """Two nodes of a hold fall asleep while the one job that leaves saves."""
    fill_the_others(story, SAVES_WHEN_TOLD)
    daemon = start_daemon(start_within_s=RESUME_TIMEOUT_S + 300.0)
    urgent = story.urgent_comes(4)
    await_that("a worker is to save", lambda: daemon.signals() == 1, story.explain(daemon))
    falls_asleep(story)
    cycles = daemon.status()["cycles"]
    await_that("more cycles pass", lambda: daemon.status()["cycles"] >= cycles + MORE_CYCLES, daemon.log)
    story.may_save()
    await_start(story, daemon, urgent)
    (left,) = requeued(daemon)
    assert (daemon.signals(), story.nodes(urgent) > PAIR) == (1, True)
    story.ends(urgent)
    works_again(story, daemon, left)
    nothing_is_left(story, daemon)


def test_only_as_many_jobs_leave_as_are_missing_with_the_nodes_that_sleep(
    story: Story, start_daemon: StartDaemon, programs: Path
) -> None:
    """The nodes of the hold are woken while the worker saves."""
    falls_asleep(story)
    fill_the_others(story)
    daemon = start_daemon(start_within_s=RESUME_TIMEOUT_S + 300.0)
    urgent = story.urgent_comes(4)
    await_start(story, daemon, urgent)
    (left,) = requeued(daemon)
    assert story.nodes(urgent) > PAIR
    assert set((programs / "woken").read_text().split()) == PAIR
    story.ends(urgent)
    works_again(story, daemon, left)
    nothing_is_left(story, daemon)


def test_no_further_job_leaves_if_nodes_fall_asleep_in_their_hold(
    story: Story, start_daemon: StartDaemon
) -> None:
    no_further_job_leaves(story, start_daemon, falls_asleep)
