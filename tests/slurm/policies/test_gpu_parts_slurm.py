"""Urgent jobs that ask for shards of GPUs, for MPS and for slices of MIG, on a real Slurm."""

from collections.abc import Iterator

import pytest

from makeway.adapters.devcluster.cluster import DevCluster, dev_cluster
from makeway.adapters.devcluster.conf import DevSpec
from tests.slurm.conftest import StartDaemon
from tests.slurm.support.neighbours import (
    fits_beside_its_neighbours,
    looks_again,
    shares,
    urgent_comes,
    waits_and_none_leaves,
)
from tests.slurm.support.story import Story, await_start, nothing_is_left, starts_on_the_held_nodes
from tests.slurm.support.world import slurm_settings
from tests.waiting import await_that

pytestmark = pytest.mark.slurm

SMALL = ("--ntasks=1", "--mem=1000", "--time=30")


@pytest.fixture(scope="module")
def eight_nodes(slurm_root: str | None) -> Iterator[DevCluster]:
    """A node with two GPUs of four shards each, one with two slices of a GPU, and one with MPS."""
    spec = DevSpec(
        node_count=3,
        cpus_per_node=8,
        memory_mb=16_000,
        memory_counts=True,
        gpus={"n1": "a100:2", "n2": "1g.10gb:2", "n3": "v100:2"},
        node_options={"n1": "Gres=gpu:a100:2,shard:8", "n3": "Gres=gpu:v100:2,mps:200"},
        gres=("NodeName=n1 Name=shard Count=8", "NodeName=n3 Name=mps Count=200"),
        root=slurm_root,
        settings=slurm_settings(GresTypes="gpu,shard,mps"),
    )
    with dev_cluster(spec) as cluster:
        yield cluster


def test_a_shard_is_one_of_the_jobs_on_the_gpu_that_is_given_by_parts(
    story: Story, start_daemon: StartDaemon
) -> None:
    """The other GPU belongs to a job that may not leave: its shards are not free."""
    shares(story, "n1", *SMALL, "--gres=gpu:1", account="other")
    victims = {shares(story, "n1", *SMALL, "--gres=shard:2") for _ in range(2)}
    daemon = start_daemon()
    urgent = urgent_comes(story, *SMALL, "--gres=shard:1")
    fits_beside_its_neighbours(story, daemon, urgent, victims)


def test_a_whole_gpu_is_the_one_job_that_has_shards_of_it(story: Story, start_daemon: StartDaemon) -> None:
    """Two jobs share the first GPU: it would take both of them."""
    for _ in range(2):
        shares(story, "n1", *SMALL, "--gres=shard:2")
    alone = shares(story, "n1", *SMALL, "--gres=shard:4")
    daemon = start_daemon()
    urgent = urgent_comes(story, *SMALL, "--gres=gpu:a100:1")
    fits_beside_its_neighbours(story, daemon, urgent, {alone})


def shards_of_several_jobs_on_both_gpus(story: Story) -> tuple[str, set[str]]:
    """Each GPU has a job of three shards and one of one shard; the first of three may not leave.

    Returns the second one of three shards, and those of one.
    """
    shares(story, "n1", *SMALL, "--gres=shard:3", account="other")
    three = shares(story, "n1", *SMALL, "--gres=shard:3")
    return three, {shares(story, "n1", *SMALL, "--gres=shard:1") for _ in range(2)}


def test_the_shards_of_an_urgent_job_come_from_one_gpu(story: Story, start_daemon: StartDaemon) -> None:
    three, _ = shards_of_several_jobs_on_both_gpus(story)
    daemon = start_daemon()
    urgent = urgent_comes(story, *SMALL, "--gres=shard:3")
    fits_beside_its_neighbours(story, daemon, urgent, {three})


def test_all_jobs_with_shards_of_one_gpu_leave_it(story: Story, start_daemon: StartDaemon) -> None:
    """Not those of the other GPU, on which a job has to stay."""
    three, ones = shards_of_several_jobs_on_both_gpus(story)
    daemon = start_daemon()
    urgent = urgent_comes(story, *SMALL, "--gres=gpu:a100:1")
    starts_on_the_held_nodes(story, daemon, urgent)
    left = set(story.lenders())
    assert (three in left, len(left & ones), len(left)) == (True, 1, 2)
    assert all(story.runs(one) and not story.restarts(one) for one in story.workers if one not in left)
    story.ends(urgent)
    await_that("the lenders work again", lambda: all(story.runs(one) for one in left), story.explain(daemon))
    nothing_is_left(story, daemon)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        # No GPU has as many: the job would wait on an empty node too.
        (("--gres=shard:6",), "6 of gres/shard for one job"),
        (("--gpus-per-socket=1", "--sockets-per-node=1"), "--gpus-per-socket"),
        (("--ntasks-per-gpu=1",), "--ntasks-per-gpu"),
        (("--sockets-per-node=2",), "--sockets-per-node"),
    ],
    ids=["shards", "gpus-per-socket", "ntasks-per-gpu", "sockets"],
)
def test_no_job_leaves_for_what_cannot_be_counted(
    story: Story, start_daemon: StartDaemon, options: tuple[str, ...], why: str
) -> None:
    for _ in range(2):
        shares(story, "n1", *SMALL, "--gres=shard:2")
        shares(story, "n2", "--ntasks=4", "--mem=1000", "--time=30", "--gres=gpu:1")
    shares(story, "n1", "--ntasks=6", "--mem=1000", "--time=30")
    shares(story, "n3", "--ntasks=8", "--mem=1000", "--time=30")
    daemon = start_daemon()
    urgent = urgent_comes(story, *SMALL, *options)
    waits_and_none_leaves(story, daemon, urgent, why)


def test_a_slice_is_one_of_the_jobs_that_have_one(story: Story, start_daemon: StartDaemon) -> None:
    victims = {shares(story, "n2", *SMALL, "--gres=gpu:1g.10gb:1") for _ in range(2)}
    daemon = start_daemon()
    urgent = urgent_comes(story, *SMALL, "--gres=gpu:1g.10gb:1")
    fits_beside_its_neighbours(story, daemon, urgent, victims)


@pytest.mark.one_release(on="24.11")
def test_no_job_leaves_a_gpu_that_gives_no_parts_beside_another_with_mps(
    story: Story, start_daemon: StartDaemon
) -> None:
    """One GPU of a node at a time has jobs with parts. Room comes when one of these jobs ends."""
    sharing = [shares(story, "n3", *SMALL, "--gres=mps:50", account="other") for _ in range(2)]
    shares(story, "n3", *SMALL, "--gres=gpu:1")
    daemon = start_daemon()
    urgent = urgent_comes(story, *SMALL, "--gres=mps:50")
    looks_again(daemon)
    assert (story.state(urgent), daemon.signals(), story.reservations()) == ("PENDING", 0, [])
    story.ends(sharing[0])
    await_start(story, daemon, urgent)
    assert story.lenders() == []
    story.ends(urgent)
    nothing_is_left(story, daemon)
