"""`makeway sweep --slurm`: a grid in a job array of a real Slurm."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from makeway.adapters.devcluster.cluster import DevCluster, dev_cluster
from makeway.adapters.devcluster.conf import DevSpec
from makeway.simharness.sweep.table import read_results
from tests.slurm.support.world import SlurmWorld, slurm_settings
from tests.waiting import await_that

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.one_release(on="22.05"),
    # The tasks are programs of this machine, which a chroot does not see.
    pytest.mark.skipif(
        bool(os.environ.get("MAKEWAY_SLURM_ROOT")), reason="the tasks need a Slurm that sees this machine"
    ),
]

PATIENT = '''"""A policy that does nothing, as soon as there is a file called `go` next to it."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from makeway.policies.api import Cluster, Decision, Policy

HERE = Path(__file__).parent
TASK = os.environ.get("SLURM_ARRAY_TASK_ID", "none")
RESTARTS = os.environ.get("SLURM_RESTART_COUNT", "0")


@dataclass(frozen=True)
class PatientConfig:
    """No settings."""


def decide(cluster: Cluster, config: PatientConfig) -> Decision:
    """Tell which task has come this far, and wait."""
    (HERE / f"task-{TASK}-restarts-{RESTARTS}").touch()
    while not (HERE / "go").exists():
        time.sleep(0.05)
    return Decision(policy="patient")


