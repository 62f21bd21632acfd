"""Garbage collection in replays: what they make lives long or is freed at once, little of it is garbage."""

import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

RARE: Final = 50_000
"""So many objects more than now make the interpreter look for garbage; its default is 700."""


@contextmanager
def rare_collections() -> Generator[None]:
    """Let the interpreter look for garbage rarely."""
    before = gc.get_threshold()
    gc.set_threshold(RARE, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


KEPT_JOBS: Final = 10_000
"""So many jobs of earlier replays may stay: about 60 MB."""
_jobs_left: list[int] = []


def collect_last_replay(job_count: int) -> None:
    """Free what earlier replays in this process have left, if that is much. A replay's cluster refers to
    itself: with rare collections it would stay, and many replays in one process would use up the memory. To
    look for it takes longer than a small replay does.

    `job_count`: how many jobs the replay has that begins now.
    """
    if sum(_jobs_left) > KEPT_JOBS:
        gc.collect()
        _jobs_left.clear()
    _jobs_left.append(job_count)
