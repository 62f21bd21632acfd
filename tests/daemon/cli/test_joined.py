"""Commands that other packages offer by entry point."""

import re
import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints

import click
import pytest

from makeway.daemon.cli.joined import OWN
from makeway.daemon.cli.main import cli, run_cli

HERE = "tests.daemon.cli.test_joined"
TEXT = "not a command"


@click.command()
@click.argument("word")
def offered(word: str) -> None:
    """Say a word."""
    click.echo(word)


@pytest.fixture(autouse=True)
def points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages that offer a good command, two bad ones, and one by the name of a command of makeway's."""
    found = EntryPoints(
        [
            EntryPoint("offered", f"{HERE}:offered", "makeway.commands"),
            EntryPoint("status", f"{HERE}:offered", "makeway.commands"),
            EntryPoint("text", f"{HERE}:TEXT", "makeway.commands"),
            EntryPoint("gone", "no_such_module:command", "makeway.commands"),
        ]
    )

    def entry_points(group: str, name: str | None = None) -> EntryPoints:
        return found.select(group=group) if name is None else found.select(group=group, name=name)

    monkeypatch.setattr("makeway.daemon.cli.joined.entry_points", entry_points)


def test_a_command_of_another_package_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["offered", "hello"], factories={}) == 0
    assert capsys.readouterr().out == "hello\n"


def test_makeways_own_command_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["status", "--help"], factories={}) == 0
    assert "Say a word" not in capsys.readouterr().out


def test_help_lists_every_command_though_some_are_broken(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["--help"], factories={}) == 0
    listed = capsys.readouterr().out.split("Commands:\n")[1]
    rows = dict(re.findall(r"^  (\S+) +(.+)$", listed, re.MULTILINE))
    assert rows.keys() == {*cli.commands, *OWN, "offered", "text", "gone"}
    assert rows["offered"] == "Say a word."
    assert rows["gone"].startswith("(cannot be loaded: ModuleNotFoundError")


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (["gone", "--any", "word"], "ModuleNotFoundError: No module named 'no_such_module'"),
        (["text"], "it is a str, not a click command"),
    ],
)
def test_a_broken_command_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], cause: str
) -> None:
    assert run_cli(arguments, factories={}) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"makeway: error: command {arguments[0]}: ")
    assert line.endswith(f"cannot be loaded: {cause}")


@pytest.mark.parametrize("command", ["status", "whatif"])
def test_no_other_package_is_imported_for_a_command_of_makeways(command: str) -> None:
    code = (
        f"import sys; from makeway.daemon.cli.main import run_cli; run_cli([{command!r}, '--help'], "
        f"factories={{}});print(any(name.startswith('makeway.simharness') for name in sys.modules), "
        "file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "False\n"


def test_the_commands_of_the_simulation_have_joined() -> None:
    code = "import sys; from makeway.daemon.cli.main import run_cli; run_cli(['--help'], factories={})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"demo", "replay", "reproduce"} <= {line.split()[0] for line in done.stdout.splitlines() if line}
