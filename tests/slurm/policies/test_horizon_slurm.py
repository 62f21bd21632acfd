"""On a real Slurm: the queue follows the plan, which lets jobs pass that would be late behind a long one."""

import signal
from dataclasses import dataclass

import pytest

from makeway.adapters.slurm.build import queue_position_of
from tests.slurm.conftest import StartDaemon
from tests.slurm.support.daemon import DaemonProcess
from tests.slurm.support.story import URGENT, Story, nothing_is_left
from tests.slurm.support.world import SlurmWorld
from tests.waiting import await_that

pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="24.11")]


def limit(minutes: int) -> tuple[str, ...]:
    return ("--ntasks-per-node=2", f"--time={minutes}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """The cluster is full; three jobs want all of it, and the one that came first would make the
    others late.
    """

    story: Story
    busy: str
    long: str
    short: str
    shorter: str

    @property
    def planned(self) -> tuple[str, ...]:
        """In the order in which they are to start."""
        return (self.shorter, self.short, self.long)

    def place(self, job_id: str) -> int | None:
        """Its place as Slurm has it."""
        return queue_position_of(int(self.story.field(job_id, "PriorityLong")))

    def has_places(self, daemon: DaemonProcess) -> None:
        """Slurm has the two short ones in the plan's order ahead of the long one, which needs no place."""

        def in_order() -> bool:
            first, second, last = (self.place(job_id) for job_id in self.planned)
            return last is None and first is not None and second is not None and first < second

        await_that("the queue is in the plan's order", in_order, self.story.explain(daemon))

    def follows(self, daemon: DaemonProcess) -> None:
        """Slurm starts them in that order, one after the other, and nothing of makeway's is left."""
        story = self.story
        before = self.busy
        for number, job_id in enumerate(self.planned):
            story.ends(before)
            await_that(f"job {job_id} runs", lambda one=job_id: story.runs(one), story.explain(daemon))  # type: ignore[misc]
            await_that(
                f"job {job_id} has its own priority back",
                lambda one=job_id: self.place(one) is None,  # type: ignore[misc]
                story.explain(daemon),
            )
            assert [story.state(later) for later in self.planned[number + 1 :]] == ["PENDING"] * (2 - number)
            before = job_id
        nothing_is_left(story, daemon)


@pytest.fixture
def queue(slurm_world: SlurmWorld) -> Queue:
    story = Story(slurm_world)
    busy = story.submit(URGENT, 8, "other")
    await_that("the cluster is full", lambda: story.runs(busy))
    long, short, shorter = (story.submit(URGENT, 8, "saving", *limit(minutes)) for minutes in (1200, 60, 5))
    story.workers += [long, short, shorter]
    return Queue(story=story, busy=busy, long=long, short=short, shorter=shorter)


def test_slurm_starts_the_queue_in_the_order_of_the_plan(queue: Queue, start_daemon: StartDaemon) -> None:
    daemon = start_daemon(policy="horizon")
    queue.has_places(daemon)
    done = [(command.action.verb, command.action.job_id, command.outcome) for command in daemon.commands()]
    assert done == [("prioritise", queue.shorter, "accepted"), ("prioritise", queue.short, "accepted")]
    queue.follows(daemon)
    restored = [
        command.action.job_id for command in daemon.commands() if command.action.verb == "restore_priority"
    ]
    assert restored == [queue.shorter, queue.short]


def test_a_daemon_that_dies_leaves_a_queue_that_goes_on_in_that_order(
    queue: Queue, start_daemon: StartDaemon
) -> None:
    daemon = start_daemon(policy="horizon")
    queue.has_places(daemon)
    daemon.stop(signal.SIGKILL)
    story = queue.story
    story.ends(queue.busy)
    await_that("the first of the plan runs", lambda: story.runs(queue.shorter))
    story.ends(queue.shorter)
    await_that("the second one runs", lambda: story.runs(queue.short))
    daemon.start()
    story.ends(queue.short)
    await_that("the last one runs", lambda: story.runs(queue.long), story.explain(daemon))
    nothing_is_left(story, daemon)


def test_another_policy_gives_the_places_back(queue: Queue, start_daemon: StartDaemon) -> None:
    daemon = start_daemon(policy="horizon")
    queue.has_places(daemon)
    daemon.stop(signal.SIGKILL)
    daemon.use_policy("eviction")
    daemon.start()
    story = queue.story
    recomputes = story.world.adapter.capabilities.recomputes_priority
    if recomputes:
        await_that(
            "no job has a place",
            lambda: [queue.place(job_id) for job_id in queue.planned] == [None] * 3,
            story.explain(daemon),
        )
    first = queue.long if recomputes else queue.shorter
    story.ends(queue.busy)
    await_that("the first one of the queue runs", lambda: story.runs(first), story.explain(daemon))


def test_in_observe_mode_no_job_gets_a_place(queue: Queue, start_daemon: StartDaemon) -> None:
    daemon = start_daemon("observe", policy="horizon")
    await_that(
        "a plan is told",
        lambda: "Number 1 of the 3 jobs planned" in daemon.run("explain", "last").stdout,
        queue.story.explain(daemon),
    )
    assert daemon.commands() == ()
    assert [queue.place(job_id) for job_id in queue.planned] == [None] * 3
