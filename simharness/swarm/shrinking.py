"""Makes a story that breaks a law as short as it can, so that it can be read and kept as a test."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from makeway.simharness.swarm.story import Story

MOST_TELLINGS = 2000
"""How often a story is told in order to shorten it; enough for any that was met so far."""

_Part = TypeVar("_Part")


def shrink(story: Story, breaks: Callable[[Story], bool], most: int = MOST_TELLINGS) -> Story:
    """The shortest story found that still breaks the law.

    Troubles and jobs are left out, in halves first and one by one at last, for as long as that helps.

    Args:
        story: one that breaks it.
        breaks: tells a story and says whether it breaks the same law.
        most: how often `breaks` is called at most.
    """
    left = most
    while True:
        for shorter in _shorter(story):
            if left == 0:
                return story
            left -= 1
            if breaks(shorter):
                story = shorter
                break
        else:
            return story


def _shorter(story: Story) -> Iterator[Story]:
    """The story with something left out: the largest parts first."""
    for troubles in _without_parts(story.troubles):
        yield replace(story, troubles=troubles)
    for jobs in _without_parts(story.jobs):
        yield replace(story, jobs=jobs)


def _without_parts(values: Sequence[_Part]) -> Iterator[tuple[_Part, ...]]:
    """The values without each half of them, then without each quarter, and so on."""
    size = len(values)
    while size > 0:
        size = size // 2 if size > 1 else 0
        step = max(1, size)
        for start in range(0, len(values), step):
            yield (*values[:start], *values[start + step :])
        if step == 1:
            return
