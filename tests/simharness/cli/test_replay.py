"""The commands as a user types them: what they print, what they write, and how they refuse."""

import csv
import gzip
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from makeway.daemon.cli.main import main
from makeway.daemon.journal.store import Journal
from tests.paths import EXAMPLE_POLICY as EXAMPLE
from tests.simharness.defects import write_defects

TRACE = """; Version: 2.2
; MaxNodes: 4
; MaxProcs: 4
1 0 0 600 4 -1 -1 4 900 -1 1 1 1 -1 -1 -1 -1 -1
2 10 0 600 2 -1 -1 2 900 -1 1 2 1 -1 -1 -1 -1 -1
3 20 0 100 2 -1 -1 2 300 -1 1 3 1 -1 -1 -1 -1 -1
4 30 0 0 2 -1 -1 2 300 -1 1 3 1 -1 -1 -1 -1 -1
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "small.swf.gz"
    path.write_bytes(gzip.compress(TRACE.encode()))
    return path


@pytest.fixture
def makeway(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> "Makeway":
    return Makeway(monkeypatch, capsys)


def test_a_replay_loads_only_what_it_needs() -> None:
    heavy = ("pydantic", "structlog", "apscheduler", "prometheus_client", "yaml")
    code = (
        "import sys; from makeway.daemon.cli.main import run_cli; "
        "run_cli(['replay', 'sample', '--policy', 'least-price', '--no-check']); "
        f"print(sorted(set({heavy!r}) & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"


class Makeway:
    """Runs the program in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: object, status: int = 0) -> tuple[str, str]:
        self._monkeypatch.setattr("sys.argv", ["makeway", *map(str, arguments)])
        assert main() == status
        captured = self._capsys.readouterr()
        return captured.out, captured.err

    def refuses(self, *arguments: object) -> str:
        """The one line of an error; no traceback, nothing on standard output."""
        out, err = self(*arguments, status=2)
        assert out == ""
        (line,) = err.splitlines()
        assert line.startswith("makeway: error: ")
        return line


def test_a_replay_prints_its_measures_and_what_it_left_out(makeway: Makeway, trace: Path) -> None:
    out, err = makeway("replay", trace)

    assert "without makeway" in out
    assert "1 job without a run time or a size left out" in err


@pytest.mark.parametrize("option", ["--json", "--csv"])
def test_the_name_of_the_report_does_not_get_into_the_numbers(
    makeway: Makeway, trace: Path, tmp_path: Path, option: str
) -> None:
    page = tmp_path / "page.html"
    out, errors = makeway("replay", trace, "--policy", "none", option, "-", "--report", page)
    assert "Report" not in out
    assert f"Report: {page}\n" in errors
    out, errors = makeway("replay", trace, "--policy", "none", "--report", page)
    assert out.endswith(f"Report: {page}\n")
    assert "Report" not in errors


def test_json_and_csv_hold_the_same_numbers(makeway: Makeway, trace: Path, tmp_path: Path) -> None:
    out, _ = makeway("replay", trace, "--policy", "none", "--json", "-", "--csv", tmp_path / "out.csv")
    first = json.loads(out)
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text())))

    assert len(rows) == 1
    assert "600" in out or "wait" in out
    assert first


def test_several_policies_and_seeds_are_compared(makeway: Makeway) -> None:
    out, _ = makeway("replay", "sample", "--policy", "none", "--policy", "n-spaa", "--seeds", 2, "--jobs", 2)

    assert "2 replays" in out
    assert "n-spaa" in out


@pytest.mark.parametrize(
    ("options", "urgent", "policies"),
    [
        ([], 20, ["n-spaa", "cup-spaa", "eviction", "least-price", "wcjs"]),
        (["--urgent", "0.1"], 38, ["n-spaa", "eviction"]),
        (["--urgent", "0"], 0, ["least-price", "wcjs"]),
        (["--workload", "W1"], 23, ["n-spaa", "cup-spaa"]),
        (["--workload", "W5"], 23, ["cup-spaa", "eviction"]),
        (["--class", "urgent:user=2"], 54, ["n-spaa", "eviction"]),
        (["--class", "urgent:user=beamline"], 20, ["n-spaa", "eviction"]),
    ],
)
def test_options_say_which_jobs_of_the_sample_are_urgent(
    makeway: Makeway, options: list[str], urgent: int, policies: list[str]
) -> None:
    """Whichever policies replay them: all of them once, and two under each of the options."""
    chosen = [part for name in policies for part in ("--policy", name)]
    out, _ = makeway("replay", "sample", *chosen, *options, "--json", "-")
    replays = json.loads(out)["replays"]
    assert [one["policy"] for one in replays] == policies
    assert {one["numbers"]["on_demand.jobs"] for one in replays} == {urgent}


