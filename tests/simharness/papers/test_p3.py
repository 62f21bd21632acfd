"""P3's experiment: what is measured of a replay, what is said of it, and where it goes."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from makeway.daemon.cli.main import run_cli
from makeway.simharness.papers import reproduce
from makeway.simharness.papers.common.claims import ClaimStatus
from makeway.simharness.papers.p3 import cases as p3_cases
from makeway.simharness.papers.p3.cases import (
    TRACES,
    P3Result,
    P3Results,
    P3Setting,
    P3Trial,
    compute,
    settings,
)
from makeway.simharness.papers.p3.claims import claims, gain, percent
from makeway.simharness.workloads.job import SimJob
from makeway.simharness.workloads.trace import write_swf
from tests.simharness.papers.p3_results import NODES, made

STORY = [
    SimJob("1", 0.0, 1000.0, 1000.0, 4, user="1"),
    SimJob("2", 10.0, 500.0, 500.0, 8, user="1"),
    SimJob("3", 20.0, 2000.0, 4000.0, 4, user="2"),
]
"""Job 3 fits next to job 1, but not before job 2 is due at 1000 s."""


@pytest.fixture(autouse=True)
def forget_traces() -> None:
    """Every test has traces of its own under the same names."""
    p3_cases._trace.cache_clear()


def written(folder: Path, jobs: list[SimJob]) -> Path:
    """A directory in which each of the traces has these jobs."""
    for name in TRACES.values():
        write_swf(folder / name, NODES, jobs)
    return folder


def replayed(folder: Path, first: int | None = None, **setting: Any) -> P3Result:
    return compute(P3Trial(traces=folder, setting=P3Setting(trace="CTC", **setting), first=first))


def test_the_classical_algorithm_on_a_workload_worked_out_by_hand(tmp_path: Path) -> None:
    done = replayed(written(tmp_path, STORY))
    # Job 2 runs from 1000 to 1500 s, job 3 from then to 3500 s.
    assert (done.jobs, done.node_count) == (3, NODES)
    assert done.wait_s == pytest.approx((0 + 990 + 1480) / 3)
    assert done.slowdown == pytest.approx((1 + 1490 / 500 + 3480 / 2000) / 3)
    assert done.queue_length == pytest.approx((990 + 1480) / 3500)
    assert done.utilisation == pytest.approx((4000 + 4000 + 8000) / (NODES * 3500))
    assert (done.backfill_ratio, done.preempted_ratio, done.checkpoints_per_node_day) == (0, 0, 0)
    (day,) = [bucket for bucket in done.by_load if bucket.days]
    assert (day.from_utilisation, day.to_utilisation, day.days) == (0.4, 0.6, 1)
    assert day.queue_length == pytest.approx(done.queue_length)


def test_an_early_start_and_an_eviction_worked_out_by_hand(tmp_path: Path) -> None:
    done = replayed(written(tmp_path, STORY), p=0.2)
    # Job 3 runs from 20 to 1000 s and from 1500 to 2520 s: it waits 500 s in all.
    assert done.wait_s == pytest.approx((0 + 990 + 500) / 3)
    assert done.slowdown == pytest.approx((1 + 1490 / 500 + 2500 / 2000) / 3)
    assert done.queue_length == pytest.approx((990 + 500) / 2520)
    assert done.backfill_ratio == done.preempted_ratio == pytest.approx(1 / 3)
    assert done.checkpoints_per_node_day == pytest.approx(4 / NODES * 86_400 / 2520)
    assert done.wasted_ratio == 0
    assert done.utilisation == pytest.approx(16_000 / (NODES * 2520))


def test_what_a_checkpoint_costs(tmp_path: Path) -> None:
    done = replayed(written(tmp_path, STORY), p=0.2, extend_s=60.0)
    # It saves from 1000 to 1030 s, is back at 1530 s, sets itself up for 30 s and ends at 2580 s.
    assert done.wasted_ratio == pytest.approx(4 * 60 / (NODES * 2580))
    assert done.wait_s == pytest.approx((0 + 1020 + 500) / 3)


def test_with_the_whole_time_limit_nobody_starts_early(tmp_path: Path) -> None:
    traces = written(tmp_path, STORY)
    whole = replayed(traces, p=1.0)
    assert replace(whole, setting=P3Setting(trace="CTC")) == replayed(traces)


@pytest.mark.parametrize(("alpha", "backfilled"), [(0.0, 1), (0.1, 1), (0.5, 0), (1.0, 0)])
def test_a_time_limit_between_the_run_time_and_the_users(
    tmp_path: Path, alpha: float, backfilled: int
) -> None:
    # The limit is 700 + alpha * 2100 s, and 980 s are free next to job 1.
    jobs = [*STORY[:2], replace(STORY[2], runtime_s=700.0, walltime_s=2800.0)]
    done = replayed(written(tmp_path, jobs), alpha=alpha)
    assert done.backfill_ratio == pytest.approx(backfilled / 3)


def test_a_piece_is_the_beginning_of_the_trace(tmp_path: Path) -> None:
    traces = written(tmp_path, STORY)
    assert replayed(traces, first=2).jobs == 2
    assert replayed(traces, first=2).wait_s == pytest.approx(990 / 2)
    assert replayed(traces, first=99) == replayed(traces)


def test_the_grid_of_a_trace() -> None:
    grid = list(settings("CTC"))
    assert len(grid) == len(set(grid)) == 20
    assert {one.p for one in grid} == {None, 0.1, 0.2, 0.5, 1.0}
    for p, literal in ((None, False), (0.2, False), (0.2, True)):
        alphas = {one.alpha for one in grid if (one.p, one.literal) == (p, literal)}
        assert alphas == {0.0, 0.5, 1.0}
    assert {one.p for one in grid if one.literal} == {0.1, 0.2, 0.5, 1.0}
    assert {one.extend_s for one in grid if one.p == 0.2} == {0.0, 120.0, 430.0, 1200.0, 3600.0}


def standings(change: Callable[[P3Result], P3Result] = lambda one: one) -> dict[str, ClaimStatus]:
    """What becomes of the claims if every outcome is changed so."""
    outcomes = [change(made(setting)) for trace in TRACES for setting in settings(trace)]
    return {claim.key: claim.standing for claim in claims(P3Results(outcomes))}


def test_as_the_paper_has_it_every_claim_holds() -> None:
    assert {key for key, standing in standings().items() if standing is not ClaimStatus.HOLDS} == set()


def changed(trace: str | None = None, **fields: Any) -> Callable[[P3Result], P3Result]:
    """Outcomes of the policy at p = 0.1 or 0.2 with other values, on one trace or on all."""

    def change(one: P3Result) -> P3Result:
        concerned = one.setting.p in (0.1, 0.2) and trace in (None, one.setting.trace)
        return replace(one, **fields) if concerned else one

    return change


def classical(**fields: Any) -> Callable[[P3Result], P3Result]:
    return lambda one: replace(one, **fields) if one.setting.p is None else one


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("better", changed("CTC", wait_s=1000.0)),
        ("better", changed("SDSC-BLUE", backfill_ratio=0.5)),
        ("better_than_ideal", changed("HPC2N", wait_s=800.0)),
        ("best_p", changed("CTC", wait_s=700.0)),
        ("up_to_40", changed(wait_s=700.0)),
        ("up_to_40", changed(queue_length=7.0)),
        ("slowdown_halved", changed("CTC", slowdown=10.0)),
        ("ideal_slowdown", changed("HPC2N", slowdown=8.9)),
        ("ideal_slowdown", changed("SDSC-BLUE", slowdown=8.7)),
        ("wait_is_queue", changed("CTC", queue_length=9.0)),
        ("classical_suffers", classical(slowdown=20.0)),
        ("stable", classical(slowdown=20.0)),
        ("overhead", changed("SDSC-BLUE", slowdown=20.0)),
        ("overhead_slowdown", changed("CTC", slowdown=17.0)),
        ("few", changed("CTC", preempted_ratio=0.07)),
        ("few", changed("HPC2N", checkpoints_per_node_day=0.7)),
        ("waste", changed("CTC", wasted_ratio=0.016)),
    ],
)
def test_a_claim_fails_by_its_criterion(key: str, change: Callable[[P3Result], P3Result]) -> None:
    assert standings(change)[key] in {ClaimStatus.FAILS, ClaimStatus.PARTLY}


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("up_to_40", changed("CTC", wait_s=999.0)),
        ("slowdown_halved", changed("SDSC-BLUE", slowdown=19.0)),
    ],
)
def test_a_claim_concerns_the_traces_of_which_the_paper_says_it(
    key: str, change: Callable[[P3Result], P3Result]
) -> None:
    assert standings(change)[key] is ClaimStatus.HOLDS


def test_a_claim_names_its_traces() -> None:
    outcomes = [made(setting) for trace in TRACES for setting in settings(trace)]
    outcomes = [changed("CTC", wasted_ratio=0.02)(one) for one in outcomes]
    (waste,) = [claim for claim in claims(P3Results(outcomes)) if claim.key == "waste"]
    assert waste.verdict == "partly: holds on 2 of 3 traces"
    assert waste.measured == "CTC: at most 2.00%; SDSC-BLUE: at most 1.00%; HPC2N: at most 1.00%"
    assert [part["trace"] for part in waste.values()["traces"]] == [*TRACES]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("before", "after", "text"), [(10, 6, "−40%"), (10, 12, "+20%"), (10, 10.01, "±0%"), (0, 0, "±0%")]
)
def test_changes_in_words(before: float, after: float, text: str) -> None:
    assert percent(gain(before, after)) == text


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Small traces: the story again and again."""
    jobs = [
        replace(job, job_id=str(3 * round_ + place), submit_s=job.submit_s + 3000.0 * round_)
        for round_ in range(5)
        for place, job in enumerate(STORY)
    ]
    return written(tmp_path, jobs)


