"""Writes a man page for every command of makeway: man_pages.py FOLDER."""

import sys
from importlib.metadata import version

import click
from click_man.core import write_man_pages

from makeway.daemon.cli.main import cli

SUMMARY_CHARACTERS = 200
"""click-man cuts summaries to 45 characters where a command has none of its own."""


def complete(group: click.Group) -> click.Group:
    """The group with all its commands in its table, where those that join when they are run are not, and each
    with its whole summary.
    """
    context = click.Context(group, info_name=group.name)
    commands: dict[str, click.Command] = {}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            command = complete(command)
        command.short_help = command.get_short_help_str(SUMMARY_CHARACTERS)
        commands[name] = command
    found = click.Group(group.name, commands=commands, help=group.help, params=group.params)
    found.short_help = group.get_short_help_str(SUMMARY_CHARACTERS)
    return found


if __name__ == "__main__":
    write_man_pages("makeway", complete(cli), version=version("makeway"), target_dir=sys.argv[1])
