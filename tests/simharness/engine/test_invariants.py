"""The checker finds what is wrong; and nothing is, whatever the daemon and the nodes do to a cluster."""

from dataclasses import replace
from math import ceil
from random import Random

import pytest

from makeway.adapters.protocol import AdapterError
from makeway.policies.model import Cluster, JobKind
from makeway.simharness.engine import scheduler as scheduler_module
from makeway.simharness.engine.adapter import SimAdapter
from makeway.simharness.engine.cluster import Admission, SimCluster
from makeway.simharness.engine.event_queue import NodeFailure
from makeway.simharness.engine.faults import NO_FAULTS, FaultKind, FaultPlan
from makeway.simharness.engine.invariants import InvariantViolated
from makeway.simharness.engine.job_run import JobRun
from makeway.simharness.engine.machine import SimMachine
from makeway.simharness.engine.records import ReplayRecord
from makeway.simharness.engine.scheduler import Backfill, Order, SchedulerSettings
from makeway.simharness.engine.snapshot import SnapshotBuilder
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.workloads.job import SimJob
from tests import acts

NEVER_S = float("inf")


def cluster_of(node_count: int, *jobs: SimJob) -> SimCluster:
    return SimCluster(node_count, jobs, scheduler=SchedulerSettings(), storage=StorageSettings(), check=True)


def job(job_id: str, submit_s: float, runtime_s: float, node_count: int) -> SimJob:
    return SimJob(job_id, submit_s, runtime_s, runtime_s, node_count)


# What the checker finds


def test_a_node_held_twice() -> None:
    cluster = cluster_of(3, job("a", 0.0, 10.0, 2), job("b", 1.0, 10.0, 2))
    cluster.advance(0.0)
    cluster.machine.free = 0b111
    with pytest.raises(InvariantViolated, match=r"at 1.0 s: job 'b' is on n1, n2, which another job holds"):
        cluster.run()


def test_a_node_held_by_the_first_and_the_third_job() -> None:
    cluster = cluster_of(3, job("a", 0.0, 10.0, 1), job("b", 0.0, 10.0, 1), job("c", 1.0, 10.0, 1))
    cluster.advance(0.0)
    cluster.machine.free = 0b001
    with pytest.raises(InvariantViolated, match="which another job holds"):
        cluster.run()


def test_a_node_lost() -> None:
    cluster = cluster_of(3, job("a", 0.0, 10.0, 1))
    cluster.machine.free = 0b011
    with pytest.raises(InvariantViolated, match="neither held nor free nor down"):
        cluster.run()


def test_a_node_both_free_and_held() -> None:
    cluster = cluster_of(3, job("a", 0.0, 10.0, 1), job("b", 1.0, 1.0, 3))
    cluster.advance(0.0)
    cluster.machine.free |= 0b001
    cluster.machine.reserved = 0b111
    with pytest.raises(InvariantViolated, match="two of held, free and down"):
        cluster.run()


def test_node_seconds_that_nobody_recorded() -> None:
    cluster = cluster_of(1, job("a", 0.0, 10.0, 1))
    cluster.advance(0.0)
    cluster.machine.live["a"].segment_start_s = 4.0
    with pytest.raises(InvariantViolated, match=r"6.0 node-seconds are recorded, 10.0 were held"):
        cluster.run()


def test_a_job_on_nodes_that_are_reserved_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_of(2, job("a", 0.0, 9.0, 1), job("u", 0.0, 9.0, 2), job("b", 3.0, 5.0, 1))
    adapter = SimAdapter(cluster)
    cluster.advance(0.0)
    adapter.apply(acts.reserve("mw_u", nodes=("n2",), duration_s=99.0, job_id="u"))
    monkeypatch.setattr(cluster.machine, "available", lambda: 1)
    monkeypatch.setattr(cluster.machine, "start", lambda live, _: cluster.machine.start_on(live, 0b10))
    with pytest.raises(InvariantViolated, match="started on n2, reserved for others"):
        cluster.run()


def test_a_job_that_is_held_back() -> None:
    cluster = cluster_of(1, job("a", 0.0, 9.0, 1))
    adapter = SimAdapter(cluster)
    cluster.advance(3.0)
    adapter.apply(acts.requeue("a"))
    cluster.machine.scheduler.add(cluster.machine.live["a"])
    with pytest.raises(InvariantViolated, match=r"started though it is held back until 123.0 s"):
        cluster.run()


