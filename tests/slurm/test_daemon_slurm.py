"""The daemon's own process beside a real Slurm: an urgent job comes to a full cluster, is served, and all goes back."""

import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from makeway.policies.model import RESERVATION_PREFIX
from tests.slurm.daemon import WHOLE_NODES, DaemonProcess, await_that, steps, submit_worker
from tests.slurm.world import SlurmWorld

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
NOT_FROM_US = frozenset(
    {"REQUEST_SUBMIT_BATCH_JOB", "REQUEST_COMPLETE_BATCH_SCRIPT", "REQUEST_COMPLETE_PROLOG"}
)
"""What sbatch and slurmd send of themselves."""
UPDATES = re.compile(r"update_job|requeue|reservation|REQUEST_KILL|kill_job|cancel|signal", re.IGNORECASE)


class StartDaemon(Protocol):
    """Starts the daemon in a mode; the test's end ends it. `sees`: whether the cluster is up."""

    def __call__(self, mode: str, *, sees: bool = True, poll_interval_s: float = 0.5) -> DaemonProcess: ...


@pytest.fixture
def start_daemon(slurm_world: SlurmWorld, tmp_path: Path) -> Iterator[StartDaemon]:
    started: list[DaemonProcess] = []

    def start(mode: str, *, sees: bool = True, poll_interval_s: float = 0.5) -> DaemonProcess:
        daemon = DaemonProcess(slurm_world.cluster, tmp_path, mode, poll_interval_s=poll_interval_s)
        started.append(daemon)
        daemon.start(sees=sees)
        return daemon

    yield start
    for daemon in started:
        daemon.stop()


class Story:
    """Four workers fill the cluster, a batch job of the urgent job's size waits, and the urgent job comes."""

    def __init__(self, world: SlurmWorld) -> None:
        self.world = world
        self.workers = [submit_worker(world, 2) for _ in range(4)]
        world.wait(lambda cluster: not cluster.free_nodes(), "the cluster is full")
        await_that("every worker works", lambda: all(len(steps(world, one)) > 20 for one in self.workers))
        self.batch = world.cluster.submit("exec sleep 600", "--nodes=2", *WHOLE_NODES)
        self.urgent = ""

    def urgent_comes(self) -> None:
        self.urgent = self.world.cluster.submit(
            'while [ ! -e "over-$SLURM_JOB_ID" ]; do sleep 0.1; done',
            "--nodes=2",
            "--account=urgent",
            *WHOLE_NODES,
        )

    def urgent_ends(self) -> None:
        (self.world.cluster.folder / "work" / f"over-{self.urgent}").touch()

    def field(self, job_id: str, column: str) -> str:
        """One column of squeue about one job; empty once the job is forgotten."""
        return self.world.cluster.run(
            "squeue", "-h", "--states=all", f"--jobs={job_id}", "-O", f"{column}:64"
        ).strip()

    def state(self, job_id: str) -> str:
        return self.field(job_id, "State")

    def nodes(self, job_id: str) -> set[str]:
        return set(
            self.world.cluster.run("scontrol", "show", "hostnames", self.field(job_id, "NodeList")).split()
        )

    def restarts(self, job_id: str) -> int:
        return int(self.field(job_id, "RestartCnt"))

    def lenders(self) -> list[str]:
        return [job_id for job_id in self.workers if self.restarts(job_id)]

    def reservations(self) -> list[str]:
        names = (one.name for one in self.world.adapter.snapshot().reservations)
        return [name for name in names if name.startswith(RESERVATION_PREFIX)]

    def signalled(self) -> bool:
        return any(self.field(job_id, "Comment").startswith("makeway:ckpt") for job_id in self.workers)

    def explain(self, daemon: DaemonProcess) -> Callable[[], str]:
        return lambda: (
            daemon.run("explain", "last").stdout
            + daemon.log()
            + self.world.cluster.run("squeue")
            + self.world.cluster.log_end(40)
        )


def plays_to_the_end(story: Story, daemon: DaemonProcess) -> None:
    """From the arrival of the urgent job on: it starts on the nodes that were held, and everything goes back."""
    explain = story.explain(daemon)
    await_that("the urgent job runs", lambda: story.state(story.urgent) == "RUNNING", explain)
    told = daemon.told("explain", "1")
    (hold,) = [entry["action"] for entry in told["actions"] if entry["action"]["verb"] == "reserve"]
    assert story.nodes(story.urgent) == set(hold["nodes"])
    assert story.state(story.batch) == "PENDING"
    (lender,) = story.lenders()
    assert story.state(lender) == "PENDING"
    before = steps(story.world, lender)
    story.urgent_ends()
    await_that("the lender runs again", lambda: len(steps(story.world, lender)) > len(before), explain)
    assert story.restarts(lender) == 1
    assert story.state(story.batch) == "PENDING"
    done = steps(story.world, lender)
    assert done == list(range(1, len(done) + 1))
    await_that("nothing is under way", lambda: daemon.operations() == (), explain)
    assert story.reservations() == []
    assert story.state(story.urgent) == "COMPLETED"
    assert {story.field(job_id, "Reason") for job_id in story.workers} == {"None"}
    assert not story.field(lender, "Reservation") or story.field(lender, "Reservation") == "(null)"
    assert story.field(story.batch, "Reason") in {"Resources", "Priority"}


