"""What else may happen in the story: other ways to leave, other shapes of jobs, and what comes between."""

from collections.abc import Callable

import pytest

from makeway.policies.model import Ending, NodeState, Reason
from tests.slurm.conftest import StartDaemon
from tests.slurm.support.story import (
    COUNT,
    EXITS,
    IGNORES,
    REQUEUES,
    SAVES,
    SAVES_WHEN_TOLD,
    WHOLE_NODES,
    Story,
    makes_room_and_gives_it_back,
    nothing_is_left,
    shrinks_and_grows_back,
    starts_on_the_held_nodes,
    works_again,
)
from tests.waiting import await_that

pytestmark = pytest.mark.slurm

SHARING = ("--ntasks-per-node=1", "--time=30", "--nodelist=n[1-4]")


def test_a_malleable_job_shrinks_and_grows_back(story: Story, start_daemon: StartDaemon) -> None:
    """It is in another partition than its user's jobs are by default."""
    story.world.cluster.run("scontrol", "create", "PartitionName=night", "Nodes=ALL", "State=UP")
    worker = story.fill_malleable("--partition=night")
    daemon = start_daemon(policy="n-spaa")
    shrinks_and_grows_back(story, daemon, worker)
    works_again(story, daemon, worker)
    assert story.restarts(worker) == 0
    story.world.clear()
    story.world.cluster.run("scontrol", "delete", "PartitionName=night")


@pytest.mark.one_release(on="22.05")
def test_a_job_that_ignores_the_signal_loses_its_work_when_the_grace_is_over(
    story: Story, start_daemon: StartDaemon
) -> None:
    story.fill(IGNORES, "hasty")
    daemon = start_daemon(start_within_s=20.0)
    urgent = story.urgent_comes()
    starts_on_the_held_nodes(story, daemon, urgent)
    (lender,) = story.lenders()
    tasks = {task.action.verb: task.ending for operation in daemon.operations() for task in operation.tasks}
    assert tasks["checkpoint"] is Ending.UNACKNOWLEDGED
    story.ends(urgent)
    done = len(story.steps(lender))
    await_that("the lender works again", lambda: len(story.steps(lender)) > done, story.explain(daemon))
    # It had saved nothing: it does everything again, once.
    steps = story.steps(lender)
    assert (steps[0], steps.count(1), steps[done]) == (1, 2, 1)
    nothing_is_left(story, daemon)


@pytest.mark.one_release(on="24.11")
def test_a_job_that_ends_at_the_signal(story: Story, start_daemon: StartDaemon) -> None:
    story.fill(EXITS, "leaving")
    daemon = start_daemon()
    urgent = story.urgent_comes()
    starts_on_the_held_nodes(story, daemon, urgent)
    (left,) = [job_id for job_id in story.workers if not story.runs(job_id)]
    assert story.state(left) == "COMPLETED"
    assert story.lenders() == []
    looked = [command for command in daemon.commands() if command.action.verb == "requeue"]
    assert {command.outcome for command in looked} <= {"gone"}, "it left by itself, with success"
    story.ends(urgent)
    nothing_is_left(story, daemon)


@pytest.mark.parametrize("account", ["saving", "leaving"])
def test_a_job_that_the_signal_ends_is_put_back(
    story: Story, start_daemon: StartDaemon, account: str
) -> None:
    """Its class says that it saves, and its script has no handler. It is not lost, and it is reported."""
    story.fill(COUNT + "count\n", account)
    daemon = start_daemon()
    urgent = story.urgent_comes()
    starts_on_the_held_nodes(story, daemon, urgent)
    await_that("it is put back", lambda: story.lenders() != [], story.explain(daemon))
    (lender,) = story.lenders()
    assert story.state(lender) == "PENDING"
    (put_back,) = [command for command in daemon.commands() if command.action.verb == "requeue"]
    assert (put_back.action.job_id, put_back.action.reason) == (lender, Reason.ENDED_BY_SIGNAL)
    reported = f"job {lender} ended at the signal and is put back"
    await_that("it is reported", lambda: reported in daemon.log(), story.explain(daemon))
    done = len(story.steps(lender))
    story.ends(urgent)
    await_that("the lender works again", lambda: len(story.steps(lender)) > done, story.explain(daemon))
    assert story.restarts(lender) == 1
    nothing_is_left(story, daemon)


