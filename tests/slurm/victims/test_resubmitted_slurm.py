"""An urgent job that is cancelled and submitted again between two looks of makeway, on a real Slurm."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.slurm.conftest import StartDaemon
from tests.slurm.support.daemon import DaemonProcess
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

OPTIONS = {"shared": WHOLE_NODES, "exclusive": ("--exclusive", "--time=30")}


def sent(daemon: DaemonProcess, *verbs: str) -> list[tuple[str, str, str]]:
    """The answered commands of these kinds: each with its job, and the urgent job."""
    answered = [command.action for command in daemon.commands() if command.outcome is not None]
    actions = [action for action in answered if action.verb in verbs]
    return [(action.verb, action.job_id, action.for_job_id) for action in actions]


@contextmanager
def looks_away(daemon: DaemonProcess, *, dies: bool) -> Iterator[None]:
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


@pytest.mark.parametrize("dies", [False, True], ids=["lives", "dies"])
@pytest.mark.parametrize("nodes", OPTIONS)
def test_the_job_that_saves_leaves_for_the_job_that_was_submitted_again(
    story: Story, start_daemon: StartDaemon, nodes: str, dies: bool
) -> None:
    story.fill(SAVES_WHEN_TOLD)
    daemon = start_daemon()
    first = submitted(story, OPTIONS[nodes])
    explain = story.explain(daemon)
    await_that("a job is asked to save", lambda: sent(daemon, "checkpoint") != [], explain)
    ((_, lender, _),) = sent(daemon, "checkpoint")
    with looks_away(daemon, dies=dies):
        story.world.cluster.run("scancel", first)
        story.urgent.remove(first)
        second = submitted(story, OPTIONS[nodes])
    await_that(
        "the hold is for the second job",
        lambda: story.field(second, "Reservation").endswith(f".{first}"),
        explain,
    )
    story.may_save()
    starts_on_the_held_nodes(story, daemon, second)
    assert sent(daemon, "checkpoint", "requeue") == [
        ("checkpoint", lender, first),
        ("requeue", lender, second),
    ]
    story.ends(second)
    works_again(story, daemon, lender)
    nothing_is_left(story, daemon)
    assert story.lenders() == [lender]
    assert all(map(story.runs, story.workers))


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
