"""The command `policies`: the policies, and the settings of each with their defaults and meanings."""

import ast
import inspect
import json
import textwrap
from dataclasses import MISSING, asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import click

if TYPE_CHECKING:
    from makeway.policies.contract import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySetting:
    """One setting of a policy."""

    name: str
    type: str
    default: str
    meaning: str
    """The text below the field. Empty: there is none."""


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
    meanings = _meanings(policy.config_type)
    return tuple(
        PolicySetting(
            name=each.name,
            type=_type(each.type),
            default=_text(each.default if each.default_factory is MISSING else each.default_factory()),
            meaning=meanings.get(each.name, ""),
        )
        for each in fields(policy.config_type)
    )


def _type(annotation: object) -> str:
    """A type as a reader of a configuration knows it: its name, or the values that are accepted."""
    if get_origin(annotation) is Literal:
        return " or ".join(map(_text, get_args(annotation)))
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def _text(value: object) -> str:
    """A value as a configuration writes it."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _meanings(config_type: type[Any]) -> dict[str, str]:
    """The texts below the fields, in one line each, those of base classes among them."""
    found: dict[str, str] = {}
    for base in reversed(config_type.__mro__[:-1]):
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        if not isinstance(definition, ast.ClassDef):
            continue
        for field, below in zip(definition.body, definition.body[1:], strict=False):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[name] = " ".join(text.split())
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
