"""`makeway init`: the files of a site, with its own names and paths."""

import os
import stat
from pathlib import Path

import pytest

from makeway.adapters.registry import ClusterNames
from makeway.adapters.slurm.settings import SlurmAdapterSettings
from makeway.daemon.cli import init as cli_init
from makeway.daemon.cli.main import run_cli
from makeway.daemon.config.load import load
from makeway.daemon.config.mode import Mode
from tests.paths import DEPLOY

NAMES = ClusterNames(partitions=("batch", "rt"), qos=("normal", "urgent"))
HOMES = cli_init.HOMES


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_init, "_cluster_names", lambda conf: NAMES)
    monkeypatch.setattr(cli_init, "HOMES", ())  # this file may be below one


def run(*arguments: object) -> int:
    return run_cli(["init", *map(str, arguments)])


def test_the_files_have_the_names_and_paths_of_the_site(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "site"
    conf = tmp_path / "slurm.conf"
    conf.touch()
    options = ("--urgent-qos", "urgent", "--evictable-partition", "batch", "--conf", conf)
    assert run(folder, *options) == 0
    assert capsys.readouterr().out.endswith(f"makeway doctor --config {folder}/makeway.yaml\n")
    settings = load(folder / "makeway.yaml").settings
    assert settings.mode is Mode.OBSERVE
    assert isinstance(settings.adapter, SlurmAdapterSettings)
    assert settings.adapter.conf == conf
    urgent, *others = settings.adapter.classes
    assert (set(urgent.qos), set(urgent.partitions)) == ({"urgent"}, set())
    assert {tuple(one.partitions) for one in others} == {("batch",)}
    unit = (folder / "makeway.service").read_text()
    assert f"ExecStart={cli_init.program()} run --config {folder}/makeway.yaml\n" in unit
    for name in ("makeway.service", "JOBS.md", "makeway-job.sh", "makeway-done", "examples/shell-loop.sh"):
        assert "/opt/makeway" not in (folder / name).read_text()
    assert f". {folder}/makeway-job.sh" in (folder / "JOBS.md").read_text()
    script = (folder / "job_submit.lua").read_text()
    assert 'local urgent_qos = { ["urgent"] = true }\nlocal urgent_partitions = {}\n' in script
    assert f'local poke = "{cli_init.program()} poke --config {folder}/makeway.yaml"\n' in script
    assert (folder / "grafana-dashboard.json").is_file()
    assert (folder / "alerts.yaml").is_file()
    assert os.access(folder / "makeway-done", os.X_OK)
    assert stat.S_IMODE((folder / "makeway.yaml").stat().st_mode) & 0o022 == 0


def test_a_slurm_conf_that_is_not_there_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--urgent-qos", "urgent", "--evictable-partition", "batch")
    assert run(tmp_path / "site", *options, "--conf", tmp_path / "slurm.conf") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("makeway: error: Invalid value for '--conf': File ")
    assert "slurm.conf' does not exist" in line
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize("wrong", [" ", "%", '"', "$", "\n", "\\"])
def test_a_path_that_the_unit_or_a_script_would_take_for_something_else_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: str
) -> None:
    odd = tmp_path / f"my{wrong}site"
    options = ("--urgent-qos", "urgent", "--evictable-partition", "batch")
    assert run(odd, *options) == 2
    odd.mkdir()
    conf = odd / "slurm.conf"
    conf.touch()
    assert run(tmp_path / "site", *options, "--conf", conf) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [" DIR /" in lines[0], " --conf /" in lines[1], len(lines)] == [True, True, 2]
    assert all("cannot have the character" in line for line in lines)
    assert not (tmp_path / "site").exists()
    assert run(tmp_path / "Süd-1.2", *options) == 0


def test_urgent_jobs_may_have_a_partition_of_their_own(tmp_path: Path) -> None:
    assert run(tmp_path, "--urgent-partition", "rt", "--evictable-partition", "batch") == 0
    section = load(tmp_path / "makeway.yaml").settings.adapter
    assert isinstance(section, SlurmAdapterSettings)
    assert (set(section.classes[0].qos), set(section.classes[0].partitions)) == (set(), {"rt"})
    script = (tmp_path / "job_submit.lua").read_text()
    assert 'local urgent_qos = {}\nlocal urgent_partitions = { ["rt"] = true }\n' in script


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "--urgent-qos or --urgent-partition: missing"),
        (("--urgent-qos", "urgent"), "--evictable-partition: missing"),
        (("--urgent-qos", "urgnet", "--evictable-partition", "batch"), "it has normal, urgent"),
        (("--urgent-qos", "urgent", "--evictable-partition", "btach"), "it has batch, rt"),
        (("--urgent-qos", "urgent", "--urgent-partition", "rt"), "one of the two"),
        (("--urgent-partition", "rt", "--evictable-partition", "rt"), "all jobs there are urgent"),
    ],
)
def test_what_is_missing_or_unknown_is_one_line_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], words: str
) -> None:
    assert run(tmp_path / "site", *options) == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1
    assert not (tmp_path / "site").exists()


