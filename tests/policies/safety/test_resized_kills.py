"""What a policy expects a kill to cost is what it then costs, whatever sizes the run has had."""

from dataclasses import dataclass
from enum import Enum

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from makeway.policies.common.losses import cost_node_s
from makeway.policies.model import Job, JobKind, Method
from makeway.policies.safety.prices import loss_node_s
from makeway.simharness.engine.adapter import SimAdapter
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.scheduler import SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.workloads.job import SimJob
from tests import acts

NODES = 8
SETUP_S = 20.0
SAVE_S = 7.0


class Act(Enum):
    SHRINK = "shrink"
    GROW = "grow"
    SIGNAL = "signal"
    KILL = "kill"


@dataclass(frozen=True)
class Blow:
    """What is done to the malleable job, and how long after the one before."""

    after_s: int
    act: Act
    node_count: int = 0
    """By how much its size changes, at most."""


BLOWS = st.builds(Blow, st.integers(0, 60), st.sampled_from(Act), st.integers(1, NODES))


def world(other_node_count: int) -> tuple[SimCluster, SimAdapter]:
    """A malleable job, which starts smaller if there is another job."""
    malleable = SimJob(
        "m",
        1.0,
        5000.0,
        100_000.0,
        NODES,
        kind=JobKind.MALLEABLE,
        node_count_min=1,
        setup_s=SETUP_S,
        save_s=SAVE_S,
    )
    other = SimJob("o", 0.0, 100.0, 100.0, other_node_count)
    cluster = SimCluster(
        NODES,
        [other, malleable] if other_node_count else [malleable],
        scheduler=SchedulerSettings(start_smaller=True),
        storage=StorageSettings(),
        requeue_delay_s=5.0,
        check=True,
    )
    return cluster, SimAdapter(cluster)


def strike(cluster: SimCluster, adapter: SimAdapter, job: Job, blow: Blow) -> None:
    match blow.act:
        case Act.SHRINK:
            keep = job.nodes[: max(1, job.node_count - blow.node_count)]
            adapter.apply(acts.shrink("m", keep_nodes=keep, walltime_s=job.walltime_s))
        case Act.GROW:
            free = cluster.machine.names.of(cluster.machine.free)
            added = free[: min(blow.node_count, NODES - job.node_count)]
            if added:
                adapter.apply(acts.expand("m", nodes=added, reservation=None))
        case Act.SIGNAL if job.start_s is not None and cluster.now_s >= job.start_s + SETUP_S:
            adapter.apply(acts.checkpoint("m", signal="USR1", walltime_s=0.0))
        case Act.KILL if job.checkpointing_since_s is None:
            cluster.machine.live["m"].settle(cluster.now_s)  # checkpoints up to now are overhead already
            kill(cluster, adapter, job)
        case _:
            pass


def kill(cluster: SimCluster, adapter: SimAdapter, job: Job) -> None:
    """Kill the job: it costs what a policy has expected, and loses as much work."""
    now_s, record = cluster.now_s, cluster.machine.live["m"].record
    assert job.start_s is not None
    assert all(past.until_s >= job.start_s for past in job.past_sizes), "of this run alone"
    before = record.lost_node_s, record.overhead_node_s
    adapter.apply(acts.requeue("m"))
    lost_node_s, setup_node_s = record.lost_node_s - before[0], record.overhead_node_s - before[1]
    event("resized" if job.past_sizes else "never resized")
    assert cost_node_s(job, Method.KILL, now_s) == pytest.approx(lost_node_s + setup_node_s, abs=1.0)
    # Without a checkpoint, the setup is part of what the loss counts.
    expected_node_s = lost_node_s + (setup_node_s if job.last_checkpoint_s is None else 0.0)
    assert loss_node_s(job, now_s) == pytest.approx(expected_node_s, abs=1.0)


@example(other_node_count=0, blows=[Blow(50, Act.SHRINK, 7), Blow(10, Act.KILL)])
@example(other_node_count=5, blows=[Blow(50, Act.GROW, 5), Blow(60, Act.GROW, 5), Blow(10, Act.KILL)])
@given(
    other_node_count=st.integers(0, NODES - 1),
    blows=st.lists(BLOWS, max_size=12).map(lambda blows: [*blows, Blow(30, Act.KILL)]),
)
@settings(deadline=None, max_examples=200)
def test_a_kill_costs_what_is_expected(other_node_count: int, blows: list[Blow]) -> None:
    cluster, adapter = world(other_node_count)
    now_s = 1.0
    cluster.advance(now_s)
    for blow in blows:
        now_s += blow.after_s
        cluster.advance(now_s)
        job = adapter.snapshot().jobs_by_id()["m"]
        if job.nodes:
            strike(cluster, adapter, job, blow)
