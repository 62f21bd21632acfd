"""The time of a live cluster: that of the system clock, without its steps until they do no harm."""

import threading
import time
from collections.abc import Callable
from typing import Final

FOLLOWS: Final = 0.1
"""By which part of the time that passes the clock may differ, to follow a system clock that was set."""


def since_boot_s() -> float:
    """Seconds that no setting of the clock changes; they pass while the machine is suspended too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SteadyClock:
    """The time since 1970, which steps by `follow` alone: `clock()` gives seconds. Safe to call from several
    threads.

    A wait that is measured with it lasts as long as it should, within a tenth, even if the system clock is
    set meanwhile: no grace is over because a clock was put right. From a clock that was set it differs at
    first by all of the step, and follows it by six seconds a minute. A new process begins with the system
    clock's time.

    Args:
        system: the system clock.
        steady: seconds since any instant, by a clock that is never set.
    """

    def __init__(
        self, system: Callable[[], float] = time.time, steady: Callable[[], float] = since_boot_s
    ) -> None:
        self._system = system
        self._steady = steady
        self._lock = threading.Lock()
        self._steady_s, self._now_s = steady(), system()

    def __call__(self) -> float:
        """The present time."""
        with self._lock:
            steady_s = self._steady()
            passed_s = max(0.0, steady_s - self._steady_s)
            now_s = self._now_s + passed_s
            most_s = FOLLOWS * passed_s
            self._now_s = now_s + min(most_s, max(-most_s, self._system() - now_s))
            self._steady_s = steady_s
            return self._now_s

    def follow(self) -> None:
        """Be the system clock's time from now on. It may step: nothing that is measured may be under way."""
        with self._lock:
            self._steady_s, self._now_s = self._steady(), self._system()

    def ahead_s(self) -> float:
        """By how much the system clock is ahead of this one; negative: behind."""
        now_s = self()
        return self._system() - now_s
