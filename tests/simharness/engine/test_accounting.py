"""Every node-second that a job held is useful, lost or overhead, whatever is done to it."""

from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from makeway.adapters.protocol import AdapterError
from makeway.policies.model import CPU, GPU, Action, Job, JobKind, Resources
from makeway.simharness.engine.adapter import SimAdapter
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.event_queue import NodeFailure
from makeway.simharness.engine.records import JobRecord, MarkKind, ReplayRecord
from makeway.simharness.engine.scheduler import SchedulerSettings
from makeway.simharness.engine.shared.nodes import SharingSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.workloads.job import SimJob
from tests import acts

NODES = 6
CAPACITY = Resources.of({CPU: 8, GPU: 4})
SHARING = SharingSettings(capacities=(CAPACITY,) * NODES)
DEMANDS = (None, Resources.of({CPU: 4, GPU: 2}), CAPACITY)


@dataclass(frozen=True)
class Blow:
    """A command to one of the jobs, so long after the one before, if it can be carried out then."""

    after_s: float
    verb: str
    number: int
    amount: int


@st.composite
def rigid(draw: st.DrawFn, job_id: str) -> SimJob:
    """Its runtime is setup, work and the regular checkpoints between two intervals of work."""
    work_s, setup_s = draw(st.integers(1, 60)), draw(st.sampled_from((0, 0, 4)))
    interval_s = draw(st.none() | st.integers(1, 10))
    cost_s = draw(st.sampled_from((0.0, 2.3, 6.7)))
    checkpoints = 0 if interval_s is None else -(-work_s // interval_s) - 1
    runtime_s = setup_s + work_s + checkpoints * cost_s
    return SimJob(
        job_id,
        float(draw(st.integers(0, 10))),
        runtime_s,
        runtime_s + draw(st.sampled_from((0.0, 5.0, 500.0))),
        draw(st.integers(1, NODES)),
        setup_s=float(setup_s),
        restart_s=float(draw(st.integers(0, 3))),
        checkpoint_interval_s=None if interval_s is None else float(interval_s),
        checkpoint_cost_s=cost_s,
        save_s=draw(st.none() | st.integers(1, 12).map(float)),
        demand=draw(st.sampled_from(DEMANDS)),
    )


@st.composite
def malleable(draw: st.DrawFn, job_id: str) -> SimJob:
    """Without a setup, which takes as long on few nodes as on many."""
    runtime_s, node_count = float(draw(st.integers(1, 80))), draw(st.integers(2, NODES))
    return SimJob(
        job_id,
        float(draw(st.integers(0, 10))),
        runtime_s,
        runtime_s + draw(st.sampled_from((0.0, 5.0, 500.0))),
        node_count,
        kind=JobKind.MALLEABLE,
        node_count_min=1,
        restart_s=float(draw(st.integers(0, 5))),
        save_s=draw(st.none() | st.integers(1, 12).map(float)),
    )


workloads = st.integers(1, 3).flatmap(
    lambda count: st.tuples(*(rigid(str(index)) | malleable(str(index)) for index in range(count)))
)
blows = st.lists(
    st.builds(
        Blow,
        after_s=st.integers(1, 40).map(lambda half: half / 2),
        verb=st.sampled_from(("checkpoint", "requeue", "requeue", "shrink", "expand", "cancel")),
        number=st.integers(0, 2),
        amount=st.integers(1, NODES),
    ),
    max_size=12,
)
failures = st.lists(
    st.builds(
        NodeFailure,
        node=st.integers(0, NODES - 1),
        at_s=st.integers(0, 100).map(float),
        repair_s=st.integers(1, 30).map(float),
    ),
    max_size=2,
)


def action_of(blow: Blow, job: Job) -> Action:
    match blow.verb:
        case "checkpoint":
            return acts.checkpoint(job.job_id, signal="USR1", walltime_s=job.walltime_s + blow.amount)
        case "requeue":
            return acts.requeue(job.job_id)
        case "cancel":
            return acts.cancel(job.job_id)
        case "shrink":
            keep_nodes = job.nodes[: min(blow.amount, max(1, len(job.nodes)))]
            return acts.shrink(job.job_id, keep_nodes=keep_nodes, walltime_s=10.0 * blow.amount)
        case _:
            others = [f"n{number}" for number in range(1, NODES + 1) if f"n{number}" not in job.nodes]
            return acts.expand(job.job_id, nodes=tuple(others[: blow.amount]), reservation=None)


def lived(
    workload: tuple[SimJob, ...], todo: list[Blow], broken: list[NodeFailure], *, shared: bool
) -> ReplayRecord:
    cluster = SimCluster(
        NODES,
        [job if shared else replace(job, demand=None) for job in workload],
        scheduler=SchedulerSettings(),
        storage=StorageSettings(),
        requeue_delay_s=3.0,
        failures=broken,
        check=True,
        sharing=SHARING if shared else None,
    )
    adapter = SimAdapter(cluster)
    for blow in todo:
        cluster.advance(cluster.now_s + blow.after_s)
        job = adapter.snapshot().jobs_by_id().get(str(blow.number % len(workload)))
        if job is not None:
            with suppress(AdapterError):
                adapter.apply(action_of(blow, job))
    cluster.run()
    return cluster.record(policy="none")


def useful_node_s(entry: JobRecord, share: float, unsaved_checkpoints: int) -> float:
    """What a job has done that nobody does again. A requested checkpoint can spare a regular one."""
    if entry.end_s is None:
        return 0.0
    job = entry.job
    runtime_s = job.runtime_s - unsaved_checkpoints * job.checkpoint_cost_s
    return runtime_s * job.node_count * share


# A requested checkpoint is complete in the middle of a regular one, and the job leaves in that.
REPLACED = [Blow(3.0, "checkpoint", 0, 1), Blow(2.0, "requeue", 0, 1)]
# A regular checkpoint of the first run, and the second run is cancelled.
CANCELLED = [Blow(5.0, "requeue", 0, 1), Blow(8.0, "cancel", 0, 1)]
# The first run is saved, and the second one is shrunk in its restart.
SHRUNK = [Blow(9.0, "checkpoint", 0, 1), Blow(2.0, "requeue", 0, 1), Blow(5.0, "shrink", 0, 1)]


def one_rigid() -> SimJob:
    """2 s of work, 2.5 s of a checkpoint, and so on."""
    return SimJob(
        "0", 0.0, 42.5, 500.0, 2, checkpoint_interval_s=2.0, checkpoint_cost_s=2.5, save_s=1.0, restart_s=1.0
    )


def one_malleable() -> SimJob:
    return SimJob(
        "0", 0.0, 60.0, 500.0, 4, kind=JobKind.MALLEABLE, node_count_min=1, restart_s=5.0, save_s=1.0
    )


@example(workload=(one_rigid(),), todo=REPLACED, broken=[], shared=False)
@example(workload=(one_rigid(),), todo=CANCELLED, broken=[], shared=True)
@example(workload=(one_malleable(),), todo=SHRUNK, broken=[], shared=False)
@given(workload=workloads, todo=blows, broken=failures, shared=st.booleans())
@settings(deadline=None, max_examples=500)
def test_what_is_held_is_useful_or_lost_or_overhead(
    workload: tuple[SimJob, ...], todo: list[Blow], broken: list[NodeFailure], shared: bool
) -> None:
    record = lived(workload, todo, broken, shared=shared)
    held_node_s: defaultdict[int, float] = defaultdict(float)
    for segment in record.segments:
        held_node_s[segment.job] += (
            (segment.end_s - segment.start_s) * segment.nodes.bit_count() * segment.share
        )
    requested = Counter(mark.job for mark in record.marks if mark.kind is MarkKind.CHECKPOINTED)
    for index, entry in enumerate(record.jobs):
        share = 0.5 if shared and entry.job.demand == DEMANDS[1] else 1.0
        rest_node_s = held_node_s[index] - entry.lost_node_s - entry.overhead_node_s
        allowed = range(requested[index] + 1 if entry.job.checkpoint_interval_s and entry.end_s else 1)
        expected = [useful_node_s(entry, share, spared) for spared in allowed]
        assert any(rest_node_s == pytest.approx(one, abs=1e-4) for one in expected), (index, expected)
        if shared:
            assert entry.lost_cpu_s == pytest.approx(8 * entry.lost_node_s, abs=1e-4)
            assert entry.lost_gpu_s == pytest.approx(4 * entry.lost_node_s, abs=1e-4)
