"""The results of a sweep as one Parquet file: a row a cell, a column a number."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import isnan
from pathlib import Path

from makeway.daemon.errors import OneProblem
from makeway.simharness.results.files import replacing
from makeway.simharness.results.measures import Number
from makeway.simharness.sweep.cell import CellResult, SweepCell

FORMAT = "1"
"""The version of the file; it grows when a column changes its meaning."""
_VERSION = b"makeway.sweep"
KEYS = (
    *("trace", "workload", "seed", "policy", "max_loss_node_hours", "limits", "backfill", "order", "unit"),
    *("node_count", "urgent_share", "start_within_s", "poll_interval_s"),
)
"""The columns that identify a row, as in `SweepCell.columns`."""
_TEXT = frozenset({"trace", "workload", "policy", "limits", "backfill", "order", "unit"})
_WHOLE = frozenset({"seed", "node_count"})
COSTS = ("all.lost_node_hours", "all.overhead_node_hours")
"""The numbers that every row has."""
_ALWAYS = frozenset({"trace", "seed", "policy", *COSTS})
"""The columns that are never empty."""
Cell = str | int | float | None
_LATER: Mapping[str, Cell] = {"limits": "none"}
"""The values of identifying columns that older files do not have."""


class ResultsError(OneProblem):
    """A file of results that cannot be read or written. The message names it and what is accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """One cell and its numbers."""

    key: Mapping[str, Cell]
    numbers: Mapping[str, Number]


def require_pyarrow() -> None:
    """Make sure that results can be written.

    Raises:
        ResultsError: pyarrow is not installed.
    """
    if find_spec("pyarrow") is None:
        raise ResultsError("a sweep needs pyarrow: pip install 'makeway[sweep]'")


def write_results(path: Path, cells: Sequence[SweepCell], results: Sequence[CellResult]) -> None:
    """Write the file; it is complete afterwards or as it was before.

    Raises:
        ResultsError: it cannot be written.
    """
    import pyarrow
    from pyarrow import parquet

    names = list(dict.fromkeys(name for result in results for name in result.numbers))
    columns: dict[str, list[Cell]] = {key: [cell.columns[key] for cell in cells] for key in KEYS}
    columns |= {name: [result.numbers.get(name) for result in results] for name in names}
    fields = [
        (
            name,
            pyarrow.string() if name in _TEXT else pyarrow.int64() if name in _WHOLE else pyarrow.float64(),
        )
        for name in columns
    ]
    schema = pyarrow.schema(fields, metadata={_VERSION: FORMAT.encode()})
    try:
        # Given a path, pyarrow deletes it when it cannot write: a link, or a device, would be gone.
        with replacing(path) as part, part.open("wb") as file:
            parquet.write_table(pyarrow.table(columns, schema=schema), file)
    except OSError as error:
        raise ResultsError(f"{path}: cannot be written: {error.strerror or error}") from None


def read_results(path: Path) -> list[ResultRow]:
    """The rows of a file that `write_results` has written.

    Raises:
        ResultsError: it is no such file.
    """
    require_pyarrow()
    import pyarrow
    from pyarrow import parquet

    accepted = "accepted: a file that `makeway sweep` has written"
    if path.is_dir():
        raise ResultsError(f"{path}: it is a folder; {accepted}")
    if not path.exists():
        raise ResultsError(f"{path}: no such file; {accepted}")
    try:
        table = parquet.read_table(path)
    except (OSError, pyarrow.ArrowException):
        raise ResultsError(f"{path}: no Parquet file; {accepted}") from None
    version = (table.schema.metadata or {}).get(_VERSION, b"").decode(errors="replace")
    if version != FORMAT:
        found = f"results of version {version}" if version else "no results of a sweep"
        raise ResultsError(f"{path}: {found}; {accepted}, version {FORMAT}")
    rows = table.to_pylist()
    if not rows:
        raise ResultsError(f"{path}: it has no row; {accepted}")
    wrong = next(filter(None, map(_wrong_column, rows)), None)
    if wrong is not None:
        raise ResultsError(f"{path}: its column {wrong} is missing or damaged; {accepted}")
    return [
        ResultRow(
            key={**_LATER, **{name: row[name] for name in KEYS if name in row}},
            numbers={
                name: value
                for name, value in row.items()
                if name not in KEYS and isinstance(value, int | float | None)
            },
        )
        for row in rows
    ]


def _wrong_column(row: Mapping[str, object]) -> str | None:
    """A column of a row that is missing, or holds what `write_results` never writes into it. None: there is
    none.
    """
    for name in (*KEYS, *COSTS):
        value = row.get(name)
        if value is None:
            sound = (name in row or name in _LATER) and name not in _ALWAYS
        elif name in _TEXT:
            sound = isinstance(value, str)
        elif name in _WHOLE:
            sound = isinstance(value, int)
        else:
            sound = isinstance(value, int | float) and not isnan(value)
        if not sound:
            return name
    return None
