"""Files of results: complete, or as they were before."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from makeway.daemon.errors import UserError
from makeway.simharness.results.files import replacing, write_file

FULL = """
import resource, signal, sys
from pathlib import Path

from makeway.simharness.results.files import write_file

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
write_file(Path(sys.argv[1]), "x" * 10_000)
"""
"""A file that has no room: nothing beyond its first thousand bytes can be written."""


def test_a_file_that_has_no_room_is_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    path.write_text("of an earlier run")
    done = subprocess.run([sys.executable, "-c", FULL, path], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].endswith(f"UserError: {path}: cannot be written (File too large)")
    assert path.read_text() == "of an earlier run"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupted_file_is_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"

    def interrupted() -> None:
        with replacing(path) as part:
            part.write_text("the first half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not list(tmp_path.iterdir())


def test_the_permissions_of_a_file_stay(tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    old.touch(mode=0o640)
    old.chmod(0o640)
    write_file(old, "text")
    write_file(new, "text")
    plain = tmp_path / "plain"
    plain.write_text("text")
    assert old.stat().st_mode & 0o777 == 0o640
    assert new.stat().st_mode == plain.stat().st_mode


def test_what_a_link_names_is_written(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    link, target = tmp_path / "link", tmp_path / "sub" / "target"
    link.symlink_to(target)
    write_file(link, "text")
    assert link.is_symlink()
    assert target.read_text() == "text"


def test_a_device_is_written() -> None:
    write_file(Path("/dev/null"), "text")
    assert Path("/dev/null").is_char_device()


def test_a_file_in_a_folder_without_permission_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "r.html"
    path.write_text("of an earlier run")
    monkeypatch.setattr("tempfile.TemporaryDirectory", refuse)
    write_file(path, "text")
    assert path.read_text() == "text"


def test_a_file_of_another_user_in_tmp_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    path = tmp_path / "r.html"
    path.write_text("of an earlier run")
    monkeypatch.setattr("os.replace", refuse)
    write_file(path, "text")
    assert path.read_text() == "text"


def test_a_folder_that_is_gone_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "r.html"
    with pytest.raises(UserError, match=r"gone/r.html: cannot be written \(No such file or directory\)"):
        write_file(path, "text")


def test_a_text_may_quote_the_name_of_a_file_that_is_not_utf_8(tmp_path: Path) -> None:
    write_file(tmp_path / "page", f"trace {os.fsdecode(bytes([103, 252]))}")
    assert (tmp_path / "page").read_text() == r"trace g\udcfc"
