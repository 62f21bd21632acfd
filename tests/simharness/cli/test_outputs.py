"""Files that a command is to write: they are checked before it computes, and it replaces no input."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from makeway.adapters.slurm.accounting.rows import NEEDED
from makeway.daemon.cli.main import run_cli
from makeway.daemon.errors import UserError
from makeway.daemon.journal.store import Journal
from makeway.simharness.cli.terminal import require_writable
from tests.simharness.history.test_loading import URGENT, row

TRACE = "; MaxNodes: 4\n; MaxProcs: 4\n1 0 0 600 2 -1 -1 2 900 -1 1 7 -1 -1 1 1 -1 -1\n"
HISTORY = "history jobs.txt --nodes 4 --node cpu=4,mem=4000M --class urgent:queue=urgent --time-zone UTC"
OPTION = "Invalid value for"
LONG = "x" * 300


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an input of each command."""
    (tmp_path / "t.swf").write_text(TRACE)
    (tmp_path / "g.yaml").write_text("policies: [none]\ntraces: [t.swf]\nsettings: {urgent_share: [1.0]}\n")
    (tmp_path / "jobs.txt").write_text(
        "\n".join((";".join(NEEDED), row(1, eligible=0, start=0, end=100), URGENT, ""))
    )
    (tmp_path / "text").write_text("not what is wanted")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    return tmp_path


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("replay t.swf --report t.swf", "--report t.swf: it is the file that is read; accepted: another"),
        ("replay t.swf --json a --csv ./a", "--csv a: it is the file of --json too; accepted: another file"),
        ("replay t.swf --json - --csv -", "--csv -: it is the file of --json too; accepted: another file"),
        (f"replay t.swf --json {LONG}", f"--json {LONG}: cannot be written (File name too long)"),
        ("replay t.swf --csv /proc/x", "--csv /proc/x: cannot be written (No such file or directory)"),
        ("replay t.swf --report -", "Invalid value for '--report': - is not accepted: give the name"),
        ("replay t.swf --journal -", "Invalid value for '--journal': - is not accepted"),
        ("demo --report -", "Invalid value for '--report': - is not accepted"),
        ("reproduce p1 --report -", "Invalid value for '--report': - is not accepted"),
        ("sweep g.yaml --out new/r.parquet", "--out new/r.parquet: there is no folder new; make it first"),
        ("sweep g.yaml --out g.yaml", "--out g.yaml: it is the file that is read; accepted: another"),
        ("sweep g.yaml --out sub", "Invalid value for '--out': File 'sub' is a directory."),
        ("sweep g.yaml --cells new/cells", "--cells new/cells: there is no folder new; make it first"),
        ("sweep g.yaml --cells text", "--cells text: no results can be kept there (File exists)"),
        ("compare r.parquet --report new/x", "--report new/x: there is no folder new; make it first"),
        ("compare sub", "sub: it is a folder; accepted: a file that `makeway sweep` has written"),
        (f"{HISTORY} --report new/x", "--report new/x: there is no folder new; make it first"),
        (f"{HISTORY} --replays new/x", "--replays new/x: there is no folder new; make it first"),
        (f"{HISTORY} --json new/x", "--json new/x: there is no folder new; make it first"),
        (f"{HISTORY} --json jobs.txt", "--json jobs.txt: it is the file that is read; accepted: another"),
        ("history --how --from 2026-10-01 --to 2026-10-01", "--to 2026-10-01: accepted: a day after --from"),
        ("swarm --stories 1 --keep new/kept", "--keep new/kept: there is no folder new; make it first"),
        ("swarm --stories 1 --keep text", "Invalid value for '--keep': Directory 'text' is a file."),
        ("swarm --story bytes", "bytes: no story of the swarm: 'utf-8' codec can't decode byte 0xff"),
        ("replay t.swf --nodes 1000000000", f"{OPTION} '--nodes': 1000000000 is not accepted; accepted: a"),
        ("replay t.swf --seeds 1000000000", f"{OPTION} '--seeds': 1000000000 is not accepted; accepted: a"),
        (f"{HISTORY} --nodes 1000000000", f"{OPTION} '--nodes': 1000000000 is not accepted; accepted: a"),
        ("replay sampel", "sampel: there is no such file; did you mean sample?"),
        (f"{HISTORY} --from 2026-11-31", f"{OPTION} '--from': '2026-11-31' is not accepted; accepted: a day"),
        ("replay sample --urgent 10%", f"{OPTION} '--urgent': '10%' is not accepted; accepted: a number"),
        ("replay sub", "sub: is a directory; accepted: an SWF file, plain or gzip"),
    ],
)  # fmt: skip
def test_an_output_that_cannot_be_is_one_line(
    words: str, line: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert run_cli(words.split()) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith(f"makeway: error: {line}")
    assert not any("error" in one for one in said[:-1])
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_a_file_without_permission_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UserError, match=r"--csv .*text: cannot be written \(Permission denied\)"):
        require_writable({"--csv": folder / "text"})


def test_devices_may_be_named_twice() -> None:
    require_writable({"--json": Path("/dev/null"), "--csv": Path("/dev/null")})


def test_a_sweep_that_goes_on_names_no_option_that_it_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    assert run_cli(["sweep", "g.yaml"]) == 0
    assert "makeway: 1 cell\n" in capsys.readouterr().err
    assert run_cli(["sweep", "g.yaml"]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "1 of 1 cells were kept in g.parquet.cells"


@pytest.mark.parametrize("words", ["policies eviction", "replay t.swf", "replay t.swf --json -"])
def test_an_output_without_room_is_one_line(words: str) -> None:
    program = [sys.executable, "-m", "makeway.daemon.cli.main", *words.split()]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    cause = os.strerror(28)
    assert done.stderr == f"makeway: error: standard output: cannot be written ({cause})\n"
    assert done.returncode == 2


def test_what_cannot_be_written_in_the_end_is_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["replay", "t.swf", "--json", "/dev/full"]) == 2
    out, err = capsys.readouterr()
    assert "/dev/full: cannot be written (No space left on device)" in err
    assert "without makeway" in out


def test_a_journal_that_finds_no_room_any_more(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Journal, "add_decision", full)
    assert run_cli(["replay", "sample", "--policy", "eviction", "--journal", "j.sqlite"]) == 2
    assert "--journal j.sqlite: cannot be written: database or disk is full" in capsys.readouterr().err