def reproduced(traces: Path, *arguments: object) -> dict[str, Any]:
    path = traces / "out.json"
    command = [
        "reproduce",
        "p3",
        "--traces",
        traces,
        "--cache",
        traces / "kept",
        "--json",
        path,
        *arguments,
    ]
    assert run_cli(list(map(str, command)), factories={}) == 0
    values: dict[str, Any] = json.loads(path.read_text())
    return values


def test_the_command_replays_the_grid_of_every_trace(traces: Path) -> None:
    values = reproduced(traces, "--first", 9)
    assert [one["setting"]["trace"] for one in values["replays"]] == [
        trace for trace in TRACES for _ in range(20)
    ]
    assert {one["jobs"] for one in values["replays"]} == {9}
    assert values["settings"] == {"first_jobs": 9}
    assert values["notes"][0].startswith("A piece: only the first 9 jobs")
    by_key = {claim["key"]: claim for claim in values["claims"]}
    assert by_key["better"]["verdict"] == "holds"
    assert [part["trace"] for part in by_key["better"]["traces"]] == [*TRACES]


def test_two_runs_measure_alike_whatever_the_processes(traces: Path) -> None:
    first = reproduced(traces, "--quick", "--no-cache")
    assert first == reproduced(traces, "--quick", "--jobs", 2)
    assert first == reproduced(traces, "--quick"), "from what was kept"
    assert len([*(traces / "kept").rglob("*.json")]) == 3 * 20