def log_of(world: SlurmWorld, since: int) -> str:
    """What slurmctld has logged since its log had that many bytes."""
    data = (world.cluster.folder / "slurmctld.log").read_bytes()
    return data[since:].decode(errors="replace")


def log_size(world: SlurmWorld) -> int:
    return (world.cluster.folder / "slurmctld.log").stat().st_size


def requests(world: SlurmWorld) -> set[str]:
    """The kinds of requests that slurmctld has had since it was told to count anew."""
    return set(re.findall(r"\b(?:REQUEST|MESSAGE)_\w+", world.cluster.run("sdiag")))


def test_an_urgent_job_on_a_full_cluster(slurm_world: SlurmWorld, start_daemon: StartDaemon) -> None:
    story = Story(slurm_world)
    daemon = start_daemon("act")
    since = log_size(slurm_world)
    story.urgent_comes()
    plays_to_the_end(story, daemon)
    verbs = [command.action.verb for command in daemon.commands()]
    assert verbs == ["reserve", "checkpoint", "requeue", "prioritise", "release"]
    assert {command.outcome for command in daemon.commands()} == {"accepted"}
    # What finds the traces of commands in slurmctld's log and statistics finds these.
    assert UPDATES.search(log_of(slurm_world, since))
    assert not requests(slurm_world) <= READS | NOT_FROM_US


def test_the_commands_beside_the_running_daemon(slurm_world: SlurmWorld, start_daemon: StartDaemon) -> None:
    story = Story(slurm_world)
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
    story.urgent_comes()
    assert daemon.run("poke").status == 0
    await_that("the urgent job runs", lambda: story.state(story.urgent) == "RUNNING", story.explain(daemon))
    status = daemon.told("status")
    assert (status["mode"], status["policy"], status["adapter"]) == ("act", "eviction", "slurm")
    assert status["operations_open"] == 1
    explained = daemon.told("explain", "last")
    assert [one["for_job_id"] for one in explained["rationale"]] == [story.urgent]
    assert all(entry["outcome"] == "accepted" for entry in explained["actions"])
    assert daemon.stop() == 0


def test_observe_mode_sends_not_one_update(slurm_world: SlurmWorld, start_daemon: StartDaemon) -> None:
    story = Story(slurm_world)
    slurm_world.cluster.run("sdiag", "--reset")
    since = log_size(slurm_world)
    daemon = start_daemon("observe")
    story.urgent_comes()
    explain = story.explain(daemon)
    await_that("a decision is stored", lambda: len(daemon.told("explain")) > 0, explain)
    cycles = daemon.told("status")["cycles"]
    await_that("some cycles pass", lambda: daemon.told("status")["cycles"] > cycles + 3, explain)
    assert daemon.stop() == 0
    assert requests(slurm_world) - {"MESSAGE_NODE_REGISTRATION_STATUS"} <= READS | NOT_FROM_US
    assert not UPDATES.search(log_of(slurm_world, since))
    assert story.state(story.urgent) == "PENDING"
    assert {story.state(job_id) for job_id in story.workers} == {"RUNNING"}
    assert daemon.commands() == ()
    told = daemon.told("explain", "last")
    assert [(entry["action"]["verb"], entry["outcome"]) for entry in told["actions"]] == [
        ("reserve", "not sent"),
        ("checkpoint", "not sent"),
        ("requeue", "not sent"),
    ]
    assert told["rationale"][0]["for_job_id"] == story.urgent


MOMENTS: dict[str, Callable[[Story], bool]] = {
    "held": lambda story: story.reservations() != [],
    "signalled": lambda story: story.signalled(),
    "requeued": lambda story: story.lenders() != [],
    "lent": lambda story: story.state(story.urgent) == "RUNNING",
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_in_the_middle_and_started_again(
    slurm_world: SlurmWorld, start_daemon: StartDaemon, moment: str
) -> None:
    story = Story(slurm_world)
    daemon = start_daemon("act")
    story.urgent_comes()
    await_that(f"the moment {moment} is there", lambda: MOMENTS[moment](story), story.explain(daemon))
    assert daemon.stop(signal.SIGKILL) == -signal.SIGKILL
    daemon.start()
    plays_to_the_end(story, daemon)


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
