"""From decisions to operations: what is asked for again although it is there."""

from dataclasses import replace

import pytest

from makeway.daemon.control.opening import open_decided
from makeway.daemon.control.report import LoopSettings
from makeway.policies.model import Decision, Limits
from tests.builders import running
from tests.daemon.acting import COMMENTS, NODES, held_operation, holding, requeue, reserve


@pytest.mark.parametrize(
    ("nodes", "leaves", "opened"),
    [(NODES, False, 0), (NODES[::-1], False, 0), (NODES[:3], False, 1), (NODES, True, 1)],
    ids=["the same", "in another order", "fewer nodes", "with an eviction"],
)
def test_a_hold_that_is_there_is_not_made_again(nodes: tuple[str, ...], leaves: bool, opened: int) -> None:
    """Its nodes were to come free for another job, whose evictions were refused: it would be so for ever."""
    view = holding(running("v", NODES, checkpoint=COMMENTS))
    view = replace(view, operations=(held_operation(),), limits=Limits())
    actions = (replace(reserve(), nodes=nodes), *([requeue("v")] if leaves else []))
    opening = open_decided(Decision(policy="test", actions=actions), view, LoopSettings(), lambda: "2")
    assert not opening.refused
    assert [one.operation_id for one in opening.operations] == ["1"] * opened
