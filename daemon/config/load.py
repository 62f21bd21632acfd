"""From a YAML file to typed settings, or to one error that lists every problem with its line.

pydantic and YAML are imported by `load` alone.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from makeway.adapters.registry import (
    AdapterType,
    Connection,
    UnknownAdapter,
    adapter_names,
    find_adapter,
)
from makeway.daemon.config.mode import Mode
from makeway.daemon.config.suggestion import closest
from makeway.daemon.errors import UserError, printable
from makeway.policies.contract import Policy

if TYPE_CHECKING:
    from pydantic import BaseModel, JsonValue, ValidationError

    from makeway.adapters.site.sections import AdapterSection
    from makeway.daemon.config.complaints import Complaint
    from makeway.daemon.config.schema import Settings
    from makeway.daemon.config.yaml_file import ConfigFile, Key, Problem

AMOUNT_LIMITS = {
    "_gb_s": (1_000_000, "GB per second"),
    "_s": (30 * 86_400, "seconds"),
    "_hours": (720, "a number"),
    "_count": (1_000_000, "a number"),
    "_nodes": (1_000_000, "a number"),
}
"""A policy's setting with such an ending, the first that fits, is an amount from 0 to this limit, of this
unit. The policy may check more.
"""


AdapterFactory = Callable[[Any], Connection]
"""Opens the cluster that a section `adapter` describes. May raise a `ValueError` about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A configuration that has been checked."""

    path: Path
    settings: "Settings"
    adapter: AdapterType[Any]
    policy: Policy[Any]
    policy_config: Any
    """An instance of the policy's `config_type`."""


def load(path: Path, find_policy: Callable[[str], Policy[Any]] | None = None) -> Config:
    """Read and check a configuration file.

    Args:
        path: the file.
        find_policy: finds a policy by its name or raises a `ValueError`. None: `policy_finder`, with
            files next to this one.

    Raises:
        ConfigError: every problem of the file, one a line.
    """
    from pydantic import ValidationError

    from makeway.adapters.site.sections import AdapterSection, LoadContext
    from makeway.daemon.config import schema as config_schema
    from makeway.daemon.config import yaml_file as config_file

    file = config_file.read(path)  # first: without a working directory a relative path has no folder
    if find_policy is None:
        from makeway.daemon.config import policy_finder

        find_policy = partial(policy_finder.find_policy, folder=path.absolute().parent)
    problems: list[Problem] = []
    adapter = _choose_adapter(file, problems)
    # With an adapter that is not known, only the rest of the settings can be checked.
    unchecked = adapter is None and bool(problems)
    model = config_schema.settings_with(AdapterSection if adapter is None else adapter.section)
    settings = None
    try:
        settings = model.model_validate_json(
            json.dumps(file.values), context=LoadContext(path.absolute().parent)
        )
    except ValidationError as error:
        found = problems_of(error, model)
        problems += [one for one in found if not (unchecked and one.key[0] == "adapter")]
    chosen = _choose_policy(file, find_policy, problems)
    file.refuse(problems)
    assert settings is not None
    assert adapter is not None
    assert chosen is not None
    policy, policy_config = chosen
    return Config(path=path, settings=settings, adapter=adapter, policy=policy, policy_config=policy_config)


def path_of(path: Path, name: str, default: Path) -> Path:
    """What a configuration says for `journal` or `socket`, also if another of its settings cannot be used.

    Args:
        path: the file.
        name: the key.
        default: the path if the file does not have the key.

    Raises:
        ConfigError: every problem of the file, if it does not say what the path is.
    """
    from pydantic import TypeAdapter, ValidationError

    from makeway.adapters.site.sections import FilePath, LoadContext
    from makeway.daemon.config import schema as config_schema
    from makeway.daemon.config import yaml_file as config_file

    try:
        found: Path = getattr(load(path).settings, name)
    except config_file.ConfigError:
        values = config_file.read(path).values
        if name not in values and config_schema.Settings.model_fields.keys() >= values.keys():
            return default
        try:
            found = TypeAdapter[Path](FilePath).validate_json(
                json.dumps(values.get(name)), context=LoadContext(path.absolute().parent)
            )
        except ValidationError:
            pass
        else:
            return found
        raise
    return found


