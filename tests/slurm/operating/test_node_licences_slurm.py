"""Licences of resources.yaml, which belong to nodes, on a real Slurm."""

from collections.abc import Iterator

import pytest

from makeway.adapters.devcluster.cluster import DevCluster, dev_cluster
from makeway.adapters.devcluster.conf import DevSpec
from tests.slurm.conftest import StartDaemon
from tests.slurm.support.neighbours import waits_and_none_leaves
from tests.slurm.support.story import SAVES, URGENT, WHOLE_NODES, Story
from tests.slurm.support.world import slurm_settings

pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="26.05")]

KNOWS_RESOURCES = (25, 5)
RESOURCES = """---
- resource: natural
  mode: MODE_1
  layers:
    - nodes: ["n[1-2]"]
      count: 1
    - nodes: ["n[3-4]"]
      count: 1
"""


@pytest.fixture(scope="module")
def eight_nodes(slurm_root: str | None) -> Iterator[DevCluster]:
    """Four nodes. Two share a licence, and the others another one of the same name."""
    with dev_cluster(DevSpec(node_count=4, root=slurm_root, settings=slurm_settings())) as cluster:
        if cluster.version < KNOWS_RESOURCES:
            pytest.skip("this release knows no resources.yaml")
        (cluster.folder / "resources.yaml").write_text(RESOURCES)
        cluster.stop_controller()
        cluster.start_controller()
        cluster.await_idle()
        yield cluster


def test_no_job_leaves_for_one_that_asks_for_a_licence_of_nodes(
    story: Story, start_daemon: StartDaemon
) -> None:
    """A job that may not leave has the licence of the first two nodes. Slurm would start the urgent job on
    the others alone, and says only that it waits for nodes.
    """
    story.submit("exec sleep 600", 1, "other", *WHOLE_NODES, "--licenses=natural:1", "--nodelist=n1")
    story.works(*[story.submit(SAVES, 1, "saving") for _ in range(3)])
    daemon = start_daemon()
    urgent = story.submit(URGENT, 1, "urgent", *WHOLE_NODES, "--licenses=natural:1")
    story.urgent.append(urgent)
    waits_and_none_leaves(story, daemon, urgent, "cannot choose (--licenses=natural)")
