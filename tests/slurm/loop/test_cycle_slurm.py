"""What a cycle costs a large cluster: two commands, whatever the number of jobs."""

from dataclasses import replace
from pathlib import Path

import pytest

from makeway.adapters.devcluster.cluster import dev_cluster
from makeway.adapters.slurm.reader.alike import SHOWN
from tests.slurm.support.crowd import (
    RUNNING,
    SLEEP,
    WAITING,
    WHOLE,
    CountingRunner,
    crowd_spec,
    daemon_on,
    fill,
)
from tests.slurm.support.world import SlurmWorld

pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="22.05")]

URGENT = 10


def test_a_cycle_is_two_commands(slurm_root: str | None, tmp_path: Path) -> None:
    """With ten thousand jobs that wait, and with urgent ones among them whose excluded nodes 22.05 hides. A
    job on each node is enough: the commands do not depend on how many there are.
    """
    with dev_cluster(replace(crowd_spec(slurm_root), node_count=RUNNING)) as cluster:
        world = SlurmWorld(cluster)
        fill(cluster)
        world.wait(lambda seen: not seen.free_nodes(), "the cluster is full")
        cluster.submit(SLEEP, "--nodes=2", f"--array=1-{WAITING}", *WHOLE)
        runner = CountingRunner(cluster.runner)
        daemon = daemon_on(runner, tmp_path / "journal.sqlite")
        daemon.reconcile()
        runner.calls.clear()
        report = daemon.reconcile()
        assert [argv[0] for argv in runner.calls] == ["squeue", "scontrol"]
        assert report.error is None

        for number in range(URGENT):
            cluster.submit(
                SLEEP, "--nodes=4", "--hold", f"--exclude=n{number + 1}", "--account=urgent", *WHOLE
            )
        runner.calls.clear()
        report = daemon.reconcile()
        assert [argv[0] for argv in runner.calls] == ["squeue", "scontrol"]
        assert report.urgent_waiting == URGENT
        assert report.actions == ()
        assert len(world.adapter.snapshot().jobs) == RUNNING + SHOWN + URGENT
