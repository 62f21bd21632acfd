"""An urgent job that is cancelled and submitted again between two looks of makeway, on a real Slurm."""

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from typing import Literal

import pytest

from tests.slurm.conftest import StartDaemon
from tests.slurm.support.daemon import DaemonProcess, Killing
from tests.slurm.support.resubmitting import OPTIONS, leaves_for_the_other, sent, submitted
from tests.slurm.support.story import (
    SAVES_WHEN_TOLD,
    WHOLE_NODES,
    Story,
    nothing_is_left,
    works_again,
)
from tests.waiting import await_that

pytestmark = [pytest.mark.slurm, pytest.mark.any_release]

CHANGES_HOLD = "scontrol_update_ReservationName"


@contextmanager
def looks_away(daemon: DaemonProcess, *, dies: bool) -> Generator[None]:
    """For a `with` block: the daemon is dead, or its process does not run."""
    if dies:
        daemon.stop(signal.SIGKILL)
        yield
        daemon.start()
        return
    process = int((daemon.folder / "pid").read_text())
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def leaves_for_the_second_job(
    story: Story, daemon: DaemonProcess, options: tuple[str, ...] = WHOLE_NODES, *, dies: bool = False
) -> None:
    """One job is asked to save its work for an urgent job, which is cancelled and submitted again. The job
    leaves for the second one, and works again after that. No other job is asked.
    """
    first = submitted(story, options)
    explain = story.explain(daemon)
    await_that("a job is asked to save", lambda: sent(daemon, "checkpoint") != [], explain)
    ((_, lender, _),) = sent(daemon, "checkpoint")
    with looks_away(daemon, dies=dies):
        story.world.cluster.run("scancel", first)
        story.urgent.remove(first)
        second = submitted(story, options)
    leaves_for_the_other(story, daemon, lender, first, second, hold_of=first)


@pytest.mark.parametrize("dies", [False, True], ids=["lives", "dies"])
@pytest.mark.parametrize("nodes", OPTIONS)
def test_the_job_that_saves_leaves_for_the_job_that_was_submitted_again(
    story: Story, start_daemon: StartDaemon, nodes: str, dies: bool
) -> None:
    story.fill(SAVES_WHEN_TOLD)
    leaves_for_the_second_job(story, start_daemon(), OPTIONS[nodes], dies=dies)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_daemon_that_is_killed_at_the_hold_for_the_second_job(
    story: Story, start_daemon: StartDaemon, when: Literal["before", "after"]
) -> None:
    """Only that hold is a change of a reservation."""
    story.fill(SAVES_WHEN_TOLD)
    daemon = start_daemon(killing=Killing(target="daemon", when=when, step=CHANGES_HOLD))
    with daemon.restarted():
        leaves_for_the_second_job(story, daemon)
    assert [step.startswith(CHANGES_HOLD) for step in daemon.steps()] == [True]


def test_of_a_smaller_job_that_was_submitted_again_only_one_job_leaves(
    story: Story, start_daemon: StartDaemon
) -> None:
    story.fill(SAVES_WHEN_TOLD)
    daemon = start_daemon()
    first = story.urgent_comes(4)
    explain = story.explain(daemon)
    await_that("two jobs are asked to save", lambda: len(sent(daemon, "checkpoint")) == 2, explain)
    with looks_away(daemon, dies=False):
        story.world.cluster.run("scancel", first)
        story.urgent.remove(first)
        second = story.urgent_comes(2)
    await_that(
        "the hold is for the second job",
        lambda: story.field(second, "Reservation").endswith(f".{first}"),
        explain,
    )
    story.may_save()
    await_that("the second job runs", lambda: story.runs(second), explain, waits_s=daemon.start_within_s)
    assert len(sent(daemon, "checkpoint")) == 2
    assert len(sent(daemon, "requeue")) == 1
    story.ends(second)
    for job_id in story.workers:
        (story.work / f"on-{job_id}").touch()
    works_again(story, daemon, *story.workers)
    nothing_is_left(story, daemon)
