"""The examples for batch users on a real Slurm: stopped as the daemon stops them, they go on where
they were.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from makeway.policies.model import CheckpointSpec, Cluster, Job, JobState
from tests import acts
from tests.paths import DEPLOY
from tests.slurm.support.world import SlurmWorld
from tests.waiting import await_that, limit_s

pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="22.05")]

STEPS = 24
STEP_S = limit_s(0.2)
"""A job is signalled after its third step, and is not to be over before the signal comes, on a busy machine
either.
"""
MINE = "mine; $(touch evil) makeway:min-nodes=2"
"""What the user has written into the comment: it stays."""


@pytest.fixture
def world(slurm_world: SlurmWorld) -> SlurmWorld:
    return slurm_world


@pytest.fixture
def work(world: SlurmWorld) -> Path:
    """The folder in which the jobs run, with helper and examples."""
    folder = world.cluster.folder / "work"
    for name in ("makeway-job.sh", "makeway-done", "examples"):
        path = DEPLOY / name
        if path.is_dir():
            shutil.copytree(path, folder, dirs_exist_ok=True)
        else:
            shutil.copy(path, folder)
    return folder


def sbatch(world: SlurmWorld, script: str, *options: str, **variables: str) -> str:
    """Submit one of the examples; returns the job's id."""
    inner = f"{world.cluster.inner_folder}/work"
    exported = ",".join(f"{name}={value}" for name, value in {"MAKEWAY": inner, **variables}.items())
    where = (f"--chdir={inner}", "--output=job-%j.out", f"--comment={MINE}", f"--export=ALL,{exported}")
    return world.cluster.run("sbatch", "--parsable", *where, *options, f"{inner}/{script}").strip()


def found(cluster: Cluster, job_id: str) -> Job | None:
    return next((job for job in cluster.jobs if job.job_id == job_id), None)


def runs(job_id: str) -> Callable[[Cluster], bool]:
    return lambda cluster: (job := found(cluster, job_id)) is not None and job.state is JobState.RUNNING


def ask(world: SlurmWorld, job_id: str) -> float:
    """Signal the job as the daemon does, by what its class says; returns when that was."""
    job = found(world.adapter.snapshot(), job_id)
    spec = (job and job.checkpoint) or CheckpointSpec()
    asked_s = time.time()
    world.adapter.apply(acts.checkpoint(job_id, signal=spec.signal, signal_to=spec.signal_to, walltime_s=0.0))
    return asked_s


def acknowledged(world: SlurmWorld, job_id: str, asked_s: float) -> None:
    """Wait until the daemon sees that the checkpoint is complete, and that it was begun before."""

    def told(cluster: Cluster) -> bool:
        job = found(cluster, job_id)
        assert job is not None
        return job.last_checkpoint_s is not None and job.last_checkpoint_s >= asked_s

    job = found(world.wait(told, f"job {job_id} reports its checkpoint"), job_id)
    assert job is not None
    assert job.state is JobState.RUNNING
    assert job.checkpointing_since_s is not None
    assert job.last_checkpoint_s is not None
    assert asked_s <= job.checkpointing_since_s <= job.last_checkpoint_s
    comment = world.cluster.run("squeue", "-h", "-j", job_id, "-o", "%k").strip()
    assert comment.startswith(f"{MINE} makeway:ckpt")


def start_again(world: SlurmWorld, job_id: str) -> None:
    """Wait until the requeued job waits, and let it run again at once."""

    def waits(cluster: Cluster) -> bool:
        job = found(cluster, job_id)
        return job is not None and job.requeue_count == 1 and job.state is JobState.PENDING

    world.wait(waits, f"job {job_id} waits again")
    world.adapter.apply(acts.prioritise(job_id))


def finished(world: SlurmWorld, job_id: str) -> None:
    world.wait(lambda cluster: found(cluster, job_id) is None, f"job {job_id} ends")


def chain(steps: int) -> str:
    """What the shell loop works out, without any interruption."""
    value = "1"
    for step in range(1, steps + 1):
        done = subprocess.run(
            ["cksum"], input=f"{value} {step}\n", capture_output=True, text=True, check=True
        )
        value = done.stdout.split()[0]
    return value


