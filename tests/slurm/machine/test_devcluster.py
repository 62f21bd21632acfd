"""A development cluster comes up, stays by itself and goes without a trace."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from makeway.adapters.devcluster import processes
from makeway.adapters.devcluster.cluster import (
    DevCluster,
    DevClusterError,
    attach,
    dev_cluster,
    down,
    slurm_version,
    status,
    up,
)
from makeway.adapters.devcluster.conf import DevSpec
from makeway.adapters.devcluster.guard import guarded
from tests.paths import ROOT
from tests.slurm.support.world import slurm_settings
from tests.waiting import await_that

pytestmark = pytest.mark.slurm


@pytest.fixture
def folder(slurm_root: str | None) -> Iterator[Path]:
    """A state folder with a short name; whatever a failed test left there is taken down, also if the tests
    are killed.
    """
    parent = Path(tempfile.mkdtemp(prefix="mwtest-", dir=f"{slurm_root or ''}/tmp"))
    parent.chmod(0o755)
    with guarded(parent / "dev"):
        yield parent / "dev"
        down(parent / "dev")
    shutil.rmtree(parent)


def await_output(cluster: DevCluster, job_id: str, text: str) -> None:
    """Wait until the job has printed the text."""
    await_that(
        f"job {job_id} prints {text!r}",
        lambda: text in cluster.output(job_id),
        lambda: f"{cluster.output(job_id)!r}\n{cluster.log_end()}",
    )


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def ports_of(cluster: DevCluster) -> list[int]:
    text = (cluster.folder / "slurm.conf").read_text()
    return [int(port) for port in re.findall(r"Port=(\d+)", text)]


def test_eight_nodes_come_and_go_without_a_trace(slurm_root: str | None, folder: Path) -> None:
    """With a job that ignores every polite signal, and a step of it on another node."""
    with dev_cluster(DevSpec(root=slurm_root), folder) as cluster:
        assert cluster.version == slurm_version(slurm_root)
        assert cluster.run("sinfo", "-h", "-o", "%D %t").split() == ["8", "idle"]
        job_id = cluster.submit(
            "trap '' TERM\nsrun sleep 1000 & echo started\nwhile :; do sleep 1; done", "-N2", "-n2"
        )
        await_output(cluster, job_id, "started")
        found = cluster.processes()
        ports = ports_of(cluster)
        assert [process.name for process in found].count("slurmd") == 8
        assert {"munged", "slurmctld", "slurmstepd", "slurm_script"} <= {process.name for process in found}
        assert len(ports) == 9
        assert all(listens(port) for port in ports)
        assert os.getpid() not in {process.pid for process in found}
    assert not any(process.alive for process in found)
    assert processes.of_cluster(str(cluster.inner_folder), slurm_root or "/") == ()
    assert not folder.exists()
    assert not any(listens(port) for port in ports)


def test_everything_listens_on_loopback_alone(slurm_root: str | None, folder: Path) -> None:
    with dev_cluster(DevSpec(node_count=1, root=slurm_root), folder) as cluster:
        ports = {f"{port:04X}" for port in ports_of(cluster)}
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        listening = [row[1].split(":") for row in rows if row[3] == "0A"]
        assert {port for _, port in listening} >= ports
        assert {address[-2:] for address, port in listening if port in ports} == {"7F"}


def test_a_cluster_is_taken_down_by_another_process(slurm_root: str | None, folder: Path) -> None:
    """What `devcluster down` finds after the process that started the cluster is gone."""
    cluster = up(
        DevSpec(node_count=2, root=slurm_root, partitions=("PartitionName=p Nodes=ALL Default=YES",)), folder
    )
    again = attach(folder)
    assert (again.spec, again.version, again.folder) == (cluster.spec, cluster.version, cluster.folder)
    answer = status(folder)
    assert "idle" in answer.answer
    assert {process.name for process in answer.running} >= {"munged", "slurmctld", "slurmd"}
    assert down(folder) == ()
    assert down(folder) == ()
    assert not any(process.alive for process in answer.running)
    with pytest.raises(DevClusterError, match="no state folder"):
        status(folder)


def test_an_interrupt_leaves_nothing(slurm_root: str | None, folder: Path) -> None:
    found: list[processes.Process] = []

    def interrupted() -> None:
        with dev_cluster(DevSpec(node_count=2, root=slurm_root), folder) as cluster:
            found.extend(cluster.processes())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert found
    assert not any(process.alive for process in found)
    assert not folder.exists()


def test_a_second_interrupt_leaves_nothing_either(
    slurm_root: str | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends the taking down: the guard does it."""
    found: list[processes.Process] = []

    def interrupted(_: Path) -> None:
        raise KeyboardInterrupt

    def used() -> None:
        with dev_cluster(DevSpec(node_count=2, root=slurm_root), folder) as cluster:
            found.extend(cluster.processes())
            monkeypatch.setattr("makeway.adapters.devcluster.cluster.down", interrupted)

    with pytest.raises(KeyboardInterrupt):
        used()
    assert found
    await_that("the cluster is gone", lambda: not folder.exists())
    assert not any(process.alive for process in found)


USES_A_CLUSTER = """
import sys, time
from pathlib import Path
from makeway.adapters.devcluster.cluster import dev_cluster
from makeway.adapters.devcluster.conf import DevSpec
with dev_cluster(DevSpec(node_count=2, root=sys.argv[2] or None), Path(sys.argv[1])) as cluster:
    job_id = cluster.submit("env -i setsid sleep 1000 & echo started; wait", "-N1")
    while "started" not in cluster.output(job_id):
        time.sleep(0.1)
    print(flush=True)
    time.sleep(1000)
"""
USES_ACCOUNTING = """
import sys, time
from makeway.adapters.devcluster.conf import DevSpec
from tests.slurm.support.accounted import accounted_cluster
with accounted_cluster(DevSpec(node_count=1, root=sys.argv[1] or None), lambda accounting: None) as cluster:
    print(cluster.folder, flush=True)
    time.sleep(1000)
"""


