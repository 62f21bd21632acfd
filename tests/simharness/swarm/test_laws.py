"""No law is broken: some stories of the swarm; `make swarm` tells more of them."""

import pytest

from makeway.simharness.swarm.campaign import tell_all, tell_validated
from makeway.simharness.swarm.drawing import POLICIES, draw
from makeway.simharness.swarm.law import Law
from tests.simharness.swarm.kept_stories import KEPT_STORIES, KeptStory

SEEDS = 80
PER_TEST = 10


@pytest.mark.parametrize("first", range(0, SEEDS, PER_TEST))
def test_no_law_is_broken(first: int) -> None:
    *_, campaign = tell_all([draw(seed) for seed in range(first, first + PER_TEST)], 1)
    broken = [f"seed {story.seed}: {violation}" for story, violation in campaign.failures]
    assert not broken, "\n".join(broken)
    assert {story.policy for story in map(draw, range(first, first + PER_TEST))} == set(POLICIES)


@pytest.mark.parametrize("kept", KEPT_STORIES, ids=lambda kept: f"{kept.law}-{kept.seed}")
def test_no_law_is_broken_again(kept: KeptStory) -> None:
    told = tell_validated(kept.story())
    assert told.violations == (), kept.broke
    assert told.checks[Law(kept.law)] > 0, "it still comes near to what it broke"


def test_the_stories_meet_the_laws() -> None:
    """Each law is checked, so that none holds because nothing ever comes near it."""
    *_, campaign = tell_all([draw(seed) for seed in range(100, 130)], 1)
    assert {law for law in Law if campaign.checks[law] == 0} == set()
