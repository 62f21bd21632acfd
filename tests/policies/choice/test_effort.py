"""A search that is too long ends after a fixed effort, whatever the machine does besides."""

import time
from typing import Any

import pytest

from makeway.policies.choice import highs
from makeway.policies.choice.choose import choose
from makeway.policies.choice.highs import SearchEffort
from makeway.policies.choice.instance import ChoiceProof
from tests.policies.choice.instances import crowded_wide_instance

HARD = crowded_wide_instance(60, 900, 8, seed=1)


def test_two_runs_choose_alike_however_slow_the_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(highs, "MOST_WORK", 80_000)
    quick = choose(HARD)
    assert quick is not None
    assert (quick.proof, quick.ended_by_time) == (ChoiceProof.NONE, False)
    look = SearchEffort.look
    looks: list[int] = []

    def slow_look(self: SearchEffort, event: Any) -> None:
        looks.append(self.looks_left)
        time.sleep(0.05)
        look(self, event)

    monkeypatch.setattr(SearchEffort, "look", slow_look)
    assert choose(HARD) == quick
    assert min(looks) <= 1, "the effort ended the search"


def test_more_effort_raises_the_bound_and_never_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for work in (1, 160_000):
        monkeypatch.setattr(highs, "MOST_WORK", work)
        found.append(choose(HARD))
    less, more = found
    assert less is not None
    assert more is not None
    assert more.loss_node_s <= less.loss_node_s
    assert less.bound_node_s <= more.bound_node_s < more.loss_node_s


def test_an_end_by_time_is_said() -> None:
    hurried = choose(HARD, time_limit_s=0.0)
    assert hurried is not None
    assert (hurried.proof, hurried.ended_by_time) == (ChoiceProof.NONE, True)
