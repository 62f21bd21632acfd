"""The generated parts of the pages: each replaces a line `<!-- generated: NAME -->`."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import click

from docs.generate import configuration, measures, metrics
from docs.generate.configuration import Setting
from docs.generate.measures import DocumentedMeasure
from makeway.daemon.cli.main import cli

MARKER = re.compile(r"^<!-- generated: ([a-z-]+) -->$", re.MULTILINE)
_COMMAND_WIDTH = 100


def with_generated(markdown: str) -> str:
    """A page with its generated parts.

    Raises:
        KeyError: there is no such part.
    """
    return MARKER.sub(lambda found: PARTS[found[1]](), markdown)


def _settings() -> str:
    return "\n\n".join(
        _section(f"### `{name}`" if name else "### At the top level", text, settings)
        for name, text, settings in configuration.sections()
    )


def _adapters() -> str:
    return "\n\n".join(
        _section(f"### `adapter`, type `{name}`", text, settings)
        for name, text, settings in configuration.adapters()
    )


def _job_classes() -> str:
    return "\n\n".join(
        _section(f"### `{path}`", text, settings) for path, text, settings in configuration.job_classes()
    )


def _policies() -> str:
    parts: list[str] = []
    for policies, settings in configuration.policies():
        title = ", ".join(f"`{policy.name}`" for policy in policies)
        summaries = "\n".join(f"- `{policy.name}`: {policy.summary}" for policy in policies)
        parts.append(_section(f"### {title}", summaries, settings))
    return "\n\n".join(parts)


def _section(title: str, text: str, settings: Sequence[Setting]) -> str:
    rows = [(f"`{one.path.rpartition('.')[2]}`", one.meaning, one.accepted, one.default) for one in settings]
    table = _table(("setting", "meaning", "accepted", "default"), rows) if rows else "It has no settings."
    return "\n\n".join(filter(None, (title, text, table)))


def _metrics() -> str:
    rows = [
        (
            f"`{one.name}`",
            one.kind + (f" by {', '.join(f'`{label}`' for label in one.labels)}" if one.labels else ""),
            one.text,
            ", ".join(one.panels) or "none",
            ", ".join(f"`{name}`" for name in one.alerts) or "none",
        )
        for one in metrics.exported()
    ]
    return _table(("metric", "type", "meaning", "panel", "alert"), rows)


def _machine_measures() -> str:
    return _measure_table(measures.machine_measures())


def _group_measures() -> str:
    return _measure_table(measures.group_measures())


def _measure_settings() -> str:
    return _measure_table(measures.measure_settings())


def _measure_table(found: Iterable[DocumentedMeasure]) -> str:
    return _table(("key", "unit", "meaning"), [(f"`{one.key}`", one.unit, one.meaning) for one in found])


def _alerts() -> str:
    rows = [
        (f"`{one.name}`", one.severity, f"`{one.expression}`", one.lasts or "at once", one.description)
        for one in metrics.alerts()
    ]
    return _table(("alert", "severity", "expression", "after", "what it means"), rows)


def _commands() -> str:
    parts: list[str] = []
    for name, command in _walk(cli, "makeway"):
        if not isinstance(command, click.Group):
            context = click.Context(
                command, info_name=name, max_content_width=_COMMAND_WIDTH, terminal_width=_COMMAND_WIDTH
            )
            parts.append(f"### `{name}`\n\n```text\n{command.get_help(context)}\n```")
    return "\n\n".join(parts)


def _walk(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=name)
        for sub in command.list_commands(context):
            found = command.get_command(context, sub)
            assert found is not None
            yield from _walk(found, f"{name} {sub}")


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


PARTS: Mapping[str, Callable[[], str]] = MappingProxyType(
    {
        "adapters": _adapters,
        "alerts": _alerts,
        "commands": _commands,
        "group-measures": _group_measures,
        "job-classes": _job_classes,
        "machine-measures": _machine_measures,
        "measure-settings": _measure_settings,
        "metrics": _metrics,
        "policies": _policies,
        "settings": _settings,
    }
)
