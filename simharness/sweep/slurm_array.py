"""A sweep as a job array on a Slurm, by submitit.

The nodes share the folder of results with the machine on which the sweep was started. The sweep gives each
task of the array its share of the trials, looks for results in the folder, and asks squeue which tasks are
left. At its end it cancels what is left.
"""

import fcntl
import os
import random
import re
import secrets
import shutil
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

import click

from makeway.adapters.command import CommandRunner
from makeway.adapters.protocol import AdapterError
from makeway.daemon.errors import UserError, counted, printable
from makeway.simharness.papers.common.cache import ResultCache
from makeway.simharness.run.workers import Failure
from makeway.simharness.sweep.slurm_environment import asking, submitting
from makeway.simharness.sweep.slurm_task import ArrayTask

if TYPE_CHECKING:
    from submitit.core.core import Job

TASKS = 100
"""How many tasks an array has at most, unless the user says how many."""
USUAL: Mapping[str, str | bool] = {
    "comment": "makeway:submitit",  # makeway's sample class of jobs that save and requeue themselves
    "cpus-per-task": "1",
    "time": "60",
}
"""The options of sbatch that hold unless the user gives others."""
_OURS = frozenset(
    {"array", "chdir", "clusters", "error", "input", "job-name", "nodes", "no-requeue", "ntasks"}
    | {"ntasks-per-node", "open-mode", "output", "parsable", "requeue", "signal", "wait", "wrap"}
)
"""The options of sbatch with which a sweep does not work, or that it gives itself."""
_OPTION = re.compile(r"(?:--)?([a-z][a-z0-9-]+)(?:=([^\n]+))?")
_SIGNAL_S = 90
"""How long before its time limit a task is signalled, in seconds."""
_TIMEOUTS = 1_000_000
"""How often submitit requeues a task whose time is over; a task ends of itself, see `INTERRUPTIONS`."""
LOOK_S = 1.0
"""How often the sweep looks for results, in seconds; less often where that takes long."""
_RESTS = 20.0
"""How many times longer than a look the pause after it is at least."""
ASK_S = 5.0
"""How often it asks which tasks are left, in seconds."""
LATE_S = 10.0
"""How long a result is waited for after its task has ended, in seconds."""
_QUEUE = ("squeue", "--noheader", "--all")
"""Asks for jobs that are not over, in hidden partitions too. One that is completing may wait again."""
_NAME_FILE = "name"

TrialT = TypeVar("TrialT")
ResultT = TypeVar("ResultT")


def sbatch_options(given: Sequence[str]) -> dict[str, str | bool]:
    """The options of sbatch for the tasks: the usual ones, and what the user gives as NAME=VALUE or NAME.

    Raises:
        UserError: one is no option, or does not go with a sweep.
    """
    options = dict(USUAL)
    for one in given:
        match = _OPTION.fullmatch(one)
        if match is None:
            raise UserError(
                f"--sbatch {printable(one)}: no option of sbatch; accepted: a long name, with = and its "
                "value if it has one, such as partition=short"
            )
        name, value = match.groups()
        if name in _OURS:
            raise UserError(f"--sbatch {printable(one)}: does not go with a sweep; accepted: other options")
        options[name] = True if value is None else value
    return options


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """One task of the array and the places of its trials."""

    job: "Job[dict[int, Failure]]"
    places: tuple[int, ...]

    @property
    def job_id(self) -> str:
        """As squeue calls it: `12_3`, or `12` if it is the only one."""
        return self.job.job_id


