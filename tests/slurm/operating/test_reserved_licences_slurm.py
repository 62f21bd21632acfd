"""Licences that a reservation has soon, on a real Slurm. Slurm calls them free, and not reserved."""

from collections.abc import Iterator

import pytest

from makeway.adapters.devcluster.cluster import DevCluster, dev_cluster
from makeway.adapters.devcluster.conf import DevSpec
from tests.slurm.conftest import StartDaemon
from tests.slurm.support.neighbours import waits_and_none_leaves
from tests.slurm.support.story import (
    SAVES,
    URGENT,
    WHOLE_NODES,
    Story,
    nothing_is_left,
    starts_on_the_held_nodes,
    works_again,
)
from tests.slurm.support.world import slurm_settings

pytestmark = [pytest.mark.slurm, pytest.mark.one_release(on="26.05")]

RARELY = "batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=600"
"""Of the jobs behind one that waits for nodes, the backfill alone finds out what they lack."""
RESERVED = "theirs"


@pytest.fixture(scope="module")
def eight_nodes(slurm_root: str | None) -> Iterator[DevCluster]:
    """Four nodes, and two licences, which a reservation has together."""
    settings = slurm_settings(Licenses="fluent:1,matlab:1", SchedulerParameters=RARELY)
    with dev_cluster(DevSpec(node_count=4, root=slurm_root, settings=settings)) as cluster:
        yield cluster


def test_no_job_leaves_for_one_whose_licence_a_reservation_has(
    story: Story, start_daemon: StartDaemon
) -> None:
    """Behind a job that waits for nodes, Slurm says "Priority" of it, and not that it lacks a licence."""
    story.works(*[story.submit(SAVES, 1, "saving") for _ in range(4)])
    slurm = story.world.cluster
    first = story.submit("exec sleep 600", 4, "other")
    words = ("StartTime=now+5minutes", "Duration=60", "Users=root", "Flags=ANY_NODES")
    slurm.run(
        "scontrol", "create", "reservation", f"ReservationName={RESERVED}", "Licenses=matlab,fluent", *words
    )
    daemon = start_daemon()
    urgent = story.submit(URGENT, 1, "urgent", *WHOLE_NODES, "--licenses=fluent:1")
    story.urgent.append(urgent)
    waits_and_none_leaves(story, daemon, urgent, "a licence (fluent: it asks for 1, 0 free)")
    slurm.run("scontrol", "delete", f"ReservationName={RESERVED}")
    starts_on_the_held_nodes(story, daemon, urgent)
    slurm.run("scancel", first)
    story.ends(urgent)
    works_again(story, daemon, *story.lenders())
    nothing_is_left(story, daemon)
