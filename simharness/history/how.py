"""How to export a period."""

from datetime import date
from pathlib import Path

from makeway.adapters.slurm.accounting.machine import machine_commands
from makeway.adapters.slurm.accounting.rows import export_command
from makeway.simharness.history.source import site_rules


def export_lines(first: date, end: date, config: Path | None) -> tuple[str, ...]:
    """The commands, for a shell: the jobs, the machine, and the study of both.

    Args:
        first: the first day.
        end: the day after the last one.
        config: a configuration, whose classes may need more columns. None: there is none.

    Raises:
        ConfigError, HistoryError: the configuration cannot be used.
    """
    classes = site_rules(config).classes or ()
    jobs = export_command(
        str(first),
        str(end),
        features=any(one.features for one in classes),
        words=any(one.words for one in classes),
    )
    period = f"--from {first} --to {end} --config {config or 'FILE'}"
    return (
        f"{jobs} > jobs.txt",
        f"{machine_commands()} > machine.txt",
        f"makeway history jobs.txt --machine machine.txt {period}",
    )