def open_adapter(
    section: "AdapterSection", factories: Mapping[str, AdapterFactory] = MappingProxyType({})
) -> Connection:
    """Open the cluster that the section `adapter` describes.

    Args:
        section: the section of a configuration that was checked.
        factories: ways to open a cluster, by the adapter's name, that replace its own.

    Raises:
        UserError: the adapter is not installed.
        ValueError: what the adapter says about the section.
    """
    factory = factories.get(section.adapter_name)
    if factory is None:
        try:
            factory = find_adapter(section.adapter_name).open
        except UnknownAdapter as error:
            raise UserError(f"adapter.type: {error}") from None
    return factory(section)


def effective(config: Config) -> str:
    """The settings with every default written out, as YAML that `load` takes."""
    import yaml
    from pydantic import TypeAdapter

    values = config.settings.model_dump(mode="json")
    values["policy"] = {
        "name": _policy_name(config),
        "settings": TypeAdapter(config.policy.config_type).dump_python(config.policy_config, mode="json"),
    }
    text: str = yaml.safe_dump(  # pyright: ignore[reportUnknownMemberType] - a stub without one of its types
        values, sort_keys=False, allow_unicode=False
    )
    return text


def _policy_name(config: Config) -> str:
    """A name or an absolute path that finds the policy from any folder."""
    from makeway.daemon.config.policy_finder import SUFFIX

    name = config.settings.policy.name
    return str(config.path.absolute().parent / name) if name.endswith(SUFFIX) else name


def _choose_adapter(file: "ConfigFile", problems: "list[Problem]") -> AdapterType[Any] | None:
    """The adapter that the file names; None with the problem noted, or left to the check of the whole
    file.
    """
    from makeway.daemon.config.yaml_file import Problem

    section = file.values.get("adapter")
    if not isinstance(section, dict):
        return None
    name = section.get("type")
    key: Key = ("adapter", "type")
    if "type" not in section:
        problems.append(Problem(key=key, text=f"this key is missing; {_accepted_adapters()}"))
        return None
    try:
        adapter = find_adapter(str(name))
    except UnknownAdapter as error:
        # The names of all adapters are looked for only here: that takes longer.
        known = name in adapter_names()
        text = str(error) if known else f"{_shown(name)} is not accepted; {_accepted_adapters()}"
        problems.append(Problem(key=key, text=text))
        return None
    if not adapter.acts and file.values.get("mode") == Mode.ACT:
        text = f"act is not accepted: the adapter {name} only reads; accepted: {Mode.OBSERVE}"
        problems.append(Problem(key=("mode",), text=text))
    return adapter


def _accepted_adapters() -> str:
    return f"accepted: {' or '.join(adapter_names())}"


def _choose_policy(
    file: "ConfigFile", find_policy: Callable[[str], Policy[Any]], problems: "list[Problem]"
) -> tuple[Policy[Any], Any] | None:
    """The policy and its settings; None with the problems noted."""
    from makeway.daemon.config.schema import PolicySettings
    from makeway.daemon.config.yaml_file import Problem

    section = file.values.get("policy", {})
    if not isinstance(section, dict):
        return None
    name = section.get("name", PolicySettings().name)
    settings = section.get("settings", {})
    if not isinstance(name, str) or not isinstance(settings, dict):
        return None
    try:
        policy = find_policy(name)
    except ValueError as error:
        problems.append(Problem(key=("policy", "name"), text=str(error)))
        return None
    found, config = _policy_config(policy, settings, file)
    problems += found
    return None if found else (policy, config)


def _policy_config(
    policy: Policy[Any], settings: "dict[str, JsonValue]", file: "ConfigFile"
) -> "tuple[list[Problem], Any]":
    """Check a policy's own settings against its `config_type`, a dataclass of plain values."""
    from pydantic import TypeAdapter, ValidationError

    from makeway.daemon.config.complaints import accepted, complaints
    from makeway.daemon.config.yaml_file import Problem

    at: Key = ("policy", "settings")
    known = [field.name for field in fields(policy.config_type)] if is_dataclass(policy.config_type) else []
    problems = [
        Problem(key=(*at, name), text=f"unknown setting of the policy {policy.name}; {closest(name, known)}")
        for name in settings
        if name not in known
    ]
    for name, value in settings.items():
        amount = next((found for suffix, found in AMOUNT_LIMITS.items() if name.endswith(suffix)), None)
        if amount is not None and isinstance(value, int | float) and not 0 <= value <= amount[0]:
            text = f"{value} is not accepted; accepted: {amount[1]} from 0 to {amount[0]}"
            problems.append(Problem(key=(*at, name), text=text))
    if problems:
        return problems, None
    try:
        return [], TypeAdapter(policy.config_type).validate_json(json.dumps(settings), strict=True)
    except ValidationError as error:
        return [
            Problem(key=_placed((*at, *one.location), file.values), text=_said(one, accepted(one.message)))
            for one in complaints(error)
        ], None