def test_a_job_that_requeues_itself_at_the_signal(story: Story, start_daemon: StartDaemon) -> None:
    story.fill(REQUEUES, "requeueing")
    daemon = start_daemon()
    urgent = story.urgent_comes()
    starts_on_the_held_nodes(story, daemon, urgent)
    (lender,) = story.lenders()
    assert "requeue" not in {command.action.verb for command in daemon.commands()}
    story.ends(urgent)
    works_again(story, daemon, lender)
    assert story.restarts(lender) == 1
    nothing_is_left(story, daemon)


@pytest.mark.one_release(on="22.05")
def test_a_lender_that_ends_before_it_has_to_leave(story: Story, start_daemon: StartDaemon) -> None:
    story.fill(IGNORES)
    daemon = start_daemon()
    urgent = story.urgent_comes()

    def asked() -> list[str]:
        return [command.action.job_id for command in daemon.commands() if command.action.verb == "checkpoint"]

    await_that("a job is asked to save", lambda: asked() != [], story.explain(daemon))
    (lender,) = asked()
    story.ends(lender)
    starts_on_the_held_nodes(story, daemon, urgent)
    assert story.state(lender) == "COMPLETED"
    assert story.lenders() == []
    story.ends(urgent)
    nothing_is_left(story, daemon)


MOMENTS: dict[str, Callable[[Story], bool]] = {
    "held": lambda story: story.reservations() != [],
    "signalled": lambda story: story.signalled(),
    "requeued": lambda story: story.lenders() != [],
    "lent": lambda story: story.runs(story.urgent[0]),
}


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(moment, marks=pytest.mark.one_release(on=("22.05", "24.11")[number % 2]))
        for number, moment in enumerate(MOMENTS)
    ],
)
def test_an_urgent_job_that_is_cancelled_midway(story: Story, start_daemon: StartDaemon, moment: str) -> None:
    story.fill()
    daemon = start_daemon()
    urgent = story.urgent_comes()
    explain = story.explain(daemon)
    await_that(f"the moment {moment} is there", lambda: MOMENTS[moment](story), explain)
    story.world.cluster.run("scancel", urgent)
    await_that("nothing is held", lambda: story.reservations() == [], explain)
    works_again(story, daemon, *story.lenders())
    nothing_is_left(story, daemon)
    assert {story.state(job_id) for job_id in story.workers} == {"RUNNING"}
    assert len(story.lenders()) <= 1


def test_slurmctld_is_reconfigured_while_a_job_saves(story: Story, start_daemon: StartDaemon) -> None:
    """The hold stays, and no other job leaves."""
    story.fill(SAVES_WHEN_TOLD)
    daemon = start_daemon()
    story.urgent_comes()
    explain = story.explain(daemon)
    await_that("a worker is to save", lambda: daemon.signals() == 1, explain)
    story.world.cluster.run("scontrol", "reconfigure")
    cycles = int(daemon.status()["cycles"])
    await_that("it looks again", lambda: int(daemon.status()["cycles"]) >= cycles + 2, explain)
    story.may_save()
    makes_room_and_gives_it_back(story, daemon)
    assert daemon.signals() == 1


@pytest.mark.one_release(on="24.11")
def test_two_urgent_jobs_at_once(story: Story, start_daemon: StartDaemon) -> None:
    story.fill()
    daemon = start_daemon()
    first, second = story.urgent_comes(), story.urgent_comes()
    starts_on_the_held_nodes(story, daemon, first, second)
    lenders = story.lenders()
    assert len(lenders) == 2
    story.ends(second)
    story.ends(first)
    works_again(story, daemon, *lenders)
    nothing_is_left(story, daemon)
    assert {story.restarts(job_id) for job_id in lenders} == {1}


def test_tasks_of_an_array_are_jobs_of_their_own(story: Story, start_daemon: StartDaemon) -> None:
    array = story.submit(SAVES, 2, "saving", "--array=1-4", *WHOLE_NODES)
    story.works(*[f"{array}_{task}" for task in range(1, 5)])
    daemon = start_daemon()
    urgent = story.urgent_comes()
    starts_on_the_held_nodes(story, daemon, urgent)
    (lender,) = story.lenders()
    story.ends(urgent)
    works_again(story, daemon, lender)
    assert sum(story.restarts(job_id) for job_id in story.workers) == 1
    nothing_is_left(story, daemon)


