"""What makeway would have done in a recorded day, and which setting is recommended."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from makeway.daemon.cli.main import run_cli
from makeway.simharness.history.source import HistorySource
from makeway.simharness.history.study import HistoryOutcome, HistoryTrial, recommended, replay_history
from makeway.simharness.workloads.classes import parse_class
from tests.adapters.slurm.accounting.test_recorded import RECORDED, RELEASES

URGENT_CLASS = "urgent:group=urgent"
OPTIONS = ("--class", URGENT_CLASS, "--start-within", "20s", "--poll", "1s")


def trial(release: str, policy: str, max_loss_node_hours: float | None = None) -> HistoryTrial:
    folder = RECORDED / release
    source = HistorySource(
        exports=(folder / "jobs.txt",),
        machine=folder / "machine.txt",
        classes=(parse_class(URGENT_CLASS),),
        start_within_s=20.0,
        from_s=0.0,
    )
    return HistoryTrial(
        source=source,
        policy=policy,
        max_loss_node_hours=max_loss_node_hours,
        poll_interval_s=1.0,
        requeue_delay_s=10.0,
        check=True,
    )


@pytest.mark.parametrize("release", RELEASES)
def test_a_recorded_day_with_and_without(release: str) -> None:
    without, served = replay_history(trial(release, "none")), replay_history(trial(release, "eviction"))
    assert (without.urgent, without.on_time, without.cost_node_hours) == (2, 0, 0.0)
    assert served.on_time == 2
    assert served.cost_node_hours > 0
    assert sum(one.lost_node_hours + one.overhead_node_hours for one in served.owners) == pytest.approx(
        served.cost_node_hours
    )
    assert [one.account for one in served.owners if one.evicted] == [served.owners[0].account]


def test_a_ceiling_of_loss_keeps_urgent_jobs_waiting() -> None:
    served = replay_history(trial("22.05", "eviction", 0.0))
    assert (served.on_time, served.cost_node_hours) == (0, 0.0)


def test_the_cheapest_of_those_near_the_best_is_recommended() -> None:
    served = replay_history(trial("22.05", "eviction"))
    none = replay_history(trial("22.05", "none"))
    assert recommended([none, served]) is served
    assert recommended([served, replace(served, max_loss_node_hours=3.0)]).max_loss_node_hours == 3.0
    assert recommended([none, replace(none, policy="eviction")]).policy == "none"


def test_without_urgent_jobs_nothing_is_recommended(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--class", "evictable:group=batch", "--policy", "eviction", "--max-loss", "0")
    assert _run(*options) == 0
    printed = capsys.readouterr()
    assert "No urgent job was measured, so no policy is recommended." in printed.out
    assert "Recommended" not in printed.out
    assert _run(*options, "--json", "-") == 0
    assert not any(one["recommended"] for one in json.loads(capsys.readouterr().out)["replays"])


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of caches: an empty one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    return tmp_path / "caches"


def _run(*arguments: str) -> int:
    folder = RECORDED / "22.05"
    return run_cli(
        ["history", str(folder / "jobs.txt"), "--machine", str(folder / "machine.txt"), *arguments]
    )


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page, replays = tmp_path / "page.html", tmp_path / "replays.html"
    options = ("--max-loss", "none", "--max-loss", "0", "--from", "2026-11-01", "--time-zone", "UTC")
    assert _run(*OPTIONS, *options, "--report", str(page), "--replays", str(replays)) == 0
    printed = capsys.readouterr()
    assert (
        "Recommended: policy least-price with limits.max_loss_node_hours: null. It starts 2 of 2"
        in printed.out
    )
    assert "0 of 2 urgent jobs really started on time, after 1.17 min on average" in printed.out
    assert "jobs left out, because they never started: 1" in printed.err
    assert "Cost by account" in page.read_text()
    assert "without makeway" in replays.read_text()


def test_the_numbers_as_json_with_hidden_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(*OPTIONS, "--max-loss", "5", "--hash-names", "pepper", "--json", "-") == 0
    found = json.loads(capsys.readouterr().out)["replays"]
    assert [(one["policy"], one["max_loss_node_hours"]) for one in found] == [
        ("none", None),
        ("least-price", 5.0),
    ]
    assert all(owner["user"].startswith("user-") for one in found for owner in one["owners"])


def test_a_deadline_that_is_not_the_measured_one_is_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "makeway.yaml"
    config.write_text(
        "adapter: {type: slurm, classes: [{name: urgent, accounts: [urgent], kind: on_demand}]}\n"
        "policy: {name: eviction, settings: {start_within_s: 20}}\n"
    )
    options = ("--config", str(config), "--max-loss", "0", "--poll", "1s")
    said = "policy eviction works towards starts within 20 s (start_within_s), but starts within 600 s count"
    assert _run(*options) == 0
    assert said in capsys.readouterr().err
    assert _run(*options, "--start-within", "30s") == 0
    assert "start_within_s" not in capsys.readouterr().err


def test_finished_replays_are_kept(capsys: pytest.CaptureFixture[str], caches: Path, tmp_path: Path) -> None:
    options = (*OPTIONS, "--policy", "none", "--policy", "eviction", "--max-loss", "5")
    told: list[tuple[bool, object]] = []
    for more in ((), (), ("--no-cache",), ("--backfill", "none"), ("--cache", str(tmp_path / "own"))):
        assert _run(*options, *more, "--json", "-") == 0
        printed = capsys.readouterr()
        told.append(("were kept" in printed.err, json.loads(printed.out)))
    assert [kept for kept, _ in told] == [False, True, False, False, False]
    assert told[0][1] == told[1][1]
    assert len(list(caches.glob("makeway/history/*/*.json"))) == 4
    assert len(list((tmp_path / "own").glob("*/*.json"))) == 2


def test_how_to_export(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["history", "--how", "--from", "2026-10-01", "--to", "2026-11-01"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("SLURM_TIME_FORMAT=%s sacct ")
    assert "--starttime=2026-10-01 --endtime=2026-11-01" in out[0]
    assert out[1].endswith("> machine.txt")
    assert out[2].startswith("makeway history jobs.txt --machine machine.txt --from 2026-10-01")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--class", "urgent"), "--class urgent: accepted: CLASS:FIELD"),
        ((*OPTIONS, "--max-loss", "much"), "--max-loss much: accepted: node-hours from 0 on, or none"),
        ((*OPTIONS, "--policy", "evction"), "evction"),
        ((*OPTIONS, "--from", "2026-10-01", "--time-zone", "Nowhere"), "--time-zone Nowhere"),
        ((*OPTIONS, "--partition", "nothing"), "--partition nothing"),
    ],
)
def test_wrong_options(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str) -> None:
    assert _run(*arguments) == 2
    errors = capsys.readouterr().err.splitlines()
    assert message in errors[-1]


@pytest.mark.parametrize("wrong", [("--max-loss", "much"), ("--policy", "evction")])
def test_wrong_options_are_found_before_the_export_is_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, wrong: tuple[str, str]
) -> None:
    export = tmp_path / "jobs.txt"
    export.write_text("no export")
    assert run_cli(["history", str(export), "--nodes", "4", *OPTIONS, *wrong]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert wrong[1] in line


def test_an_outcome_has_its_costs() -> None:
    outcome: HistoryOutcome = replay_history(trial("22.05", "none"))
    assert sum(one.jobs for one in outcome.owners) == 16
