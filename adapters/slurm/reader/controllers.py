"""Which slurmctld answers, where a cluster has several: one acts, and the others are there as a backup."""

import re

from makeway.adapters.site.checks import Check, ok, warning
from makeway.adapters.site.text import printable

_CONTROLLER = re.compile(r"^Slurmctld\(\w+\) at (?P<host>\S+) is (?P<state>UP|DOWN)", re.MULTILINE)


def controllers(text: str) -> tuple[tuple[str, bool], ...]:
    """The machines of slurmctld at the end of `scontrol show config`, the primary one first, and whether each
    answers.
    """
    return tuple((one["host"], one["state"] == "UP") for one in _CONTROLLER.finditer(text))


def check_controllers(found: tuple[tuple[str, bool], ...]) -> Check | None:
    """Whether every slurmctld answers. None: there is one, and it has answered already."""
    if len(found) < 2:
        return None
    silent = [printable(host) for host, answers in found if not answers]
    if not silent:
        hosts = ", ".join(printable(host) for host, _ in found)
        return ok(
            "controllers", f"every slurmctld answers: {hosts}; if one fails, makeway waits for the next"
        )
    if not found[0][1]:
        return warning(
            "controllers",
            f"slurmctld on {silent[0]}, the primary one, does not answer: each command asks it first, and if "
            "the machine is off, waits for it for TCPTimeout (2 s by default). Cycles take much longer, and "
            "urgent jobs start later: start it again, or take it out of SlurmctldHost",
        )
    return warning(
        "controllers",
        f"slurmctld on {', '.join(silent)}, a backup, does not answer: if the other one fails, makeway can "
        "do nothing until one is back",
    )
