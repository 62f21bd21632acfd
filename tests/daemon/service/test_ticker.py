"""Calls at intervals and on demand: never two at a time, never one forgotten. Nothing here waits for
a clock.
"""

import threading
import time
from collections.abc import Callable

import pytest

from makeway.daemon.service.pacing import Pace
from makeway.daemon.service.ticker import CycleResult, Ticker
from tests.waiting import limit_s

SELDOM = Pace(poll_interval_s=3600.0, poke_gap_s=0.0, backoff_max_s=3600.0)
"""Nothing happens unless it is asked for."""
OFTEN = Pace(poll_interval_s=0.1, poke_gap_s=0.0, backoff_max_s=1.0)


class Calls:
    """What is called: it tells when it begins, and goes on when it may."""

    def __init__(self, answer: Callable[[int], CycleResult] = lambda _: CycleResult()) -> None:
        self.answer = answer
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)
        self.count = 0
        self.at_once = 0
        self.threads: set[int] = set()

    def __call__(self) -> CycleResult:
        self.at_once += 1
        assert self.at_once == 1
        self.count += 1
        self.threads.add(threading.get_ident())
        self.begun.release()
        assert self.may_end.acquire(timeout=limit_s())
        self.at_once -= 1
        return self.answer(self.count)

    def await_begin(self) -> None:
        assert self.begun.acquire(timeout=limit_s()), "no call began"


def test_the_first_call_comes_at_once() -> None:
    calls = Calls()
    with Ticker(calls, lambda: SELDOM).running():
        calls.await_begin()
        calls.may_end.release()
    assert calls.count == 1


def test_calls_repeat_in_one_thread() -> None:
    calls = Calls()
    with Ticker(calls, lambda: OFTEN).running():
        for _ in range(3):
            calls.await_begin()
            calls.may_end.release()
        calls.may_end.release(1000)
    assert len(calls.threads) == 1


def test_a_request_between_calls_is_answered() -> None:
    calls = Calls()
    calls.may_end.release(1000)
    ticker = Ticker(calls, lambda: SELDOM)
    with ticker.running():
        calls.await_begin()
        for _ in range(20):
            ticker.request()
            calls.await_begin()
    assert calls.count >= 21


def test_a_request_during_a_call_is_not_lost_and_many_share_one() -> None:
    calls = Calls()
    ticker = Ticker(calls, lambda: SELDOM)
    with ticker.running():
        calls.await_begin()
        for _ in range(50):
            ticker.request()
        calls.may_end.release()
        calls.await_begin()
        calls.may_end.release()
    assert calls.count == 2


def test_requests_from_many_threads_are_all_followed_by_a_call() -> None:
    calls = Calls()
    calls.may_end.release(100_000)
    ticker = Ticker(calls, lambda: SELDOM)

    def ask() -> None:
        for _ in range(25):
            ticker.request()

    with ticker.running():
        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        before = calls.count
        ticker.request()
        while calls.count == before:
            calls.await_begin()


def test_a_wish_for_another_is_granted_without_a_request() -> None:
    calls = Calls(lambda count: CycleResult(again=count < 4))
    calls.may_end.release(1000)
    with Ticker(calls, lambda: SELDOM).running():
        for _ in range(4):
            calls.await_begin()
    assert calls.count == 4


def test_a_deadline_brings_the_next_call_forward() -> None:
    calls = Calls(lambda count: CycleResult(due_in_s=0.01 if count == 1 else None))
    calls.may_end.release(1000)
    with Ticker(calls, lambda: SELDOM).running():
        calls.await_begin()
        calls.await_begin()
    assert calls.count == 2


def test_after_a_failure_only_at_once_is_at_once() -> None:
    calls = Calls(lambda count: CycleResult(failures=count))
    ticker = Ticker(calls, lambda: SELDOM)
    with ticker.running():
        calls.await_begin()
        ticker.request()
        calls.may_end.release()
        ticker.request(at_once=True)
        calls.await_begin()
        calls.may_end.release()
    assert calls.count == 2


def test_what_is_called_may_even_raise(caplog: pytest.LogCaptureFixture) -> None:
    def answer(count: int) -> CycleResult:
        if count == 1:
            raise RuntimeError("a defect")
        return CycleResult()

    calls = Calls(answer)
    calls.may_end.release(1000)
    ticker = Ticker(calls, lambda: OFTEN)
    with ticker.running():
        calls.await_begin()
        calls.await_begin()
    assert "a defect" in caplog.text


def test_the_end_waits_for_the_present_call_and_begins_no_other() -> None:
    calls = Calls()
    ticker = Ticker(calls, lambda: SELDOM)
    with ticker.running():
        calls.await_begin()
        ticker.request()
        threading.Timer(0.05, calls.may_end.release).start()
    assert calls.count == 1
    assert calls.at_once == 0
    ticker.request()


def test_a_call_that_hangs_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 1000.0
    monkeypatch.setattr("makeway.daemon.service.ticker.time.monotonic", lambda: now_s)
    calls = Calls()
    ticker = Ticker(calls, lambda: SELDOM)
    with monkeypatch.context(), ticker.running():
        calls.await_begin()
        assert ticker.is_on_time(300.0)
        now_s += 299.0
        assert ticker.is_on_time(300.0)
        now_s += 2.0
        assert not ticker.is_on_time(300.0)
        calls.may_end.release()


def test_a_call_that_does_not_come_is_noticed_and_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after the wall clock, by which APScheduler goes, was set back."""
    calls = Calls()
    calls.may_end.release(1000)
    ticker = Ticker(calls, lambda: SELDOM)
    with ticker.running():
        calls.await_begin()
        clock, ahead_s, on_time = time.monotonic, 0.0, True
        with monkeypatch.context() as patch:
            patch.setattr("makeway.daemon.service.ticker.time.monotonic", lambda: clock() + ahead_s)
            # The first call may end at any moment, and the next one is then due by the clock as it is then.
            while not calls.begun.acquire(timeout=0.1):
                ahead_s += 10_000.0
                on_time = ticker.is_on_time(300.0) and on_time
    assert not on_time
    assert calls.count >= 2


def test_housekeeping_does_not_wait_for_a_long_call() -> None:
    calls = Calls()
    done = threading.Event()
    with Ticker(calls, lambda: SELDOM, done.set).running():
        calls.await_begin()
        assert done.wait(limit_s())
        assert calls.at_once == 1
        calls.may_end.release()
