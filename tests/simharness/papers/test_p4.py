"""`makeway reproduce p4`: the scenarios of a trace, what is made of their plans, and the command on small
traces.
"""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from makeway.daemon.cli.main import run_cli
from makeway.policies.horizon.plan import AcceptanceCurve, Taken
from makeway.simharness.papers.common.claims import ClaimStatus
from makeway.simharness.papers.p4.cases import (
    BASE,
    CURVES,
    HORIZON,
    LATE,
    MONTH_FROM_DAY,
    OBJECTIVES,
    TARDINESS,
    TRACES,
    MonthResult,
    P4Result,
    P4Trial,
    PlanFigures,
    compute,
    month_trials,
    problem_of,
    recorded_starts_s,
    scenario,
    trials,
)
from makeway.simharness.papers.p4.claims import claims
from makeway.simharness.papers.p4.command import overview
from makeway.simharness.workloads.trace import read_trace

NODES = 8
DAY_S = 86_400


def write_trace(path: Path, lines: list[str]) -> Path:
    head = [f"; MaxNodes: {NODES}", f"; MaxProcs: {NODES}", "; UnixStartTime: 0"]
    path.write_bytes(gzip.compress("\n".join([*head, *lines, ""]).encode()))
    return path


def line(number: int, submit_s: int, wait_s: int, run_s: int, nodes: int, limit_s: int) -> str:
    return f"{number} {submit_s} {wait_s} {run_s} {nodes} -1 -1 {nodes} {limit_s} -1 1 1 1 -1 -1 -1 -1 -1"


def small_traces(folder: Path) -> None:
    """One hundred jobs that waited for up to a day, on both machines, within the days that are replayed."""
    random = Random(3)
    submits = sorted(
        random.randrange(MONTH_FROM_DAY * DAY_S, (MONTH_FROM_DAY + 2) * DAY_S) for _ in range(100)
    )
    lines = []
    for number, submit_s in enumerate(submits, start=1):
        run_s = random.randrange(600, 12_000)
        lines.append(line(number, submit_s, random.randrange(DAY_S), run_s, 1, run_s + 1800))
    for name in TRACES.values():
        write_trace(folder / name, lines)


def test_a_scenario_is_the_queue_and_the_machine_of_the_record(tmp_path: Path) -> None:
    path = write_trace(
        tmp_path / "small.swf.gz",
        [
            line(1, 0, 0, 1000, 4, 2000),
            line(2, 10, 390, 500, 3, 600),
            line(3, 20, 0, 50, 1, 100),
            line(4, 30, 500, 800, 8, 900),
            line(5, 40, -1, 800, 2, 900),
            line(6, 600, 0, 800, 2, 900),
        ],
    )
    trace = read_trace(path)
    problem = scenario(trace, recorded_starts_s(path, trace), 100.0, AcceptanceCurve.LOWER)
    assert problem is not None
    assert [(job.job_id, job.node_count, job.length_s) for job in problem.jobs] == [
        ("2", 3, 600),
        ("4", 8, 900),
    ]
    assert [job.due_s for job in problem.jobs] == [600 - 90, 900 - 70]
    assert problem.taken == (Taken(node_count=4, until_s=1900),)
    crowded = write_trace(tmp_path / "crowded.swf.gz", [line(n, 0, 0, 1000, 5, 2000) for n in (1, 2)])
    trace = read_trace(crowded)
    assert scenario(trace, recorded_starts_s(crowded, trace), 100.0, AcceptanceCurve.LOWER) is None


def test_every_scenario_is_asked_under_both_objectives_and_curves() -> None:
    asked = trials(Path("traces"), range(20), 5.0)
    assert len(asked) == len(TRACES) * 20 * len(CURVES) * len(OBJECTIVES) + 4
    assert len(set(asked)) == len(asked)
    assert [(one.objective, one.queue_size) for one in asked[-4:]] == [(LATE, 1000)] * 2 + [
        (TARDINESS, 100)
    ] * 2
    assert len(month_trials(Path("traces"), 30, 5.0)) == 8


