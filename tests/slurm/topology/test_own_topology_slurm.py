"""An urgent job in a partition with a topology of its own (topology.yaml), on a real Slurm."""

from collections.abc import Iterator

import pytest

from makeway.adapters.devcluster.cluster import DevCluster, dev_cluster, slurm_version
from makeway.adapters.devcluster.conf import DevSpec
from tests.slurm.conftest import StartDaemon
from tests.slurm.support.story import SAVES, WHOLE_NODES, Story, clears_and_gives_back
from tests.slurm.support.world import slurm_settings

pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="26.05")]

KNOWS_TOPOLOGIES = (25, 5)
TOPOLOGIES = """---
- topology: any-nodes
  cluster_default: true
  flat: true
- topology: two-trees
  cluster_default: false
  tree:
    switches:
      - switch: s1
        nodes: n[1-4]
      - switch: s2
        nodes: n[5-8]
"""
LEAVE = ("n4", "n7", "n8")


@pytest.fixture(scope="module")
def eight_nodes(slurm_root: str | None) -> Iterator[DevCluster]:
    """Any nodes serve a job in one partition, those below one of two switches a job in the other."""
    if slurm_version(slurm_root) < KNOWS_TOPOLOGIES:
        pytest.skip("this Slurm has one topology for all partitions")
    spec = DevSpec(
        root=slurm_root,
        settings=slurm_settings(),
        topologies=TOPOLOGIES,
        partitions=(
            "PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
            "PartitionName=trees Nodes=ALL MaxTime=INFINITE State=UP Topology=two-trees",
        ),
    )
    with dev_cluster(spec) as cluster:
        yield cluster


def test_the_jobs_that_leave_are_below_one_switch(story: Story, start_daemon: StartDaemon) -> None:
    """Of the three that may leave, one is below the other switch."""
    for number in range(1, 9):
        account = "saving" if f"n{number}" in LEAVE else "other"
        job_id = story.submit(SAVES, 1, account, *WHOLE_NODES, f"--nodelist=n{number}")
        story.workers.append(job_id)
    story.works()
    daemon = start_daemon()
    urgent = story.urgent_comes(2, "--partition=trees")
    clears_and_gives_back(story, daemon, urgent, {"n7", "n8"})
