"""Policy "least-price" on a real Slurm: malleable jobs shrink, and a dear start waits in its hold."""

import pytest

from tests.slurm.conftest import StartDaemon
from tests.slurm.support.story import (
    IGNORES,
    Story,
    nothing_is_left,
    shrinks_and_grows_back,
    starts_on_the_held_nodes,
    works_again,
)

pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="22.05")]


def test_a_malleable_job_shrinks_and_grows_back(story: Story, start_daemon: StartDaemon) -> None:
    worker = story.fill_malleable()
    daemon = start_daemon(policy="least-price")
    shrinks_and_grows_back(story, daemon, worker)
    works_again(story, daemon, worker)
    assert story.restarts(worker) == 0


def test_a_dear_start_waits_in_its_hold_and_is_on_time(story: Story, start_daemon: StartDaemon) -> None:
    story.fill(IGNORES, "hasty")
    daemon = start_daemon(policy="least-price", start_within_s=40.0)
    urgent = story.urgent_comes()
    starts_on_the_held_nodes(story, daemon, urgent)
    story.ends(urgent)
    nothing_is_left(story, daemon)
