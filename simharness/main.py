"""The program: the daemon's commands, those of the simulated cluster, and how to open that."""

import sys
from typing import TYPE_CHECKING

from makeway.daemon.cli.main import run_cli
from makeway.simharness.cli import commands
from makeway.simharness.papers import reproduce

if TYPE_CHECKING:
    from makeway.daemon.config.load import Connection
    from makeway.daemon.config.schema import AdapterSettings

__all__ = ["commands", "main", "reproduce"]

USER_ERRORS = frozenset(
    {
        "makeway.simharness.workloads.swf.TraceError",
        "makeway.simharness.workloads.synthesis.WorkloadError",
        "makeway.simharness.run.experiment.ExperimentError",
        "makeway.simharness.results.report.ReportUnavailable",
    }
)


def main() -> int:
    """Run `makeway` with the arguments of the process. Returns the exit status."""
    return run_cli(sys.argv[1:], factories={"simulated": _open_simulated}, user_errors=USER_ERRORS)


def _open_simulated(settings: "AdapterSettings") -> "Connection":
    from makeway.simharness.run.embedded import open_simulated

    assert settings.type == "simulated"
    return open_simulated(settings)


if __name__ == "__main__":
    sys.exit(main())
