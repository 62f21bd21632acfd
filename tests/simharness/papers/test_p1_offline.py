"""`makeway reproduce p1-offline`: what is asked, what is made of the answers, and the command itself."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from makeway.daemon.cli.main import run_cli
from makeway.simharness.papers.common.claims import ClaimStatus
from makeway.simharness.papers.p1_offline.cases import OfflineResult, trials
from makeway.simharness.papers.p1_offline.claims import claims
from makeway.simharness.papers.p1_offline.logs import TABLE_2, TABLE_3
from makeway.simharness.papers.p1_offline.tables import above_optimum, table_2, table_3


def case(size: tuple[int, int, int], seed: int = 0) -> OfflineResult:
    """A log that was solved in a second."""
    return OfflineResult(
        batch=size[0],
        urgent=size[1],
        blocks=size[2],
        seed=seed,
        proven=True,
        batch_slowdown=1.5,
        urgent_slowdown=1.1,
        urgent_limit=1.2,
        gap=0.0,
        interrupted=1,
        wall_s=1.0,
        wcjs_batch_slowdown=2.4 if size == TABLE_3 else None,
        wcjs_urgent_slowdown=1.32 if size == TABLE_3 else None,
        own_batch_slowdown=1.65 if size == TABLE_3 else None,
        own_urgent_slowdown=1.21 if size == TABLE_3 else None,
    )


def cases() -> list[OfflineResult]:
    return [*(case(size) for size in TABLE_2), *(case(TABLE_3, seed) for seed in range(2))]


def test_every_row_and_every_log_is_asked() -> None:
    asked = trials(range(2), 3)
    assert len(asked) == 9 * 2 + 3
    assert {(one.batch, one.urgent, one.blocks) for one in asked} == {*TABLE_2, TABLE_3}


def test_all_claims_hold_where_all_is_proven() -> None:
    assert [claim.standing for claim in claims(cases())] == [ClaimStatus.HOLDS] * 5


def test_a_log_without_proof_refutes_the_claim() -> None:
    found = [replace(one, proven=one.size != TABLE_2[-1]) for one in cases()]
    standings = {claim.key: claim.standing for claim in claims(found)}
    assert standings["table-2-proven"] is ClaimStatus.PARTLY
    assert standings["table-2-time"] is ClaimStatus.FAILS
    assert "0 of 1" in table_2(found).rows[-1]


def test_slow_is_not_within_the_time() -> None:
    found = [replace(one, wall_s=11.0) for one in cases()]
    standings = {claim.key: claim.standing for claim in claims(found)}
    assert (standings["table-2-time"], standings["table-2-proven"]) == (ClaimStatus.FAILS, ClaimStatus.HOLDS)


def test_table_3_leaves_logs_without_a_schedule_out_of_the_mean() -> None:
    lost = replace(
        case(TABLE_3, 2), batch_slowdown=None, urgent_slowdown=None, urgent_limit=None, proven=False
    )
    rows = table_3([*cases(), lost]).rows
    assert rows[2][:4] == ("log 3", "none", "none", "none")
    assert rows[3] == ("mean", "1.50", "1.10", "", "", "", "2.40", "1.32", "1.65", "1.21")


def test_how_far_wcjs_is_behind_is_told() -> None:
    claim = claims(cases())[-2]
    assert claim.measured == "BJ 2.40 to 1.50 (+60%), RTJ 1.32 to 1.10 (+20%) over 2 logs"
    better = [replace(one, wcjs_urgent_slowdown=1.0) for one in cases()]
    assert claims(better)[-2].standing is ClaimStatus.FAILS


def test_how_far_least_price_is_from_the_optimum() -> None:
    claim = claims(cases())[-1]
    assert claim.measured == "BJ 1.65 to 1.50 (+10%), RTJ 1.21 to 1.10 (+10%) over 2 logs"
    for batch, urgent in ((1.65, 1.27), (1.73, 1.21)):
        worse = [replace(one, own_batch_slowdown=batch, own_urgent_slowdown=urgent) for one in cases()]
        assert claims(worse)[-1].standing is ClaimStatus.FAILS


def test_schemes_are_compared_with_the_optimum_by_the_quotient_of_the_means() -> None:
    rows = {row[0]: row[1:] for row in above_optimum(cases()).rows}
    assert rows["optimum"] == ("1.50", "1", "1.10", "1")
    assert rows["WCJS, JIT-CKPT"] == ("2.40", "1.60 [1.60, 1.60]", "1.32", "1.20 [1.20, 1.20]")
    assert rows["no precedence"] == ("none", "none", "none", "none")
    uneven = [*cases()[:-1], replace(cases()[-1], batch_slowdown=3.0, own_batch_slowdown=6.0)]
    rows = {row[0]: row[1:] for row in above_optimum(uneven).rows}
    assert rows["least-price, JIT-CKPT"][:2] == ("3.83", "1.70 [1.10, 2.00]")


def test_the_command_tells_the_tables_and_keeps_its_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("makeway.simharness.papers.p1_offline.cases.TABLE_2", TABLE_2[:1])
    monkeypatch.setattr("makeway.simharness.papers.p1_offline.claims.TABLE_2", TABLE_2[:1])
    monkeypatch.setattr("makeway.simharness.papers.p1_offline.tables.TABLE_2", TABLE_2[:1])
    monkeypatch.setattr("makeway.simharness.papers.p1_offline.tables.PAPER_TIMES", ("3 s",))
    monkeypatch.setattr("makeway.simharness.papers.p1_offline.command.QUICK_LOGS", 1)
    arguments = ["reproduce", "p1-offline", "--quick", "--cache", str(tmp_path / "kept")]
    report = tmp_path / "out.html"
    assert (
        run_cli([*arguments, "--json", str(tmp_path / "out.json"), "--report", str(report)], factories={})
        == 0
    )
    assert "proven optimal" in capsys.readouterr().out
    told = json.loads((tmp_path / "out.json").read_text())
    assert [one["proven"] for one in told["cases"]] == [True, True]
    assert "Table 3: the optimum, WCJS and least-price" in report.read_text()
    assert run_cli(arguments, factories={}) == 0
    assert "2 of 2 logs were kept" in capsys.readouterr().err
    assert run_cli([*arguments, "--logs", "2"], factories={}) == 0
    assert "Averages of 2 logs" in capsys.readouterr().out


def test_the_command_line_tells_that_the_solver_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    assert run_cli(["reproduce", "p1-offline"], factories={}) == 2
    assert "makeway: error: planning needs OR-Tools: pip install 'makeway[solver]'" in capsys.readouterr().err
