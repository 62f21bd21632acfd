"""What the journal says of holds: which nodes other jobs have left for an urgent job."""

from dataclasses import replace

import pytest

from makeway.daemon.journal.holds import nodes_left
from makeway.policies.model import Method, Progress, Requeue
from tests.daemon.acting import NODES, held_operation, requeue, signal


@pytest.mark.parametrize(
    ("progress", "left"),
    [
        (Progress.PLANNED, False),
        (Progress.REFUSED, False),
        (Progress.DROPPED, False),
        (Progress.ISSUING, True),
        (Progress.ACCEPTED, True),
        (Progress.DONE, True),
        (Progress.GONE, True),
    ],
)
def test_nodes_that_jobs_have_left_or_may_have(progress: Progress, left: bool) -> None:
    operation = held_operation(signal("v"), requeue("v", Method.SYSTEM))
    (eviction,) = (task for task in operation.tasks if isinstance(task.action, Requeue))
    signalled = replace(operation.tasks[1], nodes=NODES, progress=Progress.DONE)
    changed = replace(operation, tasks=(signalled, replace(eviction, nodes=NODES, progress=progress)))
    assert nodes_left([changed]) == frozenset(NODES if left else ())
