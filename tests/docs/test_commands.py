"""Every command that a document shows is one that its program accepts."""

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from tempfile import NamedTemporaryFile

import click
import pytest

from makeway.daemon.cli.main import cli
from tests.docs.pages import PAGES, ShownCommand, commands, programs
from tests.paths import ROOT

SHOWN = [command for page in PAGES for command in commands(page)]

SLURM = frozenset({"sacctmgr", "sbatch", "scancel", "scontrol", "sdiag", "sinfo", "squeue"})
"""Their help needs a slurm.conf. `tests/slurm/machine/test_pages_slurm.py` runs all of them but sacctmgr."""
BUILTINS = frozenset({"export", "kill"})
MARKS = re.compile(r"\x1b(?:\]8;[^\x1b]*\x1b\\|\[[0-9;]*m)")
"""Links and bold type, which the help of newer coreutils has in a pipe too."""
HELP: dict[str, tuple[str, ...]] = {
    "pip": (sys.executable, "-m", "pip", "install", "--help"),
    "pytest": (str(ROOT / ".venv/bin/pytest"), "--help"),
    "curl": ("curl", "--help", "all"),
    "python3": ("python3", "--help"),
}
"""What prints the options of a program whose `--help` does not, or which is part of another one."""
OTHERS = frozenset(
    {
        *("apt-get", "systemctl", "journalctl", "useradd", "userdel", "groupadd", "groupdel"),
        *("install", "cp", "ln", "rm", "sed", "df", "du", "ls", "findmnt", "dmesg", "podman"),
        *SLURM,
    }
)
"""Programs of the system and of Slurm that a page may name."""
WITH_VERBS = frozenset({"apt-get", "systemctl", "scontrol", "sacctmgr"})
"""Their first word that is no option is a verb, which the help names."""


def parse_makeway(words: list[str]) -> None:
    """Parse a command of makeway as the program does, and run nothing.

    Raises:
        click.ClickException: it is wrong.
    """
    command: click.Command = cli
    context = click.Context(cli, info_name="makeway")
    while isinstance(command, click.Group) and not words[0].startswith("-"):
        name, found, words = command.resolve_command(context, words)
        assert found is not None
        command, context = found, click.Context(found, info_name=name, parent=context)
    try:
        command.make_context(command.name, list(words), parent=context.parent)
    except click.exceptions.Exit:
        pass  # --help and --version end the program
    except click.BadParameter as error:
        if not error.message.endswith("does not exist."):
            raise


@cache
def help_of(program: str) -> str:
    """What a program prints about its options. Skips if it is not installed."""
    argv = HELP.get(program, (program, "--help"))
    if shutil.which(argv[0]) is None:
        pytest.skip(f"{argv[0]} is not installed here")
    with NamedTemporaryFile("w", suffix=".conf") as conf:
        conf.write("ClusterName=pages\nSlurmctldHost=localhost\n")
        conf.flush()
        environment = {**os.environ, **({"SLURM_CONF": conf.name} if program in SLURM else {})}
        done = subprocess.run(
            argv, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL, env=environment
        )
    return MARKS.sub("", done.stdout)


def check_other(words: list[str]) -> None:
    """Fail if the help of a program does not name the options and the verb of a command."""
    program = words[0]
    assert program in OTHERS or program in HELP, f"{program} is in no list of this test"
    text = help_of(program)
    for option in options_of(words[1:]):
        assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text), f"{program} has no {option}"
    if program in WITH_VERBS:
        verb = next(word for word in words[1:] if not word.startswith("-"))
        assert re.search(rf"(?<![\w-]){re.escape(verb)}(?![\w-])", text), f"{program} has no {verb}"


def options_of(words: list[str]) -> list[str]:
    """The options of a command, without their values: `-la` is `-l` and `-a`."""
    found: list[str] = []
    for word in words:
        if word.startswith("--"):
            found.append(word.partition("=")[0])
        elif re.fullmatch(r"-[A-Za-z]+", word):
            found += [f"-{letter}" for letter in word[1:]]
    return found


def check(text: str) -> None:
    """Fail if a command line is one that its programs refuse."""
    for words in programs(text):
        match words[0]:
            case "makeway":
                parse_makeway(words[1:])
            case "make":
                targets = [word for word in words[1:] if "=" not in word]
                makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
                for target in targets:
                    assert re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE), target
            case program if program in BUILTINS:
                pass
            case _:
                check_other(words)


@pytest.mark.parametrize("command", SHOWN, ids=str)
def test_a_shown_command_is_accepted(command: ShownCommand) -> None:
    check(command.text)


def test_enough_commands_are_found() -> None:
    assert len(SHOWN) > 120
    assert {command.page.name for command in SHOWN} >= {"README.md", "runbook.md", "swarm.md", "socket.md"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("makeway statsu", "No such command"),
        ("makeway status --jason", "No such option"),
        ("sudo -u makeway /opt/makeway/bin/makeway whatif --node 3", "No such option"),
        ("makeway replay sample --poll soon", "is no duration"),
        ("makeway devcluster up --nodes 0", "0 is not in the range"),
        ("makeway check-config", "Missing argument"),
    ],
)
def test_a_wrong_command_of_makeway_is_found(text: str, problem: str) -> None:
    with pytest.raises(click.ClickException) as caught:
        check(text)
    assert problem in caught.value.format_message()


@pytest.mark.parametrize(
    "text",
    [
        "make dmeo",
        "journalctl --unti makeway",
        "systemctl relaod makeway",
        "ls -la --colour-blind /",
        "rebot now",
        "curl -s --fali http://localhost | makeway status",
    ],
)
def test_another_wrong_command_is_found(text: str) -> None:
    with pytest.raises(AssertionError):
        check(text)
