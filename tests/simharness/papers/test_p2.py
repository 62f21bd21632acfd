"""P2's experiment: what the three approaches answer, how far backtracking comes, and what is said of it."""

import itertools
import json
import re
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from makeway.daemon.cli.main import run_cli
from makeway.policies.eviction.knapsack import EvictionPlan
from makeway.policies.model import CheckpointSpec, Cluster, Method
from makeway.simharness.papers import reproduce
from makeway.simharness.papers.common.claims import ClaimStatus
from makeway.simharness.papers.p2 import cases as p2_cases
from makeway.simharness.papers.p2.cases import (
    DEADLINES_S,
    P2Result,
    P2Trial,
    TimedPlan,
    VariantAnswers,
    compare,
    compute,
    cpu_budget,
    groups,
    timed,
)
from makeway.simharness.papers.p2.claims import claims, format_response
from makeway.simharness.workloads.scenarios import TRACE, WANTED_NODES
from tests import builders

HOUR_S = 3600


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


def test_a_budget_lets_errors_and_quick_work_through() -> None:
    done = []
    with cpu_budget(1000.0):
        done.append("work")
    with pytest.raises(KeyError), cpu_budget(1000.0):
        raise KeyError
    assert done == ["work"]
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("durations_s", "calls", "elapsed_s"),
    [((0.001, 0.005, 0.002, 0.009, 0.003), 5, 0.003), ((0.02,), 1, 0.02)],
)
def test_a_short_call_is_timed_by_its_median(
    monkeypatch: pytest.MonkeyPatch, durations_s: tuple[float, ...], calls: int, elapsed_s: float
) -> None:
    edges = itertools.chain.from_iterable((float(i), i + took_s) for i, took_s in enumerate(durations_s))
    monkeypatch.setattr("time.thread_time", edges.__next__)
    made: list[int] = []

    def call() -> str:
        made.append(1)
        return "answer"

    answer, measured_s = timed(call)
    assert answer == "answer"
    assert measured_s == pytest.approx(elapsed_s)
    assert len(made) == calls


def plan(loss_node_hours: float, checkpoint_steps: int = 0) -> EvictionPlan:
    return EvictionPlan(
        departures=(),
        loss_node_s=round(loss_node_hours * HOUR_S),
        checkpoint_steps=checkpoint_steps,
        checkpoint_s=60.0 * checkpoint_steps,
        node_count=512,
    )


def made_case(
    scenario: int = 1,
    wanted_nodes: int = 512,
    *,
    seed: int = 0,
    losses: Sequence[float] = (50.0,) * 15 + (0.0,),
    excess: Sequence[float] = (20.0,) * 16,
    exact_s: float = 0.002,
    greedy_s: float = 1e-6,
    slow_s: float = 50.0,
    finished: int = 16,
) -> P2Result:
    """A case with given figures; every one of P2's claims but one holds on it."""
    return P2Result(
        scenario=scenario,
        seed=seed,
        wanted_nodes=wanted_nodes,
        job_count=12,
        busy_nodes=4352,
        now_s=0.0,
        exact=tuple(plan(hours) for hours in losses),
        exact_s=exact_s,
        greedy=tuple(
            TimedPlan(plan=plan(hours + more), elapsed_s=greedy_s)
            for hours, more in zip(losses, excess, strict=True)
        ),
        backtracking=tuple(TimedPlan(plan=plan(hours), elapsed_s=slow_s / 16) for hours in losses[:finished]),
        stopped_s=None if finished == 16 else slow_s / 4,
        shrinking=VariantAnswers(plans=tuple(plan(hours / 2) for hours in losses), elapsed_s=2 * exact_s),
        concurrent=VariantAnswers(plans=tuple(plan(hours / 4) for hours in losses), elapsed_s=4 * exact_s),
    )


def standings(*cases: P2Result) -> dict[str, ClaimStatus]:
    three = [
        made_case(scenario) for scenario in (1, 2, 3) if scenario not in {case.scenario for case in cases}
    ]
    return {claim.key: claim.standing for claim in claims([*cases, *three])}


LARGE = made_case(3, slow_s=500.0)
SMALL = made_case(1, slow_s=0.001)


