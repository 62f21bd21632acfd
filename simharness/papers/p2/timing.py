"""How long an approach of P2 takes, and how a search is ended that would take too long: by processor time."""

import gc
import signal
import statistics
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

_REPEAT_BELOW_S = 0.01
_REPEATS = 5

AnswerT = TypeVar("AnswerT")


def timed(call: Callable[[], AnswerT]) -> tuple[AnswerT, float]:
    """What a call returns, and its processor time: the median of five if it is short."""
    times_s: list[float] = []
    while True:
        began_s = time.thread_time()
        proposal = call()
        times_s.append(time.thread_time() - began_s)
        if times_s[0] >= _REPEAT_BELOW_S or len(times_s) == _REPEATS:
            return proposal, statistics.median(times_s)


class _BudgetSpent(Exception):
    """Raised by the timer inside the code that runs."""


@contextmanager
def cpu_budget(budget_s: float) -> Generator[None]:
    """Let the block take so much processor time of the process, then end it wherever it is, without an error.

    The search pays nothing for it, and its time is its own. In the main thread only, where signals arrive.
    No garbage is collected meanwhile: an exception that is raised inside the collector's callbacks is lost.
    The block calls a function and has no loop of its own: Python 3.13 does not guard the jump back of a loop
    that ends a `with` block.

    Args:
        budget_s: seconds; more than 0.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        raise _BudgetSpent

    before, collects = signal.signal(signal.SIGVTALRM, stop), gc.isenabled()
    gc.disable()
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, budget_s)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
    except _BudgetSpent:
        pass
    finally:
        signal.signal(signal.SIGVTALRM, before)
        if collects:
            gc.enable()