def test_the_same_trial_has_the_same_plan_which_is_not_worse_than_easy(tmp_path: Path) -> None:
    small_traces(tmp_path)
    trial = P4Trial(
        traces=tmp_path, trace="Mira", seed=1, curve=AcceptanceCurve.MEDIAN, objective=TARDINESS, work=0.5
    )
    assert problem_of(trial) == problem_of(trial)
    found = compute(trial)
    assert replace(found, wall_s=0.0) == replace(compute(trial), wall_s=0.0)
    assert found.jobs >= 5
    assert (
        found.bound <= found.ours.tardiness_s <= min(found.easy.tardiness_s, found.conservative.tardiness_s)
    )


def case(objective: str = LATE, **changed: object) -> P4Result:
    """A scenario in which the plan halves both objectives."""
    figures = PlanFigures(late=10, tardiness_s=7200, makespan_s=36_000)
    made = P4Result(
        trace="KTH",
        seed=0,
        curve=AcceptanceCurve.MEDIAN,
        objective=objective,
        scale=False,
        jobs=12,
        hopeless=2,
        easy=figures,
        conservative=figures,
        ours=PlanFigures(late=5, tardiness_s=3600, makespan_s=30_000),
        bound=5 if objective == LATE else 3600,
        proven=True,
        wall_s=1.0,
    )
    return replace(made, **changed)  # type: ignore[arg-type]


def all_cases() -> list[P4Result]:
    scenarios = [
        case(objective, trace=trace, curve=curve)
        for trace in TRACES
        for objective in OBJECTIVES
        for curve in CURVES
    ]
    long = [
        case(objective, curve=curve, scale=True, jobs=1000 if objective == LATE else 100)
        for objective in OBJECTIVES
        for curve in CURVES
    ]
    return [*scenarios, *long]


def months(late: int = 5, tardiness_mean_h: float = 1.0) -> list[MonthResult]:
    """Horizons compared with a scheduler with ten late jobs and two hours of tardiness."""
    base = MonthResult(
        days=5,
        curve=AcceptanceCurve.MEDIAN,
        objective=LATE,
        policy=BASE,
        jobs=100,
        late=10,
        tardiness_mean_h=2.0,
        wait_mean_h=2.0,
        wait_max_h=20.0,
        slowdown_mean=50.0,
        moved=0,
    )
    mine = replace(base, policy=HORIZON, late=late, tardiness_mean_h=tardiness_mean_h, moved=9)
    return [replace(one, objective=objective) for objective in OBJECTIVES for one in (base, mine)]


def standings(cases: list[P4Result], replays: list[MonthResult]) -> dict[str, ClaimStatus]:
    return {claim.key: claim.standing for claim in claims(cases, replays)}


def test_all_claims_hold_where_everything_is_half() -> None:
    assert set(standings(all_cases(), months()).values()) == {ClaimStatus.HOLDS}


@pytest.mark.parametrize(
    ("key", "worse"),
    [
        ("late-not-worse", case(LATE, ours=PlanFigures(late=11, tardiness_s=0, makespan_s=1))),
        ("late-not-worse", case(LATE, easy=PlanFigures(late=4, tardiness_s=0, makespan_s=1))),
        ("tardiness-not-worse", case(TARDINESS, ours=PlanFigures(late=0, tardiness_s=7201, makespan_s=1))),
        ("makespan", case(TARDINESS, ours=PlanFigures(late=0, tardiness_s=0, makespan_s=36_001))),
        ("tardiness-median", case(TARDINESS, ours=PlanFigures(late=0, tardiness_s=30_000, makespan_s=1))),
        ("scale", case(LATE, scale=True, jobs=1000, wall_s=601.0)),
        ("scale", case(TARDINESS, scale=True, jobs=99)),
    ],
)
def test_a_scenario_that_is_otherwise_refutes_its_claim(key: str, worse: P4Result) -> None:
    found = standings([*all_cases(), worse], months())
    # One part of the claim on size is refuted, the other holds.
    assert found[key] is (ClaimStatus.PARTLY if key == "scale" else ClaimStatus.FAILS)


def test_it_is_told_how_much_any_plans_could_improve() -> None:
    unproven = [replace(one, bound=1800) if one.objective == TARDINESS else one for one in all_cases()]
    (claim,) = [one for one in claims(unproven, months()) if one.key == "tardiness-median"]
    assert claim.measured == (
        "against conservative backfilling 50.0% on average, median 50.0%, over 1 scenarios; no plans reach "
        "more than 75.0%; against EASY 50.0% on average"
    )


