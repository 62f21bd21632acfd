"""The command `policies`: the policies, and the settings of each with their defaults and meanings."""

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, asdict, dataclass, fields
from enum import Enum
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, Literal, Union, cast, get_args, get_origin, get_type_hints

import click

if TYPE_CHECKING:
    from makeway.policies.contract import Policy

_TYPES: Final = dict[object, str](
    {bool: "true or false", int: "whole number", float: "number", str: "text", NoneType: "null"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySetting:
    """One setting of a policy."""

    name: str
    type: str
    default: str
    meaning: str
    """The text below the field, with null for None. Empty: there is none."""


@click.command()
@click.argument("name", metavar="[POLICY]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def policies(name: str | None, as_json: bool) -> None:
    """List the policies, or the settings of one POLICY with their defaults.

    POLICY is a name, or a Python file that defines a policy.
    """
    from makeway.daemon.cli.text import console, plain
    from makeway.daemon.config.policy_finder import find_policy
    from makeway.policies.registry import POLICIES

    if name is None:
        listed = [{"policy": one.name, "what it does": one.summary} for one in POLICIES.values()]
        _print(listed, as_json=as_json)
        return
    policy = find_policy(name)
    if not as_json:
        console().print(plain(f"{policy.name}: {policy.summary}", style="bold"))
    _print([asdict(one) for one in settings_of(policy)], as_json=as_json)


def settings_of(policy: "Policy[Any]") -> tuple[PolicySetting, ...]:
    """The settings of a policy in the order of its fields."""
    meanings, types = _meanings(policy.config_type), get_type_hints(policy.config_type)
    return tuple(
        PolicySetting(
            name=each.name,
            type=_type(types[each.name]),
            default=_text(each.default if each.default_factory is MISSING else each.default_factory()),
            meaning=meanings.get(each.name, ""),
        )
        for each in fields(policy.config_type)
    )


def _type(hint: Any) -> str:
    """A type as a reader of a configuration knows it: what it is called there, or the values that are
    accepted.
    """
    origin, inner = get_origin(hint), get_args(hint)
    if hint in _TYPES:
        return _TYPES[hint]
    if origin is Literal:
        return " or ".join(map(_text, inner))
    if origin in (Union, UnionType):
        return " or ".join(map(_type, inner))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return " or ".join(str(one.value) for one in hint)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"mapping from names to: {_type(inner[1])}"
    if isinstance(origin, type) and issubclass(origin, AbstractSet | tuple | list):
        return "list"
    return hint.__name__ if isinstance(hint, type) else str(hint)


def _text(value: object) -> str:
    """A value as a configuration writes it."""
    if value is None:
        return "null"
    if isinstance(value, AbstractSet | tuple):
        return f"[{', '.join(sorted(map(_text, cast(Iterable[object], value))))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _meanings(config_type: type[Any]) -> dict[str, str]:
    """The texts below the fields and those of base classes, in one line each and with null for None."""
    found: dict[str, str] = {}
    for base in reversed(config_type.__mro__[:-1]):
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        if not isinstance(definition, ast.ClassDef):
            continue
        for field, below in zip(definition.body, definition.body[1:], strict=False):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[name] = re.sub(r"\bNone\b", "null", " ".join(text.split()))
                case _:
                    continue
    return found


def _print(rows: list[dict[str, str]], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    if not rows:
        click.echo("It has no settings.")
        return
    from rich.table import Table

    from makeway.daemon.cli.text import console, plain

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in rows[0]:
        table.add_column(heading)
    for row in rows:
        table.add_row(*map(plain, row.values()))
    console().print(table)
