"""Urgent jobs on nodes that jobs share, on a real Slurm: one job leaves, and its neighbours run on."""

import signal
from collections.abc import Iterator

import pytest

from makeway.adapters.devcluster.cluster import DevCluster, dev_cluster
from makeway.adapters.devcluster.conf import DevSpec
from tests.slurm.conftest import StartDaemon
from tests.slurm.support.daemon import BRIEF_S, POLICY_SETTINGS
from tests.slurm.support.neighbours import (
    MORE_CYCLES,
    fits_beside_its_neighbours,
    shares,
    urgent_comes,
)
from tests.slurm.support.story import IGNORES, SAVES, Story, starts_on_the_held_nodes
from tests.slurm.support.world import slurm_settings
from tests.waiting import await_that

pytestmark = pytest.mark.slurm

QUARTER = ("--ntasks=2", "--mem=4000", "--time=30")


@pytest.fixture(scope="module")
def eight_nodes(slurm_root: str | None) -> Iterator[DevCluster]:
    """Three nodes that jobs share: two with four GPUs, one with much memory."""
    # 22.05 does not know the second one.
    four_cpus = "MaxCPUsPerNode=4" if slurm_root is None else "MaxCPUsPerSocket=2"
    spec = DevSpec(
        node_count=3,
        cpus_per_node=8,
        memory_mb=16_000,
        memory_counts=True,
        gpus={"n1": "a100:4", "n2": "a100:4"},
        # Eight cores with two threads each, and the cores count as CPUs.
        node_options={"n3": "Feature=bigmem RealMemory=64000 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2"},
        root=slurm_root,
        settings=slurm_settings(),
        partitions=(
            "PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
            f"PartitionName=capped Nodes=n3 {four_cpus} MaxTime=INFINITE State=UP",
        ),
    )
    with dev_cluster(spec) as cluster:
        yield cluster


def test_two_gpus_are_one_free_one_and_one_job(story: Story, start_daemon: StartDaemon) -> None:
    """On the first node four jobs have a GPU each, on the second one three have, and one GPU is free."""
    for _ in range(4):
        shares(story, "n1", *QUARTER, "--gres=gpu:1")
    victims = {shares(story, "n2", *QUARTER, "--gres=gpu:1") for _ in range(3)}
    urgent = urgent_comes(story, "--ntasks=2", "--mem=4000", "--gres=gpu:2")
    daemon = start_daemon()
    fits_beside_its_neighbours(story, daemon, urgent, victims)


def test_memory_on_a_node_with_a_feature_is_one_job(story: Story, start_daemon: StartDaemon) -> None:
    small = [shares(story, "n3", "--ntasks=1", "--mem=4000", "--time=30") for _ in range(3)]
    large = shares(story, "n3", "--ntasks=1", "--mem=40000", "--time=30")
    assert len(small) == 3
    urgent = urgent_comes(story, "--ntasks=1", "--mem=50000", "--constraint=bigmem")
    daemon = start_daemon()
    fits_beside_its_neighbours(story, daemon, urgent, {large})


def test_one_core_next_to_a_job_that_may_not_leave(story: Story, start_daemon: StartDaemon) -> None:
    for node in ("n1", "n2"):
        shares(story, node, "--ntasks=8", "--mem=4000", "--time=30", account="other")
    shares(story, "n3", "--ntasks=5", "--mem=4000", "--time=30", account="other")
    victims = {shares(story, "n3", "--ntasks=1", "--mem=4000", "--time=30") for _ in range(3)}
    urgent = urgent_comes(story, "--ntasks=1", "--mem=1000")
    daemon = start_daemon()
    fits_beside_its_neighbours(story, daemon, urgent, victims)


def test_a_task_of_an_array_with_a_limit_is_enough_and_one_that_may_not_be_requeued_stays(
    story: Story, start_daemon: StartDaemon
) -> None:
    """Two cores of a node are free, and three tasks have two cores each."""
    for node in ("n1", "n2"):
        shares(story, node, "--ntasks=8", "--mem=4000", "--time=30", account="other")
    options = ("--nodelist=n3", "--ntasks=2", "--mem=4000", "--time=30", "--array=1-3%3")
    array = story.submit(SAVES, 1, "saving", *options)
    tasks = [f"{array}_{number}" for number in (1, 2, 3)]
    story.workers += tasks
    await_that("every task works", lambda: all(len(story.steps(one)) > 3 for one in tasks))
    story.world.cluster.run("scontrol", "update", f"JobId={tasks[2]}", "Requeue=0")
    urgent = urgent_comes(story, "--ntasks=4", "--mem=4000")
    daemon = start_daemon()
    fits_beside_its_neighbours(story, daemon, urgent, set(tasks[:2]))


