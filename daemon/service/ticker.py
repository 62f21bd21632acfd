"""Runs one function again and again: at intervals, at once when asked, never twice at a time, never forgotten.

APScheduler keeps the time. One thread makes all the calls; whoever asks for one only moves the next due time.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from makeway.daemon.service.pacing import Pace

LATE_S = 5.0
"""A call that is so late is asked for anew: APScheduler goes by the wall clock, which may have been set back."""

ASIDE_S = 300.0
"""How often that is done which has time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """How one call went."""

    failures: int = 0
    """Calls in a row that failed, this one included."""
    again: bool = False
    """Whether another is wanted at once."""
    due_in_s: float | None = None
    """When another is wanted at the latest. None: no such instant."""


class Ticker:
    """Makes the calls.

    Args:
        run: what is called. It should not raise; if it does, that counts as a call that failed.
        pace: asked after every call for the present settings.
        aside: called in a thread of its own at the start and every `ASIDE_S` seconds; must not raise. None: nothing is.
    """

    def __init__(
        self, run: Callable[[], Turn], pace: Callable[[], Pace], aside: Callable[[], None] | None = None
    ) -> None:
        self._run = run
        self._pace = pace
        self._aside = aside
        logging.getLogger("apscheduler").setLevel(logging.ERROR)
        self._scheduler = BackgroundScheduler(
            executors={"default": ThreadPoolExecutor(1), "aside": ThreadPoolExecutor(1)}, timezone=UTC
        )
        # Guards everything below. It may be held while APScheduler's own locks are taken, never the other way round:
        # nothing of ours is called by the thread that keeps the time. All times are of the monotonic clock.
        self._lock = threading.Lock()
        self._running = False
        self._asked = False
        self._at_once = False
        self._stopping = False
        self._failures = 0
        self._repeats = 0
        self._began_s = 0.0
        self._ended_s = float("-inf")
        self._due_s = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Make calls, the first at once, until the block ends; the present one is finished."""
        self._due_s = time.monotonic()
        # Two instances and one thread: the next call may be handed over while this one is about to return, and waits
        # for it. With one instance it would be dropped.
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
        if self._aside is not None:
            self._scheduler.add_job(
                self._aside,
                "interval",
                seconds=ASIDE_S,
                next_run_time=datetime.now(UTC),
                id="aside",
                executor="aside",
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

    def ask(self, *, at_once: bool = False) -> None:
        """Have a call begin as soon as it may: after the present one, if there is one. Several asks may share a call.

        Args:
            at_once: do not keep the gap between two calls either.
        """
        with self._lock:
            self._asked = True
            self._at_once = self._at_once or at_once
            if self._running:
                return
            now_s = time.monotonic()
            gap_s = 0.0 if self._at_once else self._pace().gap_s(self._failures)
            at_s = max(now_s, self._ended_s + gap_s)
            if self._due_s <= now_s or at_s < self._due_s:
                self._begin_in(at_s - now_s)

    def going(self, limit_s: float) -> bool:
        """Whether no call is overdue, or takes longer than, `limit_s`."""
        now_s = time.monotonic()
        with self._lock:
            running = self._running
            late_s = now_s - (self._began_s if running else self._due_s)
        if not running and late_s > LATE_S:
            self.ask(at_once=True)
        return late_s <= limit_s

    def _call(self) -> None:
        with self._lock:
            if self._stopping:
                return
            self._running, self._asked, self._at_once = True, False, False
            self._began_s = time.monotonic()
            self._scheduler.pause_job("call")
        turn = Turn(failures=self._failures + 1)
        try:
            turn = self._run()
        finally:
            self._end(turn)

    def _end(self, turn: Turn) -> None:
        """A call is over: decide when the next one begins."""
        with self._lock:
            self._failures = turn.failures
            self._repeats = self._repeats + 1 if turn.again else 0
            self._running, self._ended_s = False, time.monotonic()
            delay_s = self._pace().delay_s(
                failures=turn.failures,
                again=turn.again,
                repeats=self._repeats,
                poked=self._asked,
                due_in_s=turn.due_in_s,
            )
            self._begin_in(0.0 if self._at_once else delay_s)

    def _begin_in(self, delay_s: float) -> None:
        """Set when the next call begins. The lock is held."""
        if self._stopping or not self._scheduler.running:
            return
        self._due_s = time.monotonic() + delay_s
        self._scheduler.modify_job("call", next_run_time=datetime.now(UTC) + timedelta(seconds=delay_s))
