"""A job ends by itself while another one saves its work for an urgent job, on a real Slurm."""

import pytest

from tests.slurm.conftest import StartDaemon
from tests.slurm.support.daemon import DaemonProcess
from tests.slurm.support.story import (
    SAVES_WHEN_TOLD,
    URGENT,
    WHOLE_NODES,
    Story,
    await_start,
    nothing_is_left,
)
from tests.waiting import await_that

pytestmark = [pytest.mark.slurm, pytest.mark.any_release]

OPTIONS = {"shared": WHOLE_NODES, "exclusive": ("--exclusive", "--time=30")}


def asked(daemon: DaemonProcess) -> list[str]:
    """The jobs that were asked to save their work."""
    return [one.action.job_id for one in daemon.commands() if one.outcome and one.action.verb == "checkpoint"]


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_the_nodes_of_a_job_that_ends_spare_another_one_its_departure(
    story: Story, start_daemon: StartDaemon, options: tuple[str, ...]
) -> None:
    story.fill(SAVES_WHEN_TOLD)
    daemon = start_daemon()
    explain = story.explain(daemon)
    urgent = story.submit(URGENT, 2, "urgent", *options)
    story.urgent.append(urgent)
    await_that("a job is asked to save", lambda: len(asked(daemon)) == 1, explain)
    (saves,) = asked(daemon)
    ends = next(job_id for job_id in story.workers if job_id != saves)
    nodes = story.nodes(ends)
    story.ends(ends)
    await_start(story, daemon, urgent)
    assert story.nodes(urgent) == nodes, explain()
    story.may_save()
    await_that("it has saved", lambda: (story.work / f"state-{saves}").exists(), explain)
    (story.work / f"on-{saves}").touch()
    story.ends(urgent)
    nothing_is_left(story, daemon)
    assert asked(daemon) == [saves]
    assert story.lenders() == [], explain()
    assert story.runs(saves)
