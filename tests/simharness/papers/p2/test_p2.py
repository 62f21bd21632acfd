"""P2's experiment: what the three approaches answer, how far backtracking comes, and what is said of it."""

import itertools
import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from makeway.daemon.cli.main import run_cli
from makeway.policies.model import CheckpointSpec, Cluster, Method
from makeway.simharness.papers import reproduce
from makeway.simharness.papers.p2 import cases as p2_cases
from makeway.simharness.papers.p2.cases import (
    DEADLINES_S,
    P2Trial,
    compare,
    compute,
)
from makeway.simharness.workloads.scenarios import TRACE, WANTED_NODES
from tests import builders
from tests.simharness.papers.p2.results import HOUR_S


def trial(*, wanted_nodes: int = 4, budget_s: float = 1000.0, traces: Path = Path()) -> P2Trial:
    return P2Trial(traces=traces, scenario=1, wanted_nodes=wanted_nodes, seed=0, budget_s=budget_s)


def busy(*jobs: tuple[int, float, float], now_s: float = 10 * HOUR_S) -> Cluster:
    """A cluster that jobs fill; of each its nodes, the hours since its last checkpoint, the minutes
    of one.
    """
    running, taken = [], 0
    for index, (node_count, hours, minutes) in enumerate(jobs):
        running.append(
            builders.running(
                f"j{index:02d}",
                builders.node_names(node_count, first=taken + 1),
                checkpoint=CheckpointSpec(system_s=60 * minutes),
                last_checkpoint_s=now_s - HOUR_S * hours,
            )
        )
        taken += node_count
    return builders.cluster(taken, *running, now_s=now_s)


def hard(node_count: int, jobs: int = 34) -> Cluster:
    """A cluster on which backtracking would search for years: many choices of nearly the same loss."""
    return busy(*((node_count, 1 + index / 1000, 1 + index % 3) for index in range(jobs)))


def test_the_three_approaches_on_a_cluster_worked_out_by_hand() -> None:
    # Four nodes are wanted. Killed, the jobs lose 12, 8 and 6 node-hours; saved, they take 5, 3 and 4
    # minutes.
    case = compare(busy((4, 3, 5), (2, 4, 3), (2, 3, 4)), trial())

    exact = [plan.loss_node_s / HOUR_S for plan in case.exact]
    assert exact == [12.0, 12.0, 12.0, 6.0, 6.0, *[0.0] * 11]
    assert [run.plan.loss_node_s / HOUR_S for run in case.backtracking] == exact
    assert case.stopped_s is None
    # Greedy never saves the second before the first, whose checkpoint takes five minutes.
    assert [run.plan.loss_node_s / HOUR_S for run in case.greedy] == [14.0] * 5 + [0.0] * 11
    assert case.excess_node_hours == (2.0, 2.0, 2.0, 8.0, 8.0, *[0.0] * 11)
    assert {leaver.item.job_ids: leaver.method for leaver in case.exact[3].departures} == {
        ("j01",): Method.SYSTEM,
        ("j02",): Method.KILL,
    }
    assert (case.job_count, case.busy_nodes, case.now_s) == (3, 8, 10 * HOUR_S)


def test_the_additions_on_a_cluster_worked_out_by_hand() -> None:
    # Three of ten jobs may give 4 of their 5 nodes: 12 nodes for nothing. Half the bandwidth is dealt to each
    # of two.
    case = compare(busy(*[(5, 1, 2)] * 10), trial(wanted_nodes=15))
    assert [plan.loss_node_s for plan in case.exact][:7] == [15 * HOUR_S, 15 * HOUR_S, *[10 * HOUR_S] * 2] + [
        5 * HOUR_S
    ] * 2 + [0]
    assert [plan.loss_node_s for plan in case.shrinking.plans][:3] == [5 * HOUR_S, 5 * HOUR_S, 0]
    (shrunk, *_) = case.shrinking.plans
    assert shrunk.node_count == 15
    assert [leaver.method for leaver in shrunk.departures].count(Method.SHRINK) == 3
    # A node writes 20 GB/s of 250: five jobs of five nodes fill the file system twice over.
    assert [plan.loss_node_s for plan in case.concurrent.plans][:4] == [15 * HOUR_S] * 2 + [5 * HOUR_S, 0]


