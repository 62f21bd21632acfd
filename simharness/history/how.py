"""How to export a period."""

import shlex
from datetime import date, timedelta
from pathlib import Path

from makeway.adapters.slurm.accounting.machine import machine_commands
from makeway.adapters.slurm.accounting.rows import export_command
from makeway.simharness.history.source import HistoryError, site_rules


def period(first: date | None, end: date | None, today: date) -> tuple[date, date]:
    """The first day and the day after the last one: the last month, or as much as was said.

    Args:
        first: the first day. None: of the last month, or of that which `end` ends.
        end: the day after the last one. None: the first of this month; if the period begins in this month,
            tomorrow.
        today: the present day.

    Raises:
        HistoryError: the first day is in the future.
    """
    this_month, day = today.replace(day=1), timedelta(days=1)
    if first is not None and first > today:
        raise HistoryError(f"--from {first}: accepted: a day up to today, {today}")
    if end is None:
        end = this_month if first is None or first < this_month else today + day
    return first or min((this_month - day).replace(day=1), (end - day).replace(day=1)), end


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
    named = "FILE" if config is None else shlex.quote(str(config))
    period = f"--from {first} --to {end} --config {named}"
    return (
        f"{jobs} > jobs.txt",
        f"{machine_commands()} > machine.txt",
        f"makeway history jobs.txt --machine machine.txt {period}",
    )
