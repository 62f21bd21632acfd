"""The page about upgrades: its copy of the journal is complete, although the daemon runs."""

import shlex
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from makeway.daemon.journal.store import Journal
from tests.docs.pages import commands, programs

PAGE = Path("docs/upgrade.md")
FOLDER = "/var/lib/makeway"


def test_the_journal_is_copied_while_the_daemon_runs(tmp_path: Path) -> None:
    (shown,) = (one for one in commands(PAGE) if "python3 -c" in one.text)
    ((python, option, code),) = programs(shown.text)
    assert (python, option) == ("python3", "-c")
    command = [sys.executable, "-c", code.replace(FOLDER, str(tmp_path))]
    with closing(Journal(tmp_path / "journal.sqlite")) as journal:
        journal.note("leases", "written while it runs")
        subprocess.run(command, check=True)
        journal.verify()
        journal.note("leases", "written after the copy")
        journal.verify()
    copy = tmp_path / "backup.sqlite"
    assert stat.S_IMODE(copy.stat().st_mode) & 0o077 == 0
    with closing(Journal(copy, read_only=True)) as copied:
        assert copied.noted("leases") == "written while it runs"
    assert subprocess.run(command, check=False, capture_output=True).returncode != 0, "a copy is not replaced"


@pytest.mark.parametrize("program", ["cp", "pip"])
def test_the_daemon_is_stopped_before_its_files_are_copied(program: str) -> None:
    words = [next(iter(programs(one.text))) for one in commands(PAGE)]
    stopped = words.index(shlex.split("systemctl stop makeway"))
    started = words.index(shlex.split("systemctl start makeway"))
    (copied,) = (place for place, one in enumerate(words) if one[0] == program)
    assert stopped < copied < started
