"""What slurmctld does not know yet about nodes, right after its start: decision 42."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from makeway.adapters.protocol import Unavailable
from makeway.adapters.slurm.nodes.states import node
from makeway.policies.model import NodeState
from tests.adapters.slurm.fake_slurm import RUNNING, FakeSlurm, adapter_of
from tests.adapters.slurm.jobs.raw_jobs import NODES


def with_unknown(*names: str) -> Callable[[list[str]], list[str]]:
    """Changes what scontrol prints: these nodes have not answered slurmctld since its start."""
    state = re.compile(rf"^(NodeName=(?:{'|'.join(names)}) .*? State=)\S+", re.MULTILINE)
    return lambda lines: [state.sub(r"\1UNKNOWN", line) for line in lines]


def test_a_controller_that_has_just_started_has_no_whole_view() -> None:
    slurm = FakeSlurm(RUNNING)
    adapter = adapter_of(slurm)
    slurm.change = with_unknown("n1", "n2", "n3", "n4")
    states = Counter(node.state for node in adapter.snapshot().nodes)
    assert states == {NodeState.SILENT: 4, NodeState.UP: 4}
    slurm.change = with_unknown("n1", "n2", "n3", "n4", "n5")
    with pytest.raises(Unavailable, match="5 of 8 nodes have not answered it yet") as raised:
        adapter.snapshot()
    assert raised.value.starting


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ("UNKNOWN", NodeState.SILENT),
        ("ALLOCATED NOT_RESPONDING", NodeState.SILENT),
        ("DOWN NOT_RESPONDING", NodeState.DOWN),
        ("IDLE DRAIN NOT_RESPONDING", NodeState.DRAINED),
    ],
)
def test_only_a_node_that_may_come_back_soon_is_silent(states: str, expected: NodeState) -> None:
    assert node(replace(NODES[0], states=frozenset(states.split()))).state is expected
