"""Urgent jobs that get whole nodes of different sizes, on a real Slurm."""

from collections.abc import Iterator

import pytest

from makeway.adapters.devcluster.cluster import DevCluster, dev_cluster
from makeway.adapters.devcluster.conf import DevSpec
from tests.slurm.conftest import StartDaemon
from tests.slurm.support.story import SAVES, URGENT, Story, nothing_is_left, starts_on_the_held_nodes
from tests.slurm.support.world import slurm_settings

pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="22.05")]

CORES = {"n1": 4, "n2": 4, "n3": 8, "n4": 2}
"""Of each node; each core has two threads."""


@pytest.fixture(scope="module")
def eight_nodes(slurm_root: str | None) -> Iterator[DevCluster]:
    """Four nodes of 8, 8, 16 and 4 CPUs."""
    options = {
        node: f"CPUs={2 * cores} Sockets=1 CoresPerSocket={cores} ThreadsPerCore=2"
        for node, cores in CORES.items()
    }
    spec = DevSpec(node_count=len(CORES), node_options=options, root=slurm_root, settings=slurm_settings())
    with dev_cluster(spec) as cluster:
        yield cluster


@pytest.mark.parametrize(
    ("options", "served"),
    [
        (("--ntasks=28",), {"n1", "n2", "n3"}),
        (("--ntasks=8", "--exclusive", "--hint=nomultithread"), {"n3"}),
    ],
    ids=["uneven", "one thread of each core"],
)
def test_it_starts_on_nodes_that_hold_it_together(
    story: Story, start_daemon: StartDaemon, options: tuple[str, ...], served: set[str]
) -> None:
    """The even share of 28 tasks fits on three nodes of no set; eight cores are those of the third node."""
    workers = {
        node: story.submit(SAVES, 1, "saving", f"--nodelist={node}", f"--ntasks={2 * cores}", "--time=30")
        for node, cores in CORES.items()
    }
    story.works(*workers.values())
    urgent = story.world.cluster.submit(URGENT, "--account=urgent", "--time=30", *options)
    story.urgent.append(urgent)
    daemon = start_daemon()
    starts_on_the_held_nodes(story, daemon, urgent)
    assert story.nodes(urgent) == served
    assert set(story.lenders()) == {workers[node] for node in served}
    story.ends(urgent)
    nothing_is_left(story, daemon)
