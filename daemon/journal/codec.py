"""What the journal holds, as values, and how they become text and come back.

Every body is stored as `{"format": n, "body": ...}`, so that it says by itself how to read it (`formats`).
pydantic is imported with the first body: a replay whose journal is not kept has none.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from makeway.daemon.journal.formats import FORMAT, Noun, upgraded
from makeway.daemon.journal.kinds import JsonObject
from makeway.policies.model import Action, Cluster, Decision, Notice, Operation, Plan

if TYPE_CHECKING:
    from pydantic import JsonValue, TypeAdapter, ValidationError

_Value = TypeVar("_Value")


class BadBody(ValueError):
    """A stored body cannot be read. The message says why, without a name for it: its reader knows where it is
    from.
    """


class BodyTooNew(BadBody):
    """A newer makeway wrote it."""


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
    """An `Outcome`, or the word of a newer makeway. None: no answer was written down."""
    detail: str


@dataclass(frozen=True, slots=True)
class BodyCodec(Generic[_Value]):
    """Writes and reads the bodies of one noun."""

    noun: Noun
    _adapter: "Callable[[], TypeAdapter[_Value]]"
    """Made when it is first used: that takes a while."""

    def encode(self, value: _Value) -> str:
        """The value as JSON, with its format."""
        return f'{{"format":{FORMAT},"body":{self._adapter().dump_json(value).decode()}}}'

    def decode(self, text: str | bytes) -> _Value:
        """The value that was stored, whatever the format.

        Raises:
            BodyTooNew: its format is newer than this makeway.
            BadBody: it is not such a value.
        """
        from pydantic import ValidationError

        try:
            return self._adapter().validate_python(self._present(text))
        except ValidationError as error:
            raise BadBody(_first_of(error)) from error

    def _present(self, text: str | bytes) -> JsonObject:
        """The body in the present format."""
        from pydantic_core import from_json

        try:
            stored: JsonValue = from_json(text)
        except ValueError as error:
            raise BadBody(f"it is not JSON: {error}") from error
        if not isinstance(stored, dict):
            raise BadBody("it is not a JSON object")
        if "format" not in stored:
            return upgraded(self.noun, stored, 0)
        number, body = stored["format"], stored.get("body")
        if not isinstance(number, int) or number < 1 or not isinstance(body, dict):
            raise BadBody("it has no valid format number, or no body")
        if number > FORMAT:
            raise BodyTooNew(f"a newer makeway wrote it (format {number}; this one reads up to {FORMAT})")
        return upgraded(self.noun, body, number)


def _first_of(error: "ValidationError") -> str:
    """The first of the problems, in one line."""
    problem = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, problem["loc"]))
    return f"{where}: {problem['msg']}" if where else problem["msg"]


def _adapter_of(kind: Any) -> "Callable[[], TypeAdapter[Any]]":
    """What makes the adapter of a type, once."""

    @cache
    def adapter() -> "TypeAdapter[Any]":
        from pydantic import TypeAdapter

        return TypeAdapter(kind)

    return adapter


OPERATION: Final[BodyCodec[Operation]] = BodyCodec(Noun.OPERATION, _adapter_of(Operation))
ACTION: Final[BodyCodec[Action]] = BodyCodec(Noun.ACTION, _adapter_of(Action))
DECISION: Final[BodyCodec[Decision]] = BodyCodec(Noun.DECISION, _adapter_of(Decision))
PLAN: Final[BodyCodec[Plan]] = BodyCodec(Noun.PLAN, _adapter_of(Plan))
NOTICE: Final[BodyCodec[Notice]] = BodyCodec(Noun.NOTICE, _adapter_of(Notice))
_CLUSTER: Final[BodyCodec[Cluster]] = BodyCodec(Noun.CLUSTER, _adapter_of(Cluster))


def pack(cluster: Cluster) -> bytes:
    """A snapshot as it is stored: compressed."""
    return zlib.compress(_CLUSTER.encode(cluster).encode(), 6)


def unpack(blob: bytes) -> Cluster:
    """A stored snapshot.

    Raises:
        BadBody: it cannot be read.
    """
    try:
        text = zlib.decompress(blob)
    except zlib.error as error:
        raise BadBody(f"it is not compressed as it should be: {error}") from error
    return _CLUSTER.decode(text)
