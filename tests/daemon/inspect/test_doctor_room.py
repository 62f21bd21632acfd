"""What `makeway doctor` says of the journal's path and disk."""

import os
from pathlib import Path

import pytest

from makeway.adapters.site.checks import Level
from makeway.daemon.inspect.doctor import check_journal, check_room

SAID = "only 63 MB are left on its disk; makeway sends only what it can write down"


@pytest.mark.parametrize(("blocks", "said"), [(4095, [SAID]), (4096, [])])
def test_a_disk_that_is_nearly_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blocks: int, said: list[str]
) -> None:
    """Blocks of 16 KB: 64 MB are enough."""
    disk = os.statvfs_result((16384, 16384, 9999, blocks, blocks, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: disk)
    found = [check.text for check in check_room(tmp_path / "j")]
    assert found == [f"{tmp_path}/j: {text}: make room" for text in said]


def test_the_disk_of_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert list(check_room(tmp_path / "nowhere" / "j")) == []


def test_a_journal_that_is_no_file_is_a_problem() -> None:
    check = check_journal(Path("/dev/null"))
    assert (check.level, check.text) == (
        Level.PROBLEM,
        "/dev/null: not a regular file: a journal needs a path of its own",
    )


def test_a_disk_that_is_read_only_is_a_problem_and_not_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = os.statvfs_result((16384, 16384, 9999, 0, 0, 0, 0, 0, os.ST_RDONLY, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: disk)
    (found,) = check_room(tmp_path / "j")
    said = f"{tmp_path}/j: its file system is read-only: see `dmesg`"
    assert (found.level, found.text) == (Level.PROBLEM, said)
