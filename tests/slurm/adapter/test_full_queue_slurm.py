"""A slurmctld that has as many jobs as it takes (MaxJobCount): a job that would grow is refused at once."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from makeway.adapters.devcluster.cluster import DevCluster, dev_cluster
from makeway.adapters.devcluster.conf import DevSpec
from makeway.adapters.protocol import Rejected
from makeway.adapters.slurm import build
from makeway.adapters.slurm.adapter import SlurmCliAdapter
from tests import acts
from tests.adapters.conformance import running
from tests.slurm.support.world import SETTINGS, SlurmWorld, slurm_settings
from tests.waiting import limit_s

pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="24.11")]

MOST_JOBS = 3


@pytest.fixture(scope="module")
def eight_nodes(slurm_root: str | None) -> Iterator[DevCluster]:
    """Instead of the eight nodes of other tests: two."""
    settings = slurm_settings(MaxJobCount=str(MOST_JOBS))
    with dev_cluster(DevSpec(node_count=2, expansion=True, root=slurm_root, settings=settings)) as cluster:
        yield cluster


def test_growth_is_refused_at_once(slurm_world: SlurmWorld) -> None:
    """salloc tries again for two minutes: the command would get no answer in time."""
    slurm = slurm_world.cluster
    if slurm.version < build.RESIZES_CLEANLY:
        pytest.skip("no job grows on this Slurm")
    job = running(
        slurm_world,
        slurm.submit("exec sleep 1000", "--nodes=1", "--ntasks-per-node=2", "--account=malleable"),
    )
    jobs = fill(slurm)
    (free,) = set(slurm_world.nodes) - set(job.nodes)
    settings = replace(SETTINGS, timeout_s=limit_s(20.0))
    with closing(SlurmCliAdapter(settings, runner=slurm.runner)) as adapter:
        adapter.snapshot()
        with pytest.raises(Rejected, match="job queue full"):
            adapter.apply(acts.expand(job.job_id, nodes=(free,), reservation=None))
    assert set(slurm_world.adapter.snapshot().jobs_by_id()) == {job.job_id, *jobs}


def fill(slurm: DevCluster) -> list[str]:
    """Submit jobs until slurmctld takes no more; before 26.05 it takes one fewer than MaxJobCount. Returns
    those that it took.
    """
    jobs: list[str] = []
    command = ("sbatch", "--parsable", "--hold", "--wrap=true")
    for _ in range(MOST_JOBS):
        done = slurm.runner.run(command, until="retrying")
        if "retrying" in done.stderr:
            return jobs
        assert done.returncode == 0, done.words
        jobs.append(done.stdout.strip())
    pytest.fail("slurmctld takes any number of jobs")
