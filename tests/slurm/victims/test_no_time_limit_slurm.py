"""Jobs without a time limit, or with one of more than a year, in a partition without one, on a real Slurm."""

import pytest

from tests.slurm.conftest import StartDaemon
from tests.slurm.support.story import SAVES, Story, makes_room_and_gives_it_back

pytestmark = [pytest.mark.slurm, pytest.mark.any_release]


def test_such_jobs_leave_and_come_back(story: Story, start_daemon: StartDaemon) -> None:
    """Slurm gives a job without a limit 365 days, and squeue shows no longer limit than that."""
    whole = "--ntasks-per-node=2"
    longest = story.submit(SAVES, 2, "other", whole, "--time=366-0")
    others = [story.submit(SAVES, 2, "saving", whole) for _ in range(3)]
    story.works(longest, *others)
    daemon = start_daemon()
    story.urgent_comes()
    lender = makes_room_and_gives_it_back(story, daemon)
    assert lender in others
    assert {story.field(job_id, "TimeLimit") for job_id in others} == {"365-00:00:00"}