def test_more_nodes_than_there_are_is_an_error() -> None:
    with pytest.raises(ValueError, match="fewer nodes than are wanted"):
        compare(busy((2, 1, 1)), trial(wanted_nodes=3))


def test_a_search_that_goes_on_for_ever_is_stopped_and_said_to_be() -> None:
    before = signal.getsignal(signal.SIGVTALRM)
    case = compare(hard(2), trial(wanted_nodes=34, budget_s=0.05))

    assert case.stopped_s is not None
    assert 0 <= len(case.backtracking) < len(DEADLINES_S)
    assert case.backtracking_s >= case.stopped_s > 0
    assert len(case.exact) == len(case.greedy) == len(DEADLINES_S)
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGVTALRM) is before


@pytest.fixture
def traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a file called as the trace, and small scenarios in its place; the third is a
    hard one.
    """

    def scenario(number: int, traces_dir: Path, seed: int) -> Cluster:
        assert traces_dir == tmp_path
        if number == 3:
            return hard(128)
        return busy(*((512, 1 + index + seed, 2 + index) for index in range(4 + number)))

    monkeypatch.setattr(p2_cases, "scenario", scenario)
    (tmp_path / TRACE).touch()
    return tmp_path


def reproduced(traces: Path, *arguments: object) -> dict[str, Any]:
    path = traces / "out.json"
    kept = () if "--cache" in arguments else ("--no-cache",)
    command = ["reproduce", "p2", "--traces", traces, "--budget", "0.05", "--json", path, *kept, *arguments]
    assert run_cli(list(map(str, command)), factories={}) == 0
    values: dict[str, Any] = json.loads(path.read_text())
    return values


def without_times(values: dict[str, Any]) -> list[dict[str, Any]]:
    """The cases without what may differ from run to run: times, and how far backtracking came."""
    kept = [{key: value for key, value in case.items() if key != "times"} for case in values["cases"]]
    for case in kept:
        for row in case["deadlines"]:
            del row["backtracking"]
    return kept


def test_the_command_computes_every_case_on_every_seed(traces: Path) -> None:
    values = reproduced(traces, "--seeds", 2)
    assert [(case["seed"], case["scenario"], case["wanted_nodes"]) for case in values["cases"]] == [
        (seed, scenario, nodes) for seed in (0, 1) for scenario in (1, 2, 3) for nodes in WANTED_NODES
    ]
    assert values["settings"] == {"seeds": [0, 1], "step_s": 60.0, "horizon_s": 900.0, "budget_s": 0.05}
    for case in values["cases"]:
        assert [row["deadline_s"] for row in case["deadlines"]] == list(DEADLINES_S)
        finished = len(case["times"]["backtracking_s"])
        assert (case["times"]["backtracking_stopped_s"] is None) == (finished == len(DEADLINES_S))
        for index, row in enumerate(case["deadlines"]):
            losses = [row[name]["loss_node_hours"] for name in ("exact", "greedy")]
            assert row["greedy_excess_node_hours"] == pytest.approx(losses[1] - losses[0])
            assert row["exact"]["nodes_freed"] >= case["wanted_nodes"]
            for added in ("with_shrinking", "concurrent"):
                assert row[added]["nodes_freed"] >= case["wanted_nodes"]
                assert row[added]["loss_node_hours"] <= losses[0] + 1e-9
                assert row[added]["nodes_freed"] == sum(one["nodes"] for one in row[added]["departures"])
            assert (row["backtracking"] is not None) == (index < finished)
            if row["backtracking"] is not None:
                assert row["backtracking"]["loss_node_hours"] == losses[0]
    by_key = {claim["key"]: claim for claim in values["claims"]}
    assert by_key["same_optimum"]["verdict"] == "holds"
    assert [one["seed"] for one in by_key["same_optimum"]["seeds"]] == [0, 1]


def test_two_runs_decide_alike(traces: Path) -> None:
    assert without_times(reproduced(traces, "--quick")) == without_times(reproduced(traces))


def test_a_second_run_only_reports(
    traces: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = reproduced(traces, "--cache", traces / "kept")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(p2_cases, "scenario", None)
    assert reproduced(traces, "--cache", traces / "kept") == first
    assert "9 of 9 cases were kept in" in capsys.readouterr().err
    with pytest.raises(TypeError):
        reproduced(traces, "--cache", traces / "other")


def test_the_terminal_tells_losses_times_and_claims(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reproduced(traces, "--report", traces / "page.html")
    out, err = capsys.readouterr()
    assert err == ""
    assert "Scenario 1: 5 jobs on 2,560 nodes" in out
    assert all(f"K = {nodes}" in out for nodes in WANTED_NODES)
    assert re.search(r"3 │ +2048 │.*≥ .*\d+ of 16, stopped at \d+ min", out)
    assert "What the paper claims" in out
    assert f"Report: {traces / 'page.html'}" in out


def test_json_on_standard_output_stands_alone(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = traces / "page.html"
    command = ["reproduce", "p2", "--traces", traces, "--budget", "0.02", "--json", "-", "--report", page]
    command.append("--no-cache")
    assert run_cli(list(map(str, command)), factories={}) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["paper"] == "P2"
    assert err == f"Report: {page}\n"


def test_the_page_holds_every_figure_and_loads_nothing(traces: Path) -> None:
    reproduced(traces, "--report", traces / "page.html")
    html = (traces / "page.html").read_text(encoding="utf-8")
    for text in ("Figure 5. ", "Figure 6. ", "Figure 7. ", "Figure 8<", "Scenario 3: 34 jobs on 4,352 nodes"):
        assert text in html
    assert html.count("<figure>") == 18
    names = re.findall(r'"name":"((?:response|excess|stopped|saved)-[\d-]+)"', html)
    switched = [name for names in re.findall(r'data-names="([^"]*)"', html) for name in names.split()]
    assert len(names) == len(set(names))
    assert set(names) <= set(switched)
    assert {f"response-{scenario}-{nodes}-2" for scenario in (1, 2, 3) for nodes in WANTED_NODES} <= set(
        names
    )
    assert {f"saved-{one}-{nodes}-2" for one in (0, 1) for nodes in WANTED_NODES} <= set(names)
    assert {f"response-1-512-{index}" for index in range(5)} <= set(names)
    assert "stopped-3-2048-2" in names
    assert "default-src 'none'" in html
    assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=", html)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--traces", "nowhere"), f"nowhere: has no {TRACE}; accepted: --traces DIR"),
        (("--budget", "0"), "a duration above 0 is expected"),
        (("--budget", "soon"), "'soon' is no duration"),
        (("--seeds", "0"), "0 is not accepted; accepted: a whole number from 1 on"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert run_cli(["reproduce", "p2", *arguments], factories={}) == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith("makeway: error: ")
    assert message in line


def test_the_paper_is_listed() -> None:
    assert "p2" in reproduce.PAPERS


@pytest.mark.shared
def test_scenario_1_of_theta(shared_traces: Path) -> None:
    cases = [compute(trial(wanted_nodes=nodes, traces=shared_traces)) for nodes in WANTED_NODES]
    for case in cases:
        assert case.stopped_s is None
        exact = [one.loss_node_s for one in case.exact]
        assert [run.plan.loss_node_s for run in case.backtracking] == exact
        assert [run.plan.checkpoint_s for run in case.backtracking] == [
            one.checkpoint_s for one in case.exact
        ]
        assert exact == sorted(exact, reverse=True)
        for addition in (case.shrinking, case.concurrent):
            found = [one.loss_node_s for one in addition.plans]
            assert found == sorted(found, reverse=True)
            assert all(ours <= least for ours, least in zip(found, exact, strict=True))
        assert case.shrinking.plans[0].loss_node_s < exact[0]
        assert min(case.excess_node_hours) >= 0
        assert max(case.excess_node_hours) >= 10
        for one in (*case.exact, *(run.plan for run in case.greedy)):
            assert one.node_count >= case.wanted_nodes
    for fewer, more in itertools.pairwise(cases):
        pairs = zip(fewer.exact, more.exact, strict=True)
        assert all(less.loss_node_s <= greater.loss_node_s for less, greater in pairs)
