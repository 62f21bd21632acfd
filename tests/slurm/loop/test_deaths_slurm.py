"""`kill -9` of the daemon at every step of the story, and a restart each time: the same end.

The steps are the commands that the daemon sends to Slurm. Each goes through a script that kills the first
time that the command comes: before it is carried out, or right after, when no process has read its answer.
"""

from typing import Literal

import pytest

from tests.slurm.conftest import StartDaemon
from tests.slurm.support.daemon import DaemonProcess, Killing
from tests.slurm.support.guests import guest_runs_and_leaves, queue_for_held_nodes
from tests.slurm.support.story import Story, makes_room_and_gives_it_back, shrinks_and_grows_back, works_again

pytestmark = pytest.mark.slurm

When = Literal["before", "after"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_daemon_is_killed_at_every_step(story: Story, start_daemon: StartDaemon, when: When) -> None:
    story.fill()
    daemon = start_daemon(killing=Killing(target="daemon", when=when))
    with daemon.restarted():
        urgent = story.urgent_comes()
        # It is not known any more whether the lender was signalled, so that it is not signalled again: it
        # loses what it has not saved by itself.
        lender = makes_room_and_gives_it_back(story, daemon, once=False)
    assert story.restarts(lender) == 1
    assert signals(daemon) == 1
    assert daemon.steps() >= {
        "scontrol_create_reservation_ReservationName",
        f"scontrol_update_JobId_{urgent}_ReservationName",
        f"scontrol_update_JobId_{lender}_TimeLimit",
        f"scontrol_requeue_Incomplete_{lender}",
        f"scontrol_update_JobId_{lender}_Priority",
        story.deletion_of_hold(urgent),
        f"scontrol_release_{lender}_",
    }


def signals(daemon: DaemonProcess) -> int:
    """How often the daemon set about to signal a job."""
    return sum(command.action.verb == "checkpoint" for command in daemon.commands())


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_daemon_is_killed_at_the_signal(story: Story, start_daemon: StartDaemon, when: When) -> None:
    """No run is signalled twice. A signal that was sent is answered, and then no work is lost."""
    story.fill()
    daemon = start_daemon(killing=Killing(target="daemon", when=when, step="scancel"))
    with daemon.restarted():
        story.urgent_comes()
        lender = makes_room_and_gives_it_back(story, daemon, once=when == "after")
    assert story.restarts(lender) == 1
    assert signals(daemon) == 1
    assert daemon.steps() == {f"scancel___signal_USR1___batch_{lender}"}


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_daemon_is_killed_at_every_step_of_a_shrink(
    story: Story, start_daemon: StartDaemon, when: When
) -> None:
    worker = story.fill_malleable()
    daemon = start_daemon(policy="n-spaa", killing=Killing(target="daemon", when=when))
    with daemon.restarted():
        shrinks_and_grows_back(story, daemon, worker)
    works_again(story, daemon, worker)
    assert story.restarts(worker) == 0
    assert f"scontrol_update_JobId_{worker}_NodeList" in daemon.steps()


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_daemon_is_killed_at_every_step_of_lending_held_nodes(
    story: Story, start_daemon: StartDaemon, when: When
) -> None:
    queue = queue_for_held_nodes(story)
    daemon = start_daemon(policy="cua-paa", killing=Killing(target="daemon", when=when))
    with daemon.restarted():
        guest_runs_and_leaves(story, daemon, queue, once=False)
    assert daemon.steps() >= {
        "scontrol_create_reservation_ReservationName",
        f"scontrol_update_JobId_{queue.guest}_ReservationName",
        f"scontrol_requeue_Incomplete_{queue.guest}",
    }
