"""`kill -9` at every step of the story, of the daemon and of slurmctld, and a restart each time: the same end.

The steps are the commands that the daemon sends to Slurm. Each goes through a script that kills, the first time that the
command comes, before it is carried out or right after, when nobody has heard the answer.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import pytest

from makeway.adapters.devcluster import DevCluster
from makeway.policies.model import NodeState
from tests.slurm.conftest import StartDaemon
from tests.slurm.daemon import DaemonProcess, Killing, await_that
from tests.slurm.story import (
    COUNT,
    WHOLE_NODES,
    Story,
    nothing_is_left,
    starts_on_the_held_nodes,
    works_again,
)
from tests.slurm.world import POLL_S, SlurmWorld

pytestmark = pytest.mark.slurm

When = Literal["before", "after"]


@pytest.fixture
def story(slurm_world: SlurmWorld) -> Story:
    return Story(slurm_world)


@contextmanager
def restarted(cluster: DevCluster) -> Iterator[None]:
    """Meanwhile slurmctld is started again whenever it has died."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(POLL_S):
            if all(process.name != "slurmctld" for process in cluster.processes()):
                cluster.start_controller()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def makes_room_and_gives_it_back(story: Story, daemon: DaemonProcess, *, once: bool = True) -> str:
    """The urgent job starts on the nodes that were held; its one lender goes on where it had saved. Returns the lender."""
    (urgent,) = story.urgent
    starts_on_the_held_nodes(story, daemon, urgent)
    # A slurmctld that was killed may have forgotten that the lender was requeued, but not the daemon.
    (lender,) = {command.action.job_id for command in daemon.commands() if command.action.verb == "requeue"}
    story.ends(urgent)
    works_again(story, daemon, lender, once=once)
    nothing_is_left(story, daemon)
    await_that("everybody works", lambda: all(map(story.runs, story.workers)), story.explain(daemon))
    return lender


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_daemon_is_killed_at_every_step(story: Story, start_daemon: StartDaemon, when: When) -> None:
    story.fill()
    daemon = start_daemon(killing=Killing(whom="daemon", when=when))
    with daemon.restarted():
        urgent = story.urgent_comes()
        lender = makes_room_and_gives_it_back(story, daemon)
    assert story.restarts(lender) == 1
    assert daemon.steps() >= {
        "scontrol_create_reservation_ReservationName",
        f"scontrol_update_JobId_{urgent}_ReservationName",
        f"scontrol_update_JobId_{lender}_TimeLimit",
        f"scancel___signal_USR1___batch_{lender}",
        f"scontrol_requeue_Incomplete_{lender}",
        f"scontrol_update_JobId_{lender}_Priority",
        f"scontrol_delete_ReservationName_mw_{urgent}_",
        f"scontrol_release_{lender}_",
    }


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_daemon_is_killed_at_every_step_of_a_shrink(
    story: Story, start_daemon: StartDaemon, when: When
) -> None:
    worker = story.submit(COUNT + "count\n", 6, "malleable", "--no-kill", *WHOLE_NODES)
    story.submit("exec sleep 600", 2, "other")
    story.works(worker)
    before = story.nodes(worker)
    daemon = start_daemon(policy="n-spaa", killing=Killing(whom="daemon", when=when))
    with daemon.restarted():
        urgent = story.urgent_comes()
        starts_on_the_held_nodes(story, daemon, urgent)
        assert story.nodes(worker) == before - story.nodes(urgent)
        story.ends(urgent)
        if story.world.adapter.capabilities.expand:
            await_that("it has its nodes again", lambda: story.nodes(worker) == before, story.explain(daemon))
        else:
            story.sizes[worker] = 4
        nothing_is_left(story, daemon)
    works_again(story, daemon, worker)
    assert story.restarts(worker) == 0
    assert f"scontrol_update_JobId_{worker}_NodeList" in daemon.steps()


@pytest.mark.parametrize(
    "killing",
    [
        Killing(whom="controller", when="before", saved=True),
        Killing(whom="controller", when="after", step="scontrol_create"),
        Killing(whom="controller", when="after", step="scontrol_update_JobId_*_ReservationName"),
        Killing(whom="controller", when="after", step="scontrol_update_JobId_*_TimeLimit"),
        Killing(whom="controller", when="after", step="scancel"),
        Killing(whom="controller", when="after", step="scontrol_requeue_Incomplete"),
        Killing(whom="controller", when="after", step="scontrol_update_JobId_*_Priority"),
        Killing(whom="controller", when="after", step="scontrol_delete"),
        Killing(whom="controller", when="after", step="scontrol_release", saved=True),
    ],
    ids=lambda killing: f"{killing.when}-{killing.step}",
)
def test_slurmctld_is_killed(story: Story, start_daemon: StartDaemon, killing: Killing) -> None:
    """Right after a command it forgets that command and what came up to five seconds before.

    Where that would be the start of a job it is let save it: Slurm itself loses a job whose start it has forgotten.
    """
    story.fill()
    urgent = story.urgent_comes()
    # What is younger than its last save, slurmctld forgets when it is killed; that is not to be the urgent job itself.
    story.world.cluster.stop_controller()
    story.world.cluster.start_controller()
    story.world.wait(
        lambda cluster: all(node.state is NodeState.UP for node in cluster.nodes), "the nodes have reported"
    )
    daemon = start_daemon(killing=killing)
    with restarted(story.world.cluster):
        try:
            makes_room_and_gives_it_back(story, daemon, once=False)
        finally:
            daemon.stop()
    assert daemon.steps()
    if not killing.step:
        assert daemon.steps() >= {
            "scontrol_create_reservation_ReservationName",
            f"scontrol_update_JobId_{urgent}_ReservationName",
            f"scontrol_delete_ReservationName_mw_{urgent}_",
        }
