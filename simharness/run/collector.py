"""Garbage collection in replays: what they make lives long or is freed at once, little of it is garbage."""

import gc
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
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


_earlier_replays = count()


def collect_last_replay() -> None:
    """Free what the last replay in this process has left. Its cluster refers to itself: with rare collections
    it would stay, and many replays in one process would use up the memory.
    """
    if next(_earlier_replays):
        gc.collect()
