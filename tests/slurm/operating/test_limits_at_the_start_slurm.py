"""Limits that an urgent job is over only by what it would get (all CPUs of whole nodes), also times its time
limit, or by what another urgent job may still use.

Slurm checks both when nodes for the job are free. With default scheduling it shows no such limit before.
"""

from collections.abc import Iterator

import pytest
from bench.fight.accounting import Accounting, user_name

from makeway.adapters.devcluster.cluster import DevCluster
from makeway.adapters.devcluster.conf import CLUSTER_NAME, DevSpec
from tests.slurm.conftest import StartDaemon
from tests.slurm.support.accounted import accounted_cluster
from tests.slurm.support.neighbours import looks_again, waits_and_none_leaves
from tests.slurm.support.story import URGENT, Story, starts_on_the_held_nodes
from tests.slurm.support.world import slurm_settings

pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="22.05")]

NARROW, BUDGET, SMALL = "narrow", "budget", "small"
LIMITS = {NARROW: "GrpTRES=cpu=3", BUDGET: "GrpTRESMins=cpu=200", SMALL: "MaxTRESMinsPerJob=cpu=90"}
"""By the name of a QOS. An urgent job of two nodes may use 120 CPU minutes."""
ALL_OF_EACH_NODE = ("--exclusive", "--ntasks-per-node=1", "--time=30")


@pytest.fixture(scope="module")
def eight_nodes(slurm_root: str | None) -> Iterator[DevCluster]:
    """Eight nodes of two CPUs with accounting, which Slurm schedules by its defaults."""
    settings = slurm_settings(
        SchedulerParameters="batch_sched_delay=0", AccountingStorageEnforce="limits,qos,safe"
    )
    with accounted_cluster(DevSpec(root=slurm_root, settings=settings), add_associations) as cluster:
        yield cluster


def add_associations(accounting: Accounting) -> None:
    cluster, qos = f"cluster={CLUSTER_NAME}", f"qos=normal,{','.join(LIMITS)}"
    for name, limit in LIMITS.items():
        accounting.manage("add", "qos", name)
        accounting.manage("modify", "qos", name, "set", limit)
    for account in ("urgent", "saving"):
        accounting.manage("add", "account", account, cluster, qos)
        whose = (user_name(), f"account={account}", cluster, qos, "defaultqos=normal")
        accounting.manage("add", "user", *whose)


@pytest.mark.parametrize(
    ("qos", "whys"),
    [
        (NARROW, (f"cpu of QOS {NARROW}: it needs 4 of 3 left",)),
        # 24.11 may say it, too, once it has looked at the job.
        (SMALL, (f"QOS {SMALL}: it needs 120 of 90 left", "QOSMaxCpuMinutesPerJobLimit")),
    ],
    ids=[NARROW, SMALL],
)
def test_no_job_leaves_for_one_that_would_get_more_than_its_limit(
    story: Story, start_daemon: StartDaemon, qos: str, whys: tuple[str, ...]
) -> None:
    story.fill()
    daemon = start_daemon()
    large = story.submit("exec true", 2, "urgent", *ALL_OF_EACH_NODE, f"--qos={qos}")
    waits_and_none_leaves(story, daemon, large, *whys)
    small = story.submit(URGENT, 1, "urgent", *ALL_OF_EACH_NODE, f"--qos={qos}")
    starts_on_the_held_nodes(story, daemon, small)
    assert len(story.lenders()) == 1


def test_no_job_leaves_for_one_whose_minutes_another_may_use(story: Story, start_daemon: StartDaemon) -> None:
    story.fill()
    first, second = (story.urgent_comes(2, f"--qos={BUDGET}") for _ in range(2))
    daemon = start_daemon()
    starts_on_the_held_nodes(story, daemon, first)
    looks_again(daemon)
    assert story.state(second) == "PENDING"
    assert len(story.lenders()) == 1