def test_names_are_text_where_no_cluster_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli_init, "_cluster_names", lambda conf: ClusterNames())
    hostile = ("--urgent-qos", "x]\nmode: act", "--evictable-partition", "batch")
    assert run(tmp_path / "site", *hostile) == 2
    assert "accepted: letters, digits" in capsys.readouterr().err
    assert run(tmp_path / "site", "--urgent-qos", "no", "--evictable-partition", "1") == 0
    section = load(tmp_path / "site" / "makeway.yaml").settings.adapter
    assert isinstance(section, SlurmAdapterSettings)
    assert (set(section.classes[0].qos), set(section.classes[1].partitions)) == ({"no"}, {"1"})


def test_existing_files_are_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "alerts.yaml").write_text("mine")
    assert run(tmp_path, "--urgent-qos", "urgent", "--evictable-partition", "batch") == 2
    assert f"{tmp_path}/alerts.yaml: it exists" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["alerts.yaml"]
    for folder in ("a", "alerts.yaml", "alerts.yaml/a"):
        words = ("--urgent-qos", "urgent", "--evictable-partition", "batch")
        assert run(tmp_path / folder / "b", *words) == 2
        assert f"there is no folder {tmp_path}/{folder}; make it first" in capsys.readouterr().err


def test_a_folder_that_cannot_be_looked_at_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As below a folder that this user may not enter."""
    folder = tmp_path / ("x" * 300) / "site"
    assert run(folder, "--urgent-qos", "urgent", "--evictable-partition", "batch") == 2
    said = f"{folder}: cannot be looked at: File name too long; choose another folder"
    assert capsys.readouterr().err == f"makeway: error: {said}\n"


@pytest.mark.parametrize("hidden", ["configuration", "program", "slurm.conf"])
def test_what_the_unit_cannot_see_is_said_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], hidden: str
) -> None:
    home, other, link = tmp_path / "home", tmp_path / "other", tmp_path / "link"
    home.mkdir()
    other.mkdir()
    link.symlink_to(home)
    monkeypatch.setattr(cli_init, "HOMES", (str(home),))
    places = dict.fromkeys(("configuration", "program", "slurm.conf"), other)
    places[hidden] = link
    conf = places["slurm.conf"] / "slurm.conf"
    conf.touch()
    monkeypatch.setattr("sys.executable", str(places["program"] / "python"))
    options = ("--urgent-qos", "urgent", "--evictable-partition", "batch", "--conf", conf)
    assert run(places["configuration"] / "site", *options) == 0
    written, *said = capsys.readouterr().out.splitlines()
    assert written.startswith("Written to ")
    name = {"configuration": "site", "program": "python", "slurm.conf": "slurm.conf"}[hidden]
    (line,) = said
    words = f"makeway.service cannot start like this: its ProtectHome=yes hides the {hidden} in "
    assert line.startswith(f"{words}{home}/{name}. Instead, ")


def test_the_homes_are_those_that_the_unit_does_not_see() -> None:
    assert "\nProtectHome=yes\n" in (DEPLOY / "makeway.service").read_text()
    assert HOMES == ("/home", "/root", "/run/user")  # systemd.exec(5)


def test_questions_are_asked_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["", "rt", "batch rt"])
    asked: list[str] = []

    def prompt(text: str, **_: object) -> str:
        asked.append(text)
        return next(answers)

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.prompt", prompt)
    assert run(tmp_path) == 0
    assert "(normal, urgent)" in asked[0]
    assert ["(batch, rt)" in text for text in asked[1:]] == [True, True]
    section = load(tmp_path / "makeway.yaml").settings.adapter
    assert isinstance(section, SlurmAdapterSettings)
    assert section.classes[0].partitions == {"rt"}
    assert section.classes[1].partitions == {"batch", "rt"}
