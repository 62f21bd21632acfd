"""Files of results that `makeway sweep` has not written, or that something has changed."""

from pathlib import Path
from typing import Any

import pytest

from makeway.daemon.cli.main import run_cli
from makeway.simharness.sweep.cell import CellResult, SweepCell
from makeway.simharness.sweep.table import KEYS, ResultsError, read_results, write_results

parquet = pytest.importorskip("pyarrow.parquet")
import pyarrow as pa

NUMBERS = {"all.lost_node_hours": 2.0, "all.overhead_node_hours": 1.0, "on_demand.on_time_rate": 0.5}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    path = tmp_path / "results.parquet"
    write(path, "none")
    return path


def write(path: Path, *labels: str) -> None:
    cells = [
        SweepCell(trace="a.swf", trace_name="a.swf", synthesis=None, seed=0, label=label, policy="none")
        for label in labels
    ]
    write_results(path, cells, [CellResult(numbers=dict(NUMBERS)) for _ in cells])


def changed(path: Path, name: str, value: object) -> None:
    """Put a column with this value in place of another one."""
    table: Any = parquet.read_table(path)
    place = table.schema.get_field_index(name)
    parquet.write_table(table.set_column(place, name, pa.array([value])), path)


def refused(path: Path) -> str:
    with pytest.raises(ResultsError) as caught:
        read_results(path)
    return str(caught.value).removeprefix(f"{path}: ")


def test_a_link_that_cannot_be_written_through_stays(tmp_path: Path) -> None:
    path = tmp_path / "results.parquet"
    path.symlink_to("/dev/full")
    with pytest.raises(ResultsError, match=r"results.parquet: cannot be written: No space left on device"):
        write(path, "none")
    assert path.is_symlink()


@pytest.mark.parametrize("name", [*(key for key in KEYS if key != "limits"), *list(NUMBERS)[:2]])
def test_a_file_without_a_column_is_refused(results: Path, name: str) -> None:
    table: Any = parquet.read_table(results)
    parquet.write_table(table.drop_columns([name]), results)
    assert refused(results) == (
        f"its column {name} is missing or damaged; accepted: a file that `makeway sweep` has written"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("policy", None),
        ("seed", "3"),
        ("seed", {"a": 1}),
        ("max_loss_node_hours", "5"),
        ("max_loss_node_hours", float("nan")),
        ("all.lost_node_hours", float("nan")),
        ("all.lost_node_hours", None),
        ("all.lost_node_hours", "2"),
        ("order", 3),
    ],
)
def test_a_column_of_another_type_is_refused(results: Path, name: str, value: object) -> None:
    changed(results, name, value)
    assert refused(results).startswith(f"its column {name} is missing or damaged; accepted: ")


def test_a_file_without_rows_is_refused(results: Path) -> None:
    table: Any = parquet.read_table(results)
    parquet.write_table(table.slice(0, 0), results)
    assert refused(results) == "it has no row; accepted: a file that `makeway sweep` has written"


def test_a_version_that_is_no_text_is_another_version(results: Path) -> None:
    table: Any = parquet.read_table(results)
    parquet.write_table(table.replace_schema_metadata({b"makeway.sweep": b"\xff"}), results)
    assert refused(results).startswith("results of version \ufffd; accepted: ")


def test_what_is_no_file_and_no_results_is_called_so() -> None:
    with pytest.raises(ResultsError, match=r"^/dev/null: no Parquet file; accepted"):
        read_results(Path("/dev/null"))


def test_one_choice_is_not_compared_with_itself(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["compare", str(results)]) == 0
    printed = capsys.readouterr().out
    assert "Best here: none" in printed
    assert "Against none" not in printed


def test_names_of_choices_cannot_steer_the_terminal(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(results, "a\n\x1b[31mb", "c")
    assert run_cli(["compare", str(results)]) == 0
    printed = capsys.readouterr().out
    assert "Against a\\n\\x1b[31mb, pair by pair" in printed
    assert "\x1b" not in printed