@pytest.mark.parametrize(
    ("key", "case", "standing"),
    [
        ("same_optimum", LARGE, ClaimStatus.HOLDS),
        ("same_optimum", replace(LARGE, exact=(plan(49.0), *LARGE.exact[1:])), ClaimStatus.FAILS),
        ("same_optimum", replace(LARGE, exact=(plan(50.0, 1), *LARGE.exact[1:])), ClaimStatus.FAILS),
        ("same_optimum", made_case(3, finished=3), ClaimStatus.HOLDS),
        ("backtracking_slower", LARGE, ClaimStatus.HOLDS),
        ("backtracking_slower", made_case(3, slow_s=100.0), ClaimStatus.FAILS),
        ("backtracking_slower", made_case(3, slow_s=100.0, finished=15), ClaimStatus.OPEN),
        ("backtracking_slower", made_case(3, slow_s=2000.0, finished=2), ClaimStatus.HOLDS),
        ("backtracking_faster_if_small", SMALL, ClaimStatus.HOLDS),
        ("backtracking_faster_if_small", made_case(1), ClaimStatus.FAILS),
        ("backtracking_faster_if_small", made_case(1, slow_s=0.001, finished=4), ClaimStatus.FAILS),
        ("greedy_faster", LARGE, ClaimStatus.HOLDS),
        ("greedy_faster", made_case(3, greedy_s=1e-5), ClaimStatus.FAILS),
        ("greedy_faster", made_case(3, slow_s=1e-5), ClaimStatus.FAILS),
        ("greedy_faster", made_case(3, slow_s=1e-5, finished=1), ClaimStatus.OPEN),
        ("greedy_worse", LARGE, ClaimStatus.HOLDS),
        ("greedy_worse", made_case(3, excess=(0.0,) * 15 + (10.0,)), ClaimStatus.HOLDS),
        ("greedy_worse", made_case(3, excess=(9.9,) * 16), ClaimStatus.FAILS),
        ("excess_grows", LARGE, ClaimStatus.HOLDS),
        ("excess_grows", made_case(3, excess=(20.0,) * 14 + (1.0, 0.0)), ClaimStatus.HOLDS),
        ("excess_grows", made_case(2, excess=(20.0,) * 14 + (1.0, 0.0)), ClaimStatus.FAILS),
        ("excess_grows", made_case(3, excess=(20.0, 19.0) + (30.0,) * 14), ClaimStatus.FAILS),
        ("often_zero", LARGE, ClaimStatus.HOLDS),
        ("milliseconds", LARGE, ClaimStatus.HOLDS),
        ("milliseconds", made_case(3, exact_s=0.011), ClaimStatus.FAILS),
    ],
)
def test_a_claim_holds_by_its_criterion(key: str, case: P2Result, standing: ClaimStatus) -> None:
    assert standings(case)[key] is standing


def test_nothing_finished_leaves_the_optimum_open_and_half_without_zero_refutes() -> None:
    none = [made_case(scenario, finished=0, losses=(50.0,) * 16) for scenario in (1, 2, 3)]
    assert standings(*none)["same_optimum"] is ClaimStatus.OPEN
    assert standings(*none)["often_zero"] is ClaimStatus.FAILS
    assert standings(*none[:2])["often_zero"] is ClaimStatus.FAILS
    assert standings(none[0])["often_zero"] is ClaimStatus.HOLDS


def test_claims_are_checked_on_each_seed() -> None:
    cases = [made_case(scenario, seed=seed) for seed in (0, 1) for scenario in (1, 2, 3)]
    cases[-1] = replace(cases[-1], exact_s=0.5)
    (found,) = [claim for claim in claims(cases) if claim.key == "milliseconds"]
    assert found.told == "does not hold: holds on 1 of 2 seeds"
    assert found.measured == "2 to 500 ms"
    assert [finding.measured for _, finding in found.parts] == ["2 ms", "2 to 500 ms"]


def test_seeds_are_averaged_and_backtracking_only_as_far_as_every_seed_came() -> None:
    first = made_case(1, losses=(40.0,) * 16, excess=(10.0,) * 16, slow_s=16.0, exact_s=0.002)
    second = made_case(
        1, seed=1, losses=(60.0,) * 16, excess=(30.0,) * 16, slow_s=32.0, finished=3, exact_s=0.004
    )
    (group,) = groups([first, second])
    assert group.exact_node_hours == (50.0,) * 16
    assert group.greedy_node_hours == (70.0,) * 16
    assert group.excess_node_hours == (20.0,) * 16
    assert group.backtracking_node_hours == (50.0,) * 3
    assert group.exact_s == pytest.approx(0.003)
    assert group.shrinking_node_hours == (25.0,) * 16
    assert group.concurrent_node_hours == (12.5,) * 16
    assert group.shrinking_s == pytest.approx(0.006)
    assert group.concurrent_s == pytest.approx(0.012)
    assert group.greedy_s == pytest.approx([index * 1e-6 for index in range(1, 17)])
    assert group.backtracking_s == pytest.approx([1.5, 3.0, 4.5])
    # The fourth deadline: 4 s on the first seed, 6 s and a search of 8 s that was stopped on the second.
    assert group.stopped_s == pytest.approx((4.0 + 14.0) / 2)
    assert groups([first])[0].stopped_s is None


@pytest.mark.parametrize(
    ("time_s", "text"),
    [(1e-5, "10 µs"), (0.000187, "187 µs"), (0.00205, "2.05 ms"), (1.0, "1 s"), (1240.0, "1,240 s")],
)
def test_response_times_in_words(time_s: float, text: str) -> None:
    assert format_response(time_s) == text


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
        (("--seeds", "0"), "0 is not in the range x>=1"),
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