PATIENT = Policy(name="patient", summary="It waits.", config_type=PatientConfig, decide=decide)
'''
OFTEN = """
from makeway.daemon.cli.main import main
from makeway.simharness.sweep import slurm_array

slurm_array.LOOK_S = slurm_array.ASK_S = slurm_array.LATE_S = 0.2
main()
"""
"""The program `makeway`, but that a sweep looks often and soon believes that a task is lost."""
COUNTING = '#!/bin/sh\necho >>"{log}"\nexec "{squeue}" "$@"\n'
"""A squeue that tells how often it was asked."""
Sweep = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def not_ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """While there is such a file, no node is ready for a job."""
    return tmp_path_factory.mktemp("prolog") / "not-ready"


@pytest.fixture(scope="module")
def two_nodes(not_ready: Path) -> Iterator[DevCluster]:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pytest.importorskip("submitit", reason="submitit is not installed")
    prolog = not_ready.with_name("prolog")
    prolog.write_text(f'#!/bin/sh\nwhile [ -e "{not_ready}" ]; do sleep 0.1; done\n')
    prolog.chmod(0o755)
    # submitit's jobs do not end at SIGTERM: they would wait for half a minute.
    settings = slurm_settings(KillWait="1", PrologSlurmctld=str(prolog))
    with dev_cluster(DevSpec(node_count=2, settings=settings)) as cluster:
        yield cluster


@pytest.fixture
def world(two_nodes: DevCluster) -> Iterator[SlurmWorld]:
    world = SlurmWorld(two_nodes)
    yield world
    world.clear()


@pytest.fixture
def sweep(world: SlurmWorld, tmp_path: Path) -> Iterator[Sweep]:
    """Starts `makeway sweep` on the grid of the test's folder; none outlives the test."""
    started: list[subprocess.Popen[str]] = []

    def start(
        *options: str, program: tuple[str, ...] = ("-m", "makeway.daemon.cli.main"), **variables: str
    ) -> "subprocess.Popen[str]":
        started.append(
            subprocess.Popen(
                # The tests themselves may run under nohup.
                ["env", "--default-signal=HUP", sys.executable, *program, "sweep", "grid.yaml", *options],
                cwd=tmp_path,
                env={**os.environ, **world.cluster.runner.environment, **variables},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.communicate()


@pytest.fixture
def patient(tmp_path: Path) -> Path:
    """A grid of four cells that wait for `go`."""
    (tmp_path / "patient.py").write_text(PATIENT)
    (tmp_path / "grid.yaml").write_text("policies: [patient.py]\nseeds: 4\n")
    return tmp_path


def queue(world: SlurmWorld, states: str = "PD,R") -> set[str]:
    """The jobs that wait or run, as squeue calls them."""
    return set(world.cluster.run("squeue", "-h", "--array", f"--states={states}", "-o", "%i").split())


def arrived(folder: Path, task: str, restarts: int = 0) -> Callable[[], bool]:
    return (folder / f"task-{task}-restarts-{restarts}").exists


def test_the_results_are_those_of_this_machine(world: SlurmWorld, sweep: Sweep, tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text("policies: [none, eviction]\nseeds: 2\n")
    array = sweep("--slurm", "--jobs", "3", "--sbatch", "partition=batch", "--sbatch", "time=5")
    told, errors = array.communicate()
    assert (array.returncode, told) == (0, "Results: grid.parquet\n"), errors
    assert "3 tasks; logs in " in errors
    here = sweep("--out", "here.parquet", "--cells", "here")
    assert here.wait() == 0

    def numbers(name: str) -> list[tuple[object, ...]]:
        timed = ("machine.wall_s", "machine.decision_p50_ms", "machine.decision_p99_ms")
        return [
            (row.key, {key: value for key, value in row.numbers.items() if key not in timed})
            for row in read_results(tmp_path / name)
        ]

    assert numbers("grid.parquet") == numbers("here.parquet")
    await_that("no job is left", lambda: not queue(world))
    assert {path.name for path in (tmp_path / "grid.parquet.cells").iterdir()} == {
        "simharness.sweep.cell.run_cell",
        "slurm.lock",
    }
    again = sweep("--slurm")
    assert "4 of 4 cells were kept" in again.communicate()[1]
    assert again.returncode == 0


def test_a_task_goes_on_after_a_signal_and_the_cells_of_a_lost_task_are_named(
    world: SlurmWorld, sweep: Sweep, patient: Path
) -> None:
    array = sweep("--slurm", "--jobs", "2")
    for task in ("0", "1"):
        await_that(f"task {task} computes", arrived(patient, task))
    (job_id,) = {one.partition("_")[0] for one in queue(world)}
    # As the daemon does with a job that is to leave: submitit saves the task and requeues it.
    world.cluster.run("scancel", "--signal=USR2", f"{job_id}_0")

    def waits_again() -> bool:
        return (
            world.cluster.run("squeue", "-h", "--array", "-o", "%i %t").split("\n").count(f"{job_id}_0 PD")
            > 0
        )

    await_that("the signalled task waits again", waits_again)
    world.cluster.run("scontrol", "update", f"JobId={job_id}_0", "StartTime=now")
    await_that("it computes again", arrived(patient, "0", 1))
    world.cluster.run("scancel", f"{job_id}_1")
    # Until its end, which submitit puts off, it would see `go` too.
    await_that("the other task is gone", lambda: queue(world, "PD,R,CG") == {f"{job_id}_0"})
    (patient / "go").touch()
    told, errors = array.communicate()
    assert array.returncode == 2
    assert told == "Results of the other cells: grid.parquet\n"
    assert errors.count(f"task {job_id}_1: its task has ended without a result: ") == 2
    assert "makeway: error: 2 of 4 cells failed:" in errors.splitlines()
    assert len(read_results(patient / "grid.parquet")) == 2
    rest = sweep()
    assert "2 of 4 cells were kept" in rest.communicate()[1]
    assert len(read_results(patient / "grid.parquet")) == 4


def test_the_array_ends_with_the_sweep_and_a_second_one_does_not_begin_beside_it(
    world: SlurmWorld, sweep: Sweep, patient: Path
) -> None:
    killed = sweep("--slurm", "--jobs", "1")
    await_that("the only task computes", arrived(patient, "none"))
    (job_id,) = queue(world)
    killed.kill()
    killed.communicate()
    second = sweep("--slurm")
    *_, message = second.communicate()[1].splitlines()
    assert message == (
        f"makeway: error: --cells {patient}/grid.parquet.cells/slurm: job {job_id} of an earlier sweep "
        f"computes these cells; accepted: wait for its end, or scancel {job_id}"
    )
    assert second.returncode == 2
    assert queue(world) == {job_id}
    world.cluster.run("scancel", job_id)
    await_that("no job is left", lambda: not queue(world, "PD,R,CG"))
    for number, status in ((signal.SIGTERM, -signal.SIGTERM), (signal.SIGHUP, 130), (signal.SIGINT, 130)):
        (patient / "task-0-restarts-0").unlink(missing_ok=True)
        ended = sweep("--slurm", "--jobs", "2")
        await_that("a task computes", arrived(patient, "0"))
        ended.send_signal(number)
        assert "interrupted: 0 of 4 cells are finished" in ended.communicate()[1]
        assert ended.returncode == status
        await_that("its tasks are gone", lambda: not queue(world, "PD,R,CG"))


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Waits until the sweep has asked squeue for its tasks some times more."""
    log, folder = tmp_path / "asked", tmp_path / "bin"
    folder.mkdir()
    squeue = folder / "squeue"
    squeue.write_text(COUNTING.format(log=log, squeue=shutil.which("squeue")))
    squeue.chmod(0o755)
    log.touch()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def more() -> None:
        before = log.stat().st_size
        await_that("squeue is asked again and again", lambda: log.stat().st_size >= before + 8)

    return more


def test_a_task_that_waits_for_its_node_to_be_ready_is_not_lost(
    world: SlurmWorld, sweep: Sweep, patient: Path, not_ready: Path, asked: Callable[[], None]
) -> None:
    (patient / "go").touch()
    not_ready.touch()
    try:
        array = sweep("--slurm", "--jobs", "1", program=("-c", OFTEN))
        await_that("the task waits for its node", lambda: len(queue(world, "CF")) == 1)
        asked()
    finally:
        not_ready.unlink()
    told, errors = array.communicate()
    assert (array.returncode, told) == (0, "Results: grid.parquet\n"), errors


def test_variables_of_the_user_and_of_a_job_change_nothing(
    world: SlurmWorld, sweep: Sweep, patient: Path, asked: Callable[[], None]
) -> None:
    array = sweep(
        *("--slurm", "--jobs", "1", "--sbatch", "time=30", "--sbatch", "mem=200"),
        program=("-c", OFTEN),
        SBATCH_TIMELIMIT="7",
        SLURM_MEM_PER_CPU="100",  # as in a job that was submitted with --mem-per-cpu
        SQUEUE_USERS="nobody",
    )
    await_that("the only task computes", arrived(patient, "none"))
    assert world.cluster.run("squeue", "-h", "-o", "%l") == "30:00\n"
    asked()
    (patient / "go").touch()
    told, errors = array.communicate()
    assert (array.returncode, told) == (0, "Results: grid.parquet\n"), errors


def test_the_last_words_of_a_task_that_died_are_said(world: SlurmWorld, sweep: Sweep, patient: Path) -> None:
    dies = 'print("out of paper", file=sys.stderr, flush=True)\n    os._exit(3)\n    while not'
    text = PATIENT.replace("import time\n", "import sys\nimport time\n").replace("while not", dies)
    (patient / "patient.py").write_text(text)
    array = sweep("--slurm", "--jobs", "1")
    errors = array.communicate()[1]
    assert array.returncode == 2
    (log,) = (patient / "grid.parquet.cells" / "slurm").glob("*_0_log.err")
    assert errors.count(f": its task has ended without a result: out of paper ({log})") == 4


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("partition=nowhere", "sbatch refuses 4 tasks: sbatch: error: Batch job submission failed: Invalid"),
        ("foo=1", "sbatch refuses 4 tasks: sbatch: unrecognized option '--foo=1';"),
        ("array=1-9", "--sbatch array=1-9: does not go with a sweep; accepted: other options"),
        ("-p batch", "--sbatch -p batch: no option of sbatch; accepted: a long name, with = and its value"),
    ],
)
def test_options_that_sbatch_or_a_sweep_does_not_take(
    world: SlurmWorld, sweep: Sweep, patient: Path, option: str, message: str
) -> None:
    refused = sweep("--slurm", "--sbatch", option)
    told, errors = refused.communicate()
    assert (refused.returncode, told) == (2, "")
    assert message in errors.splitlines()[-1]
    assert sum("error" in line for line in errors.splitlines()) == 1
    assert not queue(world)
    assert not (patient / "grid.parquet.cells" / "slurm").exists()
