"""The joint choice against the enumerator, and its bounds."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.policies.joint import bound, choose, highs
from makeway.policies.joint.choose import choose_jointly, is_separate
from makeway.policies.joint.highs import JointEffort, solve_whole
from makeway.policies.joint.instance import JointInstance, JointResult
from makeway.policies.joint.kinds import NodeKind, node_kinds
from makeway.policies.joint.programme import cell_count
from makeway.policies.joint.reference import enumerate_jointly
from makeway.policies.model import Resources
from tests.policies.joint.instances import component, faults, job, kill, many_nodes, random_instance, system

if TYPE_CHECKING:
    import highspy


@pytest.mark.parametrize("nearest", [bound.NEAREST, 0])
@given(seed=st.integers(0, 10**9))
@settings(max_examples=150, deadline=None)
def test_no_choice_loses_less(nearest: int, seed: int) -> None:
    """With few nodes that are cheap, the relaxed programme has to find the others."""
    asked = random_instance(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bound, "NEAREST", nearest)
        found, expected = choose_jointly(asked), enumerate_jointly(asked)
        if expected is None:
            assert found is None
            return
        assert found is not None
        assert found.choice is not None
        assert faults(asked, found.choice) == []
        least = expected.loss_node_s
        assert found.choice.loss_node_s == found.bound_node_s == least
        assert choose_jointly(asked, least) == JointResult(bound_node_s=least)
        for known in (least + 1, 2 * least + 5):
            better = choose_jointly(asked, known)
            assert better is not None
            assert better.choice is not None
            assert faults(asked, better.choice) == []
            assert better.choice.loss_node_s == better.bound_node_s == least


@given(seed=st.integers(0, 10**9))
@settings(max_examples=100, deadline=None)
def test_what_is_separate_is_best_for_each_alone(seed: int) -> None:
    asked = random_instance(seed)
    if not is_separate(asked):
        return
    alone = [enumerate_jointly(replace(asked, components=(one,))) for one in asked.components]
    together = enumerate_jointly(asked)
    if together is None:
        assert None in alone
        return
    assert together.loss_node_s == sum(one.loss_node_s for one in alone if one is not None)


def test_components_are_separate_if_neither_nodes_nor_jobs_nor_steps_connect_them() -> None:
    apart = (component(1, ["n1"]), component(1, ["n2"]))
    jobs = (job("a", ["n1"], kill(1)), job("b", ["n2"], kill(1)))
    assert is_separate(JointInstance(components=apart, jobs=jobs))
    assert is_separate(JointInstance(components=apart, jobs=(*jobs, job("stays", ["n1", "n2"]))))
    assert not is_separate(JointInstance(components=apart, jobs=(job("a", ["n1", "n2"], kill(1)),)))
    assert not is_separate(JointInstance(components=(component(1, ["n1", "n2"]), apart[1]), jobs=jobs))
    timed = tuple(replace(one, ways=(*one.ways, system(1))) for one in jobs)
    assert is_separate(JointInstance(components=apart, jobs=(timed[0], jobs[1])))
    assert not is_separate(JointInstance(components=apart, jobs=timed))


def test_a_job_on_nodes_of_both_components_counts_once() -> None:
    """Each component alone would rather have the job leave that is on its node alone."""
    jobs = (
        job("both", ["n1", "n2"], kill(10), cpus=4),
        job("a", ["n1"], kill(6), cpus=4),
        job("b", ["n2"], kill(6), cpus=4),
    )
    needs = (component(1, ["n1"], cpus=4), component(1, ["n2"], cpus=4))
    found = choose_jointly(JointInstance(components=needs, jobs=jobs), 12)
    assert found is not None
    assert found.choice is not None
    assert set(found.choice.leaving) == {"both"}
    assert found.bound_node_s == 10


def test_nodes_that_are_alike_are_one_kind() -> None:
    names = [f"n{index}" for index in range(1000)]
    jobs = (job("a", names[:400], kill(3)), job("b", names[400:900], kill(2)))
    needs = (component(300, names), component(600, names[:950]))
    asked = JointInstance(components=needs, jobs=jobs)
    assert sorted(len(kind.names) for kind in node_kinds(asked)) == [50, 50, 400, 500]
    found = choose_jointly(asked)
    assert found is not None
    assert found.choice is not None
    assert faults(asked, found.choice) == []
    assert found.choice.loss_node_s == found.bound_node_s == 5


def crowd(count: int) -> JointInstance:
    """Two nodes with many small jobs each, and a component that needs about half of one of them."""
    jobs = [
        job(f"{name}.{index}", [name], kill(100 + index * index % 37), cpus=1 + index % 5)
        for name in ("n1", "n2")
        for index in range(count)
    ]
    needs = (component(1, ["n1", "n2"], cpus=count), component(1, ["n1", "n2"], cpus=count // 2))
    return JointInstance(components=needs, jobs=tuple(jobs))


def test_a_crowded_node_has_no_list_of_covers() -> None:
    kinds = node_kinds(crowd(40))
    assert all(kind.crowded for kind in kinds)
    found = choose_jointly(crowd(40))
    assert found is not None
    assert found.choice is not None
    assert faults(crowd(40), found.choice) == []
    assert found.bound_node_s == found.choice.loss_node_s
    assert choose_jointly(crowd(40), found.bound_node_s) == JointResult(bound_node_s=found.bound_node_s)


def test_without_effort_there_is_still_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = crowd(40)
    best = choose_jointly(asked)
    assert best is not None
    known = 3 * best.bound_node_s
    monkeypatch.setattr(highs, "MOST_WORK", 0)
    monkeypatch.setattr(highs, "FEWEST_LOOKS", 1)
    limited = choose_jointly(asked, known)
    assert limited is not None
    assert 0 < limited.bound_node_s <= best.bound_node_s
    assert limited.choice is None or limited.choice.loss_node_s < known
    monkeypatch.setattr(choose, "MOST_CELLS", 0)
    unsolved = choose_jointly(asked, known)
    assert unsolved is not None
    assert unsolved.choice is None
    assert 0 < unsolved.bound_node_s <= best.bound_node_s


def entries_solved(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The entries of each whole programme that is solved from now on."""
    found: list[int] = []
    run = JointEffort.run

    def counted(effort: JointEffort, solver: "highspy.Highs", entries: int) -> None:
        run(effort, solver, entries)
        found.append(entries)

    monkeypatch.setattr(JointEffort, "run", counted)
    return found


