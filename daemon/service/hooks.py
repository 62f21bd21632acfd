"""A site's own commands at events: a job was evicted or runs again, an urgent job started or was given up.

The cycle only puts events into a queue of limited length. One thread runs the commands, one after another,
each for a limited time, and without a shell: what happened is in environment variables, never in the
arguments.
"""

import queue
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from structlog.typing import FilteringBoundLogger

from makeway.adapters.command import CommandRunner, Runner
from makeway.adapters.protocol import AdapterError
from makeway.daemon.config.schema import HookSettings
from makeway.daemon.control.report import CycleReport
from makeway.daemon.journal.command_log import Outcome
from makeway.policies.model import Cancel, OperationOutcome, Requeue

QUEUE_LIMIT = 200
"""Events that wait for their commands; more are dropped and logged."""
OUTPUT_LIMIT_BYTES = 1 << 16
STOP_S = 2.0
"""How long the end of the daemon waits for the commands that are left."""


class HookKind(StrEnum):
    """What happened; the value is the key in the configuration and MAKEWAY_EVENT."""

    EVICTED = "evicted"  # the cluster accepted to requeue or cancel the job
    RESUMED = "resumed"  # an evicted job runs again
    URGENT_STARTED = "urgent_started"  # an urgent job that makeway served was seen to start
    GIVEN_UP = "given_up"  # an urgent job that makeway served has ended, or did not start in time


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent:
    """One event of one cycle."""

    kind: HookKind
    job_id: str
    for_job_id: str
    """The urgent job for which a job was evicted. Empty: the event is about `job_id` alone."""
    policy: str
    at_s: float

    def variables(self) -> Mapping[str, str]:
        """The environment of the command."""
        return {
            "MAKEWAY_EVENT": self.kind.value,
            "MAKEWAY_JOB_ID": self.job_id,
            "MAKEWAY_FOR_JOB_ID": self.for_job_id,
            "MAKEWAY_POLICY": self.policy,
            "MAKEWAY_AT": f"{self.at_s:.0f}",
        }


def events_of(report: CycleReport, policy: str) -> tuple[HookEvent, ...]:
    """What a cycle reports that hooks are for. Observe mode has no events: nothing happened."""

    def event(kind: HookKind, job_id: str, for_job_id: str = "") -> HookEvent:
        return HookEvent(kind=kind, job_id=job_id, for_job_id=for_job_id, policy=policy, at_s=report.at_s)

    evicted = [
        event(HookKind.EVICTED, one.action.job_id, one.action.for_job_id)
        for one in report.actions
        if isinstance(one.action, Requeue | Cancel) and one.outcome is Outcome.ACCEPTED
    ]
    given_up = [
        event(HookKind.GIVEN_UP, one.for_job_id)
        for one in report.closed
        if one.kind.serves_urgent_job
        and not one.observe
        and one.started_s is None
        and one.outcome is OperationOutcome.NOT_STARTED
    ]
    return (
        *evicted,
        *(event(HookKind.RESUMED, job_id) for job_id in report.resumed),
        *(event(HookKind.URGENT_STARTED, job_id) for job_id in report.served),
        *given_up,
    )


class Hooks:
    """Runs the commands of the configuration.

    Args:
        settings: which events have a command.
        log: the service's log.
        runner: what runs the commands. None: a `CommandRunner`.
    """

    def __init__(
        self, settings: HookSettings, log: FilteringBoundLogger, *, runner: Runner | None = None
    ) -> None:
        self._settings = settings
        self._log = log
        self._runner = CommandRunner(output_limit_bytes=OUTPUT_LIMIT_BYTES) if runner is None else runner
        self._waiting: queue.Queue[HookEvent | None] = queue.Queue(QUEUE_LIMIT)

    def configure(self, settings: HookSettings) -> None:
        """Use other commands for events from now on."""
        self._settings = settings

    def add(self, report: CycleReport, policy: str) -> None:
        """Queue the events of a cycle. Never waits."""
        if not self._settings.wanted:
            return
        for event in events_of(report, policy):
            if event.kind.value not in self._settings.wanted:
                continue
            try:
                self._waiting.put_nowait(event)
            except queue.Full:
                self._log.warning("a hook was dropped: too many wait", hook=event.kind, job_id=event.job_id)

    @contextmanager
    def running(self) -> Generator[None]:
        """Run the commands until the block ends."""
        thread = threading.Thread(target=self._run, name="hooks", daemon=True)
        thread.start()
        try:
            yield
        finally:
            try:
                self._waiting.put(None, timeout=STOP_S)
            except queue.Full:
                self._log.warning("hooks were dropped at the end", waiting=self._waiting.qsize())
            thread.join(STOP_S)

    def _run(self) -> None:
        while (event := self._waiting.get()) is not None:
            self._call(event)

    def _call(self, event: HookEvent) -> None:
        settings = self._settings
        command = settings.wanted.get(event.kind.value)
        if command is None:
            return
        try:
            done = self._runner.run(command, timeout_s=settings.timeout_s, environment=event.variables())
        except (AdapterError, ValueError, OSError) as error:
            self._log.warning("a hook failed", hook=event.kind, job_id=event.job_id, problem=str(error))
            return
        if done.returncode != 0:
            self._log.warning(
                "a hook failed",
                hook=event.kind,
                job_id=event.job_id,
                status=done.returncode,
                said=done.words[:200],
            )
