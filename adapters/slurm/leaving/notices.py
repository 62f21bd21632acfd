"""A line in the output of a job that has to leave: who asks it, for which job, and by when.

`scontrol notify` writes it to the standard error of the batch script, whatever the script does. A thread of
its own sends it: no command waits for it, and none fails because of it. A job that is requeued at once may be
gone before its line arrives.

Reference: 22.05, 24.11 as tried. The line begins with `slurmstepd-NODE: error:`. For a task of an array,
    `scontrol notify 9_1` writes to job 9, which is another task: its own number is looked up. Root may do
    it; users without a level only to their own jobs ("Invalid user id").
"""

import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from makeway.adapters.hostlist import fold
from makeway.adapters.protocol import AdapterError
from makeway.adapters.site.text import printable
from makeway.adapters.slurm import build
from makeway.adapters.slurm.access import SlurmClient, new_token
from makeway.adapters.slurm.errors import forbidden
from makeway.policies.model import Action, Cancel, Checkpoint, Method, Requeue, RunIdentity, Shrink

_MOST_WAITING = 1000
"""So many lines may wait to be sent; more are dropped."""
_MOST_TOLD = 10_000
_CLOSE_S = 1.0


class LeaveNotices:
    """Tells jobs why they have to leave, each once for each command.

    Args:
        client: what runs the commands. Its runner is used by a thread of this object.
        now: the time, in POSIX seconds.
    """

    def __init__(self, client: SlurmClient, now: Callable[[], float]) -> None:
        self._client = client
        self._now = now
        self._waiting: queue.Queue[tuple[str, str] | None] = queue.Queue(_MOST_WAITING)
        self._told: set[tuple[str, str, str, RunIdentity | None]] = set()
        self._thread: threading.Thread | None = None
        self._denied = False

    def tell(self, action: Action) -> None:
        """Have the action's job told, if the action makes it leave. Returns at once, and raises nothing."""
        text = text_of(action, self._now())
        if text is None or self._denied or not isinstance(action, Checkpoint | Requeue | Cancel | Shrink):
            return
        key = (action.verb, action.job_id, action.for_job_id, action.run)
        if key in self._told:
            return
        if len(self._told) >= _MOST_TOLD:
            self._told.clear()
        self._told.add(key)
        if self._thread is None:
            self._thread = threading.Thread(target=self._send_all, name="leave-notices", daemon=True)
            self._thread.start()
        with suppress(queue.Full):
            self._waiting.put_nowait((action.job_id, text))

    def close(self) -> None:
        """Send what waits, for a second at the most."""
        if self._thread is not None:
            with suppress(queue.Full):
                self._waiting.put_nowait(None)
            self._thread.join(_CLOSE_S)

    def _send_all(self) -> None:
        while (notice := self._waiting.get()) is not None:
            with suppress(AdapterError):
                self._send(*notice)

    def _send(self, job_id: str, text: str) -> None:
        number = job_id if job_id.isdecimal() else self._number_of(job_id)
        if number is None or self._denied or not self._client.may_change:
            return
        done = self._client.run(notify(number, text))
        self._denied = forbidden(done)

    def _number_of(self, job_id: str) -> str | None:
        """The number of an array task. None: it is over."""
        token = new_token()
        environment = build.squeue_environment(("JobArrayID", "JobID"), token)
        done = self._client.run(build.squeue(job_id), environment=environment)
        cells = [cell.strip() for cell in done.stdout.split(token)]
        rows = zip(cells[::2], cells[1::2], strict=False)
        return next((number for task, number in rows if task == job_id and number.isdecimal()), None)


def notify(number: str, text: str) -> tuple[str, ...]:
    """Write a line to the standard error of a batch script, by the job's own number."""
    return ("scontrol", "notify", number, text)


def text_of(action: Action, now_s: float) -> str | None:
    """What the job of an action is told, in one line. None: nothing.

    A job that is requeued after it was asked to save has been told then.
    """
    who = f"makeway (policy {printable(action.policy)})"
    urgent = f"job {printable(action.for_job_id)}"
    match action:
        case Checkpoint():
            by = datetime.fromtimestamp(now_s + action.grace_s, UTC)
            return (
                f"{who} asks this job by signal {action.signal} to save its work and leave for {urgent}, by "
                f"{by:%Y-%m-%d %H:%M:%S} UTC at the latest"
            )
        case Requeue():
            told = action.puts_back or action.method is Method.SYSTEM
            return None if told else f"{who} requeues this job now for {urgent}"
        case Cancel():
            return None if action.method is Method.SYSTEM else f"{who} ends this job now for {urgent}"
        case Shrink():
            return f"{who} takes nodes from this job now for {urgent}; it keeps {fold(action.keep_nodes)}"
        case _:
            return None