@dataclass(slots=True, kw_only=True)
class SlurmArray:
    """The array of one sweep."""

    folder: Path
    """For what submitit stores, and for the logs."""
    tasks: int
    options: Mapping[str, str | bool]
    runner: CommandRunner = field(default_factory=lambda: CommandRunner(environment=asking(), timeout_s=60.0))
    name: str = field(default_factory=lambda: f"makeway-sweep-{secrets.token_hex(4)}")
    """The name of the job: no other array has it."""
    _begun: bool = False
    """Whether the folder is this array's, and the array may be there."""
    _over: bool = False
    """Whether all tasks have ended of themselves."""
    _failed: bool = False

    def _begin(self) -> None:
        """Make the folder. The array's name is there before the array, so that no array is forgotten.

        Raises `UserError` as `spread`.
        """
        where = printable(str(self.folder))
        if "%" in str(self.folder):
            raise UserError(
                f"--cells {where}: Slurm replaces % in names of files; accepted: a path without it"
            )
        earlier = self._named()
        found = self._asked(*_QUEUE, "--format=%A", f"--name={earlier or self.name}")
        if earlier and (job_id := found.partition("\n")[0].strip()):
            raise UserError(
                f"--cells {where}: job {job_id} of an earlier sweep computes these cells; accepted: wait for "
                f"its end, or scancel {job_id}"
            )
        try:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir()
            (self.folder / _NAME_FILE).write_text(f"{self.name}\n", encoding="utf-8")
        except OSError as error:
            raise UserError(f"--cells {where}: cannot be written ({error.strerror})") from error
        self._begun = True

    def spread(
        self, work: Callable[[TrialT], ResultT], cache: ResultCache, trials: Sequence[TrialT]
    ) -> Iterator[tuple[int, ResultT | Failure]]:
        """The result of each trial, or its failure, with the trial's place: each as soon as it is there.
        Results are in the cache then.

        Raises:
            UserError: the folder cannot be used, an array of an earlier sweep is still there, or Slurm does
                not answer or refuses the array.
        """
        if not trials:
            return
        kept = cache.of(work)
        names = {kept.path(trial).name: place for place, trial in enumerate(trials)}
        with _in_turn(self.folder):  # until the array is there, another sweep would not see it
            self._begin()
            for name in names.keys() & _listed(kept.directory):
                (kept.directory / name).unlink(missing_ok=True)  # damaged
            tasks = self._submitted(work, cache, trials)
        missing, ended, asked_s = set(range(len(trials))), dict[str, float](), time.monotonic()
        left: frozenset[str] | None = None
        look_s = LOOK_S
        while missing:
            time.sleep(look_s)
            if time.monotonic() - asked_s >= ASK_S:
                left, asked_s = self._left(tasks[0].job_id), time.monotonic()
            began_s = time.monotonic()
            listed = _listed(kept.directory)
            look_s = max(LOOK_S, _RESTS * (time.monotonic() - began_s))
            for name in names.keys() & listed:
                if (found := kept.get(trials[place := names.pop(name)])) is not None:
                    missing.discard(place)
                    yield place, found[0]
            for task in tasks:
                open_yet = missing.intersection(task.places)
                if not open_yet or not _has_ended(task, left):
                    ended.pop(task.job_id, None)
                    continue
                since_s = ended.setdefault(task.job_id, time.monotonic())
                for place, failure in _failures(task, open_yet, late=time.monotonic() - since_s >= LATE_S):
                    self._failed = True
                    missing.discard(place)
                    yield place, failure
        self._over = _ended(tasks)

    def end(self) -> None:
        """Cancel what is left of the array. The logs are kept if a trial failed."""
        if not self._begun:
            return
        if not self._over:
            try:
                self._asked("scancel", f"--name={self.name}", f"--user={os.getuid()}")
            except UserError as error:
                click.echo(
                    f"makeway: warning: {error}; to end the tasks: scancel --name={self.name}", err=True
                )
                return
        with _in_turn(self.folder):
            if self._named() != self.name:
                return  # no task was left: another sweep has begun
            with suppress(OSError):
                (self.folder / _NAME_FILE).unlink()
            if not self._failed:
                shutil.rmtree(self.folder, ignore_errors=True)

    def _named(self) -> str:
        """The name of the array whose folder it is. Empty: it is none's."""
        try:
            return (self.folder / _NAME_FILE).read_text(encoding="utf-8").strip()
        except OSError:
            return ""

    def _submitted(
        self, work: Callable[[TrialT], ResultT], cache: ResultCache, trials: Sequence[TrialT]
    ) -> list[_Task]:
        """Submit the array. The trials are mixed, so that no task gets the slowest policy alone."""
        from submitit import SlurmExecutor
        from submitit.core.utils import FailedJobError, FailedSubmissionError

        count = min(self.tasks, len(trials))
        order = list(range(len(trials)))
        random.Random(0).shuffle(order)
        shares = [tuple(sorted(order[first::count])) for first in range(count)]
        executor = SlurmExecutor(self.folder, max_num_timeout=_TIMEOUTS)
        executor.update_parameters(
            job_name=self.name,
            nodes=1,
            ntasks_per_node=1,
            signal_delay_s=_SIGNAL_S,
            array_parallelism=count,
            wckey=None,
            additional_parameters={**self.options, "requeue": True},
        )
        try:
            # The error says what sbatch prints, too.
            with submitting(_OURS | self.options.keys()), redirect_stderr(StringIO()), executor.batch():
                jobs = [
                    executor.submit(ArrayTask(work, cache, {place: trials[place] for place in share}))
                    for share in shares
                ]
        except (FailedJobError, FailedSubmissionError) as error:
            # The last line, unless that is a hint: `Try "sbatch --help" for more information`.
            lines = [line for line in str(error).strip().splitlines() if not line.startswith("Try ")]
            words = lines[-1:] or ["no reason given"]
            raise UserError(
                f"--slurm: sbatch refuses {counted(count, 'task')}: {printable(words[0])}; accepted: other "
                "--sbatch options, or fewer --jobs"
            ) from error
        tasks = [_Task(job=job, places=share) for job, share in zip(jobs, shares, strict=True)]
        job_id = tasks[0].job_id.partition("_")[0]
        click.echo(f"makeway: job {job_id}, {counted(count, 'task')}; logs in {self.folder}", err=True)
        return tasks

    def _left(self, job_id: str) -> frozenset[str] | None:
        """The tasks that are not over, as squeue calls them. None: Slurm does not tell."""
        array = job_id.partition("_")[0]
        try:
            return frozenset(self._asked(*_QUEUE, "--array", "--format=%i", f"--jobs={array}").split())
        except UserError as error:
            return frozenset() if "invalid job id" in str(error).lower() else None

    def _asked(self, *argv: str) -> str:
        """The answer of a command of Slurm. Raises `UserError` if it gives none."""
        try:
            done = self.runner.run(argv)
        except AdapterError as error:
            raise UserError(f"--slurm: {argv[0]}: {error}") from error
        if done.returncode != 0:
            raise UserError(f"--slurm: {argv[0]}: {printable(done.words)}")
        return done.stdout


