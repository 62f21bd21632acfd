"""A development cluster is taken down even if the process that started it dies and cannot do so itself."""

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path

from makeway.adapters.command import at_death


def guarded(folder: Path) -> contextlib.AbstractContextManager[Callable[[], None]]:
    """For a `with` block: if this process dies in it, the cluster of that state folder is taken down; also
    when the block ends, if what it is given was called.
    """
    return at_death((sys.executable, "-m", "makeway.adapters.devcluster.takedown", str(folder)))
