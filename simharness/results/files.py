"""Files of results that replace those of an earlier run only once they are complete."""

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from makeway.daemon.errors import UserError, printable


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """Where to write a file that takes the place of `path` at the end of the block.

    If the block fails, as by Ctrl-C or a full disk, `path` is as it was. What cannot be replaced is written
    itself: a link, a device or a pipe, and a file in a folder in which no other can be made.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        yield path
        return
    try:
        folder = tempfile.TemporaryDirectory(dir=path.parent, prefix=".makeway-")
    except PermissionError:
        yield path
        return
    with folder as part:
        whole = Path(part) / path.name
        yield whole
        if path.exists():
            shutil.copymode(path, whole)
        try:
            os.replace(whole, path)
        except PermissionError:  # another user's file in a folder such as /tmp
            shutil.copyfile(whole, path)


def write_file(path: Path, text: str) -> None:
    """Write a text into a file, which is complete afterwards or as it was before (see `replacing`).

    Raises:
        UserError: it cannot be written.
    """
    try:
        with replacing(path) as part:
            # It may quote the name of a file that is not UTF-8.
            part.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UserError(f"{printable(str(path))}: cannot be written ({error.strerror or error})") from error