def digest(steps: int) -> str:
    """What the Python program works out, without any interruption."""
    text = ""
    for step in range(1, steps + 1):
        text = hashlib.sha256(f"{text}{step}".encode()).hexdigest()
    return text


def test_the_shell_loop_goes_on_where_it_was(world: SlurmWorld, work: Path) -> None:
    job_id = sbatch(world, "shell-loop.sh", STEPS=str(STEPS), STEP_S=str(STEP_S))
    state = work / f"shell-loop.{job_id}.state"
    await_that("three steps are done", lambda: state.exists() and int(state.read_text().split()[0]) >= 3)
    acknowledged(world, job_id, ask(world, job_id))
    reached = int(state.read_text().split()[0])
    world.adapter.apply(acts.requeue(job_id))
    start_again(world, job_id)
    finished(world, job_id)
    output = world.cluster.output(job_id)
    gone_on = re.findall(r"^goes on after step (\d+)$", output, re.MULTILINE)
    assert len(gone_on) == 1
    assert reached <= int(gone_on[0]) < STEPS
    # Each number comes from the one before and from the step: a step that is done twice, or not, changes the
    # result.
    assert re.findall(r"^the result of .*$", output, re.MULTILINE) == [
        f"the result of {STEPS} steps is {chain(STEPS)}"
    ]
    assert not (work / "evil").exists()


def proven(output: str) -> None:
    """Assert that a program was interrupted once, and that every one of its steps was done once, in order."""
    started = [int(step) for step in re.findall(r"^starts after step (\d+)$", output, re.MULTILINE)]
    steps = [int(step) for step in re.findall(r"^step (\d+)$", output, re.MULTILINE)]
    assert steps == list(range(1, STEPS + 1))
    assert len(started) == 2
    assert 0 == started[0] < started[1] < STEPS


def test_the_python_program_goes_on_where_it_was(world: SlurmWorld, work: Path) -> None:
    options = f"--steps {STEPS} --step-s {STEP_S}"
    job_id = sbatch(world, "python-program.sh", OPTIONS=options)
    await_that("three steps are done", lambda: "step 3\n" in world.cluster.output(job_id))
    acknowledged(world, job_id, ask(world, job_id))
    # Time enough for a step: one that is done now would be done twice.
    time.sleep(3 * STEP_S)
    world.adapter.apply(acts.requeue(job_id))
    start_again(world, job_id)
    finished(world, job_id)
    output = world.cluster.output(job_id)
    proven(output)
    assert output.endswith(f"the result of {STEPS} steps is {digest(STEPS)}\n")


def test_an_array_task_whose_program_is_a_step_goes_on_where_it_was(world: SlurmWorld, work: Path) -> None:
    options = f"--steps {STEPS} --step-s {STEP_S}"
    array = sbatch(world, "python-program.sh", "--array=1-2", OPTIONS=options, LAUNCHER="srun")
    # The last task has the id of the whole array.
    job_id, other = f"{array}_2", f"{array}_1"
    await_that("three steps are done", lambda: "step 3\n" in world.cluster.output(array))
    acknowledged(world, job_id, ask(world, job_id))
    assert world.cluster.run("squeue", "-h", "--states=all", "-j", other, "-o", "%k").strip() == MINE
    world.adapter.apply(acts.requeue(job_id))
    start_again(world, job_id)
    finished(world, job_id)
    proven(world.cluster.output(array))


# Its program is this machine's, which a chroot does not see.
if not os.environ.get("MAKEWAY_SLURM_ROOT"):

    def test_the_submitit_job_requeues_itself_and_goes_on_where_it_was(world: SlurmWorld, work: Path) -> None:
        pytest.importorskip("submitit", reason="submitit is not installed")
        command = [sys.executable, str(work / "submitit_job.py"), "--folder", str(work / "submitit")]
        options = ["--steps", str(STEPS), "--step-s", str(STEP_S)]
        done = subprocess.run(
            [*command, *options],
            env={"PATH": os.environ["PATH"], **world.cluster.runner.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        job_id = done.stdout.strip()
        log = work / "submitit" / f"{job_id}_0_log.out"
        await_that("three steps are done", lambda: log.exists() and "step 3\n" in log.read_text())
        ask(world, job_id)
        start_again(world, job_id)
        finished(world, job_id)
        proven(log.read_text())
