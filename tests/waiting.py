"""How tests wait: for what is seen, with a limit that lasts longer on a busy machine. No test is quicker or
slower for it.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from makeway.adapters.devcluster.load import TimeLimit, scaled

LIMIT_S = 60.0
"""How long anything is awaited before a test fails, in seconds of an idle machine."""
POLL_S = 0.1
"""Between two looks at first."""
POLL_MOST_S = 1.0
"""Between two looks of a wait that lasts."""
POLL_GROWTH = 1.4
"""By how much each pause is longer than the one before."""
PAUSES_PER_LOOK = 6
"""A pause is at least so many times as long as the look before it, up to the longest: many looks start a
command of Slurm, which takes more of a processor than the test.
"""


def limit_s(idle_s: float = LIMIT_S) -> float:
    """The limit of one wait that cannot look at the load meanwhile, such as that for the end of a thread."""
    return scaled(idle_s)


def await_that(
    what: str,
    condition: Callable[[], bool],
    explain: Callable[[], str] = str,
    *,
    waits_s: float = 0.0,
) -> None:
    """Look again and again until the condition holds. Fails, with `explain`, if it does not within
    the limit.

    `waits_s`: how long what is tested may wait by itself, which does not count.
    """
    limit = TimeLimit(LIMIT_S + waits_s)
    pause_s = POLL_S
    looked_s = time.monotonic()
    while not condition():
        if limit.passed():
            pytest.fail(f"it never came about that {what}\n{explain()}")
        pause_s = min(POLL_MOST_S, max(pause_s, PAUSES_PER_LOOK * (time.monotonic() - looked_s)))
        time.sleep(pause_s)
        pause_s *= POLL_GROWTH
        looked_s = time.monotonic()


@contextmanager
def meanwhile(look: Callable[[], object]) -> Iterator[None]:
    """Call `look` again and again in another thread, until the `with` block ends."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(POLL_S):
            look()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
