"""`kill -9` of the daemon at every step of the story, and a restart each time: the same end.

The steps are the commands that the daemon sends to Slurm. Each goes through a script that kills the first
time that the command comes: before it is carried out, or right after, when no process has read its answer.
"""

from typing import Literal

import pytest

from tests.slurm.conftest import StartDaemon
from tests.slurm.support.daemon import Killing
from tests.slurm.support.story import Story, makes_room_and_gives_it_back

pytestmark = pytest.mark.slurm

When = Literal["before", "after"]


@pytest.mark.parametrize(
    "when",
    [
        pytest.param("before", marks=pytest.mark.one_release(on="22.05")),
        pytest.param("after", marks=pytest.mark.one_release(on="24.11")),
    ],
)
def test_the_daemon_is_killed_at_every_step(story: Story, start_daemon: StartDaemon, when: When) -> None:
    story.fill()
    daemon = start_daemon(killing=Killing(target="daemon", when=when))
    with daemon.restarted():
        urgent = story.urgent_comes()
        # It is not known any more whether the lender was signalled, so that it is not signalled again: it
        # loses what it has not saved by itself.
        lender = makes_room_and_gives_it_back(story, daemon, once=False)
    assert story.restarts(lender) == 1
    assert daemon.signals() == 1
    assert daemon.steps() >= {
        "scontrol_create_reservation_ReservationName",
        f"scontrol_update_JobId_{urgent}_ReservationName",
        f"scontrol_update_JobId_{lender}_TimeLimit",
        f"scontrol_requeue_Incomplete_{lender}",
        f"scontrol_update_JobId_{lender}_Priority",
        story.deletion_of_hold(urgent),
        f"scontrol_release_{lender}_",
    }
