"""`kill -9` of the daemon at the signal to a job: no run is signalled twice.

The process is killed as in `test_deaths_slurm.py`.
"""

from typing import Literal

import pytest

from tests.slurm.conftest import StartDaemon
from tests.slurm.support.daemon import Killing
from tests.slurm.support.story import Story, makes_room_and_gives_it_back

pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="24.11")]

When = Literal["before", "after"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_daemon_is_killed_at_the_signal(story: Story, start_daemon: StartDaemon, when: When) -> None:
    """No run is signalled twice. A signal that was sent is answered, and then no work is lost."""
    story.fill()
    daemon = start_daemon(killing=Killing(target="daemon", when=when, step="scancel"))
    with daemon.restarted():
        story.urgent_comes()
        lender = makes_room_and_gives_it_back(story, daemon, once=when == "after")
    assert story.restarts(lender) == 1
    assert daemon.signals() == 1
    assert daemon.steps() == {f"scancel___signal_USR1___batch_{lender}"}
