"""The same small workload on a real Slurm and on the simulated cluster: the same commands, in the same order.

What differs is left out on purpose: job ids and names of nodes, and instants, as a job of the story ends when
it is told to.
"""

import pytest

from makeway.daemon.journal.codec import StoredCommand
from makeway.policies.model import JobKind, Limits, Shrink
from makeway.policies.registry import find
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.scheduler import SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.run.replay import Replay, ReplaySettings
from makeway.simharness.workloads.job import SimJob
from tests.slurm.conftest import StartDaemon
from tests.slurm.support.daemon import DaemonProcess
from tests.slurm.support.story import SAVES, Story, nothing_is_left, starts_on_the_held_nodes
from tests.waiting import POLL_S, await_that

pytestmark = pytest.mark.slurm

WALLTIME_S = 1800.0
LONG_S = 600.0
Told = tuple[str, str, str, int | None]


def told(commands: tuple[StoredCommand, ...], names: dict[str, str]) -> list[Told]:
    """Each command that was accepted: its verb, its job, why, and how many nodes a shrunk job keeps.

    But for the priority that a real Slurm is asked to give back: on the simulated cluster the start itself
    does that. And but for time limits: a replay keeps nothing with its jobs.
    """
    return [
        (
            str(command.action.verb),
            names[str(command.action.job_id)],
            str(command.action.reason),
            len(command.action.keep_nodes) if isinstance(command.action, Shrink) else None,
        )
        for command in commands
        if command.outcome == "accepted" and command.action.verb not in {"restore_priority", "restore_limit"}
    ]


def simulated(jobs: list[SimJob], policy: str) -> list[Told]:
    """What the daemon does with these jobs on eight simulated nodes."""
    chosen = find(policy)
    replay = Replay(
        SimCluster(8, jobs, scheduler=SchedulerSettings(), storage=StorageSettings()),
        chosen,
        chosen.config_type(),
        ReplaySettings(poll_interval_s=POLL_S, limits=Limits(protected_accounts=frozenset({"other"}))),
    )
    while replay.step():
        pass
    return told(replay.journal.commands(), {job.job_id: job.account for job in jobs})


def urgent(node_count: int) -> SimJob:
    return SimJob(
        "4", 20.0, 5.0, WALLTIME_S, node_count, account="urgent", kind=JobKind.ON_DEMAND, start_within_s=60.0
    )


def played(story: Story, daemon: DaemonProcess, names: dict[str, str], node_count: int) -> list[Told]:
    """What the daemon does for an urgent job on the real cluster, to the end."""
    job_id = story.urgent_comes(node_count)
    starts_on_the_held_nodes(story, daemon, job_id)
    await_that(
        "the daemon has seen it run",
        lambda: all(operation.started_s is not None for operation in daemon.operations()),
        story.explain(daemon),
    )
    story.ends(job_id)
    nothing_is_left(story, daemon)
    return told(daemon.commands(), {**names, job_id: "urgent"})


def test_an_eviction(story: Story, start_daemon: StartDaemon) -> None:
    """The smaller of two loses less."""
    large = story.submit(SAVES, 4, "saving")
    small = story.submit(SAVES, 2, "saving")
    other = story.submit("exec sleep 600", 2, "other")
    story.works(large, small)
    on_slurm = played(story, start_daemon(), {large: "large", small: "small", other: "other"}, 2)

    in_simulation = simulated(
        [
            SimJob("1", 0.0, LONG_S, WALLTIME_S, 4, account="large", save_s=1.0),
            SimJob("2", 0.0, LONG_S, WALLTIME_S, 2, account="small", save_s=1.0),
            SimJob("3", 0.0, LONG_S, WALLTIME_S, 2, account="other"),
            urgent(2),
        ],
        "eviction",
    )
    assert on_slurm == in_simulation
    assert ("requeue", "small", "urgent_arrival", None) in on_slurm


def test_a_shrink(story: Story, start_daemon: StartDaemon) -> None:
    """Where jobs cannot grow on the real cluster, makeway does not ask for it."""
    grows = "expand" in story.world.adapter.capabilities.actions
    worker = story.fill_malleable()
    story.sizes[worker] = 6 if grows else 4
    on_slurm = played(story, start_daemon(policy="n-spaa"), {worker: "worker"}, 2)

    in_simulation = simulated(
        [
            SimJob(
                "1", 0.0, LONG_S, WALLTIME_S, 6, account="worker", kind=JobKind.MALLEABLE, node_count_min=2
            ),
            SimJob("3", 0.0, LONG_S, WALLTIME_S, 2, account="other"),
            urgent(2),
        ],
        "n-spaa",
    )
    assert on_slurm == [one for one in in_simulation if grows or one[0] != "expand"]
    assert ("shrink", "worker", "urgent_arrival", 4) in on_slurm
