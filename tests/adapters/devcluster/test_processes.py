"""Which processes belong to a development cluster, without a Slurm."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from makeway.adapters.devcluster import processes
from makeway.adapters.devcluster.processes import MARKER, Process
from tests.waiting import await_that

SCRIPT = "env -i setsid sh -c 'sleep 1000 & wait' & wait"
"""A job that hides what it starts: in a session of its own, without an environment."""


@contextmanager
def hiding(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon of the cluster of that state folder that runs the script, once all of it runs."""
    with subprocess.Popen(("sh", "-c", SCRIPT), env={MARKER: str(folder), "PATH": "/usr/bin:/bin"}) as daemon:
        try:
            await_that("the sleep runs", lambda: "sleep" in names(folder))
            yield daemon
        finally:
            processes.end_all((), lambda: processes.of_cluster(str(folder)), grace_s=0)


def names(folder: Path) -> list[str]:
    return [process.name for process in processes.of_cluster(str(folder))]


def test_what_a_process_of_the_cluster_starts_belongs_to_it(tmp_path: Path) -> None:
    with hiding(tmp_path), hiding(tmp_path.parent / "other") as other:
        assert names(tmp_path) == ["sh", "sh", "sleep"]
        assert other.pid not in {process.pid for process in processes.of_cluster(str(tmp_path))}


def test_a_process_with_the_mark_belongs_to_a_cluster_in_a_chroot_before_it_has_entered_it(
    tmp_path: Path,
) -> None:
    with hiding(tmp_path / "root" / "state"):
        found = processes.of_cluster("/state", str(tmp_path / "root"))
        assert [process.name for process in found] == ["sh", "sh", "sleep"]
        assert processes.of_cluster("/state") == ()


def test_what_a_process_has_started_is_ended_with_it(tmp_path: Path) -> None:
    with hiding(tmp_path) as daemon:
        known = processes.of_cluster(str(tmp_path))
        daemon.kill()
        daemon.wait()
        assert any(process.alive for process in known)
        assert names(tmp_path) == []  # what it has started is no longer known for it
        killed = processes.end_all(known, lambda: processes.of_cluster(str(tmp_path)), grace_s=0)
        assert {process.name for process in killed} == {"sh", "sleep"}
        assert not any(process.alive for process in known)


def test_looks_go_on_until_two_find_nothing() -> None:
    late = subprocess.Popen(("sleep", "1000"))
    found = processes.by_pid(late.pid)
    assert found is not None
    looks: list[tuple[Process, ...]] = [(), (found,), (), ()]
    processes.end_all((), lambda: looks.pop(0), grace_s=0)
    assert late.wait() < 0
    assert looks == []