def test_all_jobs_of_the_sample_can_be_urgent(makeway: Makeway) -> None:
    out, _ = makeway("replay", "sample", "--urgent", "1", "--policy", "n-spaa", "--json", "-")
    (one,) = json.loads(out)["replays"]
    kinds = ("on_demand", "malleable", "rigid")
    assert [one["numbers"][f"{kind}.jobs"] for kind in kinds] == [380, 0, 0]


def test_a_policy_in_a_file_is_replayed_beside_ours(makeway: Makeway, tmp_path: Path) -> None:
    """By other processes too; and by killing the youngest far more work is lost, as the README says."""
    averages, kept = tmp_path / "averages.csv", tmp_path / "kept.csv"
    both = ("--policy", "eviction", "--policy", EXAMPLE)
    makeway("replay", "sample", *both, "--seeds", 2, "--jobs", 2, "--csv", averages)
    makeway("replay", "sample", *both, "--csv", kept)
    assert {row["policy"] for row in csv.DictReader(io.StringIO(averages.read_text()))} == {
        "eviction",
        "youngest",
    }
    lost = {row["policy"]: row for row in csv.DictReader(io.StringIO(kept.read_text()))}
    assert float(lost["eviction"]["all.lost_node_hours"]) == pytest.approx(0.24, abs=0.005)
    assert float(lost["youngest"]["all.lost_node_hours"]) == pytest.approx(547, abs=0.5)


def test_a_kept_journal_explains_the_decisions(makeway: Makeway, tmp_path: Path) -> None:
    journal = tmp_path / "decisions.sqlite"
    makeway("replay", "sample", "--policy", "eviction", "--journal", journal)
    stored = Journal(journal, read_only=True).decisions(1)[0]
    out, _ = makeway("explain", stored.decision_id, "--journal", journal)

    assert stored.decision.rationale[0].for_job_id in out

    # What it knows of evictions and losses would change the decisions of another run.
    line = makeway.refuses("replay", "sample", "--policy", "eviction", "--journal", journal)
    assert f"--journal {journal}: it is there already, and what it has would count in this replay" in line


def test_a_journal_has_one_policy(makeway: Makeway, tmp_path: Path) -> None:
    both = ("--policy", "none", "--policy", "eviction", "--policy", "n-paa")
    line = makeway.refuses("replay", "sample", *both, "--journal", tmp_path / "new.sqlite")
    assert line == "makeway: error: --journal is about one policy: give one of eviction, n-paa"
    line = makeway.refuses("replay", "sample", "--journal", tmp_path / "new.sqlite")
    assert line == "makeway: error: --journal is about one policy: none decides nothing"


