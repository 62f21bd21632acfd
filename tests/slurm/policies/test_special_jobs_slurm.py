"""Urgent jobs that are more, or need more, than one request for nodes, on a real Slurm."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from makeway.adapters.devcluster.cluster import DevCluster, dev_cluster
from makeway.adapters.devcluster.conf import DevSpec
from tests.slurm.conftest import StartDaemon
from tests.slurm.support.daemon import BRIEF_S, DaemonProcess
from tests.slurm.support.neighbours import looks_again, waits_and_none_leaves
from tests.slurm.support.story import (
    SAVES,
    URGENT,
    WHOLE_NODES,
    Story,
    await_start,
    nothing_is_left,
    starts_on_the_held_nodes,
    works_again,
)
from tests.slurm.support.world import slurm_settings
from tests.waiting import await_that

pytestmark = [pytest.mark.slurm, pytest.mark.any_release]

TASK = URGENT.replace("$SLURM_JOB_ID", "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID")


@pytest.fixture(scope="module")
def eight_nodes(slurm_root: str | None) -> Iterator[DevCluster]:
    """Four nodes in three partitions, and one licence."""
    spec = DevSpec(
        node_count=4,
        root=slurm_root,
        settings=slurm_settings(Licenses="fluent:1"),
        partitions=(
            "PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
            "PartitionName=small Nodes=n[1-2] MaxTime=INFINITE State=UP",
            "PartitionName=large Nodes=n[3-4] MaxTime=INFINITE State=UP",
            "PartitionName=one Nodes=ALL MaxNodes=1 MaxTime=INFINITE State=UP",
            "PartitionName=brief Nodes=ALL MaxTime=2 State=UP",
        ),
    )
    with dev_cluster(spec) as cluster:
        yield cluster


def fill(story: Story, *options: str) -> None:
    """Four workers of a node each; the first one has these options as well."""
    first = story.submit(SAVES, 1, "saving", *WHOLE_NODES, *options)
    story.works(first, *[story.submit(SAVES, 1, "saving") for _ in range(3)])


def follow_on_the_nodes_of_one_lender(story: Story, daemon: DaemonProcess, jobs: list[str]) -> None:
    """The urgent jobs run one after another, some too briefly for makeway to see them run. One worker leaves,
    for the first of them, and works again after the last.
    """
    story.urgent += jobs
    for job_id in jobs:
        starts_on_the_held_nodes(story, daemon, job_id)
        story.ends(job_id)
    (lender,) = story.lenders()
    works_again(story, daemon, lender)
    nothing_is_left(story, daemon)
    assert story.restarts(lender) == 1
    taken = [command.action for command in daemon.commands() if command.action.verb == "requeue"]
    assert [(one.job_id, one.for_job_id) for one in taken] == [(lender, jobs[0])]


@pytest.mark.one_release(on="22.05")
def test_tasks_of_an_urgent_array_are_urgent_jobs_of_their_own(
    story: Story, start_daemon: StartDaemon
) -> None:
    fill(story)
    daemon = start_daemon()
    array = story.submit(TASK, 1, "urgent", *WHOLE_NODES, "--array=0-1")
    tasks = [f"{array}_{number}" for number in range(2)]
    starts_on_the_held_nodes(story, daemon, *tasks)
    assert story.nodes(tasks[0]).isdisjoint(story.nodes(tasks[1]))
    lenders = story.lenders()
    assert len(lenders) == 2
    for task in tasks:
        story.ends(task)
    works_again(story, daemon, *lenders)
    nothing_is_left(story, daemon)


def test_an_urgent_srun_is_served(story: Story, start_daemon: StartDaemon) -> None:
    fill(story)
    daemon = start_daemon()
    cluster = story.world.cluster
    where = f"--chdir={cluster.inner_folder}/work"
    with ThreadPoolExecutor(max_workers=1) as pool:
        client = pool.submit(
            cluster.run, "srun", "--nodes=1", "--account=urgent", where, *WHOLE_NODES, "echo"
        )
        assert client.result() == "\n\n", "one line of each task"
    (left,) = [command.action.job_id for command in daemon.commands() if command.action.verb == "requeue"]
    works_again(story, daemon, left)
    nothing_is_left(story, daemon)


def test_of_an_array_with_a_limit_no_more_tasks_are_served_than_may_run(
    story: Story, start_daemon: StartDaemon
) -> None:
    fill(story)
    daemon = start_daemon()
    array = story.submit(TASK, 1, "urgent", *WHOLE_NODES, "--array=0-1%1")
    first, second = (f"{array}_{number}" for number in range(2))
    starts_on_the_held_nodes(story, daemon, first)
    looks_again(daemon)
    assert (story.runs(first), story.runs(second)) == (True, False)
    assert len(story.lenders()) == 1
    assert {command.action.for_job_id for command in daemon.commands()} == {first}
    story.ends(first)
    await_start(story, daemon, second)
    story.ends(second)
    works_again(story, daemon, *story.lenders())
    nothing_is_left(story, daemon)


def test_the_tasks_of_an_array_with_a_limit_follow_each_other_on_the_nodes_of_one_lender(
    story: Story, start_daemon: StartDaemon
) -> None:
    fill(story)
    daemon = start_daemon()
    array = story.submit(TASK, 1, "urgent", *WHOLE_NODES, "--array=0-2%1")
    follow_on_the_nodes_of_one_lender(story, daemon, [f"{array}_{number}" for number in range(3)])


def test_jobs_that_wait_for_each_other_follow_on_the_nodes_of_one_lender(
    story: Story, start_daemon: StartDaemon
) -> None:
    """For about a second after the end of one, Slurm says that the next one depends on it still."""
    fill(story)
    daemon = start_daemon()
    alike = (*WHOLE_NODES, "--job-name=chain")
    first = story.submit(URGENT, 1, "urgent", *alike)
    second = story.submit(URGENT, 1, "urgent", *alike, f"--dependency=afterany:{first}")
    third = story.submit(URGENT, 1, "urgent", *alike, f"--dependency=afterok:{second},afterany:{first}")
    chain = [first, second, third, story.submit(URGENT, 1, "urgent", *alike, "--dependency=singleton")]
    follow_on_the_nodes_of_one_lender(story, daemon, chain)


def test_an_urgent_job_that_is_requeued_keeps_its_nodes(story: Story, start_daemon: StartDaemon) -> None:
    """Slurm delays its next start for two minutes. It has run for longer than it would be waited for."""
    fill(story)
    daemon = start_daemon(start_within_s=BRIEF_S)
    daemon.stop()
    daemon.config.write_text(
        daemon.config.read_text().replace("timeouts: {", "timeouts: {give_up_after_s: 0, ")
    )
    daemon.start()
    urgent = story.urgent_comes(1)
    starts_on_the_held_nodes(story, daemon, urgent)
    (operation,) = daemon.operations()
    await_that(
        "the operation would be given up",
        lambda: time.time() > operation.give_up_s,
        daemon.log,
        waits_s=daemon.start_within_s,
    )
    story.world.cluster.run("scontrol", "requeue", urgent)
    await_that("it waits again", lambda: story.state(urgent) == "PENDING", story.explain(daemon))
    looks_again(daemon)
    (lender,) = story.lenders()
    assert (story.state(urgent), story.state(lender), len(story.reservations())) == ("PENDING", "PENDING", 1)
    story.world.cluster.run("scontrol", "update", f"JobId={urgent}", "StartTime=now+3seconds")
    starts_on_the_held_nodes(story, daemon, urgent)
    story.ends(urgent)
    works_again(story, daemon, lender)
    nothing_is_left(story, daemon)
    assert story.restarts(lender) == 1


def test_urgent_jobs_that_come_soon_after_each_other_have_the_nodes_of_one_lender(
    story: Story, start_daemon: StartDaemon
) -> None:
    fill(story)
    daemon = start_daemon(linger_s=30.0)
    stream: list[str] = []
    for _ in range(3):
        stream.append(story.urgent_comes(1))
        starts_on_the_held_nodes(story, daemon, stream[-1])
        story.ends(stream[-1])
        await_that("makeway sees its end", lambda: daemon.operations()[-1].ended_s is not None)
        looks_again(daemon)
    (lender,) = story.lenders()
    works_again(story, daemon, lender)
    nothing_is_left(story, daemon)
    taken = [command.action for command in daemon.commands() if command.action.verb == "requeue"]
    assert [(one.job_id, one.for_job_id) for one in taken] == [(lender, stream[0])]


def test_no_job_leaves_for_one_whose_own_reservation_has_not_begun(
    story: Story, start_daemon: StartDaemon
) -> None:
    fill(story)
    course = ("scontrol", "create", "reservation", "ReservationName=course", "Nodes=n4", "Users=root")
    story.world.cluster.run(*course, "StartTime=now+2hours", "Duration=60")
    urgent = story.urgent_comes(1, "--reservation=course")
    daemon = start_daemon()
    looks_again(daemon)
    assert (story.field(urgent, "Reason"), daemon.commands()) == ("Reservation", ())
    story.world.cluster.run("scontrol", "update", f"JobId={urgent}", "ReservationName=")
    starts_on_the_held_nodes(story, daemon, urgent)
    story.ends(urgent)
    works_again(story, daemon, *story.lenders())
    nothing_is_left(story, daemon)


@pytest.mark.one_release(on="24.11")
def test_an_urgent_job_in_several_partitions_takes_the_one_with_jobs_that_may_leave(
    story: Story, start_daemon: StartDaemon
) -> None:
    """A job runs in one of its partitions: two nodes are not one of each. Two partitions do not admit it."""
    story.submit("exec sleep 1000", 2, "other", *WHOLE_NODES, "--partition=small")
    story.works(*[story.submit(SAVES, 1, "saving", *WHOLE_NODES, "--partition=large") for _ in range(2)])
    daemon = start_daemon()
    partitions = "--partition=one,brief,small,large"
    urgent = story.submit(URGENT, 2, "urgent", *WHOLE_NODES, partitions, "--time=30")
    story.urgent.append(urgent)
    starts_on_the_held_nodes(story, daemon, urgent)
    assert (story.field(urgent, "Partition"), story.nodes(urgent)) == ("large", {"n3", "n4"})
    assert set(story.lenders()) == set(story.workers)
    story.ends(urgent)
    works_again(story, daemon, *story.workers)
    nothing_is_left(story, daemon)


@pytest.mark.one_release(on="22.05")
def test_no_job_leaves_for_one_that_waits_for_a_licence(story: Story, start_daemon: StartDaemon) -> None:
    fill(story, "--licenses=fluent:1")
    holder, *others = story.workers
    daemon = start_daemon()
    urgent = story.submit(URGENT, 2, "urgent", *WHOLE_NODES, "--licenses=fluent:1")
    story.urgent.append(urgent)
    waits_and_none_leaves(story, daemon, urgent, "a licence (fluent")
    story.ends(holder)
    starts_on_the_held_nodes(story, daemon, urgent)
    (lender,) = [one for one in others if story.restarts(one)]
    story.ends(urgent)
    works_again(story, daemon, lender)
    nothing_is_left(story, daemon)


@pytest.mark.one_release(on="24.11")
def test_the_time_that_an_urgent_job_has_begins_with_the_end_of_what_it_depends_on(
    story: Story, start_daemon: StartDaemon
) -> None:
    fill(story)
    first, *others = story.workers
    daemon = start_daemon()
    urgent = story.submit(URGENT, 2, "urgent", *WHOLE_NODES, f"--dependency=afterany:{first}")
    story.urgent.append(urgent)
    waits_and_none_leaves(story, daemon, urgent, "another job")
    story.ends(first)
    starts_on_the_held_nodes(story, daemon, urgent)
    (deadline_s,) = {one.deadline_s for one in daemon.operations() if one.for_job_id == urgent}
    submit_s, eligible_s = (
        float(
            story.ask(
                "env", "SLURM_TIME_FORMAT=%s", "squeue", "-h", "-j", urgent, "-O", f"{field}:20"
            ).strip()
        )
        for field in ("SubmitTime", "EligibleTime")
    )
    assert submit_s < eligible_s == deadline_s - daemon.start_within_s
    (lender,) = story.lenders()
    assert lender in others
    story.ends(urgent)
    works_again(story, daemon, lender)
    nothing_is_left(story, daemon)
