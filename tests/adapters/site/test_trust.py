"""Which files only root and this user can change."""

import os
from pathlib import Path

import pytest

from makeway.adapters.site.trust import distrust


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file in a folder of a folder."""
    path = tmp_path / "inner" / "mine.py"
    path.parent.mkdir(mode=0o755)
    path.write_text("")
    path.chmod(0o644)
    return path


def test_a_file_of_this_user_is_trusted(path: Path) -> None:
    assert distrust(path) is None


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o777])
def test_one_that_others_can_write_is_not(path: Path, mode: int) -> None:
    path.chmod(mode)
    assert distrust(path) == f"other users can write {path}: chmod go-w it"


def test_nor_one_whose_folder_others_can_write(path: Path) -> None:
    path.parent.chmod(0o777)
    assert distrust(path) == f"other users can write {path.parent}: chmod go-w it"
    path.parent.chmod(0o1777)
    assert distrust(path) is None, "nobody can replace a file of another user there"


def test_links_are_followed_and_their_folders_count(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "open" / "link.py"
    link.parent.mkdir()
    link.symlink_to(path)
    assert distrust(link) is None
    path.parent.chmod(0o777)
    assert distrust(link) == f"other users can write {path.parent}: chmod go-w it"
    path.parent.chmod(0o755)
    link.parent.chmod(0o777)
    assert distrust(link) == f"other users can write {link.parent}: chmod go-w it"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_root_runs_only_what_root_owns(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(path, 12_345, -1)
    assert distrust(path) == f"{path} belongs to user 12345: root may not run it"
    os.chown(path, 0, -1)
    os.chown(path.parent, 12_345, -1)
    assert distrust(path) == f"{path.parent} belongs to user 12345: root may not run it"
    monkeypatch.setattr("os.geteuid", lambda: 12_345)
    assert distrust(path) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_link_of_another_user_is_not_trusted(path: Path, tmp_path: Path) -> None:
    tmp_path.joinpath("open").mkdir()
    link = tmp_path / "open" / "link.py"
    link.parent.chmod(0o1777)
    link.symlink_to(path)
    os.lchown(link, 12_345, -1)
    assert distrust(link) == f"{link} belongs to user 12345: root may not run it"


def test_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        distrust(tmp_path / "gone.py")
