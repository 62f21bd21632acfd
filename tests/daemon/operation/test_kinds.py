"""Each kind of operation: what opens it, what must hold for it, and what it is over with."""

from dataclasses import replace
from typing import Any

import pytest

from makeway.daemon.control.sentence import outcome_text
from makeway.daemon.operation.beginning import extend
from makeway.daemon.operation.due import wakeup_s
from makeway.daemon.operation.returns import leases, missing_returns
from makeway.daemon.operation.tasks import ended
from makeway.daemon.operation.transitions import advance, issuing, record
from makeway.daemon.operation.validation import InvalidOperation, validate
from makeway.policies.model import (
    Action,
    Ending,
    Expand,
    Method,
    Operation,
    OperationKind,
    OperationOutcome,
    Phase,
    Prioritise,
    Progress,
    Reason,
    Release,
    Reserve,
    RestoreLimit,
    RestorePriority,
    TakenFromJob,
    Task,
    kind_of,
)
from tests import acts
from tests.builders import cluster, pending, running, urgent
from tests.daemon.acting import (
    COMMENTS,
    DEADLINE_S,
    NODES,
    PATIENCE,
    after_view,
    begun,
    due,
    held_operation,
    holding,
    issue_all,
    lent_operation,
    lent_view,
    requeue,
    reserve,
    shrink,
    signal,
)

COMMON: dict[str, Any] = {"job_id": "u", "for_job_id": "u", "policy": "test", "reason": Reason.NO_ROOM}
FRONT = Prioritise(**COMMON)
PLACE = Prioritise(**COMMON, queue_position=3)
RESTORE = RestorePriority(**COMMON)
LIMIT = RestoreLimit(**COMMON, walltime_s=None, taken=TakenFromJob(run=0))


def release(name: str) -> Release:
    return Release(**COMMON, reservation=name)


@pytest.mark.parametrize(
    ("actions", "kind"),
    [
        ((requeue("v"), reserve()), OperationKind.MAKE_WAY),
        ((replace(reserve(), kind=OperationKind.QUEUE_HEAD),), OperationKind.QUEUE_HEAD),
        ((release("mw_x"), FRONT), OperationKind.FRONT),
        ((PLACE,), OperationKind.REORDER),
        ((release("mw_x"),), OperationKind.CLEAN_UP),
        ((RESTORE,), OperationKind.CLEAN_UP),
        ((LIMIT,), OperationKind.CLEAN_UP),
        ((replace(FRONT, job_id="v"),), OperationKind.CLEAN_UP),
    ],
)
def test_the_hold_says_the_kind_and_without_one_the_actions_do(
    actions: tuple[Action, ...], kind: OperationKind
) -> None:
    assert kind_of(actions) is kind


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": OperationKind.CLEAN_UP},
        {"kind": OperationKind.EARLY_START},
        {"kind": OperationKind.NOTICE},
        {"kind": OperationKind.ARRIVAL},
        {"kind": OperationKind.LEND_HELD},
        {"operation_id": ""},
        {"reservation": ""},
        {"nodes": ("n1",)},
        {"out_of": ("mw_n",)},
        {"phase": Phase.LENT},
        {"phase": Phase.RETURNING},
        {"phase": Phase.CLOSED, "ended_s": 1010.0, "outcome": OperationOutcome.STARTED},
        {"outcome": OperationOutcome.STARTED},
        {"started_s": 1010.0},
        {"ended_s": 1010.0},
        {"give_up_s": 900.0},
        {"observe": True},
        {"for_job_id": "w"},
        {"tasks": ()},
    ],
)
def test_an_operation_that_cannot_come_about_is_refused(changes: dict[str, Any]) -> None:
    operation = held_operation(requeue("v"))
    validate(operation)
    with pytest.raises(InvalidOperation, match="operation"):
        validate(replace(operation, **changes))


@pytest.mark.parametrize(
    "task",
    [
        Task(action=requeue("v"), progress=Progress.DONE),
        Task(action=requeue("v"), ending=Ending.SEEN, ended_s=1010.0),
        Task(action=requeue("v"), progress=Progress.GONE, ending=Ending.SEEN, ended_s=1010.0),
        Task(action=requeue("v"), progress=Progress.ISSUING),
        Task(action=requeue("v"), planned_s=900.0),
        Task(action=RESTORE),
        Task(action=reserve()),
    ],
)
def test_a_task_that_cannot_come_about_is_refused(task: Task) -> None:
    view = cluster(4, urgent("u", 4), running("v", NODES))
    operation = begun(view, reserve())
    with pytest.raises(InvalidOperation):
        validate(replace(operation, tasks=(*operation.tasks, task)))


def test_an_operation_without_a_hold_is_open_until_all_its_tasks_are_over() -> None:
    view = replace(after_view(), reservations=after_view().reservations)
    operation = begun(view, release("mw_gone"), release("mw_u"))
    operation = advance(operation, view, PATIENCE)
    assert [task.ending for task in operation.tasks] == [Ending.SEEN, None]
    assert operation.phase is Phase.MAKING_ROOM
    assert advance(operation, replace(view, reservations=()), PATIENCE).outcome is OperationOutcome.DONE


