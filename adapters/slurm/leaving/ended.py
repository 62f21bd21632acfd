"""A job that makeway's signal ended is put back into the queue.

A job whose class says that it saves at the signal, and that has no handler for it, dies of the signal: Slurm
takes that for the job's own end, FAILED. The same holds for a script that ends because its step did. A job
that ends by itself with success, as some save and leave, is over.

Some jobs save at the signal and requeue themselves. A slurmctld that is killed right after that forgets the
requeue, although the node has ended the script by SIGTERM. Slurm takes that for the job's own end, too. The
same holds for makeway's own requeue.

A job that ends, or is cancelled, just before makeway's requeue is over: `scontrol requeue Incomplete` then
has no effect, and says nothing. A requeue counts the next run at once, so that a look afterwards tells
(22.05, 24.11 and 26.05 as tried).

Reference: 22.05, 24.11 as tried. squeue prints the wait status on 22.05 (`10`, `35328`), and the exit code
    and the signal on 24.11 (`0:10`, `138:0`). `scontrol requeue` takes a job that has ended until Slurm
    forgets it (MinJobAge).
"""

from dataclasses import dataclass
from signal import Signals

from makeway.adapters.protocol import AdapterError, Gone, Rejected, Unavailable, Unreadable
from makeway.adapters.slurm import build
from makeway.adapters.slurm.access import SlurmClient, new_token
from makeway.adapters.slurm.errors import refusal
from makeway.adapters.slurm.leaving.taken import TakenWords
from makeway.adapters.slurm.parse import RawJob
from makeway.policies.model import Requeue

_FIELDS = ("JobArrayID", "State", "RestartCnt", "StartTime", "exit_code")
_BY_REQUEUE = (0, Signals.SIGTERM.value)
"""The exit code and the signal of a script that a requeue has ended."""
_SHELL_ADDS = 128
"""A shell reports a program that a signal has ended by this exit code plus the signal's number."""
_KILLS = frozenset({Signals.SIGTERM.value, Signals.SIGKILL.value})
"""The signals by which a requeue ends a script: the second one if it goes on after the first."""
_OWN_ENDS = frozenset({"CANCELLED", "COMPLETED", "DEADLINE", "OUT_OF_MEMORY", "TIMEOUT"})
"""The states of a job that no requeue has ended, not even one that a slurmctld has forgotten."""
_BY_STATUS = frozenset({"COMPLETING", "FAILED"})
"""The states of a job that a requeue has ended if its exit status says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """The present or the last run of a job."""

    job_id: str
    state: str
    restarts: int
    start_s: float | None
    exit_code: int
    exit_signal: int

    def was_ended_by(self, signal: str) -> bool:
        """Whether the run failed, and its exit status is that signal's, or that of a forgotten requeue."""
        number = _number(signal)
        status = (self.exit_code, self.exit_signal)
        return self.state == "FAILED" and status in {(0, number), (_SHELL_ADDS + number, 0), _BY_REQUEUE}

    def has_own_end(self) -> bool:
        """Whether the run has ended, or ends, and certainly no requeue has ended it."""
        killed = (self.exit_signal or self.exit_code - _SHELL_ADDS) in _KILLS
        return self.state in _OWN_ENDS or (self.state in _BY_STATUS and not killed)


def check_requeued(client: SlurmClient, before: RawJob) -> None:
    """Look whether a requeue that Slurm has accepted had an effect. `before`: the job just before it.

    Raises:
        Gone: the job had ended, or was cancelled.
    """
    try:
        run = _last_run(client, before.job_id)
    except AdapterError:
        return  # nothing speaks against what Slurm has said
    if run.restarts == before.restarts and run.has_own_end():
        raise Gone(f"job {before.job_id} has ended before its requeue: {run.state}")


def put_back(client: SlurmClient, taken: TakenWords, action: Requeue, signal: str) -> None:
    """Put the job back into the queue if the signal has ended the run that the action names.

    Raises:
        Gone: the run ended otherwise, the job is in another one, or Slurm has forgotten it.
        Rejected: the job is still completing; or Slurm's own refusal.
    """
    job_id = action.job_id
    run = _last_run(client, job_id)
    if action.run is not None and (
        run.restarts != action.run.requeue_count or action.run.start_s not in {None, run.start_s}
    ):
        raise Gone(f"job {job_id} has left the run that was signalled")
    if run.state == "COMPLETING":
        raise Rejected(f"job {job_id} is still completing", retryable=True)
    if not run.was_ended_by(signal):
        status = f"{run.exit_code}:{run.exit_signal}"
        raise Gone(f"job {job_id} was not ended by signal {signal}: {run.state}, exit status {status}")
    client.do(build.requeue_any(job_id))
    taken.owe_turn(action, run.restarts)


def last_runs(text: str, *, token: str, command: tuple[str, ...]) -> tuple[LastRun, ...]:
    """What squeue printed of `_FIELDS`, each followed by `token`. Raises `Unreadable` if it is not whole."""
    cells = [cell.strip() for cell in text.split(token)]
    rest = cells.pop()
    try:
        if rest or len(cells) % len(_FIELDS):
            raise ValueError("it breaks off")
        rows = (cells[first : first + len(_FIELDS)] for first in range(0, len(cells), len(_FIELDS)))
        return tuple(_last_run_of(row) for row in rows)
    except ValueError as error:
        raise Unreadable(f"squeue printed what cannot be read: {error}", command=command, text=text) from None


def _last_run(client: SlurmClient, job_id: str) -> LastRun:
    token = new_token()
    command = build.squeue(job_id, ended=True)
    try:
        done = client.run(command, environment=build.squeue_environment(_FIELDS, token))
    except Unavailable as silence:
        raise Unavailable(str(silence), sent=False) from silence
    if done.returncode != 0:
        raise refusal(done)
    for run in last_runs(done.stdout, token=token, command=command):
        if run.job_id == job_id:
            return run
    raise Gone(f"job {job_id} is over, and Slurm has forgotten how it ended")


def _last_run_of(row: list[str]) -> LastRun:
    job_id, state, restarts, start, status = row
    code, colon, number = status.partition(":")
    wait_status = 0 if colon else int(status)
    return LastRun(
        job_id=job_id,
        state=state,
        restarts=int(restarts),
        start_s=float(start) if start.isdecimal() else None,
        exit_code=int(code) if colon else wait_status >> 8,
        exit_signal=int(number) if colon else wait_status & 0x7F,
    )


def _number(signal: str) -> int:
    """The number of a signal such as `USR1` or `10`; -1 for one that this machine does not know."""
    if signal.isdecimal():
        return int(signal)
    name = f"SIG{signal.removeprefix('SIG')}"
    return Signals[name].value if name in Signals.__members__ else -1
