"""What the papers share: the group of commands, their options, claims and the place of the results."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from makeway.daemon.cli.main import run_cli
from makeway.daemon.errors import UserError
from makeway.simharness.papers import reproduce
from makeway.simharness.papers.common.claims import ClaimStatus, Finding, check
from makeway.simharness.papers.common.page import PageSection, PaperPage, TextGrid, page_html
from makeway.simharness.papers.reproduce import ReproduceOptions, TrialsFailed, run_all
from tests.paths import ROOT


def options(
    tmp_path: Path, *, seeds: int | None = None, quick: bool = False, report: Path | None = None
) -> ReproduceOptions:
    return ReproduceOptions(traces=tmp_path, seeds=seeds, jobs=1, quick=quick, report=report, json_path=None)


def double(number: int) -> int:
    return 2 * number


@pytest.mark.parametrize("workers", [1, 2])
def test_results_stand_in_the_order_of_the_trials(workers: int) -> None:
    assert run_all(double, [3, 1, 2], workers=workers, label="numbers") == [6, 2, 4]


def third_of(number: int) -> float:
    return 3 / number


@pytest.mark.parametrize("workers", [1, 2])
def test_the_other_trials_go_on_after_one_that_fails(
    workers: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(TrialsFailed) as failed:
        run_all(third_of, [3, 0, 1], workers=workers, label="numbers", named="number {}".format)
    assert str(failed.value) == "1 of 3 numbers failed:\nnumber 0"
    assert failed.value.finished == {0: 1.0, 2: 3.0}
    words = (
        r"^makeway: failed: number 0: ZeroDivisionError: division by zero \(.*test_reproduce\.py, line \d+\)$"
    )
    assert re.search(words, capsys.readouterr().err, re.MULTILINE)


def test_the_seeds_are_the_papers_own_unless_said_otherwise(tmp_path: Path) -> None:
    assert options(tmp_path).seed_range(10) == range(10)
    assert options(tmp_path, quick=True).seed_range(10) == range(1)
    assert options(tmp_path, seeds=3, quick=True).seed_range(10) == range(3)


def test_a_trace_that_is_not_there_is_named_with_its_directory(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"--traces {tmp_path}: has no x.swf.gz; accepted: --traces DIR"):
        options(tmp_path).require_trace("x.swf.gz")
    (tmp_path / "x.swf.gz").touch()
    options(tmp_path).require_trace("x.swf.gz")


@pytest.mark.parametrize("paper", ["p1", "p2", "p3", "p4", "p5"])
def test_a_paper_that_replays_traces_asks_for_them(
    paper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_cli(["reproduce", paper, "--quick"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        "makeway: error: --traces: missing; accepted: --traces DIR, the directory that holds "
    )
    assert line.endswith(".swf.gz (docs/traces.md says where to get it)")
    page = (ROOT / "docs" / "traces.md").read_text()
    assert line.partition("holds ")[2].partition(" (")[0] in page


def test_a_report_without_a_place_is_refused_before_the_work(tmp_path: Path) -> None:
    options(tmp_path, report=tmp_path / "page.html").require_outputs()
    with pytest.raises(
        UserError, match=r"--report .*new/page.html: there is no folder .*/new; make it first"
    ):
        options(tmp_path, report=tmp_path / "new" / "page.html").require_outputs()
    assert not (tmp_path / "new").exists()
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"--report .*file/page.html: there is no folder .*/file"):
        options(tmp_path, report=tmp_path / "file" / "page.html").require_outputs()


def test_an_unknown_paper_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["reproduce", "p9"], factories={}) == 2
    assert "No such command 'p9'" in capsys.readouterr().err


def test_the_group_lists_its_papers(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["reproduce", "--help"], factories={}) == 0
    out = capsys.readouterr().out
    assert all(f"  {paper} " in out for paper in reproduce.PAPERS)


def test_a_paper_is_loaded_only_when_it_is_asked_for() -> None:
    code = (
        "import sys, makeway.simharness.papers.reproduce; "
        "print(*(name for name in sys.modules if name.split('.')[0] in ('numpy', 'rich', 'bokeh')), "
        "*(name for name in sys.modules if name.startswith('makeway.simharness.reproduce_')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize(
    ("found", "standing", "told"),
    [
        ((ClaimStatus.HOLDS, ClaimStatus.HOLDS), ClaimStatus.HOLDS, "holds"),
        ((ClaimStatus.HOLDS, ClaimStatus.OPEN), ClaimStatus.OPEN, "open: holds on 1 of 2 seeds"),
        (
            (ClaimStatus.HOLDS, ClaimStatus.OPEN, ClaimStatus.FAILS),
            ClaimStatus.PARTLY,
            "partly: holds on 1 of 3 seeds",
        ),
        ((ClaimStatus.OPEN, ClaimStatus.FAILS), ClaimStatus.FAILS, "does not hold"),
    ],
)
def test_a_claim_holds_only_if_it_holds_on_every_seed(
    found: tuple[ClaimStatus, ...], standing: ClaimStatus, told: str
) -> None:
    def finding(results: object) -> Finding:
        assert isinstance(results, list)
        return Finding(standing=results[0], measured=f"{len(results)} results")

    claim = check("key", "it is so", "always", finding, [(seed, [one]) for seed, one in enumerate(found)])
    assert (claim.standing, claim.verdict) == (standing, told)
    assert claim.measured == f"{len(found)} results"
    assert claim.values()["seeds"] == [
        {"seed": seed, "verdict": one.value, "measured": "1 results"} for seed, one in enumerate(found)
    ]


@pytest.mark.parametrize(("quick", "told"), [(True, "holds (preliminary)"), (False, "holds")])
def test_verdicts_of_a_quick_run_are_preliminary(tmp_path: Path, quick: bool, told: str) -> None:
    found = Finding(standing=ClaimStatus.HOLDS, measured="1")
    claim = check("key", "it is so", "always", lambda _: found, [(0, [1])])
    (checked,) = options(tmp_path, quick=quick).checked([claim])
    assert (checked.verdict, checked.values()["preliminary"]) == (told, quick)
    assert told in page_html(PaperPage(title="t", facts=(), claims=(checked,), notes=(), sections=()), {})


def test_texts_of_a_page_are_escaped() -> None:
    page = PaperPage(
        title="<script>title",
        facts=("<b>fact",),
        claims=(),
        notes=("<i>note",),
        sections=(
            PageSection(
                heading="<u>section", grids=(TextGrid(heading="<p>grid", head=("<q>",), rows=(("<em>",),)),)
            ),
        ),
    )
    html = page_html(page, {})
    for text in ("<script>title", "<b>fact", "<i>note", "<u>section", "<p>grid", "<q>", "<em>"):
        assert text not in html
        assert text.replace("<", "&lt;").replace(">", "&gt;") in html
