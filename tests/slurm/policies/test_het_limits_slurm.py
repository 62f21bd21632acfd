"""Urgent heterogeneous jobs under limits of their QOS: no job leaves for one that Slurm will not admit.

Slurm checks each component alone while the cluster is full, and all of them together only when they could
start. Until then it names no limit that only the sum is over. Slurm 26.05 refuses such a job when it is
submitted.
"""

from collections.abc import Iterator

import pytest
from bench.fight.accounting import Accounting, user_name

from makeway.adapters.devcluster.cluster import DevCluster, DevClusterError
from makeway.adapters.devcluster.conf import CLUSTER_NAME, DevSpec
from tests.slurm.conftest import StartDaemon
from tests.slurm.support.accounted import accounted_cluster
from tests.slurm.support.components import comes, end, start
from tests.slurm.support.neighbours import waits_and_none_leaves
from tests.slurm.support.story import Story, held_last, nothing_is_left, starts_on_the_held_nodes, works_again
from tests.slurm.support.world import slurm_settings

pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="24.11")]

USER_NODES = "user-nodes"
LIMITS = {
    USER_NODES: "MaxTRESPerUser=node=2",
    "all-nodes": "GrpTRES=node=2",
    "user-jobs": "MaxJobsPerUser=1",
    "node-minutes": "GrpTRESRunMins=node=70",
}
"""By the name of a QOS. The jobs have a limit of 30 minutes."""
REFUSES = (26, 5)
"""Since this release, sbatch refuses a job whose components are over a limit together."""
ACCOUNTS = ("urgent", "saving")
WHOLE = "--ntasks-per-node=2"


@pytest.fixture(scope="module")
def eight_nodes(slurm_root: str | None) -> Iterator[DevCluster]:
    """Eight nodes with accounting, and a QOS for each limit."""
    with accounted_cluster(DevSpec(root=slurm_root, settings=slurm_settings()), add_associations) as cluster:
        yield cluster


def add_associations(accounting: Accounting) -> None:
    cluster, qos = f"cluster={CLUSTER_NAME}", f"qos=normal,{','.join(LIMITS)}"
    for name, limit in LIMITS.items():
        accounting.manage("add", "qos", name)
        accounting.manage("modify", "qos", name, "set", limit)
    for account in ACCOUNTS:
        accounting.manage("add", "account", account, cluster, qos)
        whose = (user_name(), f"account={account}", cluster, qos, "defaultqos=normal")
        accounting.manage("add", "user", *whose)


@pytest.mark.parametrize(
    ("qos", "sizes", "why"),
    [
        (USER_NODES, (1, 2), "node of QOS user-nodes, user 0: its components need 3 of 2 left"),
        ("all-nodes", (1, 2), "node of QOS all-nodes: its components need 3 of 2 left"),
        ("user-jobs", (1, 1), "jobs of QOS user-jobs, user 0: its components need 2 of 1 left"),
        ("node-minutes", (1, 2), "node run minutes of QOS node-minutes: its components need 90 of 70 left"),
        (USER_NODES, (3, 1), "a limit of its QOS (QOSMaxNodePerUserLimit)"),
        (USER_NODES, (1, 3), "a limit of its QOS (QOSMaxNodePerUserLimit)"),
    ],
)
def test_no_job_leaves_for_components_that_are_over_a_limit(
    story: Story, start_daemon: StartDaemon, qos: str, sizes: tuple[int, ...], why: str
) -> None:
    components = [f"--nodes={size} {WHOLE} --qos={qos}" for size in sizes]
    if story.world.cluster.version >= REFUSES:
        with pytest.raises(DevClusterError, match="Job violates accounting/QOS policy"):
            comes(story, *components)
        return
    story.fill()
    daemon = start_daemon()
    leader = comes(story, *components)[0].partition("+")[0]
    waits_and_none_leaves(story, daemon, leader, why)


def test_a_job_under_the_limit_is_served_and_the_components_after_the_limit_is_raised(
    story: Story, start_daemon: StartDaemon
) -> None:
    """What the components cannot have together is left to a job that came later."""
    options = [f"--nodes={size} {WHOLE} --qos={USER_NODES}" for size in (1, 2)]
    story.fill()
    daemon = start_daemon()
    components: list[str] = []
    if story.world.cluster.version < REFUSES:
        components = comes(story, *options)
        waits_and_none_leaves(
            story, daemon, components[0].partition("+")[0], "its components need 3 of 2 left"
        )
    single = story.urgent_comes(2, f"--qos={USER_NODES}")
    starts_on_the_held_nodes(story, daemon, single)
    assert [held_last(daemon, component) for component in components] == [None] * len(components)
    story.ends(single)
    works_again(story, daemon, *story.lenders())
    limit = LIMITS[USER_NODES]
    story.world.cluster.run(
        "sacctmgr", "--immediate", "modify", "qos", USER_NODES, "set", limit.replace("2", "3")
    )
    try:
        components = components or comes(story, *options)
        first, second = start(story, daemon, components)
        assert (len(first), len(second)) == (1, 2)
        end(story, components)
        works_again(story, daemon, *story.lenders())
        nothing_is_left(story, daemon)
    finally:
        story.world.cluster.run("sacctmgr", "--immediate", "modify", "qos", USER_NODES, "set", limit)
