"""On a real Slurm: a job starts before its turn, leaves for the first of the queue, and goes on from its
checkpoint.
"""

import signal
from dataclasses import dataclass

import pytest

from tests.slurm.conftest import StartDaemon
from tests.slurm.support.daemon import DaemonProcess
from tests.slurm.support.story import SAVES, URGENT, Story, nothing_is_left, works_again
from tests.slurm.support.world import SlurmWorld
from tests.waiting import await_that

pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="24.11")]

LONG = ("--ntasks-per-node=2", "--time=60")


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """Half of the cluster is busy; two jobs want all of it, a third would fit, but not before the
    first two.
    """

    story: Story
    busy: str
    head: str
    second: str
    worker: str
    """It can checkpoint; its time limit is longer than that of the busy job."""

    def starts_early(self, daemon: DaemonProcess) -> None:
        """The worker starts before its turn, and the hold under which it does so is gone."""
        story = self.story
        await_that(
            "the worker works before its turn",
            lambda: story.runs(self.worker) and len(story.steps(self.worker)) > 1,
            story.explain(daemon),
        )
        await_that("its hold is gone", lambda: story.reservations() == [], story.explain(daemon))
        assert (story.state(self.head), story.state(self.second)) == ("PENDING", "PENDING")
        assert story.nodes(self.worker).isdisjoint(story.nodes(self.busy))

    def leaves(self, daemon: DaemonProcess) -> None:
        """The first of the queue is due: the worker saves itself, leaves, and the first of the queue runs."""
        story = self.story
        await_that("the queue's first job runs", lambda: story.runs(self.head), story.explain(daemon))
        assert (story.state(self.worker), story.restarts(self.worker)) == ("PENDING", 1)
        assert story.state(self.second) == "PENDING"
        assert len(story.nodes(self.head)) == 8

    def resumes(self, daemon: DaemonProcess) -> None:
        """The worker is first in the queue now, goes on where it was, and nothing of makeway's is left."""
        story = self.story
        story.ends(self.head)
        works_again(story, daemon, self.worker)
        assert story.state(self.second) == "PENDING"
        assert story.restarts(self.worker) == 1
        nothing_is_left(story, daemon)


@pytest.fixture
def queue(slurm_world: SlurmWorld) -> Queue:
    story = Story(slurm_world)
    busy = story.submit(URGENT, 4, "other")
    await_that("half of the cluster is busy", lambda: story.runs(busy))
    head, second = story.submit(URGENT, 8, "other"), story.submit(URGENT, 8, "other")
    worker = story.submit(SAVES, 4, "saving", *LONG)
    story.workers.append(worker)
    return Queue(story=story, busy=busy, head=head, second=second, worker=worker)


def test_a_job_starts_before_its_turn_and_leaves_when_the_first_of_the_queue_is_due(
    queue: Queue, start_daemon: StartDaemon
) -> None:
    daemon = start_daemon(policy="ckpt-backfill")
    queue.starts_early(daemon)
    queue.story.ends(queue.busy)
    queue.leaves(daemon)
    queue.resumes(daemon)
    done = [(command.action.verb, command.action.job_id) for command in daemon.commands()]
    assert done == [
        ("reserve", queue.worker),
        ("release", queue.worker),
        ("reserve", queue.head),
        ("checkpoint", queue.worker),
        ("requeue", queue.worker),
        ("prioritise", queue.worker),
        ("release", queue.head),
        ("restore_priority", queue.worker),
    ]
    assert {command.outcome for command in daemon.commands()} == {"accepted"}


def test_while_makeway_is_dead_the_first_of_the_queue_waits_and_nobody_loses_work(
    queue: Queue, start_daemon: StartDaemon
) -> None:
    story = queue.story
    daemon = start_daemon(policy="ckpt-backfill")
    queue.starts_early(daemon)
    daemon.stop(signal.SIGKILL)
    story.ends(queue.busy)
    await_that("half of the cluster is free", lambda: story.state(queue.busy) == "COMPLETED")
    done = len(story.steps(queue.worker))
    await_that("the worker works on", lambda: len(story.steps(queue.worker)) > done + 10)
    assert (story.state(queue.head), story.reservations()) == ("PENDING", [])
    daemon.start()
    queue.leaves(daemon)
    queue.resumes(daemon)


def test_a_job_that_is_over_in_time_leaves_nothing_behind(queue: Queue, start_daemon: StartDaemon) -> None:
    story = queue.story
    daemon = start_daemon(policy="ckpt-backfill")
    queue.starts_early(daemon)
    story.ends(queue.worker)
    await_that("it is over", lambda: story.state(queue.worker) == "COMPLETED", story.explain(daemon))
    story.ends(queue.busy)
    await_that("the queue's first job runs", lambda: story.runs(queue.head), story.explain(daemon))
    nothing_is_left(story, daemon)
    assert story.restarts(queue.worker) == 0
    assert {command.action.verb for command in daemon.commands()} == {"reserve", "release"}
