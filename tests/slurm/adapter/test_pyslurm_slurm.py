"""The reader by pyslurm against the one by squeue and scontrol, on a real Slurm that pyslurm was built for.

`deploy/install-pyslurm-chroot.sh` builds pyslurm for 24.11. On other releases there is none.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace

import pytest

from makeway.adapters.devcluster.cluster import DevCluster, dev_cluster
from makeway.adapters.devcluster.conf import DevSpec
from makeway.adapters.protocol import Unavailable
from makeway.adapters.site.checks import Level
from makeway.adapters.slurm.adapter import SlurmCliAdapter
from makeway.adapters.slurm.reader.check import check_reader
from makeway.adapters.slurm.settings import Reader, SlurmSettings
from makeway.policies.model import Cluster
from tests.slurm.support import capture
from tests.slurm.support.sharing import PARTS_SPEC, SHARED_SPEC, share, share_parts
from tests.slurm.support.world import CLASSES, slurm_settings
from tests.waiting import await_that

pytestmark = [pytest.mark.slurm, pytest.mark.needs("pyslurm")]

BUILT_FOR = (24, 11)
NOW_S = 2e9
SETTINGS = SlurmSettings(classes=CLASSES, timeout_s=300.0, pyslurm_python="python3")


@pytest.fixture(scope="module")
def empty(slurm_root: str | None) -> Iterator[DevCluster]:
    """A cluster where pyslurm is. Skips on a release without it, and fails where it should be in CI."""
    with dev_cluster(DevSpec(root=slurm_root, settings=slurm_settings())) as cluster:
        if cluster.version != BUILT_FOR:
            pytest.skip("pyslurm is built for Slurm 24.11 alone")
        done = cluster.runner.run(("python3", "-c", "import pyslurm"), timeout_s=300.0)
        if done.returncode != 0 and os.environ.get("CI"):
            pytest.fail(f"deploy/install-pyslurm-chroot.sh has built no pyslurm: {done.words}")
        if done.returncode != 0:
            pytest.skip("there is no pyslurm: make pyslurm-24.11")
        yield cluster


def adapter_of(cluster: DevCluster, reader: Reader) -> SlurmCliAdapter:
    settings = replace(SETTINGS, reader=reader)
    return SlurmCliAdapter(settings, runner=cluster.runner, now=lambda: NOW_S, starter=cluster.runner)


def ordered(cluster: Cluster) -> Cluster:
    """squeue sorts by priority, pyslurm does not."""
    return replace(cluster, jobs=tuple(sorted(cluster.jobs, key=lambda job: job.job_id)))


def check_that_both_agree(cluster: DevCluster) -> Cluster:
    """The snapshot, once nothing has changed from one read by the commands to the next."""
    seen: list[Cluster] = []
    with (
        closing(adapter_of(cluster, Reader.CLI)) as by_commands,
        closing(adapter_of(cluster, Reader.PYSLURM)) as by_pyslurm,
    ):

        def settled() -> bool:
            before = ordered(by_commands.snapshot())
            told = ordered(by_pyslurm.snapshot())
            seen[:] = [told, before]
            return before == ordered(by_commands.snapshot())

        await_that("the cluster is the same before and after", settled)
    told, expected = seen
    assert [job.job_id for job in told.jobs] == [job.job_id for job in expected.jobs]
    for ours, theirs in zip(told.jobs, expected.jobs, strict=True):
        assert ours == theirs
    assert told == expected
    return told


@pytest.mark.parametrize(
    ("spec", "fill", "job_count"),
    [(capture.SPEC, capture.fill, 14), (SHARED_SPEC, share, 38), (PARTS_SPEC, share_parts, 29)],
    ids=["all-kinds", "shared-nodes", "parts-of-gpus"],
)
def test_both_readers_give_the_same_snapshot(
    empty: DevCluster, spec: DevSpec, fill: Callable[[DevCluster], None], job_count: int
) -> None:
    """Pending, running, held, delayed and dependent jobs, arrays, heterogeneous and requeued jobs, hostile
    names and comments, reservations, nodes that are down or drained, cores, memory, GPUs and parts of GPUs.
    """
    settings = slurm_settings(**spec.settings)
    with dev_cluster(replace(spec, root=empty.spec.root, settings=settings)) as cluster:
        fill(cluster)
        found = check_that_both_agree(cluster)
        assert len(found.jobs) >= job_count
        automatic = replace(SETTINGS, reader=Reader.AUTO)
        check = check_reader(automatic, runner=cluster.runner, starter=cluster.runner)
        assert check.level is Level.OK, check.text
        assert check.text.startswith("pyslurm 24.11.2 reads the cluster")


def test_jobs_that_slurm_holds_or_that_have_ended(empty: DevCluster) -> None:
    """States that flags make: held after a requeue, cancelled, suspended."""
    submit = empty.submit
    held = submit("exec sleep 1000", "-N1", "--job-name=None", "--comment=None")
    stopped = submit("exec sleep 1000", "-N1", "--deadline=now+1day")
    gone = submit("exec sleep 1000", "-N1")
    with closing(adapter_of(empty, Reader.CLI)) as adapter:
        await_that("all run", lambda: all(job.nodes for job in adapter.snapshot().jobs))
    empty.run("scontrol", "requeuehold", held)
    empty.run("scontrol", "suspend", stopped)
    empty.run("scancel", gone)
    try:
        found = check_that_both_agree(empty)
        assert {job.job_id for job in found.jobs} >= {held, stopped}
    finally:
        empty.cancel_all()


def test_a_controller_that_is_down(empty: DevCluster) -> None:
    with closing(adapter_of(empty, Reader.PYSLURM)) as adapter:
        before = adapter.snapshot()
        empty.stop_controller()
        with pytest.raises(Unavailable):
            adapter.snapshot()
        empty.start_controller()

        def there_again() -> bool:
            with suppress(Unavailable):  # slurmctld has just started
                return adapter.snapshot().nodes == before.nodes
            return False

        await_that("the nodes are there again", there_again)
