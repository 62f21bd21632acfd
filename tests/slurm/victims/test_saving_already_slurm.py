"""Jobs that still save their work for an urgent job that has gone, or needs fewer nodes, on a real Slurm.

They get no second signal, and leave for the one that needs their nodes.
"""

import pytest

from tests.slurm.conftest import StartDaemon
from tests.slurm.support.resubmitting import OPTIONS, leaves_for_the_other, sent, submitted
from tests.slurm.support.story import (
    SAVES_WHEN_TOLD,
    URGENT,
    Story,
    nothing_is_left,
    starts_on_the_held_nodes,
    works_again,
)
from tests.waiting import await_that

pytestmark = [pytest.mark.slurm, pytest.mark.any_release]


@pytest.mark.parametrize("dies", [False, True], ids=["lives", "dies"])
def test_the_job_that_saves_leaves_for_an_urgent_job_that_comes_later(
    story: Story, start_daemon: StartDaemon, dies: bool
) -> None:
    """makeway has given everything back before the urgent job is submitted again."""
    story.fill(SAVES_WHEN_TOLD)
    daemon = start_daemon()
    first = submitted(story, OPTIONS["exclusive"])
    explain = story.explain(daemon)
    await_that("a job is asked to save", lambda: sent(daemon, "checkpoint") != [], explain)
    ((_, lender, _),) = sent(daemon, "checkpoint")
    story.world.cluster.run("scancel", first)
    story.urgent.remove(first)
    await_that("all is given back", lambda: not story.reservations() and daemon.operations() == (), explain)
    if dies:
        daemon.stop()
        daemon.start()
    second = submitted(story, OPTIONS["exclusive"])
    leaves_for_the_other(story, daemon, lender, first, second, hold_of=second)


def test_of_an_urgent_job_that_is_made_larger_again_those_that_save_leave_first(
    story: Story, start_daemon: StartDaemon
) -> None:
    """It wants two nodes, then one, then three: three jobs of one node are asked, and leave."""
    story.works(*[story.submit(SAVES_WHEN_TOLD, 1, "saving") for _ in range(8)])
    daemon = start_daemon()
    urgent = story.submit(URGENT, 2, "urgent", *OPTIONS["exclusive"])
    story.urgent.append(urgent)
    explain = story.explain(daemon)

    def wants(nodes: int) -> None:
        size = (f"NumTasks={nodes}", f"NumNodes={nodes}-{nodes}")
        story.world.cluster.run("scontrol", "update", f"JobId={urgent}", *size)

    def to_leave() -> int:
        (operation,) = daemon.operations()
        return sum(task.action.verb == "requeue" and task.progress == "planned" for task in operation.tasks)

    await_that("two jobs are asked to save", lambda: len(sent(daemon, "checkpoint")) == 2, explain)
    wants(1)
    await_that("one of them need not leave", lambda: to_leave() == 1, explain)
    wants(3)
    await_that("three jobs are asked to save", lambda: len(sent(daemon, "checkpoint")) >= 3, explain)
    story.may_save()
    starts_on_the_held_nodes(story, daemon, urgent)
    asked = [job_id for _, job_id, _ in sent(daemon, "checkpoint")]
    assert len(asked) == len(set(asked)) == 3
    assert sorted(job_id for _, job_id, _ in sent(daemon, "requeue")) == sorted(asked)
    story.ends(urgent)
    works_again(story, daemon, *asked)
    nothing_is_left(story, daemon)
    assert sorted(story.lenders()) == sorted(asked)
