"""Format 2 to 3: what makeway derived from reasons, tasks and English sentences before, and now stores.

A hold said by its `reason` what it was for; an operation was what its first hold said; how a task had ended,
and what an operation had come to, were sentences.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pydantic import JsonValue

JsonObject = dict[str, "JsonValue"]

_ENDINGS: Final = {
    "acknowledged": "acknowledged",
    "grace over without an acknowledgement": "unacknowledged",
    "requeued itself": "requeued_itself",
    "runs": "started",
    "left its nodes by itself": "left_itself",
    "no longer in the run that was shrunk": "run_over",
    "does not run any more": "run_over",
    "replaced by a new hold": "replaced",
    "the urgent job runs": "job_started",
    "the announced job has arrived": "job_arrived",
    "the urgent job waits again": "job_waits_again",
}
_PROGRESS_OF_ENDING: Final = {
    "done": {"acknowledged", "unacknowledged", "requeued_itself", "started"},
    "gone": {"left_itself", "run_over"},
    "dropped": {"replaced", "job_started", "job_arrived", "job_waits_again"},
}
_USUAL_ENDINGS: Final = {
    "done": "seen",
    "gone": "ended_itself",
    "refused": "rejected",
    "dropped": "not_needed",
}
"""The ending of a task whose sentence says nothing more."""
_OUTCOMES: Final = {
    "observed": "expired",
    "observed; the announced job has arrived": "arrived",
    "observed; the job still waits": "still_waits",
    "observed until the mode became act": "mode_changed",
}


def action(value: JsonObject) -> JsonObject:
    """A hold with the kind of operation that it opens."""
    return {**value, "kind": _kind_of_hold(value)} if value.get("verb") == "reserve" else value


def task(value: JsonObject) -> JsonObject:
    """A task with its ending. What the cluster or the arbiter said stays in `detail`."""
    progress, detail = value.get("progress"), value.get("detail")
    if not isinstance(progress, str) or progress not in _USUAL_ENDINGS:
        return {**value, "ending": None}
    known = _ENDINGS.get(detail) if isinstance(detail, str) else None
    if known is not None and known in _PROGRESS_OF_ENDING.get(progress, set()):
        return {**value, "ending": known, "detail": ""}
    return {**value, "ending": _USUAL_ENDINGS[progress]}


def operation(value: JsonObject) -> JsonObject:
    """An operation with its kind, the holds that lent its nodes, and its outcome."""
    holds = _actions(value, "reserve")
    return {
        **value,
        "kind": _kind(value),
        "out_of": holds[0].get("out_of", []) if holds else [],
        "outcome": _outcome(value),
    }


def _kind(value: JsonObject) -> str:
    holds = _actions(value, "reserve")
    if not value.get("reservation") or not holds:
        moves = _actions(value, "prioritise")
        if not moves:
            return "clean_up"
        return "front" if moves[0].get("queue_position") is None else "reorder"
    first = _kind_of_hold(holds[0])
    notice = value.get("notice")
    if first not in {"make_way", "notice"} or not isinstance(notice, dict):
        return "make_way" if first == "notice" else first
    if value.get("for_job_id") == notice.get("notice_id"):
        return "notice"
    own = any(hold.get("job_id") == value.get("for_job_id") for hold in holds)
    return "make_way" if own else "arrival"


def _kind_of_hold(hold: JsonObject) -> str:
    match hold.get("reason"):
        case "speculative":
            return "lend_held" if hold.get("out_of") else "early_start"
        case "head_due":
            return "queue_head"
        case _:
            return "make_way" if hold.get("user") is None else "notice"


def _outcome(value: JsonObject) -> str | None:
    if value.get("phase") != "closed":
        return None
    sentence = value.get("outcome")
    known = _OUTCOMES.get(sentence) if isinstance(sentence, str) else None
    if known is not None:
        return known
    if not value.get("observe") and not value.get("reservation"):
        return "done"
    return "not_started" if value.get("started_s") is None else "started"


def _actions(value: JsonObject, verb: str) -> list[JsonObject]:
    """The actions of an operation's tasks with this verb, in their order."""
    tasks = value.get("tasks")
    found: list[JsonObject] = []
    for entry in tasks if isinstance(tasks, list) else []:
        wanted = entry.get("action") if isinstance(entry, dict) else None
        if isinstance(wanted, dict) and wanted.get("verb") == verb:
            found.append(wanted)
    return found
