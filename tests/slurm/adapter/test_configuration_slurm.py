"""A slurmctld that comes back with another configuration is read by that one."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from makeway.adapters.devcluster.cluster import DevCluster, dev_cluster
from makeway.adapters.devcluster.conf import DevSpec
from makeway.adapters.protocol import AdapterError, Unavailable
from makeway.adapters.slurm.adapter import SlurmCliAdapter
from makeway.policies.model import CPU, MEMORY, Resources
from tests.slurm.support.world import SETTINGS, slurm_settings
from tests.waiting import await_that

pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="24.11")]


@pytest.fixture
def one_node(slurm_root: str | None) -> Iterator[DevCluster]:
    with dev_cluster(DevSpec(node_count=1, root=slurm_root, settings=slurm_settings())) as cluster:
        yield cluster


def test_memory_counts_once_slurmctld_counts_it(one_node: DevCluster) -> None:
    def capacity() -> Resources | None:
        try:
            (node,) = adapter.snapshot().nodes
        except AdapterError:
            return None
        return node.capacity

    conf = one_node.folder / "slurm.conf"
    with closing(SlurmCliAdapter(SETTINGS, runner=one_node.runner)) as adapter:
        assert capacity() == Resources.of({CPU: 2})
        one_node.stop_controller()
        with pytest.raises(Unavailable):
            adapter.snapshot()
        conf.write_text(conf.read_text().replace("=CR_Core\n", "=CR_Core_Memory\n"))
        one_node.start_controller()
        both = Resources.of({CPU: 2, MEMORY: 1000})
        await_that("memory counts", lambda: capacity() == both, one_node.log_end)
