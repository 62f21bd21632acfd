"""An operation does not signal a run twice, and waits for silent nodes."""

from dataclasses import replace

import pytest

from makeway.daemon.operation.beginning import extend
from makeway.daemon.operation.fitness import STALE_S
from makeway.daemon.operation.transitions import advance, issuing, record
from makeway.daemon.operation.validation import validate
from makeway.policies.common.holds import shortfall
from makeway.policies.model import (
    Checkpoint,
    Cluster,
    Ending,
    Job,
    Method,
    Node,
    NodeState,
    Operation,
    Progress,
)
from tests.builders import pending, running
from tests.daemon.acting import (
    COMMENTS,
    DEADLINE_S,
    NODES,
    PATIENCE,
    held_operation,
    holding,
    issue_all,
    requeue,
    reserve,
    signal,
)

SAVES = (signal("v"), requeue("v", Method.SYSTEM))
SAVING = running("v", NODES, checkpoint=COMMENTS)


def signalled() -> Operation:
    """The job `v` was signalled at 1000 s, and has a grace of 300 s."""
    operation, issued = issue_all(held_operation(*SAVES), holding(SAVING))
    assert issued == [SAVES[0]]
    return operation


def seen(operation: Operation, job: Job, now_s: float, *, down: bool = False) -> tuple[Operation, Cluster]:
    """The operation after a cycle that sees this. `down`: all held nodes are."""
    view = holding(job, now_s=now_s)
    view = with_nodes(view, NodeState.DOWN) if down else view
    return advance(operation, view, PATIENCE), view


def with_nodes(view: Cluster, state: NodeState) -> Cluster:
    """The view with all nodes in another state."""
    return replace(view, nodes=tuple(replace(node, state=state) for node in view.nodes))


def decided_anew(operation: Operation, view: Cluster) -> Operation:
    """The same job is chosen again, for a hold on the same nodes."""
    operation = extend(operation, (reserve(), *SAVES), view, deadline_s=DEADLINE_S + 300.0, timeouts=PATIENCE)
    validate(operation)
    return operation


def signals(operation: Operation) -> list[Ending | Progress]:
    return [task.ending or task.progress for task in operation.tasks if isinstance(task.action, Checkpoint)]


def test_a_job_that_still_saves_is_not_signalled_again() -> None:
    """Its nodes were down for a moment, so that its requeue was left out."""
    operation, _ = seen(signalled(), SAVING, 1010.0, down=True)
    assert [task.ending for task in operation.tasks[1:]] == [None, Ending.OUTDATED]

    operation, view = seen(operation, SAVING, 1020.0)
    operation = decided_anew(operation, view)
    assert signals(operation) == [Progress.ACCEPTED]

    # It leaves as soon as it says that its work is saved.
    operation, issued = issue_all(operation, view)
    assert issued == [reserve()]
    saved = replace(SAVING, last_checkpoint_s=1100.0)
    operation, view = seen(operation, saved, 1105.0)
    assert issue_all(operation, view)[1] == [SAVES[1]]


@pytest.mark.parametrize(
    ("saved_s", "now_s", "expected"),
    [
        (None, 1320.0, [Ending.UNACKNOWLEDGED]),
        (1100.0, 1105.0, [Ending.ACKNOWLEDGED]),
        (1100.0, 1101.0 + max(STALE_S, COMMENTS.grace_s), [Ending.ACKNOWLEDGED, Progress.PLANNED]),
    ],
    ids=["no answer in its grace", "saved just now", "saved too long ago"],
)
def test_after_the_answer(saved_s: float | None, now_s: float, expected: list[Ending | Progress]) -> None:
    job = replace(SAVING, last_checkpoint_s=saved_s)
    operation, _ = seen(signalled(), job, now_s - 5.0, down=True)
    operation, view = seen(operation, job, now_s)
    assert signals(decided_anew(operation, view)) == expected


def test_a_silent_node_is_waited_for() -> None:
    """Until its nodes answer, no eviction is left out, and no job is asked to leave."""
    operation = held_operation(requeue("v"))
    for now_s in (1012.0, 1100.0):
        view = with_nodes(holding(SAVING, now_s=now_s), NodeState.SILENT)
        operation = advance(operation, view, PATIENCE)
        assert [task.ending for task in operation.tasks] == [Ending.SEEN, None]
        assert (operation.short_since_s, shortfall(operation, view)) == (None, ())
        assert issue_all(operation, view)[1] == []

    view = holding(SAVING, now_s=1110.0)
    assert issue_all(advance(operation, view, PATIENCE), view)[1] == [requeue("v")]


def test_a_silent_node_that_is_not_held_is_not_waited_for() -> None:
    view = holding(SAVING, now_s=1012.0)
    view = replace(view, nodes=(*view.nodes, Node(name="n9", state=NodeState.SILENT)))
    operation = advance(held_operation(requeue("v")), view, PATIENCE)
    assert issue_all(operation, view)[1] == [requeue("v")]


def test_a_signal_that_was_refused_did_not_reach_the_job() -> None:
    operation = held_operation(*SAVES)
    view = holding(SAVING)
    operation = record(issuing(operation, 1, view.now_s), 1, Progress.REFUSED, view.now_s)
    assert signals(decided_anew(operation, view)) == [Ending.REJECTED, Progress.PLANNED]


def test_a_later_run_gets_a_signal_of_its_own() -> None:
    operation, _ = seen(signalled(), SAVING, 1010.0, down=True)
    operation, view = seen(operation, replace(SAVING, requeue_count=1, start_s=1015.0), 1020.0)
    assert signals(decided_anew(operation, view)) == [Ending.REQUEUED_ITSELF, Progress.PLANNED]


def test_a_signal_that_was_never_sent_is_sent_if_the_job_is_chosen_again() -> None:
    """An old view showed the job in the queue, as if it had left by itself."""
    operation = held_operation(*SAVES)
    operation, _ = seen(operation, pending("v", 4), 1010.0)
    operation, view = seen(operation, SAVING, 1110.0)
    assert signals(decided_anew(operation, view)) == [Ending.REQUEUED_ITSELF, Progress.PLANNED]
