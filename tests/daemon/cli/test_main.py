"""The commands: what they print, what they refuse in one line, and what they do not load."""

import gc
import io
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from makeway.adapters.registry import Connection
from makeway.daemon.cli import main as main_module
from makeway.daemon.cli import options
from makeway.daemon.cli.main import cli, run_cli
from makeway.daemon.cli.options import duration_s
from makeway.daemon.cli.text import instant, span
from makeway.daemon.errors import UserError, printable
from makeway.daemon.journal.errors import JournalError
from makeway.daemon.service import logs
from makeway.daemon.service import socket_api as api
from makeway.daemon.service.pacing import COLLECT_AFTER
from makeway.daemon.service.socket_api import Announcement
from makeway.policies.horizon.cp_sat import SolverUnavailable
from makeway.policies.model import Resources
from makeway.policies.registry import UnknownPolicy
from makeway.simharness.run.experiment import ExperimentError
from tests.daemon.cli.program import Program

HEAVY = ("pydantic", "structlog", "rich", "numpy", "apscheduler", "prometheus_client", "yaml", "sqlite3")


def test_help_and_version_load_nothing_heavy() -> None:
    code = (
        "import sys; from makeway.daemon.cli.main import run_cli; run_cli(['--help'], factories={});"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
    assert {
        "run",
        "check-config",
        "doctor",
        "whatif",
        "explain",
        "status",
        "poke",
        "notice",
        "devcluster",
    } <= set(done.stdout.split())


@pytest.mark.parametrize("command", sorted(cli.commands))
def test_every_command_has_help(program: Program, command: str) -> None:
    text = program(command, "--help")
    assert text.startswith(f"Usage: makeway {command}")
    assert cli.commands[command].help


def test_version(program: Program) -> None:
    assert program("--version").startswith("makeway ")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["whatfi"], "No such command 'whatfi'. Did you mean 'whatif'? (see `makeway --help`)"),
        (["statsu"], "No such command 'statsu'. Did you mean 'status'? (see `makeway --help`)"),
        (["zzz"], "No such command 'zzz'. (see `makeway --help`)"),
        (["whatif", "--stp", "3"], "No such option '--stp'. Did you mean '--step'? (see `makeway whatif --help`)"),
        (["whatif"], "accepted: one of --nodes (how many nodes), --like (a job whose request is meant), and opti"),
        (["whatif", "--nodes", "2", "--like", "17"], "accepted: one of --nodes (how many nodes), --like"),
        (["whatif", "--nodes", "2", "--", "-n2"], "accepted: one of --nodes (how many nodes), --like"),
        (["whatif", "--journal", "j", "--", "-n2"], "options after -- need the present cluster: leave --journal"),
        (["whatif", "--like", "17", "--per-node", "cpu=1"], "--per-node needs --nodes, the number of nodes"),
        (["whatif", "--nodes", "0"], "Invalid value for '--nodes': 0 is not accepted; accepted: a whole number from 1 on (see "),
        (["history", "--from", "May"], "Invalid value for '--from': 'May' is not accepted; accepted: a day of the calendar, such as"),
        (["whatif", "--nodes", "2", "--deadline", "soon"], "Invalid value for '--deadline': 'soon' is no duration: wr"),
        *(
            (
                ["notice", "--nodes", "1", "--walltime", "1h", "--in", "1m", "--per-node", wrong],
                f"Invalid value for '--per-node': '{told}' is no amount: write cpu=8, mem=16G",
            )
            for wrong, told in (("cpu", "cpu"), ("cpu=8,mem=x", "mem=x"), ("cpu=8G", "cpu=8G"), ("cpu=0", "cpu=0"))
        ),
        (["whatif", "--nodes", "2", "--deadline", "9999d"], "Invalid value for '--deadline': '9999d' is more than a year"),
        (["whatif", "--nodes", "2", "--decision", "2"], "--decision needs --journal, the journal that holds the decision"),
        (["whatif", "--nodes", "2", "--step", "0"], "--step: a duration above 0 is expected"),
        (["completion", "tcsh"], "Invalid value for 'SHELL': 'tcsh' is not one of 'bash', 'zsh', 'fish'. (see "),
        (["run", "--config", "/nonexistent/\x1b[2J"], "/nonexistent/\\x1b[2J: cannot be read: No such file or dir"),
        (["check-config", "/nonexistent"], "/nonexistent: cannot be read: No such file or directory"),
        (["explain", "--journal", "/nonexistent/j"], "/nonexistent/j: cannot be opened as a journal: No such file"),
        (["status", "--socket", "/nonexistent/s"], "socket /nonexistent/s: no daemon answers; is it running, and is"),
        (["poke", "--socket", "/nonexistent/s"], "socket /nonexistent/s: no daemon answers"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line_and_status_2(
    program: Program, arguments: list[str], expected: str
) -> None:
    assert program.refused(*arguments).startswith(expected)


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["status"], "socket"),
        (["poke"], "socket"),
        (["explain"], "journal"),
        (["summary"], "journal"),
    ],
)
def test_a_configuration_that_users_may_not_read_is_one_line(
    program: Program, monkeypatch: pytest.MonkeyPatch, arguments: list[str], option: str
) -> None:
    """As in a folder that this user may not enter."""
    path = Path("/tmp") / ("x" * 300)
    monkeypatch.setattr(options, "CONFIG_PATH", path)
    said = f"{path}: cannot be read: File name too long; accepted: --{option} FILE instead"
    assert program.refused(*arguments) == said


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli([], factories={}) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("Usage: makeway ")
    assert "whatif" in shown
    assert "error" not in shown


