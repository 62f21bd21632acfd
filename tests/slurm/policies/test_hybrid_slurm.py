"""An announced urgent job on a real Slurm: nodes are collected from the notice on, the rest is shrunk at the
arrival.
"""

import pytest

from tests.slurm.conftest import StartDaemon
from tests.slurm.support.guests import (
    COUNTS,
    announce,
    comes,
    guest_runs_and_leaves,
    held_for,
    queue_for_held_nodes,
)
from tests.slurm.support.story import (
    WHOLE_NODES,
    Story,
    nothing_is_left,
    starts_on_the_held_nodes,
    works_again,
)
from tests.waiting import await_that

pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="22.05")]


def test_nodes_are_collected_from_the_notice_and_shrunk_at_the_arrival(
    story: Story, start_daemon: StartDaemon
) -> None:
    malleable = story.submit(COUNTS, 4, "malleable", "--no-kill", *WHOLE_NODES)
    short, other = (story.submit(COUNTS, 2, "other") for _ in range(2))
    story.works(malleable, short, other)
    batch = story.submit("exec sleep 600", 2, "other")
    before, freed = story.nodes(malleable), story.nodes(short)
    daemon = start_daemon(policy="cua-spaa")
    explain = story.explain(daemon)

    notice_id = announce(daemon, 4)
    await_that("the hold spans every node", lambda: len(held_for(story, notice_id)) == 8, explain)
    story.ends(short)
    await_that("its nodes are free", lambda: story.state(short) == "COMPLETED", explain)
    assert story.state(batch) == "PENDING"

    urgent = comes(story, 4, notice_id)
    starts_on_the_held_nodes(story, daemon, urgent)
    assert freed < story.nodes(urgent)
    assert story.nodes(malleable) == before - story.nodes(urgent)
    assert len(story.nodes(malleable)) == 2
    assert story.runs(other)
    assert story.state(batch) == "PENDING"
    assert not story.lenders()

    story.ends(urgent)
    if "expand" in story.world.adapter.capabilities.actions:
        await_that("it has its nodes again", lambda: story.nodes(malleable) == before, explain)
    else:
        # Here jobs cannot grow: it goes on smaller, and that is what the operation says.
        story.sizes[malleable] = 2
    await_that("the batch job has its turn", lambda: story.runs(batch), explain)
    nothing_is_left(story, daemon)
    works_again(story, daemon, malleable)
    assert story.restarts(malleable) == 0


def test_what_was_collected_goes_back_when_the_job_is_cancelled_on_arrival(
    story: Story, start_daemon: StartDaemon
) -> None:
    short, other = (story.submit(COUNTS, 4, "other") for _ in range(2))
    story.works(short, other)
    batch = story.submit("exec sleep 600", 4, "other")
    daemon = start_daemon(policy="cua-spaa")
    explain = story.explain(daemon)
    notice_id = announce(daemon, 6)
    await_that("the hold spans every node", lambda: len(held_for(story, notice_id)) == 8, explain)
    story.ends(short)
    await_that("its nodes are free", lambda: story.state(short) == "COMPLETED", explain)
    assert story.state(batch) == "PENDING"
    urgent = comes(story, 6, notice_id)
    await_that(
        "the hold passes to the job, or goes back",
        lambda: all(operation.for_job_id != notice_id for operation in daemon.operations()),
        explain,
    )
    story.world.cluster.run("scancel", urgent)
    await_that("the batch job has its turn", lambda: story.runs(batch), explain)
    nothing_is_left(story, daemon)
    assert story.runs(other)


def test_a_waiting_job_passes_the_time_on_held_nodes_and_leaves_at_the_arrival(
    story: Story, start_daemon: StartDaemon
) -> None:
    waiting = queue_for_held_nodes(story)
    guest_runs_and_leaves(story, start_daemon(policy="cua-spaa"), waiting)
