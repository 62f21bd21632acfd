"""What `makeway doctor` says of the journal's path and disk."""

import os
from pathlib import Path

import pytest

from makeway.adapters.site.checks import Level
from makeway.daemon.inspect.doctor import check_journal, check_room
from makeway.daemon.journal import file_guard

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


MOUNTS = """28 1 {root} / / rw,relatime - ext4 /dev/vda rw,errors=remount-ro
42 28 {device} / {folder} rw,relatime shared:7 - ext4 /dev/vdb rw,errors=remount-ro{option}
"""


@pytest.mark.parametrize(("option", "is_problem"), [(",emergency_ro", True), ("", False)])
def test_a_disk_that_became_read_only_after_an_error_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, is_problem: bool
) -> None:
    """As Linux 6.18 shows it of ext4, after an error was written to its `trigger_fs_error`."""
    device = tmp_path.stat().st_dev
    here = f"{os.major(device)}:{os.minor(device)}"
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS.format(root="0:1", device=here, folder=tmp_path, option=option))
    monkeypatch.setattr(file_guard, "MOUNTS", mounts)
    assert any("read-only" in one.text for one in check_room(tmp_path / "j")) is is_problem
