"""The commands `sweep` and `compare`, and a sweep that is interrupted."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from makeway.daemon.cli.main import run_cli
from makeway.simharness.sweep.table import KEYS, read_results
from tests.paths import ROOT
from tests.simharness.defects import write_defects
from tests.waiting import await_that, limit_s

pytest.importorskip("pyarrow")

GRID = """
policies: [none, eviction]
seeds: 2
"""
LONG = """
policies: [none, eviction, n-paa, n-spaa, cua-paa]
seeds: 60
"""


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    path = tmp_path / "grid.yaml"
    path.write_text(GRID)
    return path


def test_a_sweep_and_its_comparison(grid: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = grid.with_suffix(".parquet")
    assert run_cli(["sweep", str(grid)]) == 0
    rows = read_results(results)
    assert [(row.key["policy"], row.key["seed"]) for row in rows] == [
        ("none", 0),
        ("none", 1),
        ("eviction", 0),
        ("eviction", 1),
    ]
    assert set(rows[0].key) == set(KEYS)
    assert rows[2].numbers["on_demand.on_time"] == 20.0
    assert rows[0].numbers["small.jobs"] == 0.0
    assert rows[0].numbers["batch.jobs"] == 360.0
    assert rows[0].numbers["large.jobs"] + rows[0].numbers["medium.jobs"] == 380.0  # type: ignore[operator]
    capsys.readouterr()

    assert run_cli(["sweep", str(grid)]) == 0
    assert "4 of 4 cells were kept" in capsys.readouterr().err

    page = grid.with_name("page.html")
    assert run_cli(["compare", str(results), "--report", str(page)]) == 0
    printed = capsys.readouterr().out
    assert "Best here: eviction, with 100.0% of the urgent jobs on time" in printed
    assert "eviction" in page.read_text()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_cells_that_fail_are_named_and_do_not_stop_the_others(
    tmp_path: Path, workers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_defects(tmp_path)
    grid = tmp_path / "grid.yaml"
    grid.write_text(
        "policies: [raises.py, {name: loops.py, label: endless}, none]\nsettings: {urgent_share: [0.1]}\n"
    )
    raises, endless = (
        f"policy {name}, trace sample, seed 0, urgent_share 0.1" for name in ("raises", "endless")
    )
    for kept in (False, True):  # what has failed is computed again, and nothing else
        assert run_cli(["sweep", str(grid), "--jobs", workers]) == 2
        printed = capsys.readouterr()
        lines = printed.err.splitlines()
        assert ("1 of 3 cells were kept" in printed.err) is kept
        assert f"makeway: failed: {raises}: policy raises failed at 46875 s" in printed.err
        assert (
            f"makeway: failed: {endless}: policy loops failed at 46875 s: it acts without end" in printed.err
        )
        assert lines[-3:] == [
            "makeway: error: 2 of 3 cells failed:",
            f"makeway: error: {raises}",
            f"makeway: error: {endless}",
        ]
        assert "Traceback" not in printed.err
        assert printed.out == f"Results of the other cells: {grid.with_suffix('.parquet')}\n"
        (row,) = read_results(grid.with_suffix(".parquet"))
        assert row.key["policy"] == "none"


def test_a_sweep_of_which_nothing_is_finished_writes_no_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_defects(tmp_path)
    (grid := tmp_path / "grid.yaml").write_text("policies: [raises.py]\n")
    assert run_cli(["sweep", str(grid)]) == 2
    assert capsys.readouterr().err.splitlines()[-2] == "makeway: error: 1 of 1 cells failed:"
    assert not grid.with_suffix(".parquet").exists()


def test_a_grid_is_checked_without_running(grid: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["sweep", str(grid), "--dry-run"]) == 0
    assert capsys.readouterr().err == "makeway: 4 cells\n"
    assert not grid.with_suffix(".parquet").exists()


def test_a_grid_without_urgent_jobs_stops_at_the_check(
    grid: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid.write_text(f"{GRID}settings: {{urgent_share: [0]}}\n")
    assert run_cli(["sweep", str(grid)]) == 2
    *_, last = capsys.readouterr().err.splitlines()
    assert last == (
        "makeway: error: no cell of the grid has an urgent job; accepted: workloads (W1 to W5) or "
        "settings.urgent_share, or a trace with urgent jobs of its own (sample, openb pods)"
    )
    assert not grid.with_suffix(".parquet").exists()


def test_limits_are_a_column_and_older_files_have_none(grid: Path) -> None:
    from pyarrow import parquet

    results = grid.with_suffix(".parquet")
    grid.write_text("policies: [eviction]\nsettings: {limits: [none, default]}\n")
    assert run_cli(["sweep", str(grid)]) == 0
    assert [row.key["limits"] for row in read_results(results)] == ["none", "default"]
    parquet.write_table(parquet.read_table(results).drop_columns(["limits"]), results)
    assert [row.key["limits"] for row in read_results(results)] == ["none", "none"]


@pytest.mark.parametrize("name", ["a.swf", "mine.py", "grid.yaml"])
def test_no_file_that_the_grid_reads_is_replaced(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.swf").write_text("; MaxNodes: 4\n")
    (tmp_path / "mine.py").write_text((ROOT / "docs/examples/youngest.py").read_text())
    grid = tmp_path / "grid.yaml"
    grid.write_text("policies: [none, mine.py]\ntraces: [a.swf]\n")
    before = (tmp_path / name).read_text()
    assert run_cli(["sweep", str(grid), "--out", str(tmp_path / name)]) == 2
    assert "it is the file that is read; accepted: another file" in capsys.readouterr().err
    assert (tmp_path / name).read_text() == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file; accepted: a file that `makeway sweep` has written"),
        (b"policies: []", "no Parquet file; accepted"),
    ],
)
def test_what_are_no_results(
    tmp_path: Path, content: bytes | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.parquet"
    if content is not None:
        path.write_bytes(content)
    assert run_cli(["compare", str(path)]) == 2
    assert message in capsys.readouterr().err


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        found += map(int, path.read_text().split())
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_sweep_keeps_its_cells_and_leaves_no_worker(
    tmp_path: Path, number: signal.Signals
) -> None:
    grid, kept = tmp_path / "grid.yaml", tmp_path / "cells"
    grid.write_text(LONG)
    arguments = ("sweep", str(grid), "--jobs", "2", "--cells", str(kept))
    process = subprocess.Popen(
        (sys.executable, "-m", "makeway.daemon.cli.main", *arguments),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        await_that("two cells are finished", lambda: len(list(kept.glob("*/*.json"))) >= 2)
        workers = _children(process.pid)
        assert workers
        os.kill(process.pid, number)
        _, errors = process.communicate(timeout=limit_s())
    finally:
        process.kill()
    assert process.returncode == (130 if number == signal.SIGINT else -number), errors
    assert "Traceback" not in errors
    await_that("no worker is left", lambda: not any(Path(f"/proc/{pid}/exe").exists() for pid in workers))
    assert len(list(kept.glob("*/*.json"))) < 300
    assert not grid.with_suffix(".parquet").exists()
