"""How soon the daemon acts when an urgent job comes: in the cycle that a poke starts, else in that of the
next poll.
"""

import pytest

from tests.slurm.conftest import StartDaemon
from tests.slurm.support.daemon import DaemonProcess
from tests.slurm.support.story import Story, nothing_is_left, starts_on_the_held_nodes
from tests.slurm.support.world import SlurmWorld
from tests.waiting import await_that

pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="24.11")]

NEVER_S = 600.0
"""Longer than any test: a cycle after the first one was started by a poke."""


def cycles(daemon: DaemonProcess) -> int:
    """How many cycles have ended."""
    return int(daemon.status()["cycles"])


def first_verbs(daemon: DaemonProcess) -> list[str]:
    return [str(command.action.verb) for command in daemon.commands()][:1]


def test_a_poke_starts_the_cycle_that_acts(slurm_world: SlurmWorld, start_daemon: StartDaemon) -> None:
    story = Story(slurm_world)
    story.fill()
    daemon = start_daemon(poll_interval_s=NEVER_S)
    before = cycles(daemon)
    urgent = story.urgent_comes()
    assert (cycles(daemon), first_verbs(daemon)) == (before, [])
    assert daemon.run("poke").status == 0
    await_that("the cycle is over", lambda: cycles(daemon) > before, story.explain(daemon))
    assert first_verbs(daemon) == ["reserve"]
    starts_on_the_held_nodes(story, daemon, urgent)


def test_without_a_poke_the_next_poll_acts(slurm_world: SlurmWorld, start_daemon: StartDaemon) -> None:
    story = Story(slurm_world)
    story.fill()
    daemon = start_daemon(poll_interval_s=2.0)
    urgent = story.urgent_comes()
    begun = cycles(daemon)
    # The cycle that goes on now may have looked before; the one after it has looked since.
    await_that("two cycles are over", lambda: cycles(daemon) >= begun + 2, story.explain(daemon))
    assert first_verbs(daemon) == ["reserve"]
    starts_on_the_held_nodes(story, daemon, urgent)
    story.ends(urgent)
    nothing_is_left(story, daemon)
