"""Which urgent jobs may be decided on together with others."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from makeway.policies.least_price.bursts import may_join
from makeway.policies.model import Cluster, Operation, OperationKind, Reason, Reserve, Task
from tests.builders import cluster, urgent
from tests.policies.common.operations import operation
from tests.policies.sharing import amounts

HOLD = Task(
    action=Reserve(
        job_id="u",
        for_job_id="u",
        policy="test",
        reason=Reason.URGENT_ARRIVAL,
        reservation="mw_u",
        nodes=("n1",),
        duration_s=600.0,
    )
)


def with_operation(one: Operation | None) -> Cluster:
    view = cluster(2, urgent("u", 1))
    return view if one is None else replace(view, operations=(one,))


def only_held() -> Operation:
    """Its start waits in its hold."""
    return replace(operation("u", "n1"), tasks=(HOLD,))


@pytest.mark.parametrize(
    ("under_way", "joins"),
    [
        (lambda: None, True),
        (only_held, True),
        (lambda: replace(only_held(), observe=True), True),
        (lambda: operation("u", "n1", "v"), False),
        (lambda: operation("u", "n1", "v", observe=True), False),
        (lambda: replace(only_held(), kind=OperationKind.EARLY_START), False),
        (lambda: replace(operation("u", ""), kind=OperationKind.FRONT), False),
        (lambda: replace(operation("u", ""), kind=OperationKind.FRONT, observe=True), True),
    ],
)
def test_a_job_joins_while_no_job_leaves_for_it(
    under_way: Callable[[], Operation | None], joins: bool
) -> None:
    view = with_operation(under_way())
    assert may_join(view.jobs_by_id()["u"], view) is joins


def test_a_job_that_shares_nodes_and_a_component_do_not_join() -> None:
    view = with_operation(None)
    assert not may_join(replace(urgent("u", 1), demand=amounts(2)), view)
    assert not may_join(replace(urgent("u", 1), het_job_id="h"), view)
