"""What the journal holds, as values, and how they become text and come back."""

import zlib
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from makeway.policies.model import Action, Cluster, Decision, Notice, Operation, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDecision:
    """A decision as it was taken."""

    decision_id: int
    at_s: float
    decision: Decision
    cluster: Cluster | None
    """The snapshot that it was taken on. None: it was not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCommand:
    """One command as it was sent."""

    command_id: int
    operation_id: str
    action: Action
    issued_s: float
    answered_s: float | None
    """None: no answer was written down."""
    outcome: str | None
    detail: str


def stored_decision(row: tuple[Any, ...]) -> StoredDecision:
    """A row of number, instant, decision and snapshot, the last of which may be NULL."""
    cluster = as_cluster().validate_json(zlib.decompress(row[3])) if row[3] is not None else None
    return StoredDecision(
        decision_id=row[0], at_s=row[1], decision=as_decision().validate_json(row[2]), cluster=cluster
    )


def dump(adapter: TypeAdapter[Any], value: object) -> str:
    """A value as JSON."""
    return adapter.dump_json(value).decode()


@cache
def as_operation() -> TypeAdapter[Operation]:
    """How an operation is written and read."""
    return TypeAdapter(Operation)


@cache
def as_action() -> TypeAdapter[Action]:
    """How an action is written and read."""
    return TypeAdapter(Action)


@cache
def as_decision() -> TypeAdapter[Decision]:
    """How a decision is written and read."""
    return TypeAdapter(Decision)


@cache
def as_cluster() -> TypeAdapter[Cluster]:
    """How a cluster is written and read."""
    return TypeAdapter(Cluster)


@cache
def as_plan() -> TypeAdapter[Plan]:
    """How a plan is written and read."""
    return TypeAdapter(Plan)


@cache
def as_notice() -> TypeAdapter[Notice]:
    """How a notice is written and read."""
    return TypeAdapter(Notice)
