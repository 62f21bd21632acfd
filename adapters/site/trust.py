"""Who else could change a file that makeway runs."""

import os
import stat
from pathlib import Path

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def distrust(path: Path) -> str | None:
    """Why a file or folder may not be run, or hold what is run: other users could change it. None: they
    cannot.

    It and every folder above it, with links and without, belong to root or, unless that is root, to this
    process's user, and no other user may write there. In a sticky folder, as /tmp is, users cannot replace
    the files of others.

    Raises:
        OSError: it is not there, or cannot be looked at.
    """
    owners = {0, os.geteuid()}
    named, real = path.absolute(), path.resolve(strict=True)
    for one in dict.fromkeys((named, *named.parents, real, *real.parents)):
        found = one.lstat()
        if found.st_uid not in owners:
            what = "root may not run it" if owners == {0} else f"neither root nor user {os.geteuid()}"
            return f"{one} belongs to user {found.st_uid}: {what}"
        sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
        if found.st_mode & _OTHERS_WRITE and not sticky and not stat.S_ISLNK(found.st_mode):
            return f"other users can write {one}: chmod go-w it"
    return None
