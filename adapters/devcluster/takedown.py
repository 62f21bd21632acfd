"""The program that a guard runs: it takes down the cluster of the state folder that is its only argument."""

import shutil
import sys
from pathlib import Path

from makeway.adapters.devcluster.cluster import DevClusterError, down
from makeway.adapters.devcluster.state_folder import RECORD


def main() -> int:
    """Take the cluster down, and remove what was left of a start. Returns the exit status."""
    folder = Path(sys.argv[1])
    if not (folder / RECORD).exists():
        # Nothing was started yet.
        shutil.rmtree(folder, ignore_errors=True)
        return 0
    try:
        down(folder)
    except DevClusterError as error:
        print(f"makeway: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
