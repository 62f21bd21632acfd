"""Which urgent jobs need nodes: those that would start on them."""

from dataclasses import replace

import pytest

from makeway.policies.common.urgent_jobs import blocked_rationales, held_up, urgent_jobs
from makeway.policies.eviction.policy import EvictionConfig, decide
from makeway.policies.model import (
    Job,
    Node,
    NodeState,
    Operation,
    OperationKind,
    Phase,
    Prioritise,
    Quota,
    Reservation,
)
from tests.builders import cluster, node_names, running, urgent

MINE = Quota(name="jobs of user beam", needs=1.0, left=2.0)


def limited(job_id: str, submit_s: float, *quotas: Quota) -> Job:
    return replace(urgent(job_id, 1, submit_s=submit_s), quotas=quotas or (MINE,))


def making_way(job_id: str, phase: Phase = Phase.MAKING_ROOM) -> Operation:
    return Operation(
        operation_id=job_id,
        kind=OperationKind.MAKE_WAY,
        for_job_id=job_id,
        policy="test",
        reservation=f"mw_{job_id}",
        nodes=("n1",),
        opened_s=900.0,
        deadline_s=1500.0,
        give_up_s=2000.0,
        phase=phase,
    )


def test_of_several_jobs_under_a_limit_the_first_count() -> None:
    view = cluster(4, limited("c", 3.0), limited("b", 2.0), limited("a", 1.0))
    assert held_up(view) == {"c": "other urgent jobs (jobs of user beam: it needs 1 of 2 left)"}
    assert [one.job.job_id for one in urgent_jobs(view)] == ["a", "b"]
    (why,) = blocked_rationales(view, 600.0)
    assert (why.for_job_id, "other urgent jobs" in why.summary) == ("c", True)


def test_those_that_nodes_are_held_for_come_first() -> None:
    jobs = (limited("a", 1.0), limited("b", 2.0), limited("c", 3.0))
    assert set(held_up(cluster(4, *jobs, operations=(making_way("c"),)))) == {"b"}
    assert set(held_up(cluster(4, *jobs, operations=(making_way("c", Phase.RETURNING),)))) == {"c"}


def test_the_tasks_of_an_array_come_in_the_order_of_their_numbers() -> None:
    tasks = [replace(limited(f"7_{number}", 1.0), array_job_id="7") for number in (10, 8, 9)]
    assert set(held_up(cluster(4, *tasks))) == {"7_10"}
    assert set(held_up(cluster(4, *tasks, limited("10", 1.0)))) == {"7_9", "7_10"}


def test_a_large_job_does_not_keep_a_small_one_from_what_is_left() -> None:
    large = limited("a", 1.0, Quota(name="node of QOS u", needs=3.0, left=2.0))
    small = limited("b", 2.0, Quota(name="node of QOS u", needs=2.0, left=2.0))
    assert set(held_up(cluster(4, large, small))) == {"a"}


def test_what_a_blocked_job_would_take_is_left_to_the_others() -> None:
    held = replace(limited("a", 1.0), blocked_by="its release from a hold")
    view = cluster(4, held, limited("b", 2.0), limited("c", 3.0))
    assert held_up(view) == {"a": "its release from a hold"}


def test_limits_of_different_names_do_not_add_up() -> None:
    other = Quota(name="jobs of user other", needs=1.0, left=1.0)
    assert held_up(cluster(4, limited("a", 1.0), limited("b", 2.0, other), limited("c", 3.0))) == {}


FULL = tuple(running(f"r{number}", (f"n{number}",), preemptible=False) for number in range(1, 5))


@pytest.mark.parametrize(
    ("lost", "reserved", "eligible", "moved"),
    [
        ((), (), None, True),
        (("n4",), (), None, False),
        ((), ("n4",), None, False),
        ((), (), frozenset(node_names(3)), False),
        ((), (), frozenset(node_names(5)), True),
    ],
    ids=["all there", "one drained", "one reserved by the site", "three eligible", "all eligible"],
)
def test_a_job_that_could_not_start_on_all_nodes_is_not_moved_to_the_front(
    lost: tuple[str, ...], reserved: tuple[str, ...], eligible: frozenset[str] | None, moved: bool
) -> None:
    view = cluster(4, replace(urgent("u", 4, submit_s=990.0), eligible_nodes=eligible), *FULL)
    states = dict.fromkeys(lost, NodeState.DRAINED)
    nodes = tuple(Node(name=name, state=states.get(name, NodeState.UP)) for name in node_names(4))
    site = Reservation(name="maintenance", nodes=reserved, start_s=0.0, end_s=2000.0)
    view = replace(view, nodes=nodes, reservations=(site,) if reserved else ())
    actions = decide(view, EvictionConfig()).actions
    assert [type(action) for action in actions] == ([Prioritise] if moved else [])
