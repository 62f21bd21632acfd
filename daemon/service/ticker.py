"""Calls one function repeatedly: at intervals, and at once on request. Calls never overlap, and no request is
lost.

APScheduler keeps the time. One thread makes all the calls; a request only moves the time of the next one.
"""

import logging
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from makeway.daemon.service.pacing import Pace

LATE_S = 5.0
"""A call that is this late is requested again: APScheduler uses the wall clock, which may have been
set back.
"""

HOUSEKEEPING_S = 300.0
"""Interval of the housekeeping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleResult:
    """How one call went."""

    failures: int = 0
    """Consecutive calls that failed, this one included."""
    again: bool = False
    """Whether another call is wanted at once."""
    due_in_s: float | None = None
    """Seconds until another call is wanted at the latest. None: no limit."""


class Ticker:
    """Makes the calls.

    Args:
        run: the function to call. It should not raise; if it does, the call counts as failed.
        pace: gives the present settings; called after every call of `run`.
        housekeeping: called in a thread of its own at the start and every `HOUSEKEEPING_S` seconds; must not
            raise. None: there is none.
    """

    def __init__(
        self,
        run: Callable[[], CycleResult],
        pace: Callable[[], Pace],
        housekeeping: Callable[[], None] | None = None,
    ) -> None:
        self._run = run
        self._pace = pace
        self._housekeeping = housekeeping
        logging.getLogger("apscheduler").setLevel(logging.ERROR)
        self._scheduler = BackgroundScheduler(
            executors={"default": ThreadPoolExecutor(1), "housekeeping": ThreadPoolExecutor(1)},
            timezone=UTC,
        )
        # Guards everything below. It may be held while APScheduler's own locks are taken, never the other way
        # round: the thread that keeps the time calls nothing of makeway. All times are of the monotonic
        # clock.
        self._lock = threading.Lock()
        self._running = False
        self._requested = False
        self._at_once = False
        self._stopping = False
        self._failures = 0
        self._repeats = 0
        self._began_s = 0.0
        self._ended_s = float("-inf")
        self._due_s = 0.0

    @contextmanager
    def running(self) -> Generator[None]:
        """Make calls, the first at once, until the block ends. A call in progress is finished."""
        self._due_s = time.monotonic()
        # Two instances and one thread: the next call may be handed over while this one is about to return,
        # and waits for it. With one instance APScheduler would drop it.
        self._scheduler.add_job(
            self._call,
            "interval",
            seconds=self._pace().poll_interval_s,
            next_run_time=datetime.now(UTC),
            id="call",
            max_instances=2,
            coalesce=True,
            misfire_grace_time=None,
        )
        if self._housekeeping is not None:
            self._scheduler.add_job(
                self._housekeeping,
                "interval",
                seconds=HOUSEKEEPING_S,
                next_run_time=datetime.now(UTC),
                id="housekeeping",
                executor="housekeeping",
                coalesce=True,
                misfire_grace_time=None,
            )
        self._scheduler.start()
        try:
            yield
        finally:
            with self._lock:
                self._stopping = True
            self._scheduler.shutdown(wait=True)

    def request(self, *, at_once: bool = False) -> None:
        """Have a call begin as soon as the present one is over. Several requests may share a call.

        Args:
            at_once: do not wait for the gap between two calls either.
        """
        with self._lock:
            self._requested = True
            self._at_once = self._at_once or at_once
            if self._running:
                return
            now_s = time.monotonic()
            gap_s = 0.0 if self._at_once else self._pace().gap_s(self._failures)
            at_s = max(now_s, self._ended_s + gap_s)
            if self._due_s <= now_s or at_s < self._due_s:
                self._begin_in(at_s - now_s)

    def is_on_time(self, limit_s: float) -> bool:
        """Whether no call is overdue by more than `limit_s`, and none takes longer than that."""
        now_s = time.monotonic()
        with self._lock:
            running = self._running
            late_s = now_s - (self._began_s if running else self._due_s)
        if not running and late_s > LATE_S:
            self.request(at_once=True)
        return late_s <= limit_s

    def _call(self) -> None:
        with self._lock:
            if self._stopping:
                return
            self._running, self._requested, self._at_once = True, False, False
            self._began_s = time.monotonic()
            self._scheduler.pause_job("call")
        result = CycleResult(failures=self._failures + 1)
        try:
            result = self._run()
        finally:
            self._end(result)

    def _end(self, result: CycleResult) -> None:
        """Decide after a call when the next one begins."""
        with self._lock:
            self._failures = result.failures
            self._repeats = self._repeats + 1 if result.again else 0
            self._running, self._ended_s = False, time.monotonic()
            delay_s = self._pace().delay_s(
                failures=result.failures,
                again=result.again,
                repeats=self._repeats,
                poked=self._requested,
                due_in_s=result.due_in_s,
            )
            self._begin_in(0.0 if self._at_once else delay_s)

    def _begin_in(self, delay_s: float) -> None:
        """Set when the next call begins. The lock is held."""
        if self._stopping or not self._scheduler.running:
            return
        self._due_s = time.monotonic() + delay_s
        self._scheduler.modify_job("call", next_run_time=datetime.now(UTC) + timedelta(seconds=delay_s))