def test_the_terminal_tells_replays_the_papers_figures_and_claims(
    traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reproduced(traces)
    out = capsys.readouterr().out
    assert "the whole of each trace" in out
    assert all(f"{trace}: 15 jobs on 8 nodes" in out for trace in TRACES)
    assert re.search(r"p = 0.2, T_extend = 3600 s │", out)
    assert "The paper and here, p = 0.2, against the classical algorithm" in out
    assert "What the paper claims" in out
    assert "first 6,000 jobs of CTC" in out


def test_the_page_holds_every_figure_and_loads_nothing(traces: Path) -> None:
    reproduced(traces, "--report", traces / "page.html")
    html = (traces / "page.html").read_text(encoding="utf-8")
    for number in (4, 5, 6, 7):
        assert f"<h3>Figure {number}" in html
    assert html.count("<figure>") == 2 * 3 + 3 + 4 * 3 + 4 + 3
    names = re.findall(r'"name":"((?:share|written|load|alpha|extend)-[\w-]+)"', html)
    switched = [name for found in re.findall(r'data-names="([^"]*)"', html) for name in found.split()]
    assert len(names) == len(set(names))
    assert set(names) == set(switched)
    assert "default-src 'none'" in html
    assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=", html)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--traces", "nowhere"), f"nowhere: has no {TRACES['CTC']}; accepted: --traces DIR"),
        (("--seeds", "3"), "p3 draws nothing at random, so it has no seeds"),
        (("--first", "0"), "0 is not accepted; accepted: a whole number from 1 on"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert run_cli(["reproduce", "p3", *arguments], factories={}) == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith("makeway: error: ")
    assert message in line


def test_the_paper_is_listed() -> None:
    assert "p3" in reproduce.PAPERS


@pytest.mark.shared
@pytest.mark.parametrize("trace", TRACES)
def test_the_beginning_of_a_trace(shared_traces: Path, trace: str) -> None:
    def done(**setting: Any) -> P3Result:
        return compute(P3Trial(traces=shared_traces, setting=P3Setting(trace=trace, **setting), first=600))

    whole, plain, early = done(p=1.0), done(), done(p=0.2, extend_s=430.0)
    assert replace(whole, setting=plain.setting) == plain
    assert plain.preempted_ratio == plain.wasted_ratio == 0
    assert (early.preempted_ratio > 0) == (early.wasted_ratio > 0) == (early.checkpoints_per_node_day > 0)
    for one in (plain, early):
        assert 0 < one.utilisation <= 1
        assert sum(bucket.days for bucket in one.by_load) > 2
        assert one.queue_length > 0