def test_several_problems_are_several_lines(
    program: Program, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text("adapter: {type: simulated}\nmode: x\nlog: {level: y}\n")
    assert run_cli(["check-config", str(config)], factories={}) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[3] for line in lines] == ["mode", "log.level"]
    assert all(line.startswith(f"makeway: error: {config}:") for line in lines)


def test_a_defect_is_no_user_error(config: Path) -> None:
    def broken(_: object) -> Connection:
        raise ValueError("a defect")

    arguments = ["whatif", "--nodes", "1", "--config", str(config)]
    with pytest.raises(ValueError, match="a defect"):
        run_cli(arguments, factories={"simulated": broken})


def test_an_error_is_one_in_the_journal_of_systemd(config: Path, tmp_path: Path) -> None:
    """`journalctl -p err` shows why the daemon did not start."""
    said = tmp_path / "err"
    with said.open("w") as stream:
        found = os.fstat(stream.fileno())
        subprocess.run(
            [sys.executable, "-m", "makeway.daemon.cli.main", "run", "--config", tmp_path / "absent.yaml"],
            env={**os.environ, "JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"},
            stderr=stream,
            check=False,
        )
    assert said.read_text().startswith(f"<3>makeway: error: {tmp_path}/absent.yaml: cannot be read")


@pytest.mark.parametrize("kind", [JournalError, api.SocketInUse, SolverUnavailable, UnknownPolicy, UserError])
def test_an_error_of_the_user_is_one_line(
    config: Path, capsys: pytest.CaptureFixture[str], kind: type[Exception]
) -> None:
    def unusable(_: object) -> Connection:
        raise kind("no such thing")

    arguments = ["whatif", "--nodes", "1", "--config", str(config)]
    assert run_cli(arguments, factories={"simulated": unusable}) == 2
    assert capsys.readouterr().err == "makeway: error: no such thing\n"


@pytest.mark.parametrize("kind", [JournalError, UnknownPolicy, ExperimentError])
def test_an_error_that_quotes_a_line_end_is_one_line(
    config: Path, capsys: pytest.CaptureFixture[str], kind: type[Exception]
) -> None:
    def unusable(_: object) -> Connection:
        raise kind("no 'a\nb'")

    arguments = ["whatif", "--nodes", "1", "--config", str(config)]
    assert run_cli(arguments, factories={"simulated": unusable}) == 2
    assert capsys.readouterr().err == "makeway: error: no 'a\\nb'\n"


def test_a_daemon_with_a_new_mistake_in_its_file_still_shows_its_state(
    program: Program, config: Path, tmp_path: Path
) -> None:
    """The status says what is wrong with the file, and an operator may have to pause just then."""
    with api.serve(tmp_path / "s.sock", Control(), logs.configure("info", "json", io.StringIO())):
        config.write_text(config.read_text() + "limitz: {}\n")
        assert "mode             observe" in program("status", "--config", config)
        assert program("pause", "--config", config) == ""


def test_a_working_directory_that_is_gone_is_one_line(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    said = "the working directory is gone; accepted: a start in another one"
    assert program.refused("summary", "--journal", "j") == said


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_a_terminal_that_lacks_a_character_shows_a_similar_one(errors: str) -> None:
    code = (
        "import sys; from makeway.daemon.cli.ending import show_any_character;"
        "show_any_character(sys.stdout, sys.stderr); print('→ █· −1 é')"
    )
    environment = {**os.environ, "PYTHONIOENCODING": f"ascii:{errors}"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "> #. -1 ?\n"


def test_garbage_is_collected_seldom_while_a_command_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_cli(_: list[str]) -> int:
        thresholds.append(gc.get_threshold())
        return 0

    thresholds, usual = list[tuple[int, ...]](), gc.get_threshold()
    monkeypatch.setattr(main_module, "run_cli", run_cli)
    assert main_module.main() == 0
    assert (thresholds, gc.get_threshold()) == ([COLLECT_AFTER], usual)


def test_a_reader_may_leave_early(config: Path) -> None:
    """A closed pipe is no traceback."""
    code = (
        "import sys; from makeway.daemon.cli.main import run_cli;"
        f"sys.exit(run_cli(['check-config', {str(config)!r}], factories={{}}))"
    )
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=closed, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.stderr == ""
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0), ("1.5", 1.5), ("90s", 90.0), ("15m", 900.0), ("1h30m", 5400.0), ("2d", 172_800.0), ("1.5h", 5400.0),
        ("1:30", 90.0), ("1:30:00", 5400.0), ("", None), ("soon", None), ("-5", None), ("1e3", None), ("5 m", None),
        ("m", None), ("1:2", None), ("1:30:00:00", None), ("²", None), ("nan", None), ("1..5s", None),
    ],
)  # fmt: skip
def test_durations(text: str, seconds: float | None) -> None:
    assert duration_s(text) == seconds