def test_the_programme_has_only_what_loses_little_more_than_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All covers would be 10,000 entries and more."""
    asked = many_nodes(1, 300, 20)
    known = 45_000
    assert cell_count(node_kinds(asked)) > 2 * highs.MOST_CELLS
    entries = entries_solved(monkeypatch)
    found = choose_jointly(asked, known)
    assert found is not None
    assert found.choice is not None
    assert faults(asked, found.choice) == []
    assert found.choice.loss_node_s == found.bound_node_s
    assert 1 <= len(entries) <= len(choose.PARTS)
    assert sum(entries) < highs.MOST_CELLS


class LastingSolver:
    """A solver that looks a hundred times whether it is to end, unless it is ended before."""

    def __init__(self) -> None:
        self.cbMipInterrupt = self
        self.looks = 0
        self.ended = False

    def subscribe(self, look: Callable[[object], None]) -> None:
        self.look = look

    def interrupt(self) -> None:
        self.ended = True

    def run(self) -> None:
        while self.looks < 100 and not self.ended:
            self.looks += 1
            self.look(self)


def test_all_programmes_of_a_choice_share_one_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(highs, "MOST_WORK", 1_500)
    monkeypatch.setattr(highs, "FEWEST_LOOKS", 3)
    effort, looks = JointEffort(), list[int]()
    for entries in (10, 10, 10, 10):
        solver: Any = LastingSolver()
        effort.run(solver, entries)
        looks.append(solver.looks)
    assert looks == [100, 50, 3, 3]


def test_no_programme_is_larger_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, sizes = many_nodes(2, 60, 8), list[int]()

    def counted(
        asked: JointInstance, kinds: list[NodeKind], below: int, effort: JointEffort, limit_s: float
    ) -> JointResult | None:
        sizes.append(cell_count(kinds))
        return solve_whole(asked, kinds, below, effort, limit_s)

    monkeypatch.setattr(choose, "solve_whole", counted)
    monkeypatch.setattr(choose, "MOST_CELLS", 700)
    for known in (None, 150_000, 50_000):
        assert choose_jointly(asked, known) is not None
    assert len(sizes) >= 3
    assert max(sizes) <= 700


@pytest.mark.parametrize("cells", [0, 6, 20])
@given(seed=st.integers(0, 10**9))
@settings(max_examples=60, deadline=None)
def test_what_a_limited_effort_finds_is_right(cells: int, seed: int) -> None:
    asked = random_instance(seed)
    expected = enumerate_jointly(asked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choose, "MOST_CELLS", cells)
        patch.setattr(highs, "MOST_WORK", 0)
        patch.setattr(highs, "FEWEST_LOOKS", 1)
        for known in (None, 2 * expected.loss_node_s + 5) if expected is not None else (None,):
            found = choose_jointly(asked, known)
            if expected is None:
                assert found is None or found.choice is None
                continue
            assert found is not None
            assert found.bound_node_s <= expected.loss_node_s
            if found.choice is not None:
                assert faults(asked, found.choice) == []
                assert known is None or found.choice.loss_node_s < known


def test_too_large_a_relaxed_programme_is_not_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = many_nodes(3, 60, 8)
    best = choose_jointly(asked, 150_000)
    assert best is not None
    monkeypatch.setattr(highs, "MOST_RELAXED_CELLS", 0)
    entries = entries_solved(monkeypatch)
    found = choose_jointly(asked, 150_000)
    assert found is not None
    assert found.choice is None
    assert 0 < found.bound_node_s <= best.bound_node_s
    assert entries == []


def test_where_the_bound_is_enough_no_programme_is_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = JointInstance(
        components=(component(1, ["n1", "n2"], cpus=4), component(1, ["n1", "n2"], cpus=4)),
        jobs=(job("a", ["n1"], kill(5), cpus=4), job("b", ["n2"], kill(5), cpus=4)),
    )

    def fail(*args: object) -> None:
        raise AssertionError("solved")

    for name in ("relax", "solve_whole"):
        monkeypatch.setattr(choose, name, fail)
    assert choose_jointly(asked, 10) == JointResult(bound_node_s=10)


def test_of_several_ways_of_a_node_one_is_enough() -> None:
    parts = {name: Resources.of({f"gres/shard#{name}/4": 1}) for name in ("0", "1")}
    one = replace(component(1, ["n1"], cpus=1), alternatives={"n1": tuple(parts.values())})
    jobs = tuple(
        replace(job(f"on-{name}", [], kill(loss)), held={"n1": part})
        for (name, part), loss in zip(parts.items(), (9, 4), strict=True)
    )
    other = component(1, ["n2"])
    found = choose_jointly(JointInstance(components=(one, other), jobs=jobs))
    assert found is not None
    assert found.choice is not None
    assert set(found.choice.leaving) == {"on-1"}
