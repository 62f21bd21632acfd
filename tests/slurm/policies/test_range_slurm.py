"""Urgent jobs that ask for a range of nodes, and for nodes with features, on a real Slurm."""

import pytest

from tests.slurm.conftest import StartDaemon
from tests.slurm.support.story import SAVES, Story, nothing_is_left, starts_on_the_held_nodes

pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="22.05")]

RANGE = ("--nodes=2-4", "--ntasks-per-node=2", "--time=30")


def comes(story: Story, *options: str) -> str:
    """An urgent job with these options."""
    script = 'while [ ! -e "over-$SLURM_JOB_ID" ]; do sleep 0.5; done'
    job_id = story.world.cluster.submit(script, "--account=urgent", *options)
    story.urgent.append(job_id)
    return job_id


def test_the_least_of_a_range_is_made_free(story: Story, start_daemon: StartDaemon) -> None:
    """Once Slurm has looked at such a job that waits, it tells the largest size that it would give it."""
    story.fill()
    urgent = comes(story, *RANGE)
    seen = story.world.wait(
        lambda _: story.field(urgent, "NumNodes") == "4", "Slurm tells the largest size of the range"
    ).jobs_by_id()[urgent]
    assert (seen.node_count, seen.node_count_max) == (2, 4)
    daemon = start_daemon()
    starts_on_the_held_nodes(story, daemon, urgent)
    assert len(story.lenders()) == 1
    assert len(story.nodes(urgent)) == 2
    story.ends(urgent)
    nothing_is_left(story, daemon)


def test_the_most_of_a_range_that_is_free_is_held(story: Story, start_daemon: StartDaemon) -> None:
    """Three nodes are free, which the next of the queue wants: the urgent job gets them. No job leaves."""
    worker = story.submit(SAVES, 5, "saving")
    story.world.wait(lambda _: story.runs(worker), "the worker runs")
    blocked = story.submit("exec sleep 600", 8, "other")
    urgent = comes(story, *RANGE, "--nice=1000", "--begin=now+6")
    daemon = start_daemon()
    starts_on_the_held_nodes(story, daemon, urgent)
    assert len(story.nodes(urgent)) == 3
    assert story.runs(worker)
    assert story.state(blocked) == "PENDING"
    story.ends(urgent)
    nothing_is_left(story, daemon)


@pytest.mark.parametrize(
    ("options", "served"),
    [
        (("--exclude=n[1-6]",), {"n7", "n8"}),
        (("--nodelist=n[3-4]",), {"n3", "n4"}),
        (("--nodelist=n7",), {"n7", "n8"}),
    ],
    ids=["exclude", "nodelist", "one-of-them"],
)
def test_only_nodes_that_may_serve_are_made_free(
    story: Story, start_daemon: StartDaemon, options: tuple[str, ...], served: set[str]
) -> None:
    story.works(
        *[
            story.submit(
                SAVES, 2, "saving", f"--nodelist=n[{first}-{first + 1}]", "--ntasks-per-node=2", "--time=30"
            )
            for first in (1, 3, 5, 7)
        ]
    )
    urgent = comes(story, "--nodes=2", "--ntasks-per-node=2", "--time=30", *options)
    daemon = start_daemon()
    starts_on_the_held_nodes(story, daemon, urgent)
    assert story.nodes(urgent) == served
    assert len(story.lenders()) == 1
    story.ends(urgent)
    nothing_is_left(story, daemon)
