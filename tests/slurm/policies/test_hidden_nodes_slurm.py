"""Cloud nodes that slurmctld hides while they sleep. This real Slurm wakes one of them a minute."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from makeway.adapters.devcluster.cluster import DevCluster, dev_cluster, slurm_version
from makeway.adapters.devcluster.conf import DevSpec
from makeway.adapters.devcluster.state_folder import inner_folder
from makeway.adapters.slurm.accounting.machine import machine_commands, read_machine, unseen_nodes
from tests.slurm.conftest import StartDaemon
from tests.slurm.policies.test_sleeping_slurm import (
    PAIR,
    RESUME_TIMEOUT_S,
    WAKE,
    fill_the_others,
    no_further_job_leaves,
    requeued,
)
from tests.slurm.support.story import Story, await_start, nothing_is_left, works_again
from tests.slurm.support.world import slurm_settings
from tests.waiting import await_that

pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="22.05")]


@pytest.fixture(scope="module")
def eight_nodes(slurm_root: str | None) -> Iterator[DevCluster]:
    """A cluster of eight nodes, of which two are in a cloud."""
    if slurm_version(slurm_root) >= (24, 11):
        pytest.skip("this Slurm shows all nodes")
    folder = Path(tempfile.mkdtemp(prefix="mwwake-", dir=f"{slurm_root or ''}/tmp"))
    folder.chmod(0o755)
    program = folder / "wake.sh"
    program.write_text(WAKE.format(folder=inner_folder(folder, slurm_root)))
    program.chmod(0o755)
    saves_power = slurm_settings(
        ResumeProgram=str(inner_folder(folder, slurm_root) / "wake.sh"),
        SuspendProgram="/bin/true",
        SuspendTime="86400",
        SuspendTimeout="1",
        ResumeTimeout=str(RESUME_TIMEOUT_S),
        SuspendRate="0",
        ResumeRate="1",
    )
    cloud = dict.fromkeys(PAIR, "State=CLOUD")
    with dev_cluster(
        DevSpec(node_count=8, root=slurm_root, settings=saves_power, node_options=cloud)
    ) as cluster:
        yield cluster
    shutil.rmtree(folder)


def hidden(story: Story) -> frozenset[str]:
    """The cloud nodes that Slurm does not show."""
    return PAIR - frozenset(story.ask("sinfo", "--noheader", "--Node", "--format=%N").split())


def awake(story: Story) -> set[str]:
    """The cloud nodes that have booted."""
    shown = story.ask("sinfo", "--noheader", "--Node", "--format=%N %T").splitlines()
    states = dict(line.split() for line in shown)
    return {name for name in PAIR & states.keys() if states[name][-1] not in "~#%*!"}


@pytest.fixture(autouse=True)
def _all_awake(story: Story) -> None:
    """A test before may have left nodes asleep."""
    names = f"NodeName={','.join(sorted(PAIR))}"
    if awake(story) != PAIR:
        story.world.cluster.run("scontrol", "update", names, "State=POWER_UP")
        await_that("all nodes are awake", lambda: awake(story) == PAIR, story.world.cluster.log_end)


def falls_asleep(story: Story) -> None:
    """The two nodes are switched off."""
    story.world.cluster.run("scontrol", "update", f"NodeName={','.join(sorted(PAIR))}", "State=POWER_DOWN")
    await_that("two nodes are hidden", lambda: hidden(story) == PAIR, story.world.cluster.log_end)


def test_a_history_says_that_its_machine_lacks_them(story: Story) -> None:
    def machine() -> str:
        return story.world.cluster.run("sh", "-c", machine_commands())

    assert unseen_nodes(machine()) == frozenset()
    falls_asleep(story)
    assert unseen_nodes(machine()) == PAIR
    assert PAIR.isdisjoint(node.name for node in read_machine(machine()))


def test_no_further_job_leaves_if_nodes_of_the_hold_are_not_shown_any_more(
    story: Story, start_daemon: StartDaemon
) -> None:
    no_further_job_leaves(story, start_daemon, falls_asleep)


def test_an_urgent_job_is_served_while_another_job_waits_for_nodes_that_are_not_shown(
    story: Story, start_daemon: StartDaemon
) -> None:
    fill_the_others(story)
    falls_asleep(story)
    daemon = start_daemon(start_within_s=60.0)
    boots = story.submit("sleep 600", 2, "batch", "--ntasks-per-node=2", "--time=30")
    await_that("a job gets the cloud nodes", lambda: story.nodes(boots) == PAIR, story.world.cluster.log_end)
    assert hidden(story), "Slurm wakes one of them a minute"
    urgent = story.urgent_comes(2)
    await_start(story, daemon, urgent)
    assert hidden(story)
    (left,) = requeued(daemon)
    story.ends(urgent)
    works_again(story, daemon, left)
    story.world.cluster.run("scancel", boots)
    nothing_is_left(story, daemon)
