"""Stored bodies: written in one format, read in every older one, refused with a reason otherwise."""

import json
from dataclasses import replace
from typing import Any

import pytest

from makeway.daemon.journal.codec import (
    ACTION,
    DECISION,
    NOTICE,
    OPERATION,
    PLAN,
    BadBody,
    BodyTooNew,
    pack,
    unpack,
)
from makeway.daemon.journal.formats import FORMAT, STEPS, Noun, Step, renamed, upgraded
from makeway.policies.model import (
    VERBS,
    Decision,
    Ending,
    Notice,
    Operation,
    OperationKind,
    OperationOutcome,
    Plan,
    Prioritise,
    Rationale,
    Reason,
    Reserve,
    Task,
)
from tests.builders import cluster, urgent

PRIORITISE = Prioritise(job_id="7", for_job_id="7", policy="horizon", reason=Reason.PLANNED, queue_position=3)
NOTICE_N = Notice(notice_id="n", user="u", node_count=2, walltime_s=60.0, announced_s=0.0, expected_s=900.0)
OPERATION_7 = Operation(
    operation_id="7@0",
    kind=OperationKind.REORDER,
    for_job_id="7",
    policy="horizon",
    reservation="mw_7",
    nodes=(),
    opened_s=0.0,
    deadline_s=1.0,
    give_up_s=2.0,
    tasks=(Task(action=PRIORITISE),),
    notice=NOTICE_N,
)
PLAN_7 = Plan(made_s=0.0, order=("7",), starts_s=(1.0,), value=1.0, easy_value=2.0, bound=0.5)
VIEW = replace(
    cluster(2, replace(urgent("7", 1), queue_position=3)),
    operations=(OPERATION_7,),
    notices=(NOTICE_N,),
    plan=PLAN_7,
)


def in_format_0(text: str | bytes) -> str:
    """A body as it was written before bodies had formats."""

    def older(value: Any) -> Any:
        match value:
            case dict():
                return {
                    "place" if key == "queue_position" else key: older(entry) for key, entry in value.items()
                }
            case list():
                return [older(entry) for entry in value]
            case _:
                return value

    return json.dumps(older(json.loads(text)["body"]))


def test_a_body_says_its_format() -> None:
    assert json.loads(ACTION.encode(PRIORITISE))["format"] == FORMAT == len(STEPS)


def test_every_body_comes_back() -> None:
    why = Rationale(for_job_id="7", node_count=1, free_node_count=0, deadline_s=9.0, summary="none is free")
    decision = Decision(policy="horizon", actions=(PRIORITISE,), rationale=(why,))

    assert ACTION.decode(ACTION.encode(PRIORITISE)) == PRIORITISE
    assert OPERATION.decode(OPERATION.encode(OPERATION_7)) == OPERATION_7
    assert DECISION.decode(DECISION.encode(decision)) == decision
    assert NOTICE.decode(NOTICE.encode(NOTICE_N)) == NOTICE_N
    assert PLAN.decode(PLAN.encode(PLAN_7)) == PLAN_7
    assert unpack(pack(VIEW)) == VIEW


def test_a_body_without_a_format_is_read_as_the_oldest() -> None:
    decision = Decision(policy="horizon", actions=(PRIORITISE,))

    assert ACTION.decode(in_format_0(ACTION.encode(PRIORITISE))) == PRIORITISE
    assert OPERATION.decode(in_format_0(OPERATION.encode(OPERATION_7))) == OPERATION_7
    assert DECISION.decode(in_format_0(DECISION.encode(decision))) == decision
    assert NOTICE.decode(in_format_0(NOTICE.encode(NOTICE_N))) == NOTICE_N


def test_every_noun_of_a_body_is_upgraded_and_the_inner_ones_first() -> None:
    def mark(noun: str) -> Any:
        return lambda value: {**value, noun: sorted(key for key in value if key.isupper())}

    nouns = ("action", "task", "notice", "operation", "job", "plan", "rationale", "decision", "cluster")
    step = Step(**{noun: mark(noun.upper()) for noun in nouns})

    action: dict[str, Any] = {"ACTION": []}
    operation = {
        "tasks": [{"action": action, "TASK": []}],
        "notice": {"NOTICE": []},
        "OPERATION": [],
    }
    assert step.upgrade(Noun.ACTION, {}) == action
    assert step.upgrade(Noun.PLAN, {}) == {"PLAN": []}
    assert step.upgrade(Noun.NOTICE, {}) == {"NOTICE": []}
    assert step.upgrade(Noun.OPERATION, {"tasks": [{"action": {}}], "notice": {}}) == operation
    assert step.upgrade(Noun.DECISION, {"actions": [{}], "rationale": [{}]}) == {
        "actions": [action],
        "rationale": [{"RATIONALE": []}],
        "DECISION": [],
    }
    view: dict[str, Any] = {
        "jobs": [{}],
        "notices": [{}],
        "operations": [{"tasks": [{"action": {}}], "notice": {}}],
        "plan": {},
    }
    assert step.upgrade(Noun.CLUSTER, view) == {
        "jobs": [{"JOB": []}],
        "notices": [{"NOTICE": []}],
        "operations": [operation],
        "plan": {"PLAN": []},
        "CLUSTER": [],
    }


