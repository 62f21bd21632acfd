"""The daemon on a real Slurm: an urgent job comes to a full cluster; in the end all goes back."""

import re

import pytest

from tests.slurm.conftest import StartDaemon
from tests.slurm.support.daemon import DaemonProcess
from tests.slurm.support.story import Story, nothing_is_left, starts_on_the_held_nodes, works_again
from tests.slurm.support.world import SlurmWorld
from tests.waiting import await_that

pytestmark = pytest.mark.slurm

READS = frozenset(
    {
        "REQUEST_BUILD_INFO",
        "REQUEST_FED_INFO",
        "REQUEST_JOB_INFO",
        "REQUEST_JOB_INFO_SINGLE",
        "REQUEST_JOB_STATE",
        "REQUEST_JOB_USER_INFO",
        "REQUEST_NODE_INFO",
        "REQUEST_PARTITION_INFO",
        "REQUEST_PING",
        "REQUEST_RESERVATION_INFO",
        "REQUEST_STATS_INFO",
        "REQUEST_STATS_RESET",
        "REQUEST_ASSOC_MGR_INFO",
    }
)
NOT_FROM_MAKEWAY = frozenset(
    {"REQUEST_SUBMIT_BATCH_JOB", "REQUEST_COMPLETE_BATCH_SCRIPT", "REQUEST_COMPLETE_PROLOG"}
)
"""What sbatch and slurmd send by themselves."""
UPDATES = re.compile(r"update_job|requeue|reservation|REQUEST_KILL|kill_job|cancel|signal", re.IGNORECASE)


def full_cluster(world: SlurmWorld) -> tuple[Story, str]:
    """Four workers on eight nodes, and a batch job of the urgent job's size that waits."""
    story = Story(world)
    story.fill()
    return story, story.submit("exec sleep 600", 2, "other")


def plays_to_the_end(story: Story, daemon: DaemonProcess, batch: str) -> None:
    """From the arrival of the urgent job on: it starts on the nodes that were held, and everything
    goes back.
    """
    (urgent,) = story.urgent
    starts_on_the_held_nodes(story, daemon, urgent)
    assert story.state(batch) == "PENDING"
    (lender,) = story.lenders()
    assert story.state(lender) == "PENDING"
    story.ends(urgent)
    works_again(story, daemon, lender)
    assert story.restarts(lender) == 1
    assert story.state(batch) == "PENDING"
    assert story.state(urgent) == "COMPLETED"
    nothing_is_left(story, daemon)
    assert story.field(batch, "Reason") in {"Resources", "Priority"}


def log_of(world: SlurmWorld, since: int) -> str:
    """What slurmctld has logged since its log had that many bytes."""
    data = (world.cluster.folder / "slurmctld.log").read_bytes()
    return data[since:].decode(errors="replace")


def log_size(world: SlurmWorld) -> int:
    return (world.cluster.folder / "slurmctld.log").stat().st_size


def requests(world: SlurmWorld) -> set[str]:
    """The kinds of requests that slurmctld has had since its counters were reset."""
    return set(re.findall(r"\b(?:REQUEST|MESSAGE)_\w+", world.cluster.run("sdiag")))


@pytest.mark.one_release(on="22.05")
def test_an_urgent_job_on_a_full_cluster(slurm_world: SlurmWorld, start_daemon: StartDaemon) -> None:
    story, batch = full_cluster(slurm_world)
    daemon = start_daemon("act")
    since = log_size(slurm_world)
    story.urgent_comes()
    plays_to_the_end(story, daemon, batch)
    verbs = [command.action.verb for command in daemon.commands()]
    assert verbs == ["reserve", "checkpoint", "requeue", "prioritise", "release", "restore_priority"]
    assert {command.outcome for command in daemon.commands()} == {"accepted"}
    (loss,) = daemon.told("explain", "1")["losses"]
    assert (loss["job_id"], loss["method"], loss["expected"]["node_s"]) == (story.lenders()[0], "system", 0.0)
    (requeue,) = (command for command in daemon.commands() if command.action.verb == "requeue")
    assert loss["actual"]["evicted"]
    assert loss["actual"]["left_s"] == pytest.approx(requeue.issued_s)
    assert loss["actual"]["overhead"]["node_s"] > 0.0, "of the checkpoint"
    # What finds the traces of commands in slurmctld's log and statistics finds these.
    assert UPDATES.search(log_of(slurm_world, since))
    assert not requests(slurm_world) <= READS | NOT_FROM_MAKEWAY