def test_a_backfilled_job_that_delays_the_first_one(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = (job("a", 0.0, 10.0, 1), job("wide", 1.0, 5.0, 2), job("long", 2.0, 50.0, 1))
    cluster_of(2, *jobs).run()
    monkeypatch.setattr(scheduler_module, "shadow", lambda *_: (NEVER_S, 0))
    with pytest.raises(
        InvariantViolated,
        match=r"job 'wide', first of the queue, was to start by 10.0 s; now it starts at 52.0",
    ):
        cluster_of(2, *jobs).run()


# What may happen


def storm_jobs(random: Random, node_count: int) -> list[SimJob]:
    """Jobs of all kinds, whose times are whole or not."""
    jobs = []
    for number in range(random.randint(8, 25)):
        runtime_s = random.choice((float(random.randint(5, 80)), random.uniform(5.0, 80.0)))
        kind = random.choice((JobKind.RIGID, JobKind.RIGID, JobKind.MALLEABLE, JobKind.ON_DEMAND))
        size = random.randint(1, node_count)
        base = SimJob(
            job_id=f"{number}_{number % 3}",
            submit_s=float(random.randint(0, 150)),
            runtime_s=runtime_s,
            walltime_s=runtime_s * random.choice((1.0, 1.5, 4.0)),
            node_count=size,
            kind=kind,
            setup_s=random.choice((0.0, runtime_s / 10)),
            save_s=random.choice((None, 4.0)),
            system_gb_per_node=random.choice((None, 30.0)),
        )
        match kind:
            case JobKind.MALLEABLE:
                base = replace(base, node_count_min=random.randint(1, size), setup_s=0.0)
            case JobKind.RIGID if random.random() < 0.5:
                base = replace(
                    base,
                    checkpoint_interval_s=random.uniform(3.0, 30.0),
                    checkpoint_cost_s=random.choice((0, 2.5)),
                )
            case _:
                pass
        jobs.append(base)
    return jobs


def blow(random: Random, adapter: SimAdapter, cluster: Cluster) -> None:
    """One command that makes sense as often as not."""
    if not cluster.jobs:
        return
    victim = random.choice(cluster.jobs)
    names = [node.name for node in cluster.nodes]
    some = tuple(sorted(random.sample(names, random.randint(1, len(names)))))
    hold = f"mw_{random.randint(1, 3)}"
    verb = random.choice(
        ("checkpoint", "requeue", "cancel", "shrink", "expand", "reserve", "release", "prioritise")
    )
    try:
        match verb:
            case "checkpoint":
                adapter.apply(
                    acts.checkpoint(victim.job_id, signal="USR1", walltime_s=random.choice((0.0, 200.0)))
                )
            case "requeue":
                adapter.apply(acts.requeue(victim.job_id))
            case "cancel" if random.random() < 0.2:
                adapter.apply(acts.cancel(victim.job_id))
            case "shrink":
                keep = victim.nodes[: random.randint(1, max(1, len(victim.nodes)))]
                adapter.apply(acts.shrink(victim.job_id, keep_nodes=keep, walltime_s=random.uniform(0, 300)))
            case "expand":
                free = cluster.free_nodes()
                nodes = free[: random.randint(0, len(free))] if random.random() < 0.7 else some
                adapter.apply(
                    acts.expand(victim.job_id, nodes=nodes, reservation=random.choice((None, hold)))
                )
            case "reserve":
                nodes = random.choice((some, victim.nodes))
                adapter.apply(
                    acts.reserve(
                        hold,
                        nodes=nodes,
                        duration_s=random.uniform(1, 200),
                        job_id=victim.job_id,
                        overlap=random.random() < 0.3,
                    )
                )
            case "release":
                adapter.apply(acts.release(hold))
            case "prioritise":
                adapter.apply(acts.prioritise(victim.job_id))
    except AdapterError:
        pass


def nobody_is_left_waiting(machine: SimMachine) -> None:
    """With EASY and FCFS: who waits would not fit, or would delay the first one; from the definitions."""
    free = [number for number in range(machine.node_count) if machine.free >> number & 1]
    common = [number for number in free if not machine.reserved >> number & 1]
    queue = sorted(
        (
            live
            for live in machine.live.values()
            if not live.nodes and live.eligible_s is None and live.reservation is None
        ),
        key=lambda live: (live.rank, live.job.submit_s, live.index),
    )
    for live in machine.live.values():
        if live.reservation is not None and not live.nodes and live.eligible_s is None:
            hold = machine.holds[live.reservation]
            room = sum(hold.nodes >> number & 1 for number in free)
            assert room < live.size or machine.now_s + live.walltime_s > hold.end_s, live.job
    if not queue:
        return
    first = queue[0]
    assert len(common) < least_size(machine, first), first.job
    foreseen_s = room_s(machine, first, {})
    for live in queue[1:]:
        for size in range(least_size(machine, live), min(live.size, len(common)) + 1):
            stretched_s = live.walltime_s if size == live.size else ceil(live.walltime_s * live.size / size)
            taken = dict.fromkeys(common[:size], machine.now_s + stretched_s)
            assert room_s(machine, first, taken) > foreseen_s, (live.job, size)


def least_size(machine: SimMachine, live: JobRun) -> int:
    """The fewest nodes with which a waiting job may start."""
    smaller = machine.scheduler.settings.start_smaller and live.job.kind is JobKind.MALLEABLE
    return (live.job.node_count_min or live.size) if smaller else live.size


def room_s(machine: SimMachine, first: JobRun, taken: dict[int, float]) -> float:
    """When there will be room for `first` if the nodes in `taken` are busy until the times given."""
    free_s = []
    for number in range(machine.node_count):
        at_s = taken.get(number, machine.now_s)
        if machine.down >> number & 1:
            at_s = NEVER_S
        for live in machine.live.values():
            if live.nodes >> number & 1:
                at_s = max(at_s, live.limit_s)
        for hold in machine.holds.values():
            if hold.nodes >> number & 1:
                at_s = max(at_s, hold.end_s)
        free_s.append(at_s)
    return sorted(free_s)[least_size(machine, first) - 1]


def accounts_balance(record: ReplayRecord, early: set[str]) -> None:
    """What a job held is its own runtime, plus what was lost, plus overhead.

    Left out: jobs that did not complete, or completed `early`, and those whose number of regular checkpoints
    depends on their evictions.
    """
    held: dict[int, float] = {}
    for segment in record.segments:
        node_s = (segment.end_s - segment.start_s) * segment.nodes.bit_count()
        held[segment.job] = held.get(segment.job, 0.0) + node_s
    for index, entry in enumerate(record.jobs):
        regular = entry.job.checkpoint_interval_s is not None and entry.job.kind is not JobKind.MALLEABLE
        if entry.end_s is None or regular or entry.job.job_id in early:
            continue
        own = entry.job.runtime_s * entry.job.node_count
        assert held[index] == pytest.approx(own + entry.lost_node_s + entry.overhead_node_s), entry


def new_picture(machine: SimMachine, storage: StorageSettings) -> Cluster:
    """A snapshot for which nothing was kept; the adapter's own picture notices nothing of it."""
    kept = machine.touched
    cluster = SnapshotBuilder(machine, storage, Admission(machine)).take()
    machine.touched = kept
    return cluster


def storm(
    seed: int, *, order: Order, backfill: Backfill, faults: FaultPlan = NO_FAULTS, latency_s: float = 0.0
) -> None:
    """A random workload under random commands and failures; snapshots are compared with fresh ones."""
    random = Random(seed)
    node_count = random.randint(2, 9)
    storage = StorageSettings(aggregate_gb_s=20.0, node_gb_s=5.0)
    failures = [
        NodeFailure(
            at_s=float(random.randint(0, 200)),
            node=random.randrange(node_count),
            repair_s=random.uniform(0, 60),
        )
        for _ in range(random.randint(0, 3))
    ]
    cluster = SimCluster(
        node_count,
        storm_jobs(random, node_count),
        scheduler=SchedulerSettings(
            order=order,
            backfill=backfill,
            start_smaller=seed % 2 == 1 and backfill is not Backfill.CONSERVATIVE,
        ),
        storage=storage,
        requeue_delay_s=random.choice((0.0, 20.0)),
        failures=failures,
        check=True,
    )
    adapter = SimAdapter(cluster, faults=faults, latency_s=latency_s)
    blows = 60
    while cluster.next_event_s() is not None:
        if random.random() < 0.7:
            cluster.step()
        else:
            cluster.advance(cluster.now_s + random.uniform(0, 9))
        if order is Order.FCFS and backfill is Backfill.EASY:
            nobody_is_left_waiting(cluster.machine)
        if blows and random.random() < 0.5:
            view = adapter.snapshot()
            assert view == new_picture(cluster.machine, storage)
            for _ in range(random.choice((0, 1, 3))):
                blow(random, adapter, view)
                blows = max(0, blows - 1)
    assert not cluster.machine.live
    early = {call.action.job_id for call in adapter.calls if call.fault is FaultKind.GONE}
    accounts_balance(cluster.record(policy="storm"), early)


@pytest.mark.parametrize("backfill", list(Backfill))
@pytest.mark.parametrize("order", list(Order))
def test_a_storm_of_commands_and_failures_breaks_nothing(order: Order, backfill: Backfill) -> None:
    for seed in range(250 if (order, backfill) == (Order.FCFS, Backfill.EASY) else 50):
        storm(seed, order=order, backfill=backfill)


@pytest.mark.parametrize("latency_s", [0.0, 3.5])
def test_a_storm_with_faults_breaks_nothing(latency_s: float) -> None:
    kinds = [kind for kind in FaultKind if kind not in (FaultKind.DAMAGED, FaultKind.NO_ANSWER)]
    for seed in range(60):
        faults = FaultPlan(rates=dict.fromkeys(kinds, 0.1), seed=seed)
        storm(seed, order=Order.FCFS, backfill=Backfill.EASY, faults=faults, latency_s=latency_s)


def test_a_job_that_starts_smaller_passes_the_first_one_by_its_usual_limit() -> None:
    """By waiting time and size it is before `head` when it starts; its limit grows as it does."""
    jobs = [
        job("a", 0.0, 1000.0, 3),
        job("b", 0.0, 300.0, 1),
        job("head", 10.0, 1000.0, 4),
        SimJob("m", 20.0, 900.0, 900.0, 4, kind=JobKind.MALLEABLE, node_count_min=1),
    ]
    cluster = SimCluster(
        4,
        jobs,
        scheduler=SchedulerSettings(order=Order.WFP, start_smaller=True),
        storage=StorageSettings(),
        check=True,
    )
    cluster.run()
    starts_s = {one.job.job_id: one.start_s for one in cluster.record(policy="none").jobs}
    assert (starts_s["m"], starts_s["head"]) == (300.0, 3900.0)
