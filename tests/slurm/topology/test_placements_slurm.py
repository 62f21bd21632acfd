"""Policies that know of placements on a real Slurm with two switches: an urgent job gets the nodes of one."""

from collections.abc import Iterator

import pytest

from makeway.adapters.devcluster.cluster import DevCluster, dev_cluster
from makeway.adapters.devcluster.conf import DevSpec
from tests.slurm.conftest import StartDaemon
from tests.slurm.support.story import Story, nothing_is_left, starts_on_the_held_nodes, works_again
from tests.slurm.support.world import SlurmWorld, slurm_settings

pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="24.11")]

SWITCHES = {"s1": {"n1", "n2", "n3", "n4"}, "s2": {"n5", "n6", "n7", "n8"}}


@pytest.fixture(scope="module")
def eight_nodes(slurm_root: str | None) -> Iterator[DevCluster]:
    """A cluster of two leaf switches with four nodes each, below a third."""
    spec = DevSpec(
        root=slurm_root,
        settings=slurm_settings(),
        switches=(
            "SwitchName=s1 Nodes=n[1-4]",
            "SwitchName=s2 Nodes=n[5-8]",
            "SwitchName=top Switches=s[1-2]",
        ),
    )
    with dev_cluster(spec) as cluster:
        yield cluster


@pytest.fixture
def story(slurm_world: SlurmWorld) -> Story:
    return Story(slurm_world)


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("wcjs", ("s1: cost", "s2: cost")),
        ("least-price", ("the cheapest of 2: 4 more nodes are needed: evict",)),
    ],
)
def test_one_switch_is_cleared_and_the_other_left_alone(
    story: Story, start_daemon: StartDaemon, policy: str, said: tuple[str, ...]
) -> None:
    story.fill()
    batch = story.submit("exec sleep 600", 4, "other")
    before = {worker: story.nodes(worker) for worker in story.workers}
    assert all(any(nodes <= leaf for leaf in SWITCHES.values()) for nodes in before.values())
    daemon = start_daemon(policy=policy, start_within_s=40.0)  # until then least-price waits in its hold

    urgent = story.urgent_comes(4)
    starts_on_the_held_nodes(story, daemon, urgent)
    leaf = story.nodes(urgent)
    assert leaf in SWITCHES.values()
    lenders = [worker for worker, nodes in before.items() if nodes <= leaf]
    assert sorted(story.lenders()) == sorted(lenders)
    assert len(lenders) == 2
    assert all(story.runs(worker) for worker in story.workers if worker not in lenders)
    assert story.state(batch) == "PENDING"
    why = daemon.run("explain", "last").stdout
    assert all(words in why for words in said)

    story.ends(urgent)
    works_again(story, daemon, *lenders)
    nothing_is_left(story, daemon)