def test_a_cluster_goes_when_its_process_is_killed_with_its_children(
    slurm_root: str | None, folder: Path
) -> None:
    """With a job that hides what it starts."""
    argv = (sys.executable, "-c", USES_A_CLUSTER, str(folder), slurm_root or "")
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as user:
        assert user.stdout is not None
        assert user.stdout.readline()
        cluster = attach(folder)
        found = cluster.processes()
        for child in Path(f"/proc/{user.pid}/task/{user.pid}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)
        user.kill()
    names = {process.name.split(":")[0] for process in found}
    assert names >= {"munged", "slurmctld", "slurmd", "slurmstepd", "slurm_script", "sleep"}
    await_that("the cluster is gone", lambda: not folder.exists())
    assert not any(process.alive for process in found)
    assert not cluster.processes()


def test_a_cluster_with_accounting_goes_when_its_process_is_killed(slurm_root: str | None) -> None:
    argv = (sys.executable, "-c", USES_ACCOUNTING, slurm_root or "")
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=ROOT) as user:
        assert user.stdout is not None
        folder = Path(user.stdout.readline().decode().strip())
        found = attach(folder).processes()
        user.kill()
    names = {process.name.split(":")[0] for process in found}
    assert names >= {"munged", "slurmctld", "slurmd", "slurmdbd", "mariadbd"}
    await_that("the cluster is gone", lambda: not folder.exists())
    assert not any(process.alive for process in found)


def test_a_cluster_that_does_not_come_up_says_why_and_leaves_nothing(
    slurm_root: str | None, folder: Path
) -> None:
    spec = DevSpec(node_count=1, root=slurm_root, settings={"SelectType": "select/no_such"})
    with pytest.raises(DevClusterError, match="did not come up") as error:
        up(spec, folder)
    assert "no_such" in str(error.value)
    assert not folder.exists()


def test_a_folder_in_use_is_left_alone(slurm_root: str | None, folder: Path) -> None:
    folder.mkdir()
    (folder / "mine").touch()
    with pytest.raises(DevClusterError, match="is not empty"):
        up(DevSpec(root=slurm_root), folder)
    with pytest.raises(DevClusterError, match="no state folder"):
        down(folder)
    assert (folder / "mine").exists()
    (folder / "mine").unlink()


def test_daemons_that_were_killed_are_no_hindrance(slurm_root: str | None, folder: Path) -> None:
    """A step outlives its slurmd; slurmctld is gone; still everything goes."""
    cluster = up(DevSpec(node_count=2, root=slurm_root), folder)
    job_id = cluster.submit("echo started\nexec sleep 1000", "-N1", "-w", "n1")
    await_output(cluster, job_id, "started")
    cluster.stop_node("n1", kill=True)
    cluster.stop_controller(kill=True)
    found = cluster.processes()
    assert "slurmstepd" in {process.name for process in found}
    down(folder)
    assert not any(process.alive for process in found)


def test_controller_and_nodes_stop_and_start_again(slurm_root: str | None, folder: Path) -> None:
    with dev_cluster(DevSpec(node_count=2, root=slurm_root, settings=slurm_settings()), folder) as cluster:
        job_id = cluster.submit("echo started\nexec sleep 1000", "-N1")
        await_output(cluster, job_id, "started")
        cluster.stop_controller()
        with pytest.raises(DevClusterError):
            cluster.run("squeue", "-h", "-o", "%i %t")
        cluster.start_controller()
        assert cluster.run("squeue", "-h", "-o", "%i %t").split() == [job_id, "R"]
        cluster.stop_node("n2")
        cluster.start_node("n2")
        cluster.cancel_all()
        cluster.await_idle()


def test_a_slurm_that_cannot_be_used_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(DevClusterError, match=r"no Slurm is installed in .*install-slurm-chroot\.sh"):
        slurm_version(str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(DevClusterError, match=f"only root can use the Slurm in the chroot {tmp_path}"):
        slurm_version(str(tmp_path))


def test_processes_are_told_apart() -> None:
    """No process is ended for another that had its number before."""
    mine = processes.by_pid(os.getpid())
    assert mine is not None
    assert mine.alive
    earlier = processes.Process(pid=mine.pid, start_ticks=mine.start_ticks - 1, name=mine.name)
    assert not earlier.alive
    assert processes.end((earlier,), grace_s=0.0) == ()
    assert processes.by_pid(2**22 + 1) is None


def test_nodes_have_gpus_threads_and_memory_to_share(slurm_root: str | None, folder: Path) -> None:
    spec = DevSpec(
        node_count=2,
        cpus_per_node=8,
        threads_per_core=2,
        memory_mb=16000,
        memory_counts=True,
        gpus={"n1": "a100:4"},
        root=slurm_root,
    )
    with dev_cluster(spec, folder) as cluster:
        job_id = cluster.submit("exec sleep 1000", "-n1", "--gpus=3")
        await_that("the job runs", lambda: "RUNNING" in cluster.run("squeue", "-h", "-o", "%T"))
        held = cluster.run("scontrol", "-d", "-o", "show", "job", job_id)
        assert re.search(r"Nodes=n1 CPU_IDs=0-1 Mem=4000 GRES=gpu:a100:3\(IDX:0-2\)", held)