def test_the_papers_easy_is_conservative_backfilling_and_the_usual_one_has_figures_of_its_own() -> None:
    """Against conservative backfilling plans are better by half, against EASY by a fifth."""
    easy = PlanFigures(late=6, tardiness_s=4500, makespan_s=28_000)
    cases = [replace(one, easy=easy) for one in all_cases()]
    found = {one.key: one for one in claims(cases, months())}
    better = found["tardiness-median"]
    assert better.standing is ClaimStatus.HOLDS
    assert better.criterion == "at least 20.6% against conservative backfilling, which the paper calls EASY"
    assert better.measured.startswith("against conservative backfilling 50.0% on average")
    assert better.measured.endswith("against EASY 20.0% on average")
    assert found["makespan"].measured == (
        "of 4 scenarios 0 longer than under conservative backfilling, 4 shorter; 4 longer than under EASY, 0 "
        "shorter"
    )
    assert found["makespan"].standing is ClaimStatus.HOLDS
    assert "EASY 6, conservative 10, ours 5" in found["scale"].measured
    grid = overview(cases)
    row = dict(zip(grid.head, grid.rows[2], strict=True))
    assert (row["better than conservative"], row["better than EASY"]) == ("50.0%", "20.0%")
    assert (row["C_max to conservative"], row["C_max to EASY"]) == ("-16.7%", "+7.1%")
    on_time = [replace(one, easy=PlanFigures(late=0, tardiness_s=0, makespan_s=1)) for one in cases]
    (none_late,) = [one for one in claims(on_time, months()) if one.key == "tardiness-median"]
    assert none_late.measured.endswith("against EASY no job is late")


def test_too_few_proofs_and_more_late_jobs_refute_theirs() -> None:
    unproven = [replace(one, proven=False) for one in all_cases()]
    assert standings(unproven, months())["late-proven"] is ClaimStatus.FAILS
    assert standings(all_cases(), months(late=11))["months"] is ClaimStatus.PARTLY
    assert standings(all_cases(), months(tardiness_mean_h=2.1))["months"] is ClaimStatus.PARTLY


def test_where_no_job_is_late_without_plans_there_is_no_improvement_to_report() -> None:
    none_late = PlanFigures(late=0, tardiness_s=0, makespan_s=100)
    cases = [
        replace(one, conservative=none_late, easy=none_late, ours=none_late, bound=0) for one in all_cases()
    ]
    (claim,) = [one for one in claims(cases, months()) if one.key == "tardiness-median"]
    assert claim.standing is ClaimStatus.OPEN
    assert claim.measured == "no job is late under conservative backfilling"
    assert overview(cases).rows[0][5:7] == ("none late", "none late")


def test_the_command_tells_the_tables_and_keeps_its_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    small_traces(tmp_path)
    monkeypatch.setattr("makeway.simharness.papers.p4.cases.SCALE", {LATE: 30, TARDINESS: 8})
    for module in ("command", "cases"):
        monkeypatch.setattr(f"makeway.simharness.papers.p4.{module}.CURVES", (AcceptanceCurve.MEDIAN,))
    arguments = ["reproduce", "p4", "--quick", "--work", "0.05", "--days", "1", "--traces", str(tmp_path)]
    arguments += ["--cache", str(tmp_path / "kept")]
    told, report = tmp_path / "out.json", tmp_path / "out.html"
    assert run_cli([*arguments, "--json", str(told), "--report", str(report)], factories={}) == 0
    assert "Horizons one after another: 1 days of KTH" in capsys.readouterr().out
    values = json.loads(told.read_text())
    assert len(values["scenarios"]) == 6
    assert len(values["replays"]) == 4
    assert all(
        one["ours"]["late"] <= one["easy"]["late"] for one in values["scenarios"] if one["objective"] == LATE
    )
    assert "Every scenario" in report.read_text()
    assert run_cli(arguments, factories={}) == 0
    assert "6 of 6 scenarios were kept" in capsys.readouterr().err