def test_jobs_that_share_nodes_leave_together(story: Story, start_daemon: StartDaemon) -> None:
    other = story.submit("exec sleep 600", 4, "other", "--ntasks-per-node=2", "--time=30", "--exclude=n[1-4]")
    workers = [story.submit(SAVES, 4, "saving", *SHARING) for _ in range(2)]
    story.works(*workers)
    assert story.nodes(workers[0]) == story.nodes(workers[1])
    daemon = start_daemon()
    urgent = story.urgent_comes(4)
    starts_on_the_held_nodes(story, daemon, urgent)
    assert sorted(story.lenders()) == sorted(workers)
    assert story.runs(other)
    story.ends(urgent)
    works_again(story, daemon, *workers)
    nothing_is_left(story, daemon)


def test_a_node_that_goes_down_midway(story: Story, start_daemon: StartDaemon) -> None:
    story.fill()
    before = {job_id: story.nodes(job_id) for job_id in story.workers}
    # Longer on a busy machine: the second lender has to have time to save its work.
    daemon = start_daemon(start_within_s=150.0)
    urgent = story.urgent_comes()
    explain = story.explain(daemon)
    await_that("nodes are held", lambda: story.reservations() != [], explain)
    (hold,) = [one for one in story.world.adapter.snapshot().reservations if one.by_makeway]
    # Not the batch host, whose script would go on without its slurmd, as the processes on a lost node do.
    lost = hold.nodes[-1]
    (victim,) = [job_id for job_id, nodes in before.items() if lost in nodes]
    story.world.cluster.stop_node(lost, kill=True)

    def runs_elsewhere() -> bool:
        states = {node.name: node.state for node in story.world.adapter.snapshot().nodes}
        if states[lost] is NodeState.UP:
            # At first, and again if it answers late: slurmctld then returns it to service.
            story.world.cluster.run("scontrol", "update", f"NodeName={lost}", "State=DOWN", "Reason=test")
        return story.runs(urgent) and lost not in story.nodes(urgent)

    try:
        await_that("the urgent job runs elsewhere", runs_elsewhere, explain)
        starts_on_the_held_nodes(story, daemon, urgent)
    finally:
        story.world.cluster.start_node(lost)
    story.ends(urgent)
    # A job on the lost node may have lost work, and Slurm may have requeued it before makeway did.
    others = [job_id for job_id in story.workers if job_id != victim]
    works_again(story, daemon, *[job_id for job_id in story.lenders() if job_id != victim])
    await_that("the others work", lambda: all(story.runs(job_id) for job_id in others), explain)
    assert story.state(victim) in ("RUNNING", "PENDING")
    nothing_is_left(story, daemon)


@pytest.mark.one_release(on="22.05")
def test_somebody_elses_reservation_is_left_alone(story: Story, start_daemon: StartDaemon) -> None:
    story.fill()
    story.world.cluster.run(
        "scontrol",
        "create",
        "reservation",
        "ReservationName=maintenance",
        "StartTime=now+20minutes",
        "Duration=60",
        "Users=root",
        "Nodes=n[1-4]",
        "Flags=IGNORE_JOBS",
    )
    daemon = start_daemon()
    urgent = story.urgent_comes()
    starts_on_the_held_nodes(story, daemon, urgent)
    assert story.nodes(urgent) <= {"n5", "n6", "n7", "n8"}
    (lender,) = story.lenders()
    story.ends(urgent)
    works_again(story, daemon, lender)
    nothing_is_left(story, daemon)
    (left,) = story.world.adapter.snapshot().reservations
    assert (left.name, left.nodes) == ("maintenance", ("n1", "n2", "n3", "n4"))


@pytest.mark.one_release(on="22.05")
def test_an_urgent_job_that_ends_before_a_maintenance_of_all_nodes(
    story: Story, start_daemon: StartDaemon
) -> None:
    """Its hold would last longer, and ends when the maintenance begins: the two may not overlap."""
    story.fill()
    create = ("scontrol", "create", "reservation", "ReservationName=maintenance", "Users=root")
    story.world.cluster.run(*create, "StartTime=now+36minutes", "Duration=60", "Nodes=n[1-8]")
    daemon = start_daemon()
    urgent = story.urgent_comes(2, "--time=32")
    await_that("nodes are held", lambda: len(story.reservations()) == 1, story.explain(daemon))
    ends_s = {one.by_makeway: one.end_s for one in story.world.adapter.snapshot().reservations}
    begins_s = {one.by_makeway: one.start_s for one in story.world.adapter.snapshot().reservations}
    assert ends_s[True] == begins_s[False]
    starts_on_the_held_nodes(story, daemon, urgent)
    (lender,) = story.lenders()
    story.ends(urgent)
    works_again(story, daemon, lender)
    nothing_is_left(story, daemon)
