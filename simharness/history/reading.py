"""What Slurm has printed, plain or compressed: the export of `sacct`, and the text about the machine."""

from collections.abc import Iterator
from datetime import tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from makeway.adapters.slurm.accounting.rows import CLUSTER, AccountingRow, BadExport, read_rows
from makeway.daemon.errors import printable
from makeway.simharness.history.source import HistoryError, HistorySource
from makeway.simharness.workloads.text_files import DAMAGE, Compression, FileKind, open_text

_ALL = (Compression.GZIP, Compression.BZIP2, Compression.XZ)
_EXPORT = FileKind(noun="a file that sacct has written", error=HistoryError, compressions=_ALL)
_MACHINE = FileKind(noun="a file that scontrol has written", error=HistoryError, compressions=_ALL)
_LINE_MOST = 1 << 20
"""No line of these commands has so many characters."""
TEXT_MOST = 4 << 30
"""Characters to which a compressed file may expand: more than ten million jobs."""


def export_rows(source: HistorySource) -> Iterator[AccountingRow]:
    """The rows of all exports, in their order.

    Raises:
        HistoryError: a file cannot be read, is damaged or is no such export; jobs are of several clusters; or
            there is no such time zone.
    """
    zone, cluster = _zone(source.zone), ""
    for path in source.exports:
        try:
            for row in read_rows(_lines(path, _EXPORT), zone):
                cluster = cluster or row.cluster
                if row.cluster not in ("", cluster):
                    complaint = f"{CLUSTER} {printable(row.cluster)!r} after {printable(cluster)!r}"
                    accepted = "the jobs of one cluster (sacct --local)"
                    raise BadExport(f"line {row.line}: {complaint}; accepted: {accepted}")
                yield row
        except BadExport as error:
            raise HistoryError(f"{path}: {error}") from None


def machine_text(path: Path) -> str:
    """The text about the machine.

    Raises:
        HistoryError: the file cannot be read, or is damaged.
    """
    try:
        return "".join(_lines(path, _MACHINE))
    except BadExport as error:
        raise HistoryError(f"{path}: {error}") from None


def _lines(path: Path, kind: FileKind) -> Iterator[str]:
    """The lines of a file. Raises `BadExport` for one that is damaged, or endless."""
    number = size = 0
    with open_text(path, kind, newline="\n") as file:
        try:
            while line := file.stream.readline(_LINE_MOST):
                number, size = number + 1, size + len(line)
                if len(line) == _LINE_MOST:
                    raise BadExport(f"line {number}: it does not end; accepted: {kind.noun}")
                if size > TEXT_MOST and file.compression is not None:
                    most = f"up to {TEXT_MOST:,} characters, or the plain file"
                    raise BadExport(f"line {number}: the file expands to more than is read; accepted: {most}")
                yield line
        except DAMAGE as error:
            raise BadExport(f"line {number + 1}: {file.complaint(error)}") from None
    if not number:
        raise HistoryError(f"{path}: is empty; accepted: {kind.accepted}")


def _zone(name: str | None) -> tzinfo | None:
    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise HistoryError(f"--time-zone {name}: accepted: a name such as Europe/Berlin or UTC") from None
