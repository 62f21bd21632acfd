"""The processor time of P2's approaches: how it is measured, and how a budget ends a search."""

import gc
import itertools
import signal
import time

import pytest

from makeway.simharness.papers.p2.timing import cpu_budget, timed


def test_a_budget_lets_errors_and_quick_work_through() -> None:
    done = []
    with cpu_budget(1000.0):
        done.append("work")
    with pytest.raises(KeyError), cpu_budget(1000.0):
        raise KeyError
    assert done == ["work"]
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("durations_s", "calls", "elapsed_s"),
    [((0.001, 0.005, 0.002, 0.009, 0.003), 5, 0.003), ((0.02,), 1, 0.02)],
)
def test_a_short_call_is_timed_by_its_median(
    monkeypatch: pytest.MonkeyPatch, durations_s: tuple[float, ...], calls: int, elapsed_s: float
) -> None:
    edges = itertools.chain.from_iterable((float(i), i + took_s) for i, took_s in enumerate(durations_s))
    monkeypatch.setattr("time.thread_time", edges.__next__)
    made: list[int] = []

    def call() -> str:
        made.append(1)
        return "answer"

    answer, measured_s = timed(call)
    assert answer == "answer"
    assert measured_s == pytest.approx(elapsed_s)
    assert len(made) == calls


def test_a_budget_ends_work_that_leaves_much_garbage() -> None:
    """An exception that is raised while the collector runs a callback is lost."""
    within: list[bool] = []

    def slow(phase: str, info: dict[str, int]) -> None:
        within.append(signal.getitimer(signal.ITIMER_VIRTUAL)[0] > 0.0)
        until_s = time.thread_time() + 0.005
        while time.thread_time() < until_s:
            pass

    rounds = 0

    def leave_garbage() -> None:
        # Its own function: Python 3.13 guards no jump back of a loop that ends a `with` block.
        nonlocal rounds
        while not within:
            cycle: list[object] = []
            cycle.append(cycle)
            rounds += 1

    gc.callbacks.append(slow)
    try:
        with cpu_budget(0.05):
            leave_garbage()
    finally:
        gc.callbacks.remove(slow)
    assert rounds
    assert not any(within)
    assert gc.isenabled()
