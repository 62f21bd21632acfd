"""The components of a heterogeneous job each have an operation: no job leaves for one before all have a hold,
and all give back if one has none.
"""

from dataclasses import replace

import pytest

from makeway.daemon.operation.transitions import advance
from makeway.policies.model import Cluster, Job, Node, Operation, Phase, Release
from tests.builders import cluster, held, pending, running, urgent
from tests.daemon.acting import (
    NODES,
    PATIENCE,
    begun,
    due,
    held_operation,
    holding,
    issue_all,
    requeue,
    reserve,
)

VICTIM = running("v", NODES)
WAITS = urgent("w", 1, reservation="mw_w")
RUNS = replace(running("w", ("n5",)), kind=WAITS.kind)
EVICTION = requeue("v")
HELD = held("w", ("n5",))


def operation_of_other(*, seen: bool = True) -> Operation:
    """The operation of the other component `w`, with a hold of one node."""
    hold = replace(reserve(("n5",)), job_id="w", for_job_id="w", reservation="mw_w")
    before = cluster(5, WAITS)
    operation, _ = issue_all(replace(begun(before, hold), operation_id="2"), before)
    if not seen:
        return operation
    return advance(operation, replace(before, now_s=1010.0, reservations=(HELD,)), PATIENCE)


OVER = replace(operation_of_other(), phase=Phase.RETURNING, ended_s=1010.0)


def view(*others: Job, operations: tuple[Operation, ...]) -> Cluster:
    """`u` waits in its hold of four nodes, and starts together with `w`, if that is among the others."""
    found = holding(VICTIM, *others)
    return replace(
        found,
        nodes=(*found.nodes, Node(name="n5")),
        jobs=tuple(replace(job, het_job_id="7") if job.job_id in {"u", "w"} else job for job in found.jobs),
        reservations=(*found.reservations, HELD),
        operations=operations,
    )


def test_jobs_leave_when_every_component_has_its_hold() -> None:
    own = held_operation(EVICTION)
    assert due(own, view(WAITS, operations=(own, operation_of_other()))) == [EVICTION]
    assert due(own, view(RUNS, operations=(own,))) == [EVICTION]


@pytest.mark.parametrize(
    ("others", "other"),
    [
        ((WAITS,), operation_of_other(seen=False)),
        ((replace(WAITS, eligible_s=1100.0),), operation_of_other()),
        ((WAITS, running("s", ("n5",), preemptible=False)), operation_of_other()),
        ((WAITS,), replace(operation_of_other(), observe=True)),
        ((replace(WAITS, eligible_nodes=frozenset({"n9"})),), operation_of_other()),
        ((replace(WAITS, walltime_s=2e6),), operation_of_other()),
    ],
    ids=["not seen", "not eligible", "short", "only observed", "other nodes", "ends too soon"],
)
def test_no_job_leaves_as_long_as_a_component_has_no_sufficient_hold(
    others: tuple[Job, ...], other: Operation
) -> None:
    own = held_operation(EVICTION)
    assert due(own, view(*others, operations=(own, other))) == []


@pytest.mark.parametrize("others", [(), (OVER,)], ids=["none", "over"])
def test_the_hold_ends_if_a_component_has_none(others: tuple[Operation, ...]) -> None:
    own = held_operation(EVICTION)
    seen = view(WAITS, operations=(own, *others))
    after = advance(own, seen, PATIENCE)
    assert after.phase is Phase.RETURNING
    assert [type(action) for action in due(after, seen)] == [Release]


def test_the_hold_ends_if_a_component_is_not_eligible_in_time() -> None:
    own = held_operation(EVICTION)
    later = replace(WAITS, eligible_s=own.give_up_s + 1.0)
    seen = view(later, operations=(own, operation_of_other()))
    assert advance(own, seen, PATIENCE).phase is Phase.RETURNING


def test_the_hold_lasts_as_long_as_every_component_has_one() -> None:
    own = held_operation(EVICTION)
    for other in (operation_of_other(), operation_of_other(seen=False)):
        seen = view(WAITS, operations=(own, other))
        assert advance(own, seen, PATIENCE).phase is Phase.MAKING_ROOM
    assert advance(own, view(pending("x", 1), operations=(own,)), PATIENCE).phase is Phase.MAKING_ROOM
