"""The sources of the Debian package. `make deb-test` installs the package itself."""

import subprocess
import sys
from pathlib import Path

import click

from makeway.daemon.cli.main import cli
from tests.paths import DEPLOY

PACKAGE = DEPLOY / "package"


def test_every_command_has_a_man_page_with_its_whole_summary(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(PACKAGE / "man_pages.py"), str(tmp_path)], check=True)
    names = cli.list_commands(click.Context(cli))
    assert {f"makeway-{name}.1" for name in names} | {"makeway.1"} <= {one.name for one in tmp_path.iterdir()}
    assert (tmp_path / "makeway-devcluster-up.1").is_file()
    page = (tmp_path / "makeway.1").read_text()
    assert "makeway \\- Make way for urgent jobs on a Slurm cluster, at the least loss of the work" in page
    assert "\\fBstop\\fP\n  End the running daemon." in page


def test_shellcheck_finds_nothing(shellcheck: str) -> None:
    scripts = sorted(map(str, PACKAGE.glob("*.sh")))
    done = subprocess.run([shellcheck, *scripts], capture_output=True, text=True, check=False)
    assert done.stdout == ""
