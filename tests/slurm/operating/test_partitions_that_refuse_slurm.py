"""Urgent jobs in two partitions of which one does not take them: the jobs of the other one leave.

Slurm keeps such a job, and says of it in turn what the one partition lacks and that it waits for nodes.
"""

from collections.abc import Iterator

import pytest
from bench.fight.accounting import Accounting, user_name

from makeway.adapters.devcluster.cluster import DevCluster
from makeway.adapters.devcluster.conf import CLUSTER_NAME, DevSpec
from tests.slurm.conftest import StartDaemon
from tests.slurm.support.accounted import accounted_cluster
from tests.slurm.support.story import SAVES, Story, nothing_is_left, starts_on_the_held_nodes, works_again
from tests.slurm.support.world import slurm_settings

pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="22.05")]

REFUSING = {
    "accounts": "AllowAccounts=saving",
    "denied": "DenyAccounts=urgent",
    "qos": "AllowQos=long",
    "wide": "MinNodes=2",
    "lean": "MaxMemPerNode=500",
    "small": "QoS=small",
    "short": "QoS=short",
}
"""By the name of a partition: why it takes no urgent job of one node with 1,000 MB."""
LIMITS = {"small": "MaxTRESPerUser=mem=500", "short": "MaxWall=1"}
"""By the name of a QOS of a partition: a limit that such a job is over."""
TAKING_NODES = {"n3", "n4"}
BRIEF = ("brief", "brisk")
"""Partitions whose jobs may last ten minutes, unless their QOS says otherwise."""
OVERRIDING = "express"
"""The QOS that does."""


@pytest.fixture(scope="module")
def eight_nodes(slurm_root: str | None) -> Iterator[DevCluster]:
    """Instead of the eight nodes of other stories: four, two of which are in partitions that refuse."""
    spec = DevSpec(
        node_count=4,
        memory_counts=True,
        root=slurm_root,
        settings=slurm_settings(),
        partitions=(
            "PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
            "PartitionName=takes Nodes=n[3-4] MaxTime=INFINITE State=UP",
            *(f"PartitionName={name} Nodes=n[1-2] {why} State=UP" for name, why in REFUSING.items()),
            *(f"PartitionName={name} Nodes=ALL MaxTime=10 State=UP" for name in BRIEF),
        ),
    )
    with accounted_cluster(spec, add_associations) as cluster:
        yield cluster


def add_associations(accounting: Accounting) -> None:
    cluster, qos = f"cluster={CLUSTER_NAME}", f"qos=normal,long,{OVERRIDING}"
    accounting.manage("add", "qos", "long")
    for name, limit in LIMITS.items():
        accounting.manage("add", "qos", name)
        accounting.manage("modify", "qos", name, "set", limit)
    accounting.manage("add", "qos", OVERRIDING, "flags=PartitionTimeLimit")
    for account in ("urgent", "saving"):
        accounting.manage("add", "account", account, cluster, qos)
        whose = (user_name(), f"account={account}", cluster, qos, "defaultqos=normal")
        accounting.manage("add", "user", *whose)


@pytest.mark.parametrize("refusing", REFUSING)
def test_the_jobs_of_the_partition_leave_that_takes_the_urgent_one(
    story: Story, start_daemon: StartDaemon, refusing: str
) -> None:
    story.works(*[story.submit(SAVES, 1, "saving") for _ in range(4)])
    daemon = start_daemon()
    urgent = story.urgent_comes(1, f"--partition={refusing},takes")
    starts_on_the_held_nodes(story, daemon, urgent)
    (lender,) = story.lenders()
    assert story.nodes(urgent) <= TAKING_NODES
    story.ends(urgent)
    works_again(story, daemon, lender)
    nothing_is_left(story, daemon)


def test_a_job_is_served_whose_qos_overrides_the_limits_of_all_its_partitions(
    story: Story, start_daemon: StartDaemon
) -> None:
    """Its hold stays: once it is bound, Slurm does not say for some seconds why it waits."""
    story.works(*[story.submit(SAVES, 1, "saving") for _ in range(4)])
    daemon = start_daemon()
    urgent = story.urgent_comes(1, f"--partition={','.join(BRIEF)}", f"--qos={OVERRIDING}")
    starts_on_the_held_nodes(story, daemon, urgent)
    (lender,) = story.lenders()
    assert [command.action.verb for command in daemon.commands()].count("reserve") == 1
    story.ends(urgent)
    works_again(story, daemon, lender)
    nothing_is_left(story, daemon)
