"""`kill -9` of slurmctld at every step of the story, and a restart each time: the same end.

The steps are the commands that the daemon sends to Slurm, each through a script that kills (see
`test_deaths_slurm`).
"""

import os
import signal
import time

import pytest

from makeway.policies.model import NodeState
from tests.slurm.conftest import StartDaemon
from tests.slurm.support.controller import controller_restarted
from tests.slurm.support.daemon import Killing
from tests.slurm.support.story import (
    Story,
    makes_room_and_gives_it_back,
    nothing_is_left,
    starts_on_the_held_nodes,
)

pytestmark = [pytest.mark.slurm, pytest.mark.any_release]


@pytest.mark.parametrize(
    "killing",
    [
        Killing(target="controller", when="before", saved=True),
        Killing(target="controller", when="after", step="scontrol_create"),
        Killing(target="controller", when="after", step="scontrol_update_JobId_*_ReservationName"),
        Killing(target="controller", when="after", step="scontrol_update_JobId_*_TimeLimit"),
        Killing(target="controller", when="after", step="scancel"),
        Killing(target="controller", when="after", step="scontrol_requeue_Incomplete"),
        Killing(target="controller", when="after", step="scontrol_update_JobId_*_Priority", saved=True),
        Killing(target="controller", when="after", step="scontrol_delete", saved=True),
        Killing(target="controller", when="after", step="scontrol_release", saved=True),
    ],
    ids=lambda killing: f"{killing.when}-{killing.step}",
)
def test_slurmctld_is_killed(story: Story, start_daemon: StartDaemon, killing: Killing) -> None:
    """Right after a command it forgets that command and what came up to five seconds before.

    Where that would be the start or the end of a job it is let save it: Slurm itself loses a job whose start
    it has forgotten, and shows one whose end it has forgotten as running.
    """
    story.fill()
    came_s = time.monotonic()
    urgent = saved_urgent_job(story)
    daemon = start_daemon(killing=killing, waited_s=time.monotonic() - came_s)
    with controller_restarted(story.world.cluster):
        try:
            makes_room_and_gives_it_back(story, daemon, once=False)
        finally:
            daemon.stop()
    assert daemon.steps()
    if not killing.step:
        assert daemon.steps() >= {
            "scontrol_create_reservation_ReservationName",
            f"scontrol_update_JobId_{urgent}_ReservationName",
            story.deletion_of_hold(urgent),
        }


def saved_urgent_job(story: Story) -> str:
    """An urgent job comes. What is younger than its last save, slurmctld forgets when it is killed; that is
    not to be the urgent job itself.
    """
    urgent = story.urgent_comes()
    story.world.cluster.stop_controller()
    story.world.cluster.start_controller()
    story.world.wait(
        lambda cluster: all(node.state is NodeState.UP for node in cluster.nodes), "the nodes have reported"
    )
    return urgent


@pytest.mark.one_release(on="22.05", only="no job grows")
def test_a_shrink_that_slurmctld_has_forgotten_is_sent_again(story: Story, start_daemon: StartDaemon) -> None:
    """It has accepted the shrink, and no snapshot has shown it."""
    worker = story.fill_malleable()
    came_s = time.monotonic()
    urgent = saved_urgent_job(story)
    step = "scontrol_update_JobId_*_NodeList"
    killing = Killing(target="controller", when="after", step=step, saved=True)
    waited_s = time.monotonic() - came_s
    daemon = start_daemon(policy="n-spaa", killing=killing, waited_s=waited_s)
    with controller_restarted(story.world.cluster):
        try:
            starts_on_the_held_nodes(story, daemon, urgent)
            answers = [one.outcome for one in daemon.commands() if one.action.verb == "shrink"]
            assert answers == ["accepted", "accepted"]
            story.ends(urgent)
            story.sizes[worker] = len(story.nodes(worker))  # on 22.05 no job grows
            nothing_is_left(story, daemon)
        finally:
            daemon.stop()


@pytest.mark.one_release(on="24.11")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["dead", "hung"])
def test_the_next_test_finds_a_slurmctld_that_answers(story: Story, number: signal.Signals) -> None:
    """A test that fails while slurmctld is down does not fail those after it."""
    cluster = story.world.cluster
    (controller,) = (process for process in cluster.processes() if process.name == "slurmctld")
    os.kill(controller.pid, number)
    story.world.clear()
    assert not controller.alive
    assert [process.name for process in cluster.processes()].count("slurmctld") == 1
    assert cluster.run("squeue", "-h") == ""
