"""The daemon's journal is deleted in the middle of an operation on a real Slurm."""

import pytest

from tests.slurm.conftest import StartDaemon
from tests.slurm.support.story import Story, nothing_is_left, starts_on_the_held_nodes, works_again
from tests.waiting import await_that

pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="22.05")]


def test_what_was_taken_goes_back_although_the_journal_was_deleted(
    story: Story, start_daemon: StartDaemon
) -> None:
    """The daemon puts a copy back and ends; its service starts it again, and it goes on."""
    story.fill()
    daemon = start_daemon()
    with daemon.restarted():
        urgent = story.urgent_comes()
        starts_on_the_held_nodes(story, daemon, urgent)
        (lender,) = story.lenders()
        pid = daemon.folder / "pid"
        before = pid.read_text()
        for path in daemon.folder.glob("journal.sqlite*"):
            path.unlink()
        await_that("the daemon is started again", lambda: pid.read_text() != before, daemon.log)
        assert [one.for_job_id for one in daemon.operations()] == [urgent]
        story.ends(urgent)
        works_again(story, daemon, lender)
        nothing_is_left(story, daemon)
    assert story.restarts(lender) == 1
    assert "was deleted" in daemon.log()
