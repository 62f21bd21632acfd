"""Two daemons with journals of their own on one Slurm: one acts, and the other takes over when it is gone."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.slurm.support.daemon import DaemonProcess
from tests.slurm.support.story import Story, nothing_is_left, works_again
from tests.slurm.support.world import SlurmWorld
from tests.waiting import await_that

pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="24.11")]

LEASE_S = 30.0


@pytest.fixture
def daemons(slurm_world: SlurmWorld, tmp_path: Path) -> Iterator[list[DaemonProcess]]:
    """Two daemons that run."""
    with ExitStack() as guards:
        started: list[DaemonProcess] = []
        for name in ("first", "second"):
            folder = tmp_path / name
            folder.mkdir(mode=0o700)
            daemon = DaemonProcess(slurm_world.cluster, folder, "act", lease_s=LEASE_S)
            guards.enter_context(daemon.guarded())
            guards.callback(daemon.stop)
            daemon.start()
            started.append(daemon)
        yield started


def role(daemon: DaemonProcess) -> str:
    return str(daemon.told("status")["leader"]).split()[0]


def other_holds_released(daemon: DaemonProcess) -> list[str]:
    """The reservations that a daemon has released without an operation of its own that had made them."""
    made = {one.action.job_id for one in daemon.commands() if one.action.verb == "reserve"}
    return [
        one.action.for_job_id
        for one in daemon.commands()
        if one.action.verb == "release" and one.action.for_job_id not in made
    ]


def test_one_of_two_acts_and_the_other_takes_over(story: Story, daemons: list[DaemonProcess]) -> None:
    first, second = daemons
    story.fill()
    await_that("one leads", lambda: (role(first), role(second)) == ("leads", "follows"), first.log)
    urgent = story.urgent_comes()
    await_that("the urgent job runs", lambda: story.runs(urgent), story.explain(first))
    assert second.commands() == (), "a daemon that follows sends nothing"
    assert [one.action.verb for one in first.commands()].count("reserve") == 1
    (lender,) = story.lenders()

    # It dies while it owes a job its place.
    first.stop(signal.SIGKILL)
    explain = story.explain(second)
    await_that("the other leads", lambda: role(second) == "leads", explain, waits_s=10 * LEASE_S)
    await_that("the hold of the dead daemon is released", lambda: story.reservations() == [], explain)
    assert other_holds_released(second) == [urgent]
    story.ends(urgent)
    works_again(story, second, lender)

    # The first comes back, follows, and takes nothing from the other; then the lease is handed to it.
    first.start()
    await_that("the first follows", lambda: role(first) == "follows", first.log)
    sent = len(first.commands())
    again = story.urgent_comes()
    await_that("the next urgent job runs", lambda: story.runs(again), explain)
    assert len(first.commands()) == sent
    assert second.run("handover").status == 0
    await_that("the first leads again", lambda: role(first) == "leads", first.log)
    story.ends(again)
    works_again(story, first, *story.lenders())
    nothing_is_left(story, first)
    nothing_is_left(story, second)


def test_a_paused_daemon_takes_nothing(story: Story, daemons: list[DaemonProcess]) -> None:
    first, second = daemons
    second.stop()
    story.fill()
    assert first.run("pause").status == 0
    urgent = story.urgent_comes()
    cycles = first.told("status")["cycles"]
    await_that("it has looked", lambda: first.told("status")["cycles"] > cycles + 3, first.log)
    assert first.told("status")["paused"] is True
    first.stop()
    first.start()
    cycles = first.told("status")["cycles"]
    await_that("it has looked again", lambda: first.told("status")["cycles"] > cycles + 3, first.log)
    assert first.commands() == (), "also after a restart"
    assert first.run("resume").status == 0
    await_that("the urgent job runs", lambda: story.runs(urgent), story.explain(first))
    story.ends(urgent)
    works_again(story, first, *story.lenders())
    nothing_is_left(story, first)
