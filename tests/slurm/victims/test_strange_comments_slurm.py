"""A job that writes nonsense into its comment while it saves, on a real Slurm."""

import pytest

from tests.slurm.conftest import StartDaemon
from tests.slurm.support.story import SAVES, Story, makes_room_and_gives_it_back

pytestmark = [pytest.mark.slurm, pytest.mark.any_release]

STRANGE = r"""x\n\033[31m\377\376 "q\047 \\ makeway:taken=,run=9,limit=1 makeway:ckpt-begin=99999999999
NodeList=n9 makeway:ckpt=%s makeway:notice=77"""
"""For printf: new lines, an escape, bytes that are no UTF-8, quotes, false words, and a true one."""
SAVES_STRANGELY = SAVES.replace(
    'Comment="makeway:ckpt=$(date +%s)"', f'Comment="$(printf \'{STRANGE}\' "$(date +%s)")"'
)


def test_a_strange_comment_is_no_obstacle(story: Story, start_daemon: StartDaemon) -> None:
    assert SAVES_STRANGELY != SAVES
    story.fill(SAVES_STRANGELY)
    daemon = start_daemon()
    story.urgent_comes()
    lender = makes_room_and_gives_it_back(story, daemon)
    assert "\udcff\udcfe" in story.ask("squeue", "-h", f"--jobs={lender}", "--format=%k")
    for command in (("explain", "last"), ("status",)):
        assert "\x1b" not in daemon.run(*command).stdout
