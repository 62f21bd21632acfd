"""A change of what is stored needs a step to a new format: this test notices it."""

import dataclasses
from enum import StrEnum
from pathlib import Path
from typing import Any, get_args, get_type_hints

from makeway.daemon.journal.formats import FORMAT
from makeway.policies.model import Action, Cluster, Decision, Notice, Operation, Plan

RECORDED = Path(__file__).with_name("stored_fields.txt")


def stored_fields() -> list[str]:
    """Every class that a body contains: fields with `?` if they have a default, or the values of an enum."""
    found: dict[str, str] = {}
    waiting: list[Any] = [Action, Cluster, Decision, Notice, Operation, Plan]
    while waiting:
        kind = waiting.pop()
        waiting += get_args(kind)
        if not isinstance(kind, type) or kind.__name__ in found:
            continue
        if dataclasses.is_dataclass(kind):
            fields = dataclasses.fields(kind)
            missing = dataclasses.MISSING
            required = {one.name for one in fields if one.default is one.default_factory is missing}
            words = [one.name + ("" if one.name in required else "?") for one in fields]
            waiting += get_type_hints(kind).values()
        elif issubclass(kind, StrEnum):
            words = [str(member) for member in kind]
        else:
            continue
        found[kind.__name__] = " ".join(sorted(words))
    return [f"format {FORMAT}", *(f"{name}: {words}" for name, words in sorted(found.items()))]


def test_what_is_stored_changes_with_its_format_only() -> None:
    """If this fails: can older bodies be read as they are (a new field with a default, a new value of an
    enum)?

    Then bring `stored_fields.txt` up to date. Else add a step to `daemon/journal/formats.py` first.
    """
    assert stored_fields() == RECORDED.read_text().splitlines()
