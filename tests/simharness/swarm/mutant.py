"""What a mutant is: code without one of its cares, and the stories that are told until it is found."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest

from makeway.simharness.swarm.drawing import POLICIES, draw
from makeway.simharness.swarm.law import Law
from makeway.simharness.swarm.story import Story, TroubleKind

STORIES = 300
"""How many stories may be told until a mutant is found."""
Patch = pytest.MonkeyPatch


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """Code without one of its cares."""

    name: str
    law: Law
    make: Callable[[Patch], None]
    troubles: tuple[TroubleKind, ...] = tuple(TroubleKind)
    policies: tuple[str, ...] = POLICIES
    first_seed: int = 0
    """Where the search begins: at a story that finds it soon."""
    components: bool = True
    """Whether urgent jobs of the stories may be heterogeneous."""
    story: Story | None = None
    """Told with one seed after another. None: stories that are drawn."""

    def stories(self) -> Iterator[Story]:
        for seed in range(self.first_seed, self.first_seed + STORIES):
            if self.story is None:
                yield draw(seed, policies=self.policies, kinds=self.troubles, components=self.components)
            else:
                yield replace(self.story, seed=seed)
