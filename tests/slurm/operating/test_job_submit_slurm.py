"""The job_submit.lua that `makeway init` writes, in a real slurmctld."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from makeway.adapters.devcluster.cluster import DevCluster, dev_cluster
from makeway.adapters.devcluster.conf import DevSpec
from makeway.daemon.cli import init
from makeway.daemon.cli.main import run_cli
from tests.waiting import await_that

pytestmark = pytest.mark.slurm

PARTITIONS = (
    "PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
    "PartitionName=rt Nodes=ALL MaxTime=INFINITE State=UP",
)


@pytest.fixture
def two_nodes(slurm_root: str | None) -> Iterator[DevCluster]:
    with dev_cluster(DevSpec(node_count=2, root=slurm_root, partitions=PARTITIONS)) as cluster:
        yield cluster


def test_an_urgent_job_pokes_and_another_job_does_not(two_nodes: DevCluster, tmp_path: Path) -> None:
    options = ("--urgent-partition", "rt", "--evictable-partition", "batch")
    (tmp_path / "empty.conf").touch()
    assert run_cli(["init", str(tmp_path / "site"), *options, "--conf", str(tmp_path / "empty.conf")]) == 0
    # In place of makeway's own command: slurmctld may run in a chroot.
    command = f"{init.program()} poke --config {tmp_path / 'site/makeway.yaml'}"
    script = (tmp_path / "site/job_submit.lua").read_text()
    assert command in script
    poked = two_nodes.folder / "poked"
    script = script.replace(command, f"echo poked >>{two_nodes.inner_folder / 'poked'}")
    (two_nodes.folder / "job_submit.lua").write_text(script)
    conf = two_nodes.folder / "slurm.conf"
    conf.write_text(conf.read_text() + "JobSubmitPlugins=lua\n")
    two_nodes.run("scontrol", "reconfigure")
    two_nodes.submit("true", "--partition=batch")
    two_nodes.submit("true", "--partition=batch,rt")
    await_that("the urgent job pokes", poked.exists, lambda: two_nodes.log_end(40))
    assert poked.read_text() == "poked\n"
