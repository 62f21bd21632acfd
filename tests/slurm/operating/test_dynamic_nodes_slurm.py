"""Dynamic nodes (`slurmd -Z`) that leave and join while a hold is over them."""

from collections.abc import Iterator

import pytest

from makeway.adapters.devcluster.cluster import DevCluster, DevClusterError, dev_cluster, slurm_version
from makeway.adapters.devcluster.conf import DevSpec
from makeway.adapters.devcluster.ports import claimed_ports
from tests.slurm.conftest import StartDaemon
from tests.slurm.support.daemon import DaemonProcess
from tests.slurm.support.neighbours import looks_again
from tests.slurm.support.story import (
    SAVES_WHEN_TOLD,
    URGENT,
    WHOLE_NODES,
    Story,
    nothing_is_left,
    starts_on_the_held_nodes,
    works_again,
)
from tests.slurm.support.world import slurm_settings
from tests.waiting import await_that

# Left out on 24.11: on a busy machine it failed there, when Slurm lost a node that an earlier try had left.
pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="26.05")]

DYNAMIC = "dyn"
"""The feature of the nodes that are in no slurm.conf."""


@pytest.fixture(scope="module")
def eight_nodes(slurm_root: str | None) -> Iterator[DevCluster]:
    """A cluster of two nodes, which others may join."""
    if slurm_version(slurm_root) < (24, 11):
        pytest.skip("before 24.11, dynamic nodes take no port of their own: one machine can run only one")
    partitions = (f"Nodeset={DYNAMIC} Feature={DYNAMIC}", *DevSpec().partitions)
    settings = slurm_settings(MaxNodeCount="8")
    spec = DevSpec(node_count=2, root=slurm_root, settings=settings, partitions=partitions)
    with dev_cluster(spec) as cluster:
        yield cluster


def joins(story: Story, *names: str) -> None:
    """These nodes join the cluster."""
    cluster = story.world.cluster
    with claimed_ports(len(names)) as ports:
        for name, port in zip(names, ports, strict=True):
            hardware = f"CPUs=2 RealMemory=1000 Feature={DYNAMIC} Port={port}"
            cluster.start_node(name, "-Z", "--conf", hardware)
        await_that("they have joined", lambda: set(names) <= idle_nodes(story), cluster.log_end)


def idle_nodes(story: Story) -> set[str]:
    shown = story.ask("sinfo", "--noheader", "--Node", "--states=idle", "--format=%N")
    return set(shown.split())


def leaves(story: Story, name: str) -> None:
    """A node stops, and an administrator deletes it. Slurm's reservations name it for a moment longer."""
    cluster = story.world.cluster
    cluster.stop_node(name)
    cluster.run("scontrol", "update", f"NodeName={name}", "State=DOWN", "Reason=test")
    await_that("it is deleted", lambda: deleted(cluster, name), cluster.log_end)


def deleted(cluster: DevCluster, name: str) -> bool:
    """Whether Slurm has deleted the node. It refuses to as long as it counts the node as busy."""
    try:
        cluster.run("scontrol", "delete", f"NodeName={name}")
    except DevClusterError:
        return False
    return True


def asked(daemon: DaemonProcess) -> list[str]:
    return [command.action.job_id for command in daemon.commands() if command.action.verb == "checkpoint"]


def test_a_node_of_the_hold_is_deleted_and_another_one_joins(story: Story, start_daemon: StartDaemon) -> None:
    """The job that has saved for the hold leaves only once the urgent job can start."""
    joins(story, "d1", "d2")
    story.submit("exec sleep 600", 2, "other", *WHOLE_NODES, "--nodelist=n1,n2")
    worker = story.submit(SAVES_WHEN_TOLD, 1, "saving", *WHOLE_NODES, "--nodelist=d1")
    story.workers.append(worker)
    await_that("the job works", lambda: len(story.steps(worker)) > 1, story.world.cluster.log_end)
    daemon = start_daemon()
    urgent = story.submit(URGENT, 2, "urgent", *WHOLE_NODES, f"--constraint={DYNAMIC}")
    story.urgent.append(urgent)
    await_that("it is asked to save", lambda: asked(daemon) == [worker], story.explain(daemon))
    leaves(story, "d2")
    story.may_save()
    await_that("it has saved", story.signalled, story.explain(daemon))
    looks_again(daemon)
    assert (story.runs(worker), story.restarts(worker)) == (True, 0)
    joins(story, "d3")
    starts_on_the_held_nodes(story, daemon, urgent)
    assert story.nodes(urgent) == {"d1", "d3"}
    story.ends(urgent)
    works_again(story, daemon, worker)
    nothing_is_left(story, daemon)
