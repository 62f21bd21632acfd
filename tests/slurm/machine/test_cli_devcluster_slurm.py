"""The commands `makeway devcluster` start and stop a real cluster, and an interrupt leaves nothing of it."""

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from makeway.adapters.devcluster import cluster as devcluster
from makeway.adapters.devcluster import processes
from makeway.adapters.devcluster.guard import guarded
from makeway.daemon.cli.main import run_cli
from tests.waiting import await_that, limit_s

pytestmark = pytest.mark.slurm


@pytest.fixture
def options(slurm_root: str | None) -> Iterator[tuple[str, ...]]:
    """The options that name a state folder, and the chroot if there is one."""
    folder = Path(tempfile.mkdtemp(prefix="mw-cli-", dir=Path(slurm_root or "/") / "tmp"))
    root = () if slurm_root is None else ("--version-root", slurm_root)
    with guarded(folder):
        yield ("--folder", str(folder), *root)
        if folder.exists():
            devcluster.down(folder)
            if folder.exists():
                folder.rmdir()


def up(nodes: int, options: tuple[str, ...]) -> tuple[str, ...]:
    """The command that starts a cluster, in a process of its own."""
    argv = (sys.executable, "-m", "makeway.daemon.cli.main", "devcluster", "up", "--nodes", str(nodes))
    return (*argv, *options)


def test_up_status_down(options: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """The cluster outlives the command that has started it."""
    done = subprocess.run(up(2, options), stdout=subprocess.PIPE, check=True)
    assert b"with 2 nodes runs in" in done.stdout
    assert run_cli(["devcluster", "status", *options], factories={}) == 0
    told = capsys.readouterr().out
    assert "1 munged, 1 slurmctld, 2 slurmd" in told
    assert "n[1-2]" in told
    folder = Path(options[1])
    inner = str(devcluster.attach(folder).inner_folder)
    assert run_cli(["devcluster", "down", *options], factories={}) == 0
    assert not folder.exists()
    assert processes.of_cluster(inner) == ()
    assert run_cli(["devcluster", "status", *options], factories={}) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_a_start_that_is_ended_leaves_nothing(options: tuple[str, ...], number: signal.Signals) -> None:
    folder = Path(options[1])
    with subprocess.Popen(up(64, options), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        await_that("slurmctld has started", (folder / "slurmctld.pid").exists)
        inner = str(devcluster.attach(folder).inner_folder)
        process.send_signal(number)
        assert process.wait(limit_s()) == -number
    await_that("the cluster is gone", lambda: not folder.exists())
    assert processes.of_cluster(inner, options[3] if options[2:] else "/") == ()
