"""A second urgent job while a malleable job is smaller already, on a Slurm without slurmdbd.

22.05 does not shrink a job a second time then. Later releases do.
"""

import pytest

from tests.slurm.conftest import StartDaemon
from tests.slurm.support.guests import COUNTS
from tests.slurm.support.story import SAVES, WHOLE_NODES, Story, starts_on_the_held_nodes

pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="22.05", only="no job shrinks again")]


def test_another_job_leaves_where_a_job_cannot_shrink_again(story: Story, start_daemon: StartDaemon) -> None:
    worker = story.submit(COUNTS, 6, "malleable", "--no-kill", *WHOLE_NODES)
    other = story.submit(SAVES, 2, "saving")
    story.works(worker, other)
    daemon = start_daemon(policy="n-spaa")
    first = story.urgent_comes(1)
    starts_on_the_held_nodes(story, daemon, first)
    assert (len(story.nodes(worker)), story.lenders()) == (5, [])
    second = story.urgent_comes(1)
    starts_on_the_held_nodes(story, daemon, second)
    assert (len(story.nodes(worker)), story.lenders()) == (5, [other])
    assert story.runs(first)
