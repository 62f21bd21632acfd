"""The groups for several requests of one decision: found once where they are the same."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from makeway.policies.common.commitments import Commitments
from makeway.policies.common.requests import Request, request_for
from makeway.policies.common.urgent_jobs import UrgentJob
from makeway.policies.common.victims import VictimGroup, remembered_groups, victim_groups
from makeway.policies.model import CheckpointSpec, Cluster, Limits, Memo, Node, NodeState
from tests.builders import cluster, node_names, running, urgent

NOW_S = 50_000.0
NODES = node_names(8)
DOWN = Node(name="n1", state=NodeState.DOWN)
Change = Callable[[Request], Request]


def request(view: Cluster) -> Request:
    """That of an urgent job for five nodes."""
    asked = UrgentJob(job=urgent("u", 5, submit_s=NOW_S))
    return request_for(Commitments(cluster=view), asked, "test", NOW_S + 600.0, 3600.0)


def view() -> Cluster:
    """Three jobs on two nodes each; two nodes are free."""
    jobs = [running(f"r{index}", NODES[2 * index : 2 * index + 2], start_s=0.0) for index in range(3)]
    return cluster(8, *jobs, urgent("u", 5, submit_s=NOW_S), urgent("v", 1, submit_s=NOW_S), now_s=NOW_S)


def groups_for(given: Request, memo: Memo) -> tuple[VictimGroup, ...]:
    """The groups of a request."""
    return remembered_groups(
        given.cluster, given.urgent, unusable=given.unusable, excluded=given.excluded, memo=memo
    )


def seen(given: Request, **changes: object) -> Request:
    """The request on a snapshot that differs."""
    return replace(given, cluster=replace(given.cluster, **changes))  # type: ignore[arg-type]


def job_changed(given: Request, **changes: object) -> Request:
    """The request of a job that differs."""
    job = replace(given.urgent.job, **changes)  # type: ignore[arg-type]
    return replace(given, urgent=replace(given.urgent, job=job))


def saving(given: Request) -> Request:
    """A job that holds nodes can save its work."""
    first, *others = given.cluster.jobs
    return seen(given, jobs=(replace(first, checkpoint=CheckpointSpec(system_s=30.0)), *others))


DIFFERENT: dict[str, Change] = {
    "eligible": lambda given: job_changed(given, eligible_nodes=frozenset(NODES[:3])),
    "kept": lambda given: replace(given, urgent=replace(given.urgent, kept_nodes=NODES[:2])),
    "unusable": lambda given: replace(given, unusable=frozenset(NODES[:2])),
    "excluded": lambda given: replace(given, excluded=frozenset({"r1"})),
    "holders": saving,
    "instant": lambda given: seen(given, now_s=NOW_S + 1.0),
    "limits": lambda given: seen(given, limits=Limits(min_runtime_s=1e6)),
    "nodes": lambda given: seen(given, nodes=(DOWN, *given.cluster.nodes[1:])),
}
SAME: dict[str, Change] = {
    "size": lambda given: job_changed(given, node_count=3, job_id="v", submit_s=NOW_S - 5.0),
    "unusable": lambda given: replace(given, unusable=frozenset(NODES[6:])),
    "excluded": lambda given: replace(given, excluded=frozenset({"u", "gone"})),
    "waiting": lambda given: seen(given, jobs=given.cluster.jobs[:-1]),
    "losses": lambda given: seen(given, limits=replace(given.cluster.limits, max_loss_node_hours=1.0)),
}


@pytest.mark.parametrize("change", DIFFERENT.values(), ids=DIFFERENT)
def test_groups_are_found_again_where_they_may_differ(change: Change) -> None:
    memo, first = Memo(), request(view())
    other = change(first)
    before, found = groups_for(first, memo), groups_for(other, memo)
    plain = victim_groups(other.cluster, other.urgent, unusable=other.unusable, excluded=other.excluded)
    assert found == plain != before


@pytest.mark.parametrize("change", SAME.values(), ids=SAME)
def test_groups_are_remembered_where_they_cannot_differ(change: Change) -> None:
    memo, first = Memo(), request(view())
    assert groups_for(change(first), memo) is groups_for(first, memo)


def test_groups_that_are_the_same_are_not_worked_out_again() -> None:
    memo, first = Memo(), request(view())
    before = groups_for(first, memo)
    found = groups_for(replace(first, excluded=frozenset({"r1"})), memo)
    assert [old is new for old, new in zip(before, found, strict=True)] == [True, False, True]
    found = groups_for(replace(first, unusable=frozenset(NODES[:1])), memo)
    assert [old is new for old, new in zip(before, found, strict=True)] == [False, True, True]


def test_for_each_compares_by_identity() -> None:
    memo, worked_out = Memo(), list[str]()

    def work_out(first: list[int], second: str | None) -> int:
        worked_out.append(f"{first} {second}")
        return len(worked_out)

    one, alike = [1], [1]
    known = memo.for_each("key", work_out)
    assert [known(one, None), known(alike, None), known(one, "x"), known(one, None)] == [1, 2, 3, 1]
    assert memo.for_each("key", work_out)(alike, None) == 2
    assert memo.for_each("other key", work_out)(one, None) == 4
    assert worked_out == ["[1] None", "[1] None", "[1] x", "[1] None"]


def test_a_memo_forgets_what_was_asked_for_longest_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("makeway.policies.model.memo._MOST", 2)
    memo, worked_out = Memo(), list[str]()

    def work_out(key: str) -> str:
        worked_out.append(key)
        return key

    assert [memo.once(key, partial(work_out, key)) for key in "abacab"] == list("abacab")
    assert worked_out == ["a", "b", "c", "b"]
