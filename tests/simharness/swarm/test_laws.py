"""No law is broken: some stories of the swarm; `make swarm` tells more of them."""

import pytest

from makeway.simharness.swarm.campaign import Campaign, tell_all, tell_validated
from makeway.simharness.swarm.drawing import POLICIES, draw
from makeway.simharness.swarm.law import Law
from tests.simharness.swarm.kept_stories import KEPT_STORIES, KeptStory

SEEDS = 50
PER_TEST = 10
OF_ALL_LAWS = range(100, 130)
"""Enough stories for all laws."""


def told(seeds: range) -> Campaign:
    """The stories of these seeds, in which no law is broken."""
    *_, campaign = tell_all([draw(seed) for seed in seeds], 1)
    broken = [f"seed {story.seed}: {violation}" for story, violation in campaign.failures]
    assert not broken, "\n".join(broken)
    return campaign


@pytest.mark.parametrize("first", range(0, SEEDS, PER_TEST))
def test_no_law_is_broken(first: int) -> None:
    told(range(first, first + PER_TEST))
    assert {story.policy for story in map(draw, range(first, first + PER_TEST))} == set(POLICIES)


@pytest.mark.parametrize("kept", KEPT_STORIES, ids=lambda kept: f"{kept.law}-{kept.seed}")
def test_no_law_is_broken_again(kept: KeptStory) -> None:
    again = tell_validated(kept.story())
    assert again.violations == (), kept.broke
    assert again.checks[Law(kept.law)] > 0, "it still comes near to what it broke"


def test_no_law_is_broken_and_the_stories_meet_all_of_them() -> None:
    """Each law is checked, so that none holds because nothing ever comes near it."""
    campaign = told(OF_ALL_LAWS)
    assert {law for law in Law if campaign.checks[law] == 0} == set()
