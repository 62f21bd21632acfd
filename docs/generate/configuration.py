"""The tables of the configuration reference, from the models that check a configuration."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo

from docs.generate.attributes import field_docstrings
from makeway.adapters.registry import adapter_names, find_adapter
from makeway.adapters.site.class_sections import CheckpointSettings, JobClassSettings
from makeway.adapters.site.job_class import JobClass
from makeway.adapters.slurm.settings import SlurmAdapterSettings, SlurmSettings
from makeway.daemon.config.load import AMOUNT_LIMITS
from makeway.daemon.config.schema import LimitsSettings, NoticesSettings, Settings, TimeoutSettings
from makeway.daemon.operation.announcements import NoticeLimits
from makeway.daemon.operation.observation import Timeouts
from makeway.policies.contract import Policy
from makeway.policies.model import CheckpointSpec, Limits
from makeway.policies.registry import POLICIES

_TOLD_BY: Mapping[type, type] = MappingProxyType(
    {
        CheckpointSettings: CheckpointSpec,
        JobClassSettings: JobClass,
        LimitsSettings: Limits,
        NoticesSettings: NoticeLimits,
        SlurmAdapterSettings: SlurmSettings,
        TimeoutSettings: Timeouts,
    }
)
"""The record that has the meaning of a section's settings: the section only has their ranges."""
ADAPTER = "adapter"
_NUMBERS = {int: "a whole number", float: "a number"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row of the reference."""

    path: str
    """Its place in a configuration, such as `limits.max_nodes`."""
    default: str
    accepted: str
    meaning: str
    """Empty: its field has no docstring."""


def sections() -> Iterator[tuple[str, str, tuple[Setting, ...]]]:
    """Each section of a configuration but the adapters and the policies: path, description, settings."""
    yield "", "", tuple(_settings_of(Settings, ""))
    for name, section in _subsections(Settings):
        if name not in {ADAPTER, "policy"}:
            yield name, _first_sentence(section), tuple(_settings_of(section, name))


def adapters() -> Iterator[tuple[str, str, tuple[Setting, ...]]]:
    """The section `adapter` of each adapter that is installed: its name, description, settings."""
    for name in adapter_names():
        section = find_adapter(name).section
        yield name, _first_sentence(section), tuple(_settings_of(section, ADAPTER))


def job_classes() -> Iterator[tuple[str, str, tuple[Setting, ...]]]:
    """A class of jobs, and its checkpoints: path, description, settings."""
    at = "adapter.classes"
    yield at, _first_sentence(JobClassSettings), tuple(_settings_of(JobClassSettings, at))
    at += ".checkpoint"
    yield at, _first_sentence(CheckpointSettings), tuple(_settings_of(CheckpointSettings, at))


def policies() -> Iterator[tuple[tuple[Policy[Any], ...], tuple[Setting, ...]]]:
    """The policies of makeway that share a type of settings, and these."""
    by_type: dict[type, list[Policy[Any]]] = {}
    for policy in POLICIES.values():
        by_type.setdefault(policy.config_type, []).append(policy)
    for config_type, found in by_type.items():
        yield tuple(found), tuple(_policy_settings(config_type))


def _settings_of(section: type[BaseModel], at: str) -> Iterator[Setting]:
    told = {**field_docstrings(_TOLD_BY.get(section, section)), **field_docstrings(section)}
    for name, info in section.model_fields.items():
        path = f"{at}.{name}" if at else name
        yield Setting(
            path=path,
            default=_default(info),
            accepted=info.description or "",
            meaning=_sentence(told.get(name, "")),
        )


def _policy_settings(config_type: type) -> Iterator[Setting]:
    assert is_dataclass(config_type)
    told = field_docstrings(config_type)
    hints = get_type_hints(config_type)
    defaults = TypeAdapter[Any](config_type).dump_python(config_type(), mode="json")
    for field in fields(config_type):
        amounts = (found for suffix, found in AMOUNT_LIMITS.items() if field.name.endswith(suffix))
        yield Setting(
            path=field.name,
            default=_shown(defaults[field.name]),
            accepted=_accepted(hints[field.name], next(amounts, None)),
            meaning=_sentence(told.get(field.name, "")),
        )


def _accepted(hint: Any, amount: tuple[int, str] | None) -> str:
    """What a policy's setting of that type accepts.

    `amount`: the most of it, and its unit. None: it has none.
    """
    if hint is bool:
        return "true or false"
    if hint in _NUMBERS:
        if amount is None:
            return _NUMBERS[hint]
        return f"{amount[1] if hint is float else _NUMBERS[hint]} from 0 to {amount[0]}"
    if hint is NoneType:
        return "null"
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _alternatives(one.value for one in hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return _alternatives(arguments)
    if origin in (Union, UnionType):
        return " or ".join(_accepted(one, amount) for one in arguments)
    if origin is not None and issubclass(origin, Mapping):
        return f"a mapping from names to: {_accepted(arguments[1], amount)}"
    if hint == frozenset[str]:
        return "a list of names"
    raise TypeError(f"the reference has no words for settings of the type {hint}")


def _alternatives(values: Iterable[object]) -> str:
    *most, last = [f"`{value}`" for value in values]
    return f"{', '.join(most)} or {last}" if most else last


def _subsections(section: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    for name, info in section.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield name, info.annotation


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "none, it has to be given"
    value = info.get_default(call_default_factory=True)
    if isinstance(value, BaseModel):
        return "see below"
    return _shown(TypeAdapter[Any](Any).dump_python(value, mode="json"))


def _shown(value: object) -> str:
    return f"`{json.dumps(value)}`" if not isinstance(value, str) else f"`{value}`"


def _sentence(text: str) -> str:
    """What the source says, as a sentence about the file: there, None is null."""
    return re.sub(r"\bNone\b", "`null`", text[:1].upper() + text[1:])


def _first_sentence(record: type) -> str:
    """What a section is, without the name of the record that it checks."""
    text = " ".join((record.__doc__ or "").split("\n\n")[0].split())
    return re.sub(r": `\S+`, with ranges\.$", ".", text)
