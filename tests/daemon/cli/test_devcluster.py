"""The commands of a development cluster: what they hand on, and what they refuse."""

from pathlib import Path

import pytest

from makeway.adapters.devcluster import cluster as devcluster
from makeway.adapters.devcluster.cluster import DevCluster, DevClusterError, Status
from makeway.adapters.devcluster.conf import DevSpec
from makeway.adapters.devcluster.processes import Process
from makeway.daemon.cli import devcluster as cli_devcluster
from makeway.daemon.cli.main import run_cli


class Calls:
    """A fake of `adapters.devcluster` that records its calls."""

    def __init__(self) -> None:
        self.specs: list[DevSpec] = []
        self.folders: list[Path | None] = []
        self.names: tuple[str, ...] = ("slurmctld", "slurmd", "slurmd")
        self.error: BaseException | None = None

    def up(self, spec: DevSpec, folder: Path | None = None) -> DevCluster:
        self.specs.append(spec)
        self.folders.append(folder)
        if self.error is not None:
            raise self.error
        assert folder is not None
        return DevCluster(spec, folder, (24, 11))

    def down(self, folder: Path) -> tuple[str, ...]:
        self.folders.append(folder)
        return ("slurmd (7) had to be killed",)

    def status(self, folder: Path) -> Status:
        running = tuple(Process(pid=pid, start_ticks=0, name=name) for pid, name in enumerate(self.names))
        return Status(folder=folder, running=running, answer="PARTITION\nbatch*\x1b[2J")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    found = Calls()
    for name in ("up", "down", "status"):
        monkeypatch.setattr(devcluster, name, getattr(found, name))
    return found


def run(*words: str) -> int:
    return run_cli(["devcluster", *words], factories={})


def test_up_hands_on_what_is_asked_for(
    calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--nodes", "3", "--cpus", "4", "--memory-mb", "500", "--no-expansion", "--set", "JobRequeue=0")
    line = "PartitionName=rt Nodes=ALL"
    assert run("up", *words, "--partition", line, "--folder", str(tmp_path / "c")) == 0
    assert calls.specs == [
        DevSpec(
            node_count=3, cpus_per_node=4, memory_mb=500, settings={"JobRequeue": "0"}, partitions=(line,)
        )
    ]
    assert calls.folders == [tmp_path / "c"]
    out = capsys.readouterr().out
    assert out.startswith(f"Slurm 24.11 with 3 nodes runs in {tmp_path}/c.\n")
    assert f"export SLURM_CONF={tmp_path}/c/slurm.conf" in out
    assert f"makeway devcluster down --folder {tmp_path}/c\n" in out


def test_up_hands_on_what_nodes_share(calls: Calls, tmp_path: Path) -> None:
    words = ("--nodes", "2", "--cpus", "8", "--threads", "2", "--gpus", "a100:4", "--memory-counts")
    assert run("up", *words, "--folder", str(tmp_path / "c")) == 0
    gpus = {"n1": "a100:4", "n2": "a100:4"}
    assert calls.specs == [
        DevSpec(
            node_count=2,
            cpus_per_node=8,
            threads_per_core=2,
            gpus=gpus,
            memory_counts=True,
            expansion=True,
        )
    ]


def test_gpus_and_threads_that_cannot_be_are_refused(
    calls: Calls, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("up", "--gpus", "a100") == 2
    assert "--gpus a100: a number such as 4, or a type and a number such as a100:4" in capsys.readouterr().err
    assert run("up", "--cpus", "4", "--threads", "3") == 2
    assert "--threads 3: a divisor of --cpus 4 is expected" in capsys.readouterr().err
    assert calls.specs == []


def test_without_options_the_folder_is_the_users_own(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:

    def own_folder(root: Path | None) -> Path:
        return (root or tmp_path) / "own"

    monkeypatch.setattr(cli_devcluster, "default_folder", own_folder)
    assert run("up") == 0
    assert calls.specs == [DevSpec(expansion=True)]
    assert capsys.readouterr().out.endswith("    makeway devcluster down\n")
    (tmp_path / "chroot").mkdir()
    assert run("up", "--version-root", str(tmp_path / "chroot")) == 0
    assert calls.specs[1].root == str(tmp_path / "chroot")
    assert calls.folders == [tmp_path / "own", tmp_path / "chroot" / "own"]
    assert f"makeway devcluster down --folder {tmp_path}/chroot/own\n" in capsys.readouterr().out


def test_a_mistyped_folder_makes_no_tree(
    calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("up", "--folder", str(tmp_path / "no" / "c")) == 2
    said = f"makeway: error: {tmp_path}/no/c: there is no folder {tmp_path}/no; make it first\n"
    assert (calls.specs, capsys.readouterr().err) == ([], said)


def test_an_interrupt_ends_a_start(calls: Calls, tmp_path: Path) -> None:
    calls.error = KeyboardInterrupt()
    assert run("up", "--folder", str(tmp_path / "c")) == 130


def test_errors_are_lines(calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls.error = DevClusterError("the cluster did not come up: x\nslurmctld.log: y")
    assert run("up", "--folder", str(tmp_path / "c")) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["makeway: error: the cluster did not come up: x", "makeway: error: slurmctld.log: y"]


@pytest.mark.parametrize("word", ["JobRequeue", "=1", "a b=1", "a=\x1b"])
def test_settings_are_lines_of_slurm_conf(
    calls: Calls, tmp_path: Path, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("up", "--set", word, "--folder", str(tmp_path / "c")) == 2
    assert "KEY=VALUE as in slurm.conf is expected" in capsys.readouterr().err
    assert calls.specs == []


@pytest.mark.parametrize("command", ["up", "down", "status"])
def test_a_folder_of_another_user_is_not_used(
    calls: Calls, tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "theirs")
    assert run(command, "--folder", str(tmp_path / "link")) == 2
    assert "this must be a folder of your own" in capsys.readouterr().err
    assert calls.folders == []


def test_down_prints_what_had_to_be_killed(
    calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("down", "--folder", str(tmp_path)) == 0
    assert calls.folders == [tmp_path]
    assert capsys.readouterr().err == "slurmd (7) had to be killed\n"


def test_down_says_where_no_cluster_is(
    calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("down", "--folder", str(tmp_path / "none")) == 0
    assert capsys.readouterr().out == f"no cluster in {tmp_path}/none\n"


def test_a_folder_without_a_cluster_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DevClusterError, match=r"\(devcluster.json: No such file or directory\)"):
        devcluster.attach(tmp_path)


def test_status_prints_what_runs(calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("status", "--folder", str(tmp_path)) == 0
    expected = f"{tmp_path}: 1 slurmctld, 2 slurmd running\nPARTITION\nbatch*\\x1b[2J\n"
    assert capsys.readouterr().out == expected
    calls.names = ()
    assert run("status", "--folder", str(tmp_path)) == 1
    assert "nothing running" in capsys.readouterr().out
    assert run("status", "--folder", str(tmp_path / "none")) == 1
    assert f"no cluster in {tmp_path}/none" in capsys.readouterr().out


def test_a_folder_in_a_file_is_refused(
    calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert run("up", "--folder", str(tmp_path / "file" / "c")) == 2
    assert f"there is no folder {tmp_path}/file; make it first" in capsys.readouterr().err
    assert not calls.folders


def test_a_folder_that_cannot_be_made_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("up", "--folder", "/proc/makeway") == 2
    assert "/proc/makeway: cannot be made: No such file or directory" in capsys.readouterr().err
