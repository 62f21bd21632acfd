"""The program, with the simulated cluster among those that it can open."""

import sys
from typing import TYPE_CHECKING

from makeway.daemon.cli.main import run_cli

if TYPE_CHECKING:
    from makeway.daemon.config.load import Connection
    from makeway.daemon.config.schema import AdapterSettings


def main() -> int:
    """Run `makeway` with the arguments of the process. Returns the exit status."""
    return run_cli(sys.argv[1:], factories={"simulated": _open_simulated})


def _open_simulated(settings: "AdapterSettings") -> "Connection":
    from makeway.simharness.run.embedded import open_simulated

    assert settings.type == "simulated"
    return open_simulated(settings)


if __name__ == "__main__":
    sys.exit(main())
