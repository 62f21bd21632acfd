"""The program."""

import sys

from makeway.daemon.cli.main import run_cli


def main() -> int:
    """Run `makeway` with the arguments of the process. Returns the exit status."""
    return run_cli(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
