"""Time limits that hold on a busy machine: the more processes want its processors, the less a second
counts.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

_LOAD_AVERAGE = Path("/proc/loadavg")


def slowdown(load_average: Path = _LOAD_AVERAGE) -> float:
    """How many times longer everything takes than on an idle machine: runnable processes per processor, at
    least 1.

    It is the greater of the mean of the last minute and the number of this moment: load that has just begun
    counts, and a pause of it does not shorten a limit. 1 where Linux's `/proc/loadavg` is not there.
    """
    try:
        words = load_average.read_text().split()
    except OSError:
        return 1.0
    runnable = max(float(words[0]), float(words[3].partition("/")[0]))
    return max(1.0, runnable / len(os.sched_getaffinity(0)))


def scaled(limit_s: float) -> float:
    """A limit in seconds of an idle machine, as seconds of this machine with the load that it has now."""
    return limit_s * slowdown()


class TimeLimit:
    """A limit in seconds of an idle machine, from now on. For a loop that looks again and again until
    something is seen.

    Args:
        limit_s: the limit. 0: it has passed at the first look.
        now: a clock in seconds.
        slowdown: how many times longer everything takes now.
    """

    def __init__(
        self,
        limit_s: float,
        *,
        now: Callable[[], float] = time.monotonic,
        slowdown: Callable[[], float] = slowdown,
    ) -> None:
        self._left_s = limit_s
        self._now = now
        self._slowdown = slowdown
        self._seen_s = now()

    def passed(self) -> bool:
        """Whether the limit has passed. What has gone by since the last call counts by the load of this
        moment.
        """
        now_s = self._now()
        self._left_s -= (now_s - self._seen_s) / self._slowdown()
        self._seen_s = now_s
        return self._left_s <= 0