def problems_of(error: "ValidationError", model: "type[BaseModel]") -> "list[Problem]":
    """What pydantic found, in makeway's words."""
    from makeway.daemon.config.complaints import ProblemAtKey
    from makeway.daemon.config.yaml_file import Problem

    found: list[Problem] = []
    entries = error.errors()
    places = [_place(model, entry["loc"]) for entry in entries]
    for entry, place in zip(entries, places, strict=True):
        key, value = place.key, entry["input"]
        alone = [one.key for one in places].count(key) == 1  # else other types would be accepted, too
        match entry["type"]:
            case "extra_forbidden":
                text = f"unknown key; {closest(str(key[-1]), place.siblings)}"
            case "missing":
                text = f"this key is missing; accepted: {place.accepted}"
            case "string_type" if isinstance(value, int | float) and alone:  # 0815, yes
                wanted = f"{place.accepted} (in quotes, if it is meant as a name)"
                text = f"{_shown(value)} is not accepted; accepted: {wanted}"
            case "value_error":
                cause = entry.get("ctx", {}).get("error")
                text = str(cause)
                key = cause.key if isinstance(cause, ProblemAtKey) else key
            case _:
                text = f"{_shown(value)} is not accepted; accepted: {place.accepted}"
        found.append(Problem(key=key, text=text))
    # Of a union pydantic also reports the branches that take no list or mapping at all.
    whole = [one for one in found if not any(_is_within(other.key, one.key) for other in found)]
    return list(dict.fromkeys(whole))


def _is_within(key: "Key", outer: "Key") -> bool:
    return len(key) > len(outer) and key[: len(outer)] == outer


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """What the schema says about one place in a configuration."""

    key: "Key"
    siblings: tuple[str, ...]
    """The names that the section around it has."""
    accepted: str


def _place(model: "type[BaseModel]", location: "Iterable[str | int]") -> _Place:
    """The place in the schema that pydantic's location names."""
    here: list[Any] = [model]
    key: list[str | int] = []
    siblings: tuple[str, ...] = tuple(model.model_fields)
    accepted = "a mapping of settings"
    for part in location:
        key.append(part)
        if isinstance(part, int):
            here = [bare for inner in here for item in get_args(inner) for bare in _bare(item)]
            continue
        section = next((one for one in here if hasattr(one, "model_fields")), None)
        if len(here) > 1 and (section is None or part in {section.__name__, "str"}):
            key.pop()  # what pydantic calls a branch of a union
            continue
        if section is None:
            break
        siblings = tuple(section.model_fields)
        info = section.model_fields.get(part)
        if info is None:
            break
        accepted = info.description or accepted
        here = _bare(info.annotation)
    return _Place(key=tuple(key), siblings=siblings, accepted=accepted)


def _bare(annotation: Any) -> list[Any]:
    """The types that an annotation joins, without None and without the metadata of `Annotated`."""
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return [bare for one in get_args(annotation) for bare in _bare(one)]
    return [] if annotation is NoneType else [annotation]


def _placed(location: "Iterable[str | int]", values: "JsonValue") -> "Key":
    """The key that a location of pydantic means: without the tags that it puts in for unions."""
    parts = tuple(location)
    key: list[str | int] = []
    for position, part in enumerate(parts):
        match values, part:
            case dict(), str() if part in values:
                values = values[part]
            case list(), int() if part < len(values):
                values = values[part]
            case _ if position < len(parts) - 1:
                continue
            case _:
                pass
        key.append(part)
    return tuple(key)


def _said(one: "Complaint", accepted: str | None) -> str:
    """The validator's own sentence where a policy wrote one, else the value and what is accepted. None:
    pydantic's sentence says it.
    """
    message, value = one.message, _shown(one.value)
    if accepted is not None:
        return f"{value} is not accepted; accepted: {accepted}"
    own = message.removeprefix("Value error, ")
    return own if own != message else f"{value} is not accepted: {message[:1].lower()}{message[1:]}"


def _shown(value: Any) -> str:
    """A value as the file has it, shortened to 60 characters."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    text = printable(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= 60 else f"{text[:60]}..."
