"""Each law is broken when the code that keeps it is taken out, and the swarm notices.

A mutant that is not found is a check that does not work.
"""

from typing import Any

import pytest

from makeway.simharness.swarm import laws, telling
from makeway.simharness.swarm.law import Law, Violation
from makeway.simharness.swarm.story import Story
from tests.simharness.swarm.mutant import STORIES, Mutant, Patch
from tests.simharness.swarm.mutant_stories import (
    COSTLY_USER,
    LOST_HOLD,
    LOST_HOLD_AND_JOURNAL,
    LOST_LEASE,
    NEVER_COMES,
    PROTECTED_JOB,
    REFUSED_NODE,
    SILENT_NODES,
    SUBMITTED_AGAIN,
    SUBMITTED_LATER,
)
from tests.simharness.swarm.mutants import MUTANTS


class Found(BaseException):
    """The law of a mutant is broken: the rest of the story need not be told. No daemon handles it."""


def test_every_law_has_a_mutant() -> None:
    assert {mutant.law for mutant in MUTANTS} == set(Law)


@pytest.mark.parametrize(
    ("story", "law"),
    [
        (COSTLY_USER, Law.CAPS),
        (NEVER_COMES, Law.NO_SHOW),
        (LOST_LEASE, Law.ONE_LEADER),
        (SILENT_NODES, Law.IN_VAIN),
        (SUBMITTED_AGAIN, Law.SECOND_SIGNAL),
        (SUBMITTED_LATER, Law.SECOND_SIGNAL),
        (PROTECTED_JOB, Law.IN_VAIN),
        (REFUSED_NODE, Law.INSISTS),
        (LOST_HOLD, Law.LEFT_BEHIND),
        (LOST_HOLD_AND_JOURNAL, Law.LEFT_BEHIND),
    ],
)
def test_a_story_of_a_mutant_meets_the_law_and_keeps_it(story: Story, law: Law) -> None:
    told = telling.tell(story)
    assert told.violations == ()
    assert told.checks[law] >= 1


def end_where_broken(law: Law, patch: Patch) -> None:
    """Raise `Found` at the first violation of the law."""

    def violation(**what: Any) -> Violation:
        if what["law"] is law:
            raise Found
        return Violation(**what)

    patch.setattr(laws, "Violation", violation)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_found(mutant: Mutant, monkeypatch: Patch) -> None:
    mutant.make(monkeypatch)
    end_where_broken(mutant.law, monkeypatch)
    for story in mutant.stories():
        try:
            telling.tell(story)
        except Found:
            return
    pytest.fail(f"{mutant.name}: no story of {STORIES} breaks the law {mutant.law}")
