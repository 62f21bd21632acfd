"""Two clusters in a federation, each with a daemon: an urgent job gets room on one of them."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from bench.fight.accounting import Accounting, user_name

from makeway.adapters.devcluster.cluster import DevCluster, dev_cluster
from makeway.adapters.devcluster.conf import CLUSTER_NAME, DevSpec
from makeway.adapters.slurm.waiting.federation import SHOW_FEDERATION
from tests.slurm.conftest import StartDaemon
from tests.slurm.support.accounted import accounted_cluster
from tests.slurm.support.daemon import DaemonProcess
from tests.slurm.support.story import SAVES, Story, nothing_is_left, starts_on_the_held_nodes, works_again
from tests.slurm.support.world import slurm_settings
from tests.waiting import await_that

pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="22.05")]

OTHER = "other"
"""The second cluster, and an account."""
SHARED = ("AccountingStorageHost", "AccountingStoragePass", "AccountingStoragePort", "AuthInfo")
"""The settings by which both clusters use the same slurmdbd and the same key."""


@pytest.fixture(scope="module")
def eight_nodes(slurm_root: str | None) -> Iterator[DevCluster]:
    """The first cluster, with accounting and two nodes."""
    spec = DevSpec(root=slurm_root, node_count=2, settings=slurm_settings())
    with accounted_cluster(spec, add_associations) as cluster:
        yield cluster


def add_associations(accounting: Accounting) -> None:
    accounting.manage("add", "cluster", OTHER)
    for account in ("urgent", "saving"):
        clusters = f"cluster={CLUSTER_NAME},{OTHER}"
        accounting.manage("add", "account", account, clusters)
        accounting.manage("add", "user", user_name(), f"account={account}", clusters)


@pytest.fixture(scope="module")
def second(eight_nodes: DevCluster) -> Iterator[DevCluster]:
    """The second cluster, in a federation with the first one."""
    lines = (eight_nodes.folder / "slurm.conf").read_text().splitlines()
    pairs = dict(line.split("=", 1) for line in lines if "=" in line)
    settings = slurm_settings(
        ClusterName=OTHER,
        AccountingStorageType="accounting_storage/slurmdbd",
        **{key: pairs[key] for key in SHARED},
    )
    with ExitStack() as stack:
        base = eight_nodes.folder.parent
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mw-second-", dir=base)))
        spec = replace(eight_nodes.spec, settings=settings)
        cluster = stack.enter_context(dev_cluster(spec, folder))
        members = f"clusters={CLUSTER_NAME},{OTHER}"
        cluster.run("sacctmgr", "--immediate", "add", "federation", "both", members)
        await_that(
            "the clusters know each other",
            lambda: all("Synced:Yes" in one.run(*SHOW_FEDERATION) for one in (eight_nodes, cluster)),
            cluster.log_end,
        )
        yield cluster


def worker_on(story: Story, cluster_name: str) -> str:
    """A worker that fills one of the clusters, submitted to the first one."""
    return story.submit(SAVES, 2, "saving", "--ntasks-per-node=2", "--time=30", f"--clusters={cluster_name}")


def test_an_urgent_job_of_a_federation_gets_room_on_its_own_cluster_alone(
    second: DevCluster, story: Story, start_daemon: StartDaemon, tmp_path: Path
) -> None:
    worker = worker_on(story, CLUSTER_NAME)
    there = worker_on(story, OTHER)
    story.works(worker)
    await_that(
        "both clusters are full",
        lambda: second.run("squeue", "--local", "-h", "--states=running", "-o", "%A").split() == [there],
        second.log_end,
    )
    (tmp_path / OTHER).mkdir()
    elsewhere = DaemonProcess(second, tmp_path / OTHER, "act")
    with elsewhere.guarded():
        try:
            elsewhere.start()
            daemon = start_daemon()
            urgent = story.urgent_comes()
            starts_on_the_held_nodes(story, daemon, urgent)
            story.ends(urgent)
            works_again(story, daemon, worker)
            nothing_is_left(story, daemon)
            assert [command.action.verb for command in daemon.commands()].count("requeue") == 1
            assert elsewhere.commands() == ()
        finally:
            elsewhere.stop()
