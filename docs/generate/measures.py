"""The reference of the measures: every key of `makeway replay --json`, with its unit."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import get_args, get_type_hints

from docs.generate.attributes import field_docstrings
from makeway.simharness.results.measures import LABELS, GroupMeasures, Measures, MeasureSettings

GROUP = "GROUP"
"""Stands for a group of jobs in a key."""
_UNITS = (
    (r"_node_hours$", "node-hours"),
    (r"_core_hours$", "core-hours"),
    (r"_gpu_hours$", "GPU-hours"),
    (r"_ms$", "milliseconds"),
    (r"_s$", "seconds"),
    (r"_(rate|ratio)$|utilisation$", "a share of 1"),
    (r"slowdown", "a factor"),
    (r"^queue_length", "jobs"),
    (r"^node_count$", "nodes"),
    (r"^(jobs|started|completed|on_time|preempted|shrunk|excluded)$", "jobs"),
    (r"^(evictions|shrinks|commands|decisions)$", "a count"),
)
"""What the unit of a number is, by the end of its name; the first that fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentedMeasure:
    """One row of the reference."""

    key: str
    unit: str
    meaning: str
    """Empty: its field has no docstring."""
    optional: bool
    """Whether it can be null."""


def machine_measures() -> Iterator[DocumentedMeasure]:
    """The numbers of a replay that are not about a group of jobs."""
    yield from _measures(Measures, "machine", LABELS)


def group_measures() -> Iterator[DocumentedMeasure]:
    """The numbers of each group of jobs."""
    yield from _measures(GroupMeasures, GROUP, frozenset({"group"}))


def measure_settings() -> Iterator[DocumentedMeasure]:
    """What the definitions leave open."""
    yield from _measures(MeasureSettings, "settings", frozenset())


def _measures(record: type, group: str, left_out: frozenset[str]) -> Iterator[DocumentedMeasure]:
    told, hints = field_docstrings(record), get_type_hints(record)
    for field in fields(record):
        if field.name in left_out:
            continue
        yield DocumentedMeasure(
            key=f"{group}.{field.name}",
            unit=next(unit for pattern, unit in _UNITS if re.search(pattern, field.name)),
            meaning=re.sub(r"\bNone\b", "`null`", told.get(field.name, "")),
            optional=type(None) in get_args(hints[field.name]),
        )
