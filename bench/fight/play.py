"""One arm of a fight, played: the workload is submitted to a real Slurm and runs to its end."""

import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.fight.arms import Arm
from bench.fight.bed import ACCOUNT, bed
from bench.fight.daemon import daemon
from bench.fight.workload import FightJob, FightKind, Quality

from makeway.adapters.devcluster.cluster import DevCluster, DevClusterError
from makeway.adapters.devcluster.load import TimeLimit

JOB = Path(__file__).with_name("job.sh")
HELPER = Path(__file__).parents[2] / "deploy" / "makeway-job.sh"
SACCT_FIELDS = ("JobID", "JobName", "State", "Start", "End", "ElapsedRaw", "AllocTRES")
LIMIT_S = 1200.0
"""A fight that takes longer than this is cut."""
_LOGS = (
    "slurm/slurmctld.log",
    "slurm/accounting/slurmdbd.log",
    "slurm/accounting/mariadbd.log",
    "hooks.log",
)
_POLL_S = 1.0
_ACCOUNTING_S = 60.0
"""How long accounting may not answer, in seconds of an idle machine."""
_SUBMISSIONS = "workload.json"
_SACCT = "sacct.txt"


class Interrupted(Exception):
    """The fight was asked to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What an arm left: the jobs and when they were submitted, their own files, and what accounting says."""

    jobs: tuple[FightJob, ...]
    submitted_s: Mapping[str, float]
    """By submission: seconds since 1970."""
    over_s: float
    """When no job was left, or the fight was cut."""
    progress: Path
    """The folder of the jobs' own files."""
    sacct: str
    """The rows of `sacct -D`, with `SACCT_FIELDS`."""


def play(
    arm: Arm,
    jobs: tuple[FightJob, ...],
    keep: Path,
    say: Callable[[str], None],
    stop: threading.Event,
) -> None:
    """Play an arm. `keep` is a new folder for all that it leaves; `read_played` reads it.

    Raises:
        Interrupted: `stop` was set.
        NotServing, DevClusterError: a part of the cluster is not installed, or did not start or answer.
    """
    keep.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="makeway-fight-", dir="/tmp") as name:
        folder = Path(name)
        say("starting the database, slurmdbd and the cluster")
        with bed(arm, folder) as cluster:
            progress = cluster.folder / "work" / "progress"
            progress.mkdir()
            with daemon(cluster, arm.policy, folder, keep) if arm.policy else nullcontext():
                say(f"{len(jobs)} submissions")
                submitted_s = _submit_all(arm, jobs, cluster, progress, stop)
                _await_end(cluster, min(submitted_s.values()) + LIMIT_S, say, stop)
            over_s = time.time()
            cluster.cancel_all()
            shutil.copytree(progress, keep / "progress")
            for log in _LOGS:
                shutil.copy(folder / log, keep)
            sacct = _accounting(cluster)
    (keep / _SACCT).write_text(sacct)
    said = {"over_s": over_s, "submitted_s": submitted_s, "jobs": [asdict(job) for job in jobs]}
    (keep / _SUBMISSIONS).write_text(json.dumps(said, indent=1))


def was_played(keep: Path) -> bool:
    """Whether `play` has played an arm to its end into this folder."""
    return (keep / _SUBMISSIONS).exists()


def read_played(keep: Path) -> Played:
    """What `play` left in a folder. Raises OSError if it is not there."""
    said = json.loads((keep / _SUBMISSIONS).read_text())
    return Played(
        jobs=tuple(_job(values) for values in said["jobs"]),
        submitted_s=said["submitted_s"],
        over_s=said["over_s"],
        progress=keep / "progress",
        sacct=(keep / _SACCT).read_text(),
    )


def _job(values: dict[str, Any]) -> FightJob:
    """A job from its values in JSON."""
    kinds = {"kind": FightKind(values["kind"]), "quality": Quality(values["quality"])}
    return FightJob(**{**values, **kinds, "options": tuple(values["options"])})


def _submit_all(
    arm: Arm, jobs: tuple[FightJob, ...], cluster: DevCluster, progress: Path, stop: threading.Event
) -> dict[str, float]:
    """Submit each job at its time. Returns when each was submitted."""
    submitted_s: dict[str, float] = {}
    began_s = time.time()
    for job in jobs:
        _sleep(began_s + job.submit_s - time.time(), stop)
        submitted_s[job.name] = time.time()
        cluster.run(*_sbatch(arm, job, cluster, progress))
    return submitted_s


def _sbatch(arm: Arm, job: FightJob, cluster: DevCluster, progress: Path) -> tuple[str, ...]:
    array = () if job.tasks is None else (f"--array=0-{job.tasks - 1}",)
    durations_s = (job.work_s, job.interval_s or 0.0, job.save_s, job.setup_s)
    return (
        "sbatch",
        "--parsable",
        "--requeue",
        "--open-mode=append",
        f"--chdir={cluster.inner_folder}/work",
        f"--account={ACCOUNT}",
        f"--job-name={job.name}",
        *job.options,
        *arm.options(job),
        *array,
        str(JOB),
        str(progress),
        str(HELPER),
        job.name,
        *(str(round(1000 * duration_s)) for duration_s in durations_s),
        arm.after_saving,
    )


def _await_end(
    cluster: DevCluster, limit_s: float, say: Callable[[str], None], stop: threading.Event
) -> None:
    """Wait until no job is left, or until the limit, in seconds since 1970."""
    said_s = time.time()
    while left := cluster.run("squeue", "--noheader", "--array", "--format=%i"):
        if time.time() > limit_s:
            say(f"cut after {LIMIT_S:g} s; jobs left: {len(left.split())}")
            return
        if time.time() - said_s > 60.0:
            said_s = time.time()
            say(f"jobs left: {len(left.split())}")
        _sleep(_POLL_S, stop)


def _accounting(cluster: DevCluster) -> str:
    """The rows of accounting. slurmdbd may be without its database for a moment: it is asked again."""
    argv = ("sacct", "-D", "-X", "-P", "-n", "-o", ",".join(SACCT_FIELDS))
    limit = TimeLimit(_ACCOUNTING_S)
    while (done := cluster.runner.run(argv)).returncode != 0:
        if limit.passed():
            raise DevClusterError(f"sacct: {done.words}")
        time.sleep(_POLL_S)
    return done.stdout


def _sleep(duration_s: float, stop: threading.Event) -> None:
    if stop.wait(max(0.0, duration_s)):
        raise Interrupted
