"""Which process has a journal: asked by those that are not its daemon."""

import fcntl
import os
from pathlib import Path


def journal_owner(journal: Path) -> str | None:
    """Which process holds the lock of a journal. None: no process does, or the lock cannot be read."""
    try:
        descriptor = os.open(journal.with_name(journal.name + ".lock"), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        pid = os.read(descriptor, 32).decode("ascii", "replace").strip()
        return daemon_with(pid) if pid.isdecimal() else "another daemon"
    else:
        return None
    finally:
        os.close(descriptor)


def daemon_with(pid: object) -> str:
    """How messages name the daemon with that process number."""
    return f"the daemon with pid {pid}"
