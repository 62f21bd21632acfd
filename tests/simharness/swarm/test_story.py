"""Stories of the swarm: drawn, stored, made shorter, and told again."""

from collections import Counter
from dataclasses import replace
from itertools import cycle

import pytest
from pydantic import ValidationError

from makeway.daemon.service.pacing import REPEAT_LIMIT
from makeway.policies.model import JobKind
from makeway.simharness.swarm.campaign import tell_validated
from makeway.simharness.swarm.daemons import cluster_of
from makeway.simharness.swarm.drawing import POLICIES, draw
from makeway.simharness.swarm.shrinking import shrink
from makeway.simharness.swarm.story import Story, Trouble, TroubleKind, decode, encode
from makeway.simharness.swarm.troubled import Weather
from makeway.simharness.workloads.job import SimJob

SEEDS = range(40)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_story_is_drawn_from_its_seed_and_survives_its_file(seed: int) -> None:
    story = draw(seed)
    assert story == draw(seed)
    assert decode(encode(story)) == story


def test_the_seeds_draw_every_policy_every_trouble_and_shared_nodes() -> None:
    stories = [draw(seed) for seed in SEEDS]
    assert {story.policy for story in stories} == set(POLICIES)
    assert {trouble.kind for story in stories for trouble in story.troubles} == set(TroubleKind)
    assert {story.capacity is None for story in stories} == {True, False}
    assert {story.switch_nodes is None for story in stories} == {True, False}
    assert not all(story.troubles for story in stories), "some story has no trouble at all"


def test_the_placements_of_a_story_are_its_switches() -> None:
    story = replace(draw(0), node_count=5, jobs=(), troubles=(), switch_nodes=2)
    placements = cluster_of(story).machine.placements
    assert [place.nodes for place in placements] == [("n1", "n2"), ("n3", "n4"), ("n5",)]
    assert cluster_of(replace(story, switch_nodes=None)).machine.placements == ()


def test_what_may_be_drawn_can_be_chosen() -> None:
    stories = [draw(seed, policies=("wcjs",), kinds=(TroubleKind.SLOW,)) for seed in SEEDS]
    assert {story.policy for story in stories} == {"wcjs"}
    assert {trouble.kind for story in stories for trouble in story.troubles} == {TroubleKind.SLOW}


def test_a_story_ends_alike_each_time() -> None:
    story = draw(11)
    assert story.troubles
    assert tell_validated(story) == tell_validated(story)


def test_a_signal_that_is_ignored_in_the_cycle_that_decides_is_a_trouble() -> None:
    told = tell_validated(draw(503788, policies=("ckpt-backfill",)))
    assert told.met[TroubleKind.IGNORES]
    assert told.violations == ()


def test_old_views_that_undo_each_other_are_looked_at_with_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second view is from before the submission of `u`: its hold is made and taken away in turn."""
    chances = cycle((0.0, 1.0))
    monkeypatch.setattr(Weather, "chance", lambda weather, purpose: next(chances))
    reads = Counter[float]()
    drawn = Weather.drawn

    def counted(weather: Weather, kinds: tuple[TroubleKind, ...], at_s: float) -> Trouble | None:
        reads[at_s] += TroubleKind.STALE_VIEW in kinds
        return drawn(weather, kinds, at_s)

    monkeypatch.setattr(Weather, "drawn", counted)
    urgent = SimJob("u", 605.0, 60.0, 60.0, 1, kind=JobKind.ON_DEMAND, start_within_s=600.0)
    views = Trouble(kind=TroubleKind.STALE_VIEW, at_s=600.0, lasts_s=30.0, chance=0.5, amount=40.0)
    jobs = (SimJob("a", 0.0, 3000.0, 4000.0, 2), urgent)
    story = Story(seed=1, policy="eviction", node_count=2, jobs=jobs, troubles=(views,), poll_interval_s=10.0)
    assert tell_validated(story).violations == ()
    assert [reads[at_s] for at_s in (610.0, 620.0)] == [REPEAT_LIMIT + 1, REPEAT_LIMIT + 1]


def test_a_file_that_holds_no_story_is_refused() -> None:
    with pytest.raises(ValidationError, match="node_count"):
        decode('{"seed": 1, "policy": "eviction", "jobs": []}')


def jobs(*names: str) -> tuple[SimJob, ...]:
    return tuple(SimJob(name, 0.0, 60.0, 60.0, 1) for name in names)


def test_what_a_law_is_broken_without_is_left_out() -> None:
    troubles = tuple(Trouble(kind=TroubleKind.AWAY, at_s=float(at_s)) for at_s in range(9))
    story = Story(seed=1, policy="eviction", node_count=4, jobs=jobs(*"abcdefg"), troubles=troubles)
    told = 0

    def breaks(shorter: Story) -> bool:
        nonlocal told
        told += 1
        names = {job.job_id for job in shorter.jobs}
        return {"b", "f"} <= names and any(trouble.at_s == 6.0 for trouble in shorter.troubles)

    short = shrink(story, breaks)
    assert short == replace(story, jobs=jobs("b", "f"), troubles=(troubles[6],))
    assert told < 60


def test_a_story_is_told_a_bounded_number_of_times_to_shorten_it() -> None:
    story = Story(seed=1, policy="eviction", node_count=4, jobs=jobs(*"abcdefg"))
    assert len(shrink(story, lambda shorter: True, most=1).jobs) == 4
    assert shrink(story, lambda shorter: True, most=0) == story
