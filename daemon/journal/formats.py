"""The formats of stored bodies, and how a body in an older format is brought up to date.

A body is a value of the model as JSON. Whenever the JSON of a stored value changes (a field is renamed,
moved, or gets another meaning), the change is described here by one `Step`, and the number of the format
rises by one. A step consists of pure functions of plain JSON values: it must not use the classes of the
model, which will change again. A new field with a default needs no step.

Format 0 is that of bodies without a format number, which makeway wrote before bodies had one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from makeway.daemon.journal import kinds
from makeway.daemon.journal.kinds import JsonObject

if TYPE_CHECKING:
    from pydantic import JsonValue

Change = Callable[[JsonObject], JsonObject]


class Noun(StrEnum):
    """What a body is."""

    ACTION = "action"
    OPERATION = "operation"
    NOTICE = "notice"
    PLAN = "plan"
    DECISION = "decision"
    CLUSTER = "cluster"


def unchanged(value: JsonObject) -> JsonObject:
    """The change of what a step leaves alone."""
    return value


def renamed(old: str, new: str) -> Change:
    """The change that gives a field another name."""

    def change(value: JsonObject) -> JsonObject:
        return {new if key == old else key: entry for key, entry in value.items()}

    return change


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """From one format to the next: how the JSON of each noun changes. What a noun contains has been changed
    before it.
    """

    action: Change = unchanged
    task: Change = unchanged
    notice: Change = unchanged
    operation: Change = unchanged
    job: Change = unchanged
    plan: Change = unchanged
    rationale: Change = unchanged
    decision: Change = unchanged
    cluster: Change = unchanged

    def upgrade(self, noun: Noun, value: JsonObject) -> JsonObject:
        """The whole body in the next format."""
        match noun:
            case Noun.ACTION:
                return self.action(value)
            case Noun.OPERATION:
                return self._operation(value)
            case Noun.NOTICE:
                return self.notice(value)
            case Noun.PLAN:
                return self.plan(value)
            case Noun.DECISION:
                value = _inside(value, "actions", self.action)
                return self.decision(_inside(value, "rationale", self.rationale))
            case Noun.CLUSTER:
                value = _inside(value, "jobs", self.job)
                value = _inside(value, "notices", self.notice)
                value = _inside(value, "operations", self._operation)
                return self.cluster(_inside(value, "plan", self.plan))

    def _operation(self, value: JsonObject) -> JsonObject:
        value = _inside(value, "tasks", self._task)
        return self.operation(_inside(value, "notice", self.notice))

    def _task(self, value: JsonObject) -> JsonObject:
        return self.task(_inside(value, "action", self.action))


def _inside(value: JsonObject, key: str, change: Change) -> JsonObject:
    """Change the object, or the list of objects, in a field. A field of another shape is left for the codec
    to refuse.
    """
    match value.get(key):
        case list() as entries:
            changed: JsonValue = [change(entry) if isinstance(entry, dict) else entry for entry in entries]
        case dict() as entry:
            changed = change(entry)
        case _:
            return value
    return {**value, key: changed}


_ACTIONS_BEFORE_2 = (
    *("cancel", "checkpoint", "expand", "prioritise", "release", "requeue"),
    *("reserve", "restore_priority", "shrink"),
)


def _actions_for_can_expand(cluster: JsonObject) -> JsonObject:
    """A cluster says which actions it can do; before, only whether jobs can grow."""
    can_expand = cluster.get("can_expand", False) is True
    kinds: list[JsonValue] = [verb for verb in _ACTIONS_BEFORE_2 if can_expand or verb != "expand"]
    return {**{key: entry for key, entry in cluster.items() if key != "can_expand"}, "actions": kinds}


def _forgotten_run(task: JsonObject) -> JsonObject:
    """That a requeue was forgotten is part of the action; before, it was part of its task."""
    rest = {key: entry for key, entry in task.items() if key != "forgotten"}
    action = task.get("action")
    if task.get("forgotten") is not True or not isinstance(action, dict):
        return rest
    return {**rest, "action": {**action, "forgotten_run": task.get("requeue_count", 0)}}


def _limits_of_no_price(cluster: JsonObject) -> JsonObject:
    """A cluster has limits on what urgent jobs may cost; before, there were none."""
    limits = cluster.get("limits")
    none: JsonObject = {
        "min_progress_s": 0.0,
        "max_loss_node_hours": None,
        "max_loss_node_hours_per_day": None,
        "price_past_evictions": False,
    }
    return {**cluster, "limits": {**none, **(limits if isinstance(limits, dict) else {})}}


def _limits_of_amounts(cluster: JsonObject) -> JsonObject:
    """The work that may be lost has limits that grow with the machine; before, none did."""
    limits = cluster.get("limits")
    none: JsonObject = {"max_loss_machine_share": 0.0, "max_loss_machine_share_per_day": 0.0}
    return {**cluster, "limits": {**none, **(limits if isinstance(limits, dict) else {})}}


STEPS: Final = (
    # 0 to 1: a job's place in a planned order is its queue position.
    Step(action=renamed("place", "queue_position"), job=renamed("place", "queue_position")),
    # 1 to 2: a cluster lists the actions that it can do, and a forgotten requeue says so itself.
    Step(task=_forgotten_run, cluster=_actions_for_can_expand),
    # 2 to 3: a hold and an operation say their kind, a task its ending, an operation its outcome in one word.
    Step(action=kinds.action, task=kinds.task, operation=kinds.operation),
    # 3 to 4: the work that evictions may lose is limited.
    Step(cluster=_limits_of_no_price),
    # 4 to 5: these limits grow with the machine.
    Step(cluster=_limits_of_amounts),
    # 5 to 6: a job says what was taken from it, and an action restores its time limit. Older versions would
    # take such an action for damaged.
    Step(),
)
"""The step at index n leads from format n to format n + 1."""
FORMAT: Final = len(STEPS)
"""The format in which bodies are written."""


def upgraded(noun: Noun, value: JsonObject, from_format: int) -> JsonObject:
    """A body of an older format in the present one."""
    for step in STEPS[from_format:]:
        value = step.upgrade(noun, value)
    return value
