"""Nothing is taken for an urgent job that cannot start any more: the daemon looks again before each step."""

import pytest

from tests.slurm.conftest import StartDaemon
from tests.slurm.support.daemon import BRIEF_S, DaemonProcess
from tests.slurm.support.story import (
    IGNORES,
    URGENT,
    Story,
    nothing_is_left,
    starts_on_the_held_nodes,
)
from tests.waiting import await_that

pytestmark = [pytest.mark.slurm, pytest.mark.any_release]


def sent(daemon: DaemonProcess, verb: str) -> list[str]:
    """The jobs that such a command was sent for, in order."""
    return [command.action.job_id for command in daemon.commands() if command.action.verb == verb]


def signalled(story: Story, daemon: DaemonProcess) -> str:
    """Wait until a job is asked to save. It ignores that, and has some seconds."""
    await_that("a job is asked to save", lambda: sent(daemon, "checkpoint") != [], story.explain(daemon))
    (victim,) = sent(daemon, "checkpoint")
    return victim


@pytest.mark.parametrize(
    "hold",
    [
        pytest.param("hold", marks=pytest.mark.one_release(on="22.05")),
        pytest.param("uhold", marks=pytest.mark.one_release(on="24.11")),
    ],
)
def test_an_urgent_job_that_is_held_after_the_signal(
    story: Story, start_daemon: StartDaemon, hold: str
) -> None:
    story.fill(IGNORES)
    daemon = start_daemon(start_within_s=BRIEF_S)
    urgent = story.urgent_comes()
    victim = signalled(story, daemon)
    story.world.cluster.run("scontrol", hold, urgent)
    await_that("nothing is held", lambda: story.reservations() == [], story.explain(daemon))
    await_that("no operation is open", lambda: daemon.operations() == (), story.explain(daemon))
    assert sent(daemon, "requeue") == []
    assert story.runs(victim)

    story.world.cluster.run("scontrol", "release", urgent)
    starts_on_the_held_nodes(story, daemon, urgent)
    assert len(sent(daemon, "requeue")) == 1
    story.ends(urgent)
    await_that("every worker works", lambda: all(map(story.runs, story.workers)), story.explain(daemon))
    nothing_is_left(story, daemon)


def test_an_urgent_job_that_waits_for_another_after_the_signal(
    story: Story, start_daemon: StartDaemon
) -> None:
    """For some seconds Slurm does not say why it waits."""
    story.fill(IGNORES)
    daemon = start_daemon(start_within_s=BRIEF_S)
    urgent = story.urgent_comes()
    victim = signalled(story, daemon)
    other = next(job_id for job_id in story.workers if job_id != victim)
    story.world.cluster.run("scontrol", "update", f"JobId={urgent}", f"Dependency=afterany:{other}")
    await_that("nothing is held", lambda: story.reservations() == [], story.explain(daemon))
    await_that("no operation is open", lambda: daemon.operations() == (), story.explain(daemon))
    assert sent(daemon, "requeue") == []
    assert all(map(story.runs, story.workers))


@pytest.mark.one_release(on="22.05")
def test_nodes_that_are_drained_after_the_signal(story: Story, start_daemon: StartDaemon) -> None:
    """The job on them stays, and another one leaves."""
    story.fill(IGNORES)
    daemon = start_daemon(start_within_s=BRIEF_S)
    urgent = story.urgent_comes()
    victim = signalled(story, daemon)
    nodes = story.nodes(victim)
    drained = f"NodeName={','.join(sorted(nodes))}"
    story.world.cluster.run("scontrol", "update", drained, "State=DRAIN", "Reason=test")
    try:
        starts_on_the_held_nodes(story, daemon, urgent)
        assert story.nodes(urgent).isdisjoint(nodes)
        assert victim not in sent(daemon, "requeue")
        assert (story.runs(victim), story.restarts(victim)) == (True, 0)
    finally:
        story.world.cluster.run("scontrol", "update", drained, "State=RESUME")
    story.ends(urgent)
    await_that("every worker works", lambda: all(map(story.runs, story.workers)), story.explain(daemon))
    nothing_is_left(story, daemon)


@pytest.mark.one_release(on="22.05")
def test_an_urgent_job_that_could_not_be_over_by_its_deadline(
    story: Story, start_daemon: StartDaemon
) -> None:
    """It would have to start within two seconds. Slurm ends it."""
    story.fill(IGNORES)
    daemon = start_daemon()
    urgent = story.submit(URGENT, 2, "urgent", "--ntasks-per-node=2", "--time=1", "--deadline=now+62seconds")
    explain = story.explain(daemon)
    await_that("Slurm has ended it", lambda: story.state(urgent) == "DEADLINE", explain)
    await_that("no operation is open", lambda: daemon.operations() == (), explain)
    assert sent(daemon, "checkpoint") == sent(daemon, "requeue") == []
    assert story.reservations() == []
    assert all(map(story.runs, story.workers))
