"""Jobs that would not run again after a requeue, on a real Slurm: none of them is made to leave."""

import pytest

from makeway.policies.model import Cluster
from tests.slurm.conftest import StartDaemon
from tests.slurm.support.neighbours import looks_again
from tests.slurm.support.story import (
    SAVES,
    WHOLE_NODES,
    Story,
    nothing_is_left,
    starts_on_the_held_nodes,
    works_again,
)
from tests.slurm.support.world import SlurmWorld

pytestmark = [pytest.mark.slurm, pytest.mark.any_release]


def test_jobs_that_would_not_run_again_are_left_alone(story: Story, start_daemon: StartDaemon) -> None:
    """A job with a deadline, one that is held while it runs, and one that is not from sbatch."""
    slurm = story.world.cluster
    dated = story.submit(SAVES, 2, "saving", *WHOLE_NODES, "--deadline=now+2days")
    held, other = (story.submit(SAVES, 2, "saving") for _ in range(2))
    slurm.run("salloc", "--quiet", "--no-shell", "--nodes=2", "--account=saving", *WHOLE_NODES)
    story.works(dated, held, other)
    slurm.run("scontrol", "hold", held)
    daemon = start_daemon()
    first, second = story.urgent_comes(), story.urgent_comes()
    starts_on_the_held_nodes(story, daemon, first)
    looks_again(daemon)
    assert (story.runs(second), story.lenders()) == (False, [other])
    assert all(map(story.runs, (dated, held)))
    slurm.run("scontrol", "release", held)
    starts_on_the_held_nodes(story, daemon, second)
    assert story.lenders() == [held, other]
    for urgent in (first, second):
        story.ends(urgent)
    works_again(story, daemon, held, other)
    nothing_is_left(story, daemon)
    assert story.restarts(dated) == 0


@pytest.mark.parametrize("state", ["DOWN", "INACTIVE"])
def test_jobs_of_a_partition_in_which_none_starts_are_left_alone(
    story: Story, start_daemon: StartDaemon, state: str
) -> None:
    """They leave as soon as the partition lets them start again, which one that drains does."""
    slurm, name = story.world.cluster, f"closing{state.lower()}"
    slurm.run("scontrol", "create", f"PartitionName={name}", "Nodes=ALL")
    closing = [story.submit(SAVES, 2, "saving", *WHOLE_NODES, f"--partition={name}") for _ in range(3)]
    other = story.submit(SAVES, 2, "saving")
    story.works(*closing, other)
    slurm.run("scontrol", "update", f"PartitionName={name}", f"State={state}")
    daemon = start_daemon()
    first, second = story.urgent_comes(), story.urgent_comes()
    starts_on_the_held_nodes(story, daemon, first)
    looks_again(daemon)
    assert (story.runs(second), story.lenders()) == (False, [other])
    assert all(map(story.runs, closing))
    slurm.run("scontrol", "update", f"PartitionName={name}", "State=DRAIN")
    starts_on_the_held_nodes(story, daemon, second)
    (lender,) = set(story.lenders()) - {other}
    for urgent in (first, second):
        story.ends(urgent)
    works_again(story, daemon, lender, other)
    nothing_is_left(story, daemon)


def test_an_overtime_of_the_partition_is_read(slurm_world: SlurmWorld) -> None:
    """Also one that an administrator sets while the job runs."""
    slurm = slurm_world.cluster
    slurm.run("scontrol", "create", "PartitionName=overtime", "Nodes=ALL", "OverTimeLimit=7")
    there, elsewhere = (
        slurm.submit("exec sleep 600", "--nodes=1", f"--partition={name}") for name in ("overtime", "batch")
    )

    def overtimes(cluster: Cluster) -> list[float]:
        jobs = cluster.jobs_by_id()
        return [jobs[one].overtime_s for one in (there, elsewhere) if one in jobs and jobs[one].nodes]

    slurm_world.wait(lambda cluster: overtimes(cluster) == [420.0, 0.0], "both run, one with an overtime")
    slurm.run("scontrol", "update", "PartitionName=overtime", "OverTimeLimit=9")
    slurm_world.wait(lambda cluster: overtimes(cluster) == [540.0, 0.0], "the overtime is another one")


def test_jobs_of_a_reservation_that_ends_are_left_alone(slurm_world: SlurmWorld) -> None:
    """Slurm would hold them. It may be that only some nodes are reserved."""
    slurm = slurm_world.cluster
    lasts = ("StartTime=now", "Users=root", "Nodes=n1", "Flags=FLEX,IGNORE_JOBS")
    slurm.run("scontrol", "create", "reservation", "ReservationName=course", "Duration=60", *lasts)
    options = ("--nodes=2", "--account=batch", *WHOLE_NODES)
    inside = slurm.submit("exec sleep 600", "--reservation=course", *options)
    outside = slurm.submit("exec sleep 600", *options)

    def may_leave(cluster: Cluster) -> list[bool]:
        jobs = cluster.jobs_by_id()
        return [jobs[one].preemptible for one in (inside, outside) if one in jobs and jobs[one].nodes]

    slurm_world.wait(lambda cluster: may_leave(cluster) == [False, True], "one of both may leave")
    slurm.run("scontrol", "update", "ReservationName=course", "EndTime=now+3days")
    slurm_world.wait(lambda cluster: may_leave(cluster) == [True, True], "both may leave")
