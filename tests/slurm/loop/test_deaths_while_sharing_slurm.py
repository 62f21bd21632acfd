"""`kill -9` of the daemon at every step of a shrink, and of lending held nodes.

The process is killed as in `test_deaths_slurm.py`.
"""

from typing import Literal

import pytest

from tests.slurm.conftest import StartDaemon
from tests.slurm.support.daemon import Killing
from tests.slurm.support.guests import guest_runs_and_leaves, queue_for_held_nodes
from tests.slurm.support.story import Story, shrinks_and_grows_back, works_again

pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="24.11")]

When = Literal["before", "after"]


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