@contextmanager
def _in_turn(folder: Path) -> Generator[None]:
    """Sweeps with this folder run this block one after another, where the file system has locks."""
    try:
        lock = os.open(folder.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:  # `_begin` says so if nothing can be written there
        yield
        return
    try:
        with suppress(OSError):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                where = printable(str(folder.parent))
                click.echo(f"makeway: another sweep on {where} begins or ends: waiting for it", err=True)
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _listed(folder: Path) -> frozenset[str]:
    """The names in a folder; nothing if there is none."""
    try:
        os.utime(folder)  # else NFS shows what it has shown before, for up to a minute
        return frozenset(os.listdir(folder))
    except FileNotFoundError:
        return frozenset()


def _ended(tasks: Sequence[_Task]) -> bool:
    """Wait for the ends of tasks whose trials are all finished. Returns whether they have come."""
    limit_s = time.monotonic() + LATE_S
    while not (ended := all(task.job.paths.result_pickle.exists() for task in tasks)):
        if time.monotonic() >= limit_s:
            break
        time.sleep(0.1)
    return ended


def _has_ended(task: _Task, left: frozenset[str] | None) -> bool:
    """Whether a task is over. `left`: see `SlurmArray._left`."""
    return task.job.paths.result_pickle.exists() or (left is not None and task.job_id not in left)


def _failures(task: _Task, open_yet: set[int], *, late: bool) -> Iterator[tuple[int, Failure]]:
    """What failed of a task that has ended. `open_yet`: the trials without a result; `late`: whether there
    will be none any more.
    """
    told: Mapping[int, Failure] = {}
    why = "its task has ended without a result"
    if task.job.paths.result_pickle.exists():
        try:
            told = task.job.result()
            why = f"{why}; accepted: a folder that the nodes share with this machine, with the same makeway"
        except Exception as error:  # noqa: BLE001 - whatever came from the node, it is what failed
            why = str(error).strip("-\n ").splitlines()[-1]
            late = True
    elif late:
        why = f"{why}{_last_words(task.job.paths.stderr)}"
    for place in sorted(open_yet):
        if place in told:
            yield place, told[place]
        elif late:
            yield place, Failure(f"task {task.job_id}: {why}")


def _last_words(log: Path) -> str:
    """The last line of a log, if possible one of the program and not of srun, and where the log is."""
    try:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        return f" and without a log ({log})"
    own = [line for line in lines if not line.startswith("srun: ")] or lines
    return f": {own[-1]} ({log})" if own else f" ({log} is empty)"


@contextmanager
def slurm_array(folder: Path, tasks: int, options: Mapping[str, str | bool]) -> Generator[SlurmArray]:
    """An array for one sweep, which ends with the block, also at the end of the session.

    `folder`: for what submitit stores. `tasks`: how many there are at most. `options`: see `sbatch_options`.

    Raises:
        UserError: submitit or a command of Slurm is not there.
    """
    if find_spec("submitit") is None:
        raise UserError("--slurm needs submitit: pip install 'makeway[sweep]'")
    missing = next((name for name in ("sbatch", "squeue", "scancel", "srun") if not shutil.which(name)), None)
    if missing is not None:
        raise UserError(
            f"--slurm: there is no {missing} in PATH; accepted: a machine that submits to a Slurm"
        )
    array = SlurmArray(folder=folder.absolute(), tasks=tasks, options=options)
    with _hangup_interrupts():
        try:
            yield array
        finally:
            array.end()


@contextmanager
def _hangup_interrupts() -> Generator[None]:
    """The end of the session (SIGHUP) counts as Ctrl-C, unless it is ignored, as under nohup."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGHUP)
    if threading.current_thread() is not threading.main_thread() or before is signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGHUP, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)
