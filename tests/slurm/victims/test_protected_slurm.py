"""A job that may not be made to leave any more after it was asked to save its work, on a real Slurm."""

import json

import pytest

from tests.slurm.conftest import StartDaemon
from tests.slurm.support.daemon import BRIEF_S
from tests.slurm.support.story import (
    SAVES_WHEN_TOLD,
    Story,
    nothing_is_left,
    starts_on_the_held_nodes,
    works_again,
)
from tests.waiting import await_that

pytestmark = pytest.mark.slurm


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("update", "Requeue=0"), marks=pytest.mark.one_release(on="22.05")),
        pytest.param(("hold",), marks=pytest.mark.one_release(on="24.11")),
    ],
    ids=["requeue", "hold"],
)
def test_another_job_leaves_in_its_place(
    story: Story, start_daemon: StartDaemon, change: tuple[str, ...]
) -> None:
    """It is noticed while the job saves its work. What a second job saves is not in vain."""
    story.fill(SAVES_WHEN_TOLD)
    daemon = start_daemon(start_within_s=BRIEF_S)
    urgent = story.urgent_comes(4)

    def asked() -> list[str]:
        return [one.action.job_id for one in daemon.commands() if one.action.verb == "checkpoint"]

    await_that("two jobs are asked to save", lambda: len(asked()) == 2, story.explain(daemon))
    kept, other = asked()
    verb, *words = change
    story.world.cluster.run("scontrol", verb, *([f"JobId={kept}"] if words else [kept]), *words)
    await_that("a third job is asked", lambda: len(asked()) == 3, story.explain(daemon))
    assert "requeue" not in [one.action.verb for one in daemon.commands()]
    story.may_save()
    starts_on_the_held_nodes(story, daemon, urgent)
    assert (story.runs(kept), story.restarts(kept)) == (True, 0)
    assert story.lenders() == sorted([other, asked()[2]], key=story.workers.index)

    said = json.loads(daemon.run("explain", "1", "--json").stdout)
    outcomes = {
        one["action"]["job_id"]: one["outcome"]
        for one in said["actions"]
        if one["action"].get("not_after_s") is not None
    }
    assert outcomes[kept] == "not sent (the job may not be made to leave any more: not_preemptible)"
    assert outcomes[other].startswith("accepted")
    story.ends(urgent)
    works_again(story, daemon, *story.lenders())
    story.ends(kept)
    nothing_is_left(story, daemon)
