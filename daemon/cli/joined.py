"""Commands of other modules: those of `OWN`, and click commands at the entry points of the group
`makeway.commands`, which other packages offer.

A module is imported when its command is run, or listed by `--help`; no other command imports it.
"""

from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points

import click

from makeway.daemon.errors import UserError, printable

GROUP = "makeway.commands"
OWN = {
    name: EntryPoint(name=name, value=value, group=GROUP)
    for name, value in {
        "init": "makeway.daemon.cli.init:init",
        "policies": "makeway.daemon.cli.policies:policies",
        "status": "makeway.daemon.cli.live.status:status",
        "stop": "makeway.daemon.cli.live.stop:stop",
    }.items()
}
"""Commands of makeway that are click commands of their own."""


class CommandUnusable(UserError):
    """A package offers a command that cannot be loaded. The message names the entry point and the cause."""


class JoinedCommands(click.Group):
    """A group that also has the commands that other packages offer; its own commands come first."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, sorted."""
        return sorted({*self.commands, *OWN, *(point.name for point in entry_points(group=GROUP))})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name. None: there is no such command.

        A command that cannot be loaded is listed with the cause, and raises `CommandUnusable` when it is run.
        """
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        if cmd_name in OWN:
            return _load(OWN[cmd_name])
        for point in entry_points(group=GROUP, name=cmd_name):
            return _load(point)
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first argument names.

        Raises:
            UsageError: there is none; the message has the most similar name, of all commands.
        """
        name = args[0]
        unknown = not name.startswith("-") and self.get_command(ctx, name) is None
        if unknown and not ctx.resilient_parsing:
            near = get_close_matches(name, self.list_commands(ctx), n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"No such command {name!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)


def _load(point: EntryPoint) -> click.Command:
    """The command of an entry point. Whatever its import raises is kept for the moment when it is run."""
    try:
        command: object = point.load()
    except Exception as error:  # noqa: BLE001 - whatever it is, the other commands go on working
        return _unusable(point, f"{type(error).__name__}: {error}")
    if isinstance(command, click.Command):
        return command
    return _unusable(point, f"it is a {type(command).__name__}, not a click command")


def _unusable(point: EntryPoint, cause: str) -> click.Command:
    def refuse(words: tuple[str, ...]) -> None:
        raise CommandUnusable(
            f"command {point.name}: {point.value} of an installed package cannot be loaded: "
            f"{printable(cause)}"
        )

    return click.Command(
        point.name,
        callback=refuse,
        params=[click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)],
        short_help=f"(cannot be loaded: {printable(cause)})",
        context_settings={"ignore_unknown_options": True},
        add_help_option=False,
    )