def test_the_demo_tells_a_story_and_writes_its_report(makeway: Makeway, tmp_path: Path) -> None:
    report = tmp_path / "demo.html"
    out, _ = makeway("demo", "--report", report)

    assert "started on time" in out
    assert "evict" in out
    assert str(report) in out
    assert report.read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["replay", "nowhere.swf"], ["nowhere.swf"]),
        (["replay", "sample", "--policy", "evction"], ["evction", "eviction"]),
        (
            ["replay", "sample", "--policy", "eviction", "--set", "start_withn_s=5"],
            ["start_withn_s", "start_within_s"],
        ),
        (["replay", "sample", "--policy", "eviction", "--set", "step_s=-5"], ["step_s", "-5"]),
        (["replay", "sample", "--policy", "eviction", "--set", "step_s=soon"], ["=soon: accepted: a number"]),
        (
            ["replay", "sample", "--policy", "eviction", "--set", "kills=3"],
            ["--set kills=3: accepted: late or at_once"],
        ),
        (["replay", "sample", "--policy", "eviction", "--set", "step_s"], ["step_s", "KEY=VALUE"]),
        (["replay", "sample", "--policy", "none", "--set", "step_s=5"], ["--set step_s=5", "none has no"]),
        (["replay", "sample", "--report", "nowhere/x.html"], ["--report", "there is no folder nowhere"]),
        (["replay", "sample", "--json", "nowhere/x.json"], ["--json", "there is no folder nowhere"]),
        (["replay", "sample", "--csv", "nowhere/x.csv"], ["--csv", "there is no folder nowhere"]),
        (["replay", "sample", "--policy", "eviction", "--journal", "nowhere/x"], ["no folder nowhere"]),
        (["replay", "sample", "--policy", ""], ["unknown policy ''"]),
        (["demo", "--report", "nowhere/x.html"], ["--report", "there is no folder nowhere"]),
        (["replay", "sample", "--workload", "W9"], ["W9", "W1"]),
        (["replay", "sample", "--urgent", "1.5"], ["1.5"]),
        (["replay", "sample", "--urgent", "0.1", "--workload", "W5"], ["--workload", "--urgent"]),
        (["replay", "sample", "--poll", "0"], ["--poll"]),
        (["replay", "sample", "--urgent", "nan"], ["--urgent nan: accepted: a share from 0 to 1"]),
        (["replay", "sample", "--seed", "-1"], ["-1"]),
        (["replay", "sample", "--nodes", "5"], ["--nodes"]),
        (["replay", "sample", "--seeds", "2", "--report", "x.html"], ["--report"]),
        (["replay"], ["TRACE"]),
        (["repaly", "sample"], ["repaly"]),
    ],
)
def test_bad_input_is_one_line_and_status_2(makeway: Makeway, arguments: list[str], words: list[str]) -> None:
    line = makeway.refuses(*arguments)

    for word in words:
        assert word in line


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.swf", b""),
        ("cut.swf.gz", gzip.compress(TRACE.encode(), mtime=0)[:-20]),
        ("not.swf.gz", b"\x1f\x8b not a gzip file"),
        ("picture.swf", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"),
        ("damaged.swf", TRACE.replace("2 10 0 600", "2 10 0 six").encode()),
    ],
)
def test_a_damaged_trace_is_refused_by_name(
    makeway: Makeway, tmp_path: Path, name: str, content: bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(content)

    assert name in makeway.refuses("replay", path)


def test_damaged_lines_may_be_skipped_and_are_counted(makeway: Makeway, tmp_path: Path) -> None:
    path = tmp_path / "damaged.swf"
    path.write_text(TRACE.replace("2 10 0 600", "2 10 0 six"))
    _, err = makeway("replay", path, "--skip-bad")

    assert "1 damaged line skipped" in err


def test_limits_of_the_site_hold_if_they_are_asked_for(makeway: Makeway, tmp_path: Path) -> None:
    """A job that runs for a day on 100 nodes: its loss is beyond the daemon's ceiling, 3% of that."""
    path = tmp_path / "long.swf"
    job = "{0} {1} 0 {2} {3} -1 -1 {3} {2} -1 1 {0} 1 -1 {0} -1 -1 -1"
    lines = [
        "; MaxNodes: 100",
        "; MaxProcs: 100",
        job.format(1, 0, 86_400, 100),
        job.format(2, 43_200, 60, 50),
    ]
    path.write_text("\n".join(lines) + "\n")
    options = ("replay", path, "--class", "urgent:queue=2", "--policy", "eviction", "--json", "-")
    for more, evictions in (((), 1), (("--limits", "none"), 1), (("--limits", "default"), 0)):
        (one,) = json.loads(makeway(*options, *more)[0])["replays"]
        assert one["numbers"]["all.evictions"] == evictions, more


def test_two_files_of_one_policy_have_the_names_of_their_files(makeway: Makeway, tmp_path: Path) -> None:
    names = ("first.py", "second.py")
    for name in names:
        (tmp_path / name).write_text(EXAMPLE.read_text())
    chosen = [word for name in names for word in ("--policy", tmp_path / name)]
    out, _ = makeway("replay", "sample", *chosen, "--json", "-")
    assert [one["policy"] for one in json.loads(out)["replays"]] == ["first", "second"]


def test_a_setting_that_begins_like_the_one_meant_suggests_it(makeway: Makeway) -> None:
    line = makeway.refuses("replay", "sample", "--policy", "least-price", "--set", "ceiling=2")
    assert line.endswith("policy least-price has no such setting; did you mean ceiling_machine_hours?")


def test_impossible_jobs_are_named(makeway: Makeway, trace: Path) -> None:
    _, err = makeway("replay", trace, "--nodes", 3)

    assert "1 (4 nodes)" in err
    assert "1 job larger than the machine of 3 nodes left out" in err


def test_a_deadline_that_is_not_the_measured_one_is_said(makeway: Makeway, trace: Path) -> None:
    options = ("replay", trace, "--urgent", "0.5", "--policy", "eviction")
    setting = ("--set", "start_within_s=120")
    for more in ((), ("--start-within", "2m", *setting), ("--set", "start_within_s=600")):
        assert "start_within_s" not in makeway(*options, *more)[1]
    _, err = makeway(*options, *setting)
    assert (
        "makeway: policy eviction works towards starts within 120 s (start_within_s), but starts within "
        "600 s count as on time: --start-within sets both\n"
    ) in err
    _, err = makeway("replay", "sample", "--policy", "eviction", *setting)
    assert (
        "makeway: start_within_s=120 of policy eviction has no effect, because every urgent job has a limit "
        "of its own: --start-within sets it\n"
    ) in err


def test_partial_executions_that_are_left_out_are_counted(makeway: Makeway, tmp_path: Path) -> None:
    path = tmp_path / "parts.swf"
    part = "1 0 0 300 4 -1 -1 4 900 -1 2 1 1 -1 -1 -1 -1 -1\n"
    path.write_text(TRACE + part + part.replace(" 2 1 1 ", " 3 1 1 "))
    _, err = makeway("replay", path)
    assert "makeway: 2 partial executions left out, because the job has a line of its own\n" in err


def test_a_workload_without_urgent_jobs_is_said(makeway: Makeway, trace: Path) -> None:
    _, err = makeway("replay", trace, "--policy", "eviction")

    assert "no job of this workload is urgent" in err


@pytest.mark.parametrize(
    ("users", "size", "why"),
    [
        (1, 2, "it needs jobs of 3 users, and there is 1"),
        (2, 2, "it needs jobs of 3 users, and there are 2"),
        (3, 3, "no job of the users that it draws has at most half of the nodes"),
    ],
)
def test_a_workload_of_p5_without_urgent_jobs_says_why(
    makeway: Makeway, tmp_path: Path, users: int, size: int, why: str
) -> None:
    (path := tmp_path / "few.swf").write_text(
        "; MaxNodes: 4\n"
        + "".join(
            f"{number} {number} 0 600 {size} -1 -1 {size} 900 -1 1 {number % users} 1 -1 -1 -1 -1 -1\n"
            for number in range(1, 10)
        )
    )
    _, err = makeway("replay", path, "--workload", "W5", "--policy", "eviction")
    assert err == f"makeway: workload W5 makes no job urgent, because {why}: see --urgent and --class\n"


@pytest.mark.parametrize(
    ("defect", "error"),
    [
        ("return 1 / 0", "ZeroDivisionError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("return None", "it returned None; accepted: a Decision of makeway.policies.api"),
        (
            "return Decision(policy='b', actions=('x',))",
            r"it returned a Decision whose actions\[0\] is a value",
        ),
    ],
)
def test_a_defect_of_a_policy_is_one_line_with_time_job_and_place(
    makeway: Makeway, tmp_path: Path, defect: str, error: str
) -> None:
    policy = tmp_path / "broken.py"
    text = EXAMPLE.read_text().replace(
        "def decide(", f"def decide(cluster, config):\n    {defect}\n\n\ndef old("
    )
    policy.write_text(text.replace('name="youngest"', 'name="broken"'))
    line = makeway.refuses("replay", "sample", "--policy", policy)
    assert re.search(rf"policy broken failed at \d+ s \(urgent jobs that wait: [\w.-]+\): {error}", line)
    assert re.search(rf"\({policy}, line \d+\)", line)


def test_a_policy_that_acts_without_end_is_one_line(makeway: Makeway, tmp_path: Path) -> None:
    write_defects(tmp_path)
    line = makeway.refuses("replay", "sample", "--policy", tmp_path / "loops.py")
    how = r"300 cycles at one instant, the last ones with reserve for (\d+), release for \1$"
    assert re.search(rf"error: policy loops failed at \d+ s: it acts without end: {how}", line)


def test_the_seed_is_named_whose_replay_fails(makeway: Makeway, tmp_path: Path) -> None:
    write_defects(tmp_path)
    words = ("--seed", 3, "--seeds", 2, "--policy", tmp_path / "raises.py")
    assert "error: seed 3: policy raises failed at " in makeway.refuses("replay", "sample", *words)


def test_a_policy_whose_actions_are_all_refused_is_said(makeway: Makeway, tmp_path: Path) -> None:
    policy = tmp_path / "absent.py"
    text = EXAMPLE.read_text().replace('name="youngest"', 'name="absent"')
    text = text.replace(
        "eviction_actions(request, job,", "eviction_actions(request, replace(job, job_id='no'),"
    )
    policy.write_text(text.replace("import dataclass\n", "import dataclass, replace\n"))
    _, err = makeway("replay", "sample", "--policy", policy)
    assert re.search(
        r"^makeway: no job left its nodes, and actions of policy absent were refused: \d+; "
        r"--journal FILE and `makeway explain` say why$",
        err,
        re.MULTILINE,
    )
    _, err = makeway("replay", "sample", "--policy", EXAMPLE)
    assert "refused" not in err