@pytest.mark.one_release(on="24.11")
def test_the_commands_while_the_daemon_runs(slurm_world: SlurmWorld, start_daemon: StartDaemon) -> None:
    story, _ = full_cluster(slurm_world)
    # It polls once in ten minutes: what it does sooner, a poke has started.
    daemon = start_daemon("act", poll_interval_s=600)
    told = daemon.told("doctor")
    assert told["problems"] == 0, told
    assert {check["name"] for check in told["checks"]} >= {
        "journal",
        "release",
        "privilege",
        "clock",
        "classes",
    }
    whatif = daemon.told("whatif", "--nodes", "3")
    assert (whatif["nodes_up"], whatif["nodes_free"], whatif["shortage"]) == (8, 0, 3)
    assert {
        job_id for level in whatif["levels"] for one in level["departures"] for job_id in one["job_ids"]
    } <= set(story.workers)
    like = daemon.told("whatif", "--like", story.workers[0])
    assert (like["nodes"], like["shortage"]) == (2, 2)
    urgent = story.urgent_comes()
    assert daemon.run("poke").status == 0
    await_that("the urgent job runs", lambda: story.runs(urgent), story.explain(daemon))
    status = daemon.told("status")
    assert (status["mode"], status["policy"], status["adapter"]) == ("act", "eviction", "slurm")
    assert status["operations_open"] == 1
    explained = daemon.told("explain", "last")
    assert [one["for_job_id"] for one in explained["rationale"]] == [urgent]
    assert all(entry["outcome"] == "accepted" for entry in explained["actions"])
    summary = daemon.told("summary")
    assert [(one["job_id"], one["answer"]) for one in summary["urgent"]] == [(urgent, "room")]
    assert (summary["acted"], summary["observed"], summary["all_lenders"]["jobs"]) == (1, 0, 1)
    assert daemon.stop() == 0


def test_observe_mode_sends_not_one_update(slurm_world: SlurmWorld, start_daemon: StartDaemon) -> None:
    story, _ = full_cluster(slurm_world)
    slurm_world.cluster.run("sdiag", "--reset")
    since = log_size(slurm_world)
    daemon = start_daemon("observe")
    urgent = story.urgent_comes()
    explain = story.explain(daemon)
    await_that("a decision is stored", lambda: daemon.operations() != (), explain)
    cycles = daemon.status()["cycles"]
    await_that("some cycles pass", lambda: daemon.status()["cycles"] > cycles + 3, explain)
    assert daemon.stop() == 0
    assert requests(slurm_world) - {"MESSAGE_NODE_REGISTRATION_STATUS"} <= READS | NOT_FROM_MAKEWAY
    assert not UPDATES.search(log_of(slurm_world, since))
    summary = daemon.told("summary")
    assert [(one["job_id"], one["answer"]) for one in summary["urgent"]] == [(urgent, "room")]
    assert (summary["acted"], summary["observed"], summary["all_lenders"]["jobs"]) == (0, 1, 1)
    assert story.state(urgent) == "PENDING"
    assert {story.state(job_id) for job_id in story.workers} == {"RUNNING"}
    assert daemon.commands() == ()
    told = daemon.told("explain", "last")
    assert [(entry["action"]["verb"], entry["outcome"]) for entry in told["actions"]] == [
        ("reserve", "not sent"),
        ("checkpoint", "not sent"),
        ("requeue", "not sent"),
    ]
    assert told["rationale"][0]["for_job_id"] == urgent


@pytest.mark.one_release(on="24.11")
def test_a_controller_that_is_down_at_the_start(slurm_world: SlurmWorld, start_daemon: StartDaemon) -> None:
    slurm_world.cluster.stop_controller()
    try:
        daemon = start_daemon("act", sees=False)
        doctor = daemon.run("doctor")
        assert doctor.status == 1
        assert "Unable to contact slurm controller" in doctor.stdout
    finally:
        slurm_world.cluster.start_controller()
    daemon.await_sight()
    assert daemon.stop() == 0