@pytest.mark.one_release(on="22.05")
def test_no_job_leaves_a_node_that_another_job_of_its_user_keeps(
    story: Story, start_daemon: StartDaemon
) -> None:
    """Both have the node for their user alone, and the one that stays has half of its cores."""
    for node in ("n1", "n2"):
        shares(story, node, "--ntasks=8", "--mem=4000", "--time=30", account="other")
    alone = ("--ntasks=4", "--mem=4000", "--time=30", "--exclusive=user")
    shares(story, "n3", *alone)
    shares(story, "n3", *alone, account="other")
    urgent = urgent_comes(story, "--ntasks=6", "--mem=4000")
    daemon = start_daemon()
    explain = story.explain(daemon)
    await_that("it is decided", lambda: "makes room" in daemon.run("explain", "last").stdout, explain)
    cycles = daemon.status()["cycles"]
    await_that("more cycles pass", lambda: daemon.status()["cycles"] >= cycles + MORE_CYCLES, daemon.log)
    assert (story.state(urgent), story.lenders(), story.reservations()) == ("PENDING", [], [])


def test_free_cores_that_the_partition_may_not_have_are_one_job(
    story: Story, start_daemon: StartDaemon
) -> None:
    """Two cores are free, and the jobs of the partition have all four that they may have together."""
    shares(story, "n3", "--ntasks=2", "--mem=4000", "--time=30")
    victims = {shares(story, "n3", "--ntasks=2", "--mem=4000", "--time=30", "-pcapped") for _ in range(2)}
    urgent = urgent_comes(story, "--ntasks=2", "--mem=4000", "--partition=capped")
    daemon = start_daemon()
    fits_beside_its_neighbours(story, daemon, urgent, victims)


@pytest.mark.one_release(on="24.11")
def test_a_daemon_that_is_restarted_leaves_the_urgent_job_its_own_reservation(
    story: Story, start_daemon: StartDaemon
) -> None:
    """22.05 does not show it while the job is bound to makeway's hold."""
    theirs = ("scontrol", "create", "reservation", "ReservationName=theirs", "StartTime=now", "Duration=60")
    story.world.cluster.run(*theirs, "Users=root", "Nodes=n1")
    shares(story, "n1", "--ntasks=8", "--mem=4000", "--time=30", "--reservation=theirs", account="other")
    shares(story, "n2", "--ntasks=8", "--mem=4000", "--time=30", account="other")
    shares(story, "n3", "--ntasks=5", "--mem=4000", "--time=30", account="other")
    victim = shares(story, "n3", "--ntasks=3", "--mem=4000", "--time=30", account="hasty", script=IGNORES)
    urgent = urgent_comes(story, "--ntasks=1", "--mem=1000", "--reservation=theirs")
    daemon = start_daemon(start_within_s=BRIEF_S)
    explain = story.explain(daemon)
    await_that(
        "it is bound to the hold",
        lambda: story.field(urgent, "Reservation").startswith(story.world.prefix),
        explain,
    )
    daemon.stop(signal.SIGKILL)
    daemon.start()
    starts_on_the_held_nodes(story, daemon, urgent)
    await_that("the hold is over", lambda: not story.reservations(), explain)
    assert story.field(urgent, "Reservation") == "theirs"
    assert story.lenders() == [victim]


@pytest.mark.one_release(on="24.11")
def test_a_kill_that_loses_little_does_not_wait_for_the_deadline(
    story: Story, start_daemon: StartDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs of this account cannot save their work. A kill that waits would come after an hour."""
    monkeypatch.setitem(POLICY_SETTINGS, "least-price", "{margin_s: 5, leave_s: 10, step_s: 1, kills: late}")
    for node in ("n1", "n2"):
        shares(story, node, "--ntasks=8", "--mem=4000", "--time=30", account="other")
    shares(story, "n3", "--ntasks=5", "--mem=4000", "--time=30", account="other")
    victims = {
        shares(story, "n3", "--ntasks=1", "--mem=4000", "--time=30", account="malleable") for _ in range(3)
    }
    urgent = urgent_comes(story, "--ntasks=1", "--mem=1000")
    daemon = start_daemon(policy="least-price", start_within_s=3600.0)
    fits_beside_its_neighbours(story, daemon, urgent, victims)
