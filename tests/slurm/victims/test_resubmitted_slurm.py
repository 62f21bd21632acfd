"""An urgent job that is cancelled and submitted again between two looks of makeway, on a real Slurm."""

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from typing import Literal

import pytest

from tests.slurm.conftest import StartDaemon
from tests.slurm.support.daemon import DaemonProcess, Killing
from tests.slurm.support.story import (
    SAVES_WHEN_TOLD,
    URGENT,
    WHOLE_NODES,
    Story,
    nothing_is_left,
    starts_on_the_held_nodes,
    works_again,
)
from tests.waiting import await_that

pytestmark = pytest.mark.slurm

CHANGES_HOLD = "scontrol_update_ReservationName"
OPTIONS = {"shared": WHOLE_NODES, "exclusive": ("--exclusive", "--time=30")}


def sent(daemon: DaemonProcess, *verbs: str) -> list[tuple[str, str, str]]:
    """The answered commands of these kinds: each with its job, and the urgent job."""
    answered = [command.action for command in daemon.commands() if command.outcome is not None]
    actions = [action for action in answered if action.verb in verbs]
    return [(action.verb, action.job_id, action.for_job_id) for action in actions]


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


def submitted(story: Story, options: tuple[str, ...]) -> str:
    """Submit an urgent job of two nodes."""
    story.urgent.append(story.submit(URGENT, 2, "urgent", *options))
    return story.urgent[-1]


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
    await_that(
        "the hold is for the second job",
        lambda: story.field(second, "Reservation").endswith(f".{first}"),
        explain,
    )
    story.may_save()
    starts_on_the_held_nodes(story, daemon, second)
    assert sent(daemon, "checkpoint") == [("checkpoint", lender, first)]
    assert set(sent(daemon, "requeue")) == {("requeue", lender, second)}
    story.ends(second)
    works_again(story, daemon, lender)
    nothing_is_left(story, daemon)
    assert story.lenders() == [lender]
    assert all(map(story.runs, story.workers))


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
