"""Urgent jobs under limits of QOS and accounts: only as many are served as Slurm admits."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from bench.fight.accounting import Accounting, user_name

from makeway.adapters.devcluster.cluster import DevCluster, DevClusterError
from makeway.adapters.devcluster.conf import CLUSTER_NAME, DevSpec
from tests.forked import Printed
from tests.slurm.conftest import StartDaemon
from tests.slurm.support.accounted import accounted_cluster
from tests.slurm.support.daemon import BRIEF_S, DaemonProcess
from tests.slurm.support.story import (
    IGNORES,
    Story,
    await_start,
    held_last,
    nothing_is_left,
    starts_on_the_held_nodes,
)
from tests.slurm.support.world import slurm_settings
from tests.waiting import await_that

pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="22.05")]

ONE_AT_A_TIME = "one-at-a-time"
OF_PARTITION = "of-partition"
TWICE, HALF = "twice", "half"
"""QOS with a LimitFactor."""
ASSOCIATED = "Associated"
"""A partition for which the user has an association. Slurm keeps its name in lower case there."""
ABOVE = "beamline"
"""The account above that of urgent jobs."""
ACCOUNTS = ("urgent", "saving", "other")
STRANGER = "games"
"""A user who may not charge jobs to the account of urgent jobs."""
MOST_NODES = 6
"""So many may an announced job have, by the QOS with the largest LimitFactor."""


@pytest.fixture(scope="module")
def eight_nodes(slurm_root: str | None) -> Iterator[DevCluster]:
    """Eight nodes with accounting, and a QOS of which each user may run one job. The account above that of
    urgent jobs, the QOS of a partition and the user's association for another may be limited, too.
    """
    spec = DevSpec(
        root=slurm_root,
        settings=slurm_settings(),
        partitions=(
            "PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
            f"PartitionName=limited Nodes=ALL QoS={OF_PARTITION} MaxTime=INFINITE State=UP",
            f"PartitionName={ASSOCIATED} Nodes=ALL MaxTime=INFINITE State=UP",
        ),
    )
    with accounted_cluster(spec, add_associations) as cluster:
        yield cluster


def add_associations(accounting: Accounting) -> None:
    qos = f"qos=normal,{ONE_AT_A_TIME},{TWICE},{HALF}"
    for name in (ONE_AT_A_TIME, OF_PARTITION, TWICE, HALF):
        accounting.manage("add", "qos", name)
    accounting.manage("modify", "qos", TWICE, "set", "LimitFactor=2")
    accounting.manage("modify", "qos", HALF, "set", "LimitFactor=0.5")
    accounting.manage("modify", "qos", ONE_AT_A_TIME, "set", "MaxJobsPerUser=1")
    accounting.manage("add", "account", ABOVE, f"cluster={CLUSTER_NAME}", qos)
    for account in ACCOUNTS:
        above = f"parent={ABOVE if account == 'urgent' else 'root'}"
        accounting.manage("add", "account", account, f"cluster={CLUSTER_NAME}", above, qos)
        accounting.manage(
            "add",
            "user",
            user_name(),
            f"account={account}",
            f"cluster={CLUSTER_NAME}",
            qos,
            "defaultqos=normal",
        )
    own = ("account=urgent", f"partition={ASSOCIATED}", f"cluster={CLUSTER_NAME}", qos, "defaultqos=normal")
    accounting.manage("add", "user", user_name(), *own)
    accounting.manage("add", "user", STRANGER, "account=saving", f"cluster={CLUSTER_NAME}", qos)


def limited_comes(story: Story) -> str:
    """Submit an urgent job of the QOS; it runs until `story.ends` is called with its id."""
    return story.urgent_comes(2, f"--qos={ONE_AT_A_TIME}")


def sent(daemon: DaemonProcess, verb: str) -> list[str]:
    """The jobs that such a command was sent for, in order."""
    return [command.action.job_id for command in daemon.commands() if command.action.verb == verb]


def test_of_three_jobs_under_a_limit_one_is_served_at_a_time(story: Story, start_daemon: StartDaemon) -> None:
    story.fill()
    first, second, third = (limited_comes(story) for _ in range(3))
    daemon = start_daemon()
    explain = story.explain(daemon)
    await_that("the first runs", lambda: story.runs(first), explain)
    await_that(
        "Slurm says why the others wait",
        lambda: all(story.field(one, "Reason") == "QOSMaxJobsPerUserLimit" for one in (second, third)),
        explain,
    )
    cycles = int(daemon.status()["cycles"])
    await_that("the daemon has looked again", lambda: int(daemon.status()["cycles"]) > cycles + 2, explain)
    assert len(sent(daemon, "requeue")) == 1
    assert len(story.lenders()) == 1

    for before, after in ((first, second), (second, third)):
        story.ends(before)
        await_start(story, daemon, after)
        # Slurm may start it on the nodes that the job before it left, before the daemon has held any.
        assert held_last(daemon, after) in (None, story.nodes(after))
        assert [story.runs(one) for one in (first, second, third)].count(True) == 1
    story.ends(third)
    await_that("every worker works", lambda: all(map(story.runs, story.workers)), explain)
    nothing_is_left(story, daemon)


@dataclass(frozen=True, kw_only=True)
class Above:
    """A limit besides those of the jobs' own QOS and account, which admits one job of two nodes."""

    whose: tuple[str, ...]
    limit: str
    options: tuple[str, ...] = ()
    """Of the jobs that are under it."""


