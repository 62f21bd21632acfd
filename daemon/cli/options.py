"""What the options of several commands share: default paths, durations, and what the program gives each
command.

Only click is imported here, so that a command that joins by entry point costs no more than its own module.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from makeway.daemon.errors import UserError, printable

if TYPE_CHECKING:
    from makeway.daemon.config.load import AdapterFactory

CONFIG_PATH = Path("/etc/makeway/makeway.yaml")
SOCKET_PATH = Path("/run/makeway/makeway.sock")
JOURNAL_PATH = Path("/var/lib/makeway/journal.sqlite")
FILE = click.Path(path_type=Path, dir_okay=False)
config_option = click.option(
    "--config", type=FILE, envvar="MAKEWAY_CONFIG", help=f"Configuration file [default: {CONFIG_PATH}]."
)
socket_option = click.option(
    "--socket", type=FILE, help=f"Socket of the daemon [default: the configuration's, else {SOCKET_PATH}]."
)
YEAR_S = 365 * 86_400.0
NODES_MOST = 10_000_000
"""More than any machine has nodes, or processors."""
SEEDS_MOST = 10_000
_UNITS_MB = {"": 1, "M": 1, "G": 1024, "T": 1024**2}
_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """What the program around the commands gives them."""

    factories: "Mapping[str, AdapterFactory]" = field(default_factory=lambda: dict["str", "AdapterFactory"]())
    """How to open a cluster, by the adapter's type."""


def duration(text: str) -> float:
    """An option's value in seconds, written `90`, `15m`, `1h30m`, `2d` or `1:30:00`.

    Raises:
        BadParameter: the text is not a duration, or more than a year.
    """
    seconds = duration_s(text)
    if seconds is None:
        raise click.BadParameter(f"{printable(text)!r} is no duration: write 90, 15m, 1h30m, 2d or 1:30:00")
    if seconds > YEAR_S:
        raise click.BadParameter(f"{printable(text)!r} is more than a year (365d)")
    return seconds


def resources(text: str) -> dict[str, int]:
    """An option's value in amounts by name, written `cpu=8,mem=16G,gres/gpu=2`; memory is in megabytes.

    Raises:
        BadParameter: the text is not of this form.
    """
    found: dict[str, int] = {}
    for part in text.split(","):
        name, _, amount = part.partition("=")
        wanted = re.fullmatch(r"([0-9]+)([MGT]?)", amount, re.ASCII)
        if not name or wanted is None or (wanted[2] and name != "mem") or name in found or not int(wanted[1]):
            raise click.BadParameter(
                f"{printable(part)!r} is no amount: write cpu=8, mem=16G, gres/gpu=2 or gres/gpu:a100=2"
            )
        found[name] = int(wanted[1]) * _UNITS_MB[wanted[2]]
    return found


def duration_s(text: str) -> float | None:
    """The seconds that a text means. None: it is not a duration."""
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text, re.ASCII):
        return float(text)
    clock = re.fullmatch(r"(?:([0-9]{1,4}):)?([0-9]{1,2}):([0-9]{2})", text, re.ASCII)
    if clock:
        hours, minutes, seconds = (float(part or 0) for part in clock.groups())
        return hours * 3600 + minutes * 60 + seconds
    if re.fullmatch(r"([0-9]+(\.[0-9]+)?[smhd])+", text, re.ASCII):
        return sum(
            float(count) * _UNITS_S[unit] for count, unit in re.findall(r"([0-9.]+)([smhd])", text, re.ASCII)
        )
    return None


def from_config(config: Path | None, name: str, default: Path) -> Path:
    """A path that a configuration says. Without one: the default configuration's if there is one, else
    `default`.

    A mistake elsewhere in the file does not matter: the daemon that runs goes on with its old settings, and
    its status says what is wrong with the new ones.

    Raises:
        UserError: the configuration cannot be read, or does not say this path.
    """
    if config is None:
        try:
            CONFIG_PATH.open("rb").close()
        except (FileNotFoundError, NotADirectoryError):
            return default
        except OSError as error:
            raise UserError(
                f"{CONFIG_PATH}: cannot be read: {error.strerror}; accepted: --{name} FILE instead"
            ) from error
    from makeway.daemon.config.load import path_of

    return path_of(config or CONFIG_PATH, name, default)