def test_a_hold_that_was_not_seen_yet_is_replaced_and_one_that_was_is_not() -> None:
    view = cluster(4, urgent("u", 4), running("v", NODES))
    other = reserve(("n1", "n2"))
    planned = extend(begun(view, reserve()), (other,), view, deadline_s=DEADLINE_S, timeouts=PATIENCE)
    validate(planned)
    assert [task.ending for task in planned.tasks] == [Ending.REPLACED, None]
    seen = holding(running("v", NODES))
    done = extend(held_operation(), (other,), seen, deadline_s=DEADLINE_S, timeouts=PATIENCE)
    assert [task.ending for task in done.tasks] == [Ending.SEEN, None]


def test_a_release_gives_back_what_is_held_and_is_a_task_of_what_holds_nothing() -> None:
    view = after_view()
    cleans = extend(begun(view, RESTORE), (release("mw_x"),), view, deadline_s=DEADLINE_S, timeouts=PATIENCE)
    validate(cleans)
    assert (cleans.phase, due(cleans, view)) == (Phase.MAKING_ROOM, [RESTORE, release("mw_x")])
    seen = holding(running("v", NODES))
    holds = extend(held_operation(), (release("mw_u"),), seen, deadline_s=DEADLINE_S, timeouts=PATIENCE)
    validate(holds)
    assert (holds.phase, due(holds, seen)) == (Phase.RETURNING, [release("mw_u")])


def test_the_end_of_a_grace_wakes_the_daemon() -> None:
    operation = held_operation(signal("v"), requeue("v", Method.SYSTEM))
    operation, _ = issue_all(operation, holding(running("v", NODES, checkpoint=COMMENTS)))
    assert wakeup_s(operation, 1100.0, PATIENCE) == 1310.0


def test_a_shrink_of_a_job_that_ended_is_over() -> None:
    operation = advance(held_operation(shrink("v", ("n1",))), holding(), PATIENCE)
    assert operation.tasks[-1].ending is Ending.LEFT_ITSELF


def test_a_lender_that_has_all_its_nodes_again_lends_nothing() -> None:
    operation = held_operation(shrink("v", ("n1",)))
    operation, _ = issue_all(operation, holding(running("v", NODES)))
    shrunk = lent_view(running("v", ("n1",)))
    operation = advance(operation, shrunk, PATIENCE)
    assert [lease.nodes for lease in leases(operation, shrunk)] == [("n2", "n3", "n4")]
    assert leases(operation, after_view(running("v", NODES))) == ()


def returning(*tasks: Task) -> Operation:
    """An operation at whose lender `v` was taken from as these tasks say."""
    operation = lent_operation(requeue("v"))
    return replace(operation, phase=Phase.RETURNING, ended_s=2000.0, tasks=(operation.tasks[0], *tasks))


def test_a_lender_that_left_again_gets_its_place_back_again_and_once() -> None:
    left = ended(Task(action=requeue("v"), nodes=NODES), Ending.SEEN, 2005.0)
    back = replace(FRONT, job_id="v", reason=Reason.BORROWER_ENDED)
    given = ended(Task(action=back), Ending.STARTED, 2001.0)
    waits = after_view(pending("v", 4, requeue_count=1), now_s=2010.0)

    def places(*tasks: Task) -> list[Action]:
        found = missing_returns(returning(*tasks), waits, Reason.BORROWER_ENDED)
        return [action for action in found if isinstance(action, Prioritise | Expand)]

    assert places(left, given) == [back]
    assert places(left, replace(given, ended_s=2006.0)) == []
    assert places(left, left) == [back]


def test_a_lender_whose_place_is_asked_for_again_does_not_keep_the_hold_for_ever() -> None:
    operation = lent_operation(requeue("v"))
    view = after_view(pending("v", 4, requeue_count=1))
    operation = advance(operation, view, PATIENCE)
    index = next(place for place, task in enumerate(operation.tasks) if isinstance(task.action, Prioritise))
    busy = record(issuing(operation, index, 2029.0), index, Progress.PLANNED, 2029.0, "try again")
    later = replace(view, now_s=2031.0)
    assert [type(action) for action in due(busy, later)] == [Release]


def test_one_lender_is_one_lender() -> None:
    operation = lent_operation(requeue("v"))
    over = after_view(running("v", NODES, requeue_count=1), reservations=False)
    closed = advance(operation, over, PATIENCE)
    assert outcome_text(closed) == "the urgent job started on time; 1 lender given back"


def test_what_could_not_be_given_back_is_not_said_to_be() -> None:
    """No job grows on this cluster, and the other one is held."""
    taken = tuple(
        Task(action=action, progress=Progress.DONE, ending=Ending.SEEN, ended_s=1010.0, nodes=NODES)
        for action in (shrink("s", NODES[:2]), requeue("v"))
    )
    refused = Task(action=acts.prioritise("v"), progress=Progress.REFUSED, ended_s=2000.0)
    operation = replace(returning(), outcome=OperationOutcome.STARTED, started_s=1020.0)
    operation = replace(operation, tasks=(*taken, refused))
    assert outcome_text(operation) == "the urgent job started on time; 0 of 2 lenders given back"


def test_a_release_says_which_reservation_the_job_was_submitted_with() -> None:
    """The first hold saw it. The next one may not: the cluster may show makeway's reservation alone."""
    later = returning().tasks[0]
    assert isinstance(later.action, Reserve)
    first = replace(later, action=replace(later.action, own_reservation="theirs"))
    operation = replace(returning(), tasks=(first, later))
    found = missing_returns(operation, after_view(), Reason.BORROWER_ENDED)
    assert [action.own_reservation for action in found if isinstance(action, Release)] == ["theirs"]