def test_a_renamed_field_keeps_its_value() -> None:
    assert renamed("place", "queue_position")({"place": 3, "verb": "prioritise"}) == {
        "queue_position": 3,
        "verb": "prioritise",
    }
    assert upgraded(Noun.ACTION, {"place": 3}, 0) == {"queue_position": 3}
    assert upgraded(Noun.ACTION, {"place": 3}, FORMAT) == {"place": 3}


@pytest.mark.parametrize("can_expand", [True, False])
def test_format_2_lists_the_actions_of_a_cluster(can_expand: bool) -> None:
    old: dict[str, Any] = {"now_s": 5.0, "can_expand": can_expand}
    new = upgraded(Noun.CLUSTER, old, 1)
    assert new.keys() == {"now_s", "actions", "limits"}
    assert isinstance(new["actions"], list)
    then = VERBS - {"restore_limit"}
    assert set(map(str, new["actions"])) == (then if can_expand else then - {"expand"})


def test_format_4_has_no_limit_of_prices_where_there_was_none() -> None:
    none = {
        "min_progress_s": 0.0,
        "max_loss_node_hours": None,
        "max_loss_node_hours_per_day": None,
        "price_past_evictions": False,
    }
    assert STEPS[3].upgrade(Noun.CLUSTER, {"now_s": 5.0}) == {"now_s": 5.0, "limits": none}
    kept = STEPS[3].upgrade(Noun.CLUSTER, {"limits": {"max_nodes": 7}})
    assert kept == {"limits": {**none, "max_nodes": 7}}


def test_format_5_has_no_limit_that_grows_with_the_machine_where_there_was_none() -> None:
    none = {"max_loss_machine_share": 0.0, "max_loss_machine_share_per_day": 0.0}
    assert STEPS[4].upgrade(Noun.CLUSTER, {"now_s": 5.0}) == {"now_s": 5.0, "limits": none}
    kept = STEPS[4].upgrade(Noun.CLUSTER, {"limits": {"max_loss_node_hours": 7.0}})
    assert kept == {"limits": {**none, "max_loss_node_hours": 7.0}}


@pytest.mark.parametrize("forgotten", [True, False])
def test_format_2_marks_the_action_that_was_forgotten(forgotten: bool) -> None:
    action: dict[str, Any] = {"verb": "requeue", "job_id": "7"}
    old: dict[str, Any] = {"tasks": [{"action": action, "requeue_count": 3, "forgotten": forgotten}]}
    marked = {**action, "forgotten_run": 3} if forgotten else action
    assert STEPS[1].upgrade(Noun.OPERATION, old) == {"tasks": [{"action": marked, "requeue_count": 3}]}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is not JSON"),
        ('{"format": 1, "bo', "it is not JSON"),
        (b'{"operation_id": "\xff"}', "it is not JSON"),
        ("[]", "it is not a JSON object"),
        ("7", "it is not a JSON object"),
        ('{"format": "1", "body": {}}', "no valid format number"),
        ('{"format": 0, "body": {}}', "no valid format number"),
        ('{"format": 1}', "no body"),
        ('{"format": 1, "body": {}}', "operation_id"),
        ('{"tasks": 7}', "operation_id"),
        ('{"tasks": [7], "notice": []}', "operation_id"),
    ],
)
def test_a_damaged_body_is_refused_with_the_reason(text: str | bytes, reason: str) -> None:
    with pytest.raises(BadBody, match=reason) as caught:
        OPERATION.decode(text)
    assert not isinstance(caught.value, BodyTooNew)
    assert "\n" not in str(caught.value)


def test_a_newer_body_is_refused_with_both_formats() -> None:
    with pytest.raises(BodyTooNew, match=rf"format {FORMAT + 1}; this one reads up to {FORMAT}\)"):
        OPERATION.decode(json.dumps({"format": FORMAT + 1, "body": {"anything": 1}}))


@pytest.mark.parametrize("blob", [b"", b"no zlib", pack(VIEW)[:-9]])
def test_a_damaged_snapshot_is_refused(blob: bytes) -> None:
    with pytest.raises(BadBody, match="not compressed"):
        unpack(blob)


def hold_2(**changes: Any) -> dict[str, Any]:
    """A hold as format 2 had it."""
    common = {"job_id": "u", "for_job_id": "u", "policy": "p", "reason": "urgent_arrival", "verb": "reserve"}
    return {**common, "reservation": "mw_u", "nodes": ["n1"], "duration_s": 9.0, **changes}