@pytest.mark.parametrize(
    "above",
    [
        Above(whose=("account", ABOVE), limit="GrpTRES=node=3"),
        Above(whose=("qos", OF_PARTITION), limit="MaxTRESPerUser=node=3", options=("--partition=limited",)),
        Above(
            whose=("user", "where", f"name={user_name()}", "account=urgent", f"partition={ASSOCIATED}"),
            limit="MaxJobs=1",
            options=(f"--partition={ASSOCIATED}",),
        ),
        Above(whose=("account", ABOVE), limit="GrpTRES=node=6", options=(f"--qos={HALF}",)),
    ],
    ids=[
        "of the account above",
        "of the partition's QOS",
        "of the association for the partition",
        "of the account above, by half",
    ],
)
def test_of_two_jobs_under_a_limit_from_above_one_is_served_at_a_time(
    story: Story, start_daemon: StartDaemon, above: Above
) -> None:
    story.fill()
    with under(story, above.whose, above.limit):
        first, second = (story.urgent_comes(2, *above.options) for _ in range(2))
        daemon = start_daemon()
        explain = story.explain(daemon)
        await_that("one runs", lambda: any(map(story.runs, (first, second))), explain)
        cycles = int(daemon.status()["cycles"])
        await_that("the daemon has looked", lambda: int(daemon.status()["cycles"]) > cycles + 2, explain)
        assert [story.runs(one) for one in (first, second)].count(True) == 1
        assert len(sent(daemon, "requeue")) == 1
        assert len(story.lenders()) == 1
        before, after = (first, second) if story.runs(first) else (second, first)
        story.ends(before)
        await_start(story, daemon, after)
        story.ends(after)
        await_that("every worker works", lambda: all(map(story.runs, story.workers)), explain)
        nothing_is_left(story, daemon)


def test_both_jobs_are_served_if_the_factor_of_their_qos_admits_them(
    story: Story, start_daemon: StartDaemon
) -> None:
    story.fill()
    with under(story, ("account", ABOVE), "GrpTRES=node=2"):
        first, second = (story.urgent_comes(2, f"--qos={TWICE}") for _ in range(2))
        daemon = start_daemon()
        await_that("both run", lambda: all(map(story.runs, (first, second))), story.explain(daemon))
        for urgent in (first, second):
            story.ends(urgent)
        await_that("every worker works", lambda: all(map(story.runs, story.workers)), story.explain(daemon))
        nothing_is_left(story, daemon)


def test_a_limit_that_is_reached_after_the_signal(story: Story, start_daemon: StartDaemon) -> None:
    story.fill(IGNORES)
    daemon = start_daemon(start_within_s=BRIEF_S)
    urgent = limited_comes(story)
    explain = story.explain(daemon)
    await_that("a job is asked to save", lambda: sent(daemon, "checkpoint") != [], explain)
    allow(story, 0)
    try:
        await_that("nothing is held", lambda: story.reservations() == [], explain)
        await_that("no operation is open", lambda: daemon.operations() == (), explain)
        assert sent(daemon, "requeue") == []
        assert all(map(story.runs, story.workers))
    finally:
        allow(story, 1)
    starts_on_the_held_nodes(story, daemon, urgent)
    story.ends(urgent)
    nothing_is_left(story, daemon)


def test_only_who_could_submit_an_urgent_job_may_announce_one(
    story: Story, start_daemon: StartDaemon
) -> None:
    daemon = start_daemon()

    def announced(user: str, node_count: int) -> Printed:
        return daemon.run("notice", f"--nodes={node_count}", "--walltime=10m", "--in=10m", f"--user={user}")

    with under(story, ("account", ABOVE), f"GrpTRES=node={MOST_NODES // 2}"):
        for user, node_count, why in (
            (
                STRANGER,
                1,
                f"user {STRANGER} may not submit urgent jobs, which are: class urgent (account urgent)",
            ),
            (
                user_name(),
                MOST_NODES + 1,
                f"{MOST_NODES + 1} nodes are asked for, account {ABOVE} admits ",
            ),
        ):
            refused = announced(user, node_count)
            assert refused.status != 0
            assert why in refused.stderr
        taken = announced(user_name(), MOST_NODES)
    assert (taken.status, taken.stdout.split("-")[0]) == (0, "notice"), taken.stderr
    with pytest.raises(DevClusterError, match="Invalid account"):
        story.world.cluster.submit("exec true", f"--uid={STRANGER}", "--account=urgent", "--time=10")
    nothing_is_left(story, daemon)


def allow(story: Story, count: int) -> None:
    """Let so many jobs of the QOS run at once for each user."""
    set_limit(story, ("qos", ONE_AT_A_TIME), f"MaxJobsPerUser={count}")


def set_limit(story: Story, whose: tuple[str, ...], limit: str) -> None:
    story.world.cluster.run("sacctmgr", "--immediate", "modify", *whose, "set", limit)


@contextmanager
def under(story: Story, whose: tuple[str, ...], limit: str) -> Iterator[None]:
    """A QOS, an account or an association has the limit, such as `GrpTRES=node=3`, until the block ends."""
    set_limit(story, whose, limit)
    try:
        yield
    finally:
        set_limit(story, whose, f"{limit.rpartition('=')[0]}=-1")