def test_check_config_prints_what_it_would_take(program: Program, config: Path, tmp_path: Path) -> None:
    text = program("check-config", config)
    assert f"journal: {tmp_path}/j.sqlite" in text
    config.write_text(text)
    assert program("check-config", config) == text


class Control:
    """The daemon's side of the socket."""

    def __init__(self) -> None:
        self.pokes = 0
        self.acknowledged: list[str] = []
        self.announced: list[Announcement] = []
        self.paused: list[bool] = []
        self.leads = True

    def poke(self) -> None:
        self.pokes += 1

    def acknowledge(self, job_id: str) -> bool:
        self.acknowledged.append(job_id)
        return job_id == "4711"

    def status(self) -> Mapping[str, object]:
        return {"mode": "observe", "sentence": "job \x1b[2J"}

    def restore(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def announce(self, announcement: Announcement) -> str:
        self.announced.append(announcement)
        return "n-1"

    def pause(self, on: bool) -> None:
        self.paused.append(on)

    def hand_over(self) -> bool:
        return self.leads


def test_the_commands_to_a_running_daemon(program: Program, config: Path, tmp_path: Path) -> None:
    control = Control()
    with api.serve(tmp_path / "s.sock", control, logs.configure("info", "json", io.StringIO())):
        assert program("poke", "--config", config) == ""
        assert program("poke", "--socket", tmp_path / "s.sock", "--ack", "4711") == ""
        assert program("poke", "--config", config, "--ack", "4712") == (
            "No operation waits for job 4712: no cycle was started.\n"
        )
        assert control.acknowledged == ["4711", "4712"]
        assert program("status", "--config", config) == (
            "mode             observe\nsentence         job \\x1b[2J\n"
        )
        assert program.json("status", "--config", config) == {"mode": "observe", "sentence": "job \x1b[2J"}
        words = ("notice", "--nodes", 64, "--walltime", "1h", "--in", "15m", "--config", config)
        assert program(*words) == "n-1\n"
        assert program(*words, "--per-node", "cpu=8,mem=2G") == "n-1\n"
        refused = program.refused("poke", "--config", config, "--ack", "a b")
        assert refused.endswith("refused: job_id: the id of a job is expected, such as 4711 or 4711_3")
    assert control.pokes == 1
    announced, shared = control.announced
    assert announced.demand is None
    assert shared.demand == Resources.of({"cpu": 8, "mem": 2048})
    assert (announced.node_count, announced.walltime_s, announced.in_s) == (64, 3600.0, 900.0)


def test_an_operator_pauses_resumes_and_hands_over(program: Program, config: Path, tmp_path: Path) -> None:
    control = Control()
    with api.serve(tmp_path / "s.sock", control, logs.configure("info", "json", io.StringIO())):
        assert program("pause", "--config", config) == ""
        assert program("resume", "--socket", tmp_path / "s.sock") == ""
        assert program("handover", "--config", config) == ""
        control.leads = False
        told = program("handover", "--config", config)
    assert told == "This daemon does not lead: there is nothing to hand over.\n"
    assert control.paused == [True, False]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(program: Program, shell: str) -> None:
    assert "_MAKEWAY_COMPLETE" in program("completion", shell)


def test_completion_completes(tmp_path: Path) -> None:
    code = "import sys; from makeway.daemon.cli.main import run_cli; sys.exit(run_cli([], factories={}))"
    environment = {
        **os.environ,
        "_MAKEWAY_COMPLETE": "bash_complete",
        "COMP_WORDS": "makeway wh",
        "COMP_CWORD": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "plain,whatif\n"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.4, "59 s"), (59.6, "1:00"), (750, "12:30"), (3900, "1:05:00"), (360_000, "100:00:00")],
)
def test_spans(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_instants() -> None:
    assert instant(1000.4) == "1000 s"
    assert instant(1_767_225_600.0) == "2026-01-01 00:00:00+00:00"


def test_printable_leaves_text_alone_and_escapes_the_rest() -> None:
    assert printable("Straße 7 → ok") == "Straße 7 → ok"
    assert printable("a\nb\x1b\u202e\ud800") == "a\\nb\\x1b\\u202e\\ud800"
    assert str(UserError("x")) == "x"