def operation_2(*tasks: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """An operation as format 2 had it."""
    values = {"operation_id": "u@7.000", "for_job_id": "u", "policy": "p", "reservation": "mw_u"}
    times = {"nodes": ["n1"], "opened_s": 7.0, "deadline_s": 8.0, "give_up_s": 9.0}
    return {**values, **times, "tasks": list(tasks), **changes}


def read_2(body: dict[str, Any]) -> Operation:
    return OPERATION.decode(json.dumps({"format": 2, "body": body}))


def task_2(action: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"action": action, "progress": "done", "ended_s": 7.5, **changes}


NOTICE_2 = {
    "notice_id": "n",
    "user": "u",
    "node_count": 1,
    "walltime_s": 9.0,
    "announced_s": 0.0,
    "expected_s": 8.0,
}
ANNOUNCED_2 = hold_2(job_id="n", for_job_id="n", reason="announced", user="u")
FRONT_2 = {"job_id": "u", "for_job_id": "u", "policy": "p", "reason": "no_room", "verb": "prioritise"}
PLACE_2 = {**FRONT_2, "reason": "planned", "queue_position": 3}
RELEASE_2 = {**FRONT_2, "reason": "orphaned", "verb": "release", "reservation": "mw_x"}


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (operation_2(task_2(hold_2())), OperationKind.MAKE_WAY),
        (operation_2(task_2(hold_2(reason="speculative"))), OperationKind.EARLY_START),
        (
            operation_2(task_2(hold_2(reason="speculative", out_of=["mw_n"]))),
            OperationKind.LEND_HELD,
        ),
        (operation_2(task_2(hold_2(reason="head_due", nodes=[]))), OperationKind.QUEUE_HEAD),
        (
            operation_2(task_2(ANNOUNCED_2), for_job_id="n", notice=NOTICE_2),
            OperationKind.NOTICE,
        ),
        (operation_2(task_2(ANNOUNCED_2), notice=NOTICE_2), OperationKind.ARRIVAL),
        (
            operation_2(task_2(ANNOUNCED_2), task_2(hold_2()), notice=NOTICE_2),
            OperationKind.MAKE_WAY,
        ),
        (operation_2(task_2(FRONT_2), reservation="", nodes=[]), OperationKind.FRONT),
        (operation_2(task_2(PLACE_2), reservation="", nodes=[]), OperationKind.REORDER),
        (operation_2(task_2(RELEASE_2), reservation="", nodes=[]), OperationKind.CLEAN_UP),
    ],
)
def test_an_operation_of_format_2_gets_the_kind_that_its_first_hold_meant(
    body: dict[str, Any], kind: OperationKind
) -> None:
    found = read_2(body)
    assert found.kind is kind
    assert found.out_of == (("mw_n",) if kind is OperationKind.LEND_HELD else ())
    hold = found.tasks[0].action
    if isinstance(hold, Reserve):
        opened_as = OperationKind.NOTICE if found.notice is not None else kind
        assert hold.kind is opened_as


@pytest.mark.parametrize(
    ("progress", "detail", "ending", "left"),
    [
        ("done", "grace over without an acknowledgement", Ending.UNACKNOWLEDGED, ""),
        ("done", "acknowledged", Ending.ACKNOWLEDGED, ""),
        ("done", "requeued itself", Ending.REQUEUED_ITSELF, ""),
        ("done", "runs", Ending.STARTED, ""),
        ("done", "", Ending.SEEN, ""),
        ("gone", "left its nodes by itself", Ending.LEFT_ITSELF, ""),
        ("gone", "ended by itself", Ending.ENDED_ITSELF, "ended by itself"),
        ("dropped", "replaced by a new hold", Ending.REPLACED, ""),
        ("dropped", "given_up", Ending.NOT_NEEDED, "given_up"),
        ("refused", "Access denied", Ending.REJECTED, "Access denied"),
        ("refused", "acknowledged", Ending.REJECTED, "acknowledged"),
        ("planned", "try again in a bit", None, "try again in a bit"),
    ],
)
def test_a_task_of_format_2_gets_the_ending_that_its_sentence_named(
    progress: str, detail: str, ending: Ending | None, left: str
) -> None:
    (task,) = read_2(operation_2(task_2(hold_2(), progress=progress, detail=detail))).tasks
    assert (task.ending, task.detail) == (ending, left)
    assert ending is None or ending.progress is task.progress


@pytest.mark.parametrize(
    ("sentence", "changes", "outcome"),
    [
        ("", {"phase": "lent", "started_s": 8.0}, None),
        ("done", {"reservation": "", "nodes": []}, OperationOutcome.DONE),
        ("the urgent job started on time; 1 lender given back", {"started_s": 8.0}, OperationOutcome.STARTED),
        ("the urgent job did not start; 0 lenders given back", {}, OperationOutcome.NOT_STARTED),
        ("observed", {"observe": True}, OperationOutcome.EXPIRED),
        ("observed; the job still waits", {"observe": True}, OperationOutcome.STILL_WAITS),
        (
            "observed; the urgent job started without help",
            {"observe": True, "started_s": 8.0},
            OperationOutcome.STARTED,
        ),
        ("observed until the mode became act", {"observe": True}, OperationOutcome.MODE_CHANGED),
    ],
)
def test_an_operation_of_format_2_gets_the_outcome_that_its_sentence_named(
    sentence: str, changes: dict[str, Any], outcome: OperationOutcome | None
) -> None:
    body = operation_2(task_2(hold_2()), phase="closed", outcome=sentence)
    assert read_2({**body, **changes}).outcome is outcome
