"""The command `history`: its options, and what it writes where."""

import json
import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from makeway.daemon.cli.main import run_cli
from makeway.simharness.history.how import period
from makeway.simharness.history.source import HistoryError
from tests.simharness.defects import write_defects
from tests.simharness.history.test_costs import VITAL, source

__all__ = ["source"]
TODAY = date(2026, 11, 25)


@pytest.fixture
def words(source: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A command that replays an urgent job, and one that ran when the period began."""
    monkeypatch.chdir(tmp_path)
    text = "history jobs.txt --nodes 4 --from 1970-01-12 --time-zone UTC --policy eviction --no-cache"
    return [*text.split(), "--class", "urgent:queue=urgent"]


def test_the_page_of_replays_measures_the_jobs_of_the_period(words: list[str], tmp_path: Path) -> None:
    assert run_cli([*words, "--max-loss", "none", "--replays", "replays.html"]) == 0
    page = (tmp_path / "replays.html").read_text()
    assert "1 jobs (1 urgent)" in page
    assert "jobs from before the period paid under eviction: " in page


def test_the_names_of_files_do_not_get_into_the_json(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    pages = ("--report", "page.html", "--replays", "replays.html")
    assert run_cli([*words, "--max-loss", "none", *pages, "--json", "-"]) == 0
    printed = capsys.readouterr()
    assert [one["policy"] for one in json.loads(printed.out)["replays"]] == ["none", "eviction"]
    assert printed.err.endswith("Report: page.html\nReport: replays.html\n")


def test_the_ceiling_of_the_configuration_is_that_of_the_machine(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "site.yaml").write_text(VITAL.replace("limits: {", "limits: {max_loss_machine_share: 1, "))
    words = [*words[:-2], "--config", "site.yaml"]
    words[words.index("4")] = "9"
    assert run_cli(words) == 0
    printed = capsys.readouterr().out
    assert "216 (configured)" in printed
    assert run_cli([*words, "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)["replays"]
    ceilings = [one["max_loss_node_hours"] for one in found]
    assert ceilings == [None, 216.0, None, 100.0, 20.0, 5.0, 1.0, 0.0]


@pytest.mark.parametrize("name", ["raises", "loops"])
def test_a_policy_that_fails_is_one_line_with_the_ceiling(
    words: list[str], tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_defects(tmp_path)
    words[words.index("eviction")] = f"{name}.py"
    assert run_cli([*words, "--max-loss", "20"]) == 2
    *_, line = capsys.readouterr().err.splitlines()
    assert line.startswith(f"makeway: error: --max-loss 20: policy {name} failed at ")


def test_a_poll_without_a_time_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli([*words, "--poll", "0"]) == 2
    assert capsys.readouterr().err == "makeway: error: --poll 0: accepted: more than 0 seconds\n"


def test_a_hash_without_a_key_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli([*words, "--hash-names", ""]) == 2
    line = "makeway: error: --hash-names: empty; accepted: a key that only you know\n"
    assert capsys.readouterr().err == line


def test_the_command_quotes_the_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "my site.yaml"
    config.write_text(VITAL)
    assert run_cli(["history", "--how", "--config", str(config)]) == 0
    assert capsys.readouterr().out.endswith(f"--config '{config}'\n")


def test_a_day_that_the_clock_does_not_know_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    words = "history jobs.txt --nodes 4 --class urgent:queue=urgent --from 0001-01-01"
    assert run_cli(words.split()) == 2
    assert (
        capsys.readouterr().err
        == "makeway: error: --from, --to 0001-01-01: accepted: a day such as 2026-10-01\n"
    )


@pytest.mark.parametrize(
    ("first", "end", "wanted"),
    [
        (None, None, ("2026-10-01", "2026-11-01")),
        ("2026-09-05", None, ("2026-09-05", "2026-11-01")),
        ("2026-11-01", None, ("2026-11-01", "2026-11-26")),
        ("2026-11-25", None, ("2026-11-25", "2026-11-26")),
        (None, "2026-11-10", ("2026-10-01", "2026-11-10")),
        (None, "2026-10-01", ("2026-09-01", "2026-10-01")),
        ("2026-09-05", "2026-09-06", ("2026-09-05", "2026-09-06")),
    ],
)
def test_the_period_of_the_export(first: str | None, end: str | None, wanted: tuple[str, str]) -> None:
    begin, after = (None if day is None else date.fromisoformat(day) for day in (first, end))
    assert period(begin, after, TODAY) == tuple(map(date.fromisoformat, wanted))


def test_a_period_in_the_future_is_refused() -> None:
    with pytest.raises(HistoryError, match="--from 2026-11-26: accepted: a day up to today, 2026-11-25"):
        period(date(2026, 11, 26), None, TODAY)


def test_the_commands_are_for_a_period_that_has_days(capsys: pytest.CaptureFixture[str]) -> None:
    today = date.today()
    assert run_cli(["history", "--how", "--from", str(today)]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert f"--from {today} --to " in line
    assert line.split()[line.split().index("--to") + 1] > str(today)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--class", "urgent:queue=a\nb"),
        ("--max-loss", "1\n2"),
        ("--time-zone", "a\nb"),
        ("--partition", "a\nb"),
    ],
)
def test_a_value_with_a_line_end_is_one_line_of_complaint(
    words: list[str], option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if option in words:
        words[words.index(option) + 1] = value
    else:
        words += [option, value]
    assert run_cli(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"makeway: error: {option} {value}".replace("\n", "\\n"))


def test_an_export_whose_name_has_a_line_end_is_one_line_of_complaint(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "jobs\n.txt").write_text("nothing")
    words[1] = "jobs\n.txt"
    assert run_cli(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("makeway: error: jobs\\n.txt: line 1: no header of sacct")


def test_names_in_the_tables_cannot_steer_the_terminal(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (tmp_path / "jobs.txt").read_text()
    (tmp_path / "names.txt").write_text(text.replace(";physics;", ";phy\x1b[31m\u202esics;"))
    words[1] = "names.txt"
    assert run_cli([*words, "--max-loss", "none"]) == 0
    printed = capsys.readouterr().out
    assert r"phy\x1b[31m\u202esics" in printed
    assert "\x1b" not in printed


@pytest.fixture
def pipe(words: list[str], tmp_path: Path) -> Iterator[str]:
    """A pipe with the export."""
    reading, writing = os.pipe()
    os.write(writing, (tmp_path / words[1]).read_bytes())
    os.close(writing)
    yield f"/dev/fd/{reading}"
    os.close(reading)


@pytest.mark.parametrize("option", ["--cache", "--jobs", "--machine"])
def test_a_pipe_is_refused_where_it_would_be_read_again(
    words: list[str], pipe: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two pipes would share the stored replays of one export."""
    match option:
        case "--cache":
            words[1:2], words[-3:-2] = [pipe], ["--cache", "kept"]
        case "--jobs":
            words[1:2] = [pipe, "--jobs", "2"]
        case _:
            words[2:4] = ["--machine", pipe]
    assert run_cli([*words, "--max-loss", "none"]) == 2
    line = capsys.readouterr().err
    assert line.startswith(f"makeway: error: {pipe}: can be read only once; accepted: a file, also a compr")
    assert line.endswith("or --no-cache and --jobs 1\n") is (option != "--machine")


def test_a_pipe_is_read_once(words: list[str], pipe: str) -> None:
    words[1] = pipe
    assert run_cli([*words, "--max-loss", "none"]) == 0
