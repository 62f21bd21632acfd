"""Urgent jobs where Slurm's topology says which nodes one job may have, on a real Slurm with two blocks."""

from collections.abc import Iterator

import pytest

from makeway.adapters.devcluster.cluster import DevCluster, dev_cluster
from makeway.adapters.devcluster.conf import DevSpec
from tests.slurm.conftest import StartDaemon
from tests.slurm.support.story import SAVES, WHOLE_NODES, Story, clears_and_gives_back
from tests.slurm.support.world import slurm_settings

pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="24.11")]

LEAVE = ("n4", "n7", "n8")


@pytest.fixture(scope="module")
def eight_nodes(slurm_root: str | None) -> Iterator[DevCluster]:
    """A cluster of two blocks with four nodes each; makeway is not told to look for placements."""
    spec = DevSpec(
        root=slurm_root,
        settings=slurm_settings(TopologyPlugin="topology/block"),
        switches=("BlockName=b1 Nodes=n[1-4]", "BlockName=b2 Nodes=n[5-8]", "BlockSizes=4"),
    )
    with dev_cluster(spec) as cluster:
        yield cluster


def test_the_jobs_that_leave_are_of_one_block(story: Story, start_daemon: StartDaemon) -> None:
    """Of the three that may leave, one is in the other block. Slurm starts no job of two nodes on both."""
    for number in range(1, 9):
        node = f"n{number}"
        leaves = node in LEAVE
        job_id = story.submit(SAVES, 1, "saving" if leaves else "other", *WHOLE_NODES, f"--nodelist={node}")
        story.workers.append(job_id)
    story.works()
    daemon = start_daemon(placements="any")
    urgent = story.urgent_comes(2)
    clears_and_gives_back(story, daemon, urgent, {"n7", "n8"})
