"""The machine of a history, as a user sees it who is no operator: with its hidden partitions."""

from collections.abc import Iterator

import pytest

from makeway.adapters.devcluster.cluster import DevCluster, dev_cluster
from makeway.adapters.devcluster.conf import DevSpec
from makeway.adapters.slurm.accounting.machine import machine_commands, read_machine
from tests.slurm.support.world import slurm_settings

pytestmark = pytest.mark.slurm

PARTITIONS = (
    "PartitionName=batch Nodes=n1 Default=YES MaxTime=INFINITE State=UP",
    "PartitionName=hidden Nodes=n2 Hidden=YES MaxTime=INFINITE State=UP",
)


@pytest.fixture
def half_hidden(slurm_root: str | None) -> Iterator[DevCluster]:
    spec = DevSpec(node_count=2, root=slurm_root, settings=slurm_settings(), partitions=PARTITIONS)
    with dev_cluster(spec) as cluster:
        yield cluster


def test_the_machine_has_the_nodes_of_hidden_partitions(half_hidden: DevCluster) -> None:
    as_nobody = ("setpriv", "--reuid=nobody", "--clear-groups", "sh", "-c")
    shown = half_hidden.run(*as_nobody, "scontrol --oneliner show nodes")
    assert "NodeName=n1 " in shown
    assert "NodeName=n2 " not in shown
    nodes = read_machine(half_hidden.run(*as_nobody, machine_commands()))
    assert {node.name: set(node.partitions) for node in nodes} == {"n1": {"batch"}, "n2": {"hidden"}}
