"""Nodes that jobs share: what a snapshot shows, how holds and requeues act, and what is refused."""

from dataclasses import replace

import pytest

from makeway.policies.model import JobKind, Notice, Resources
from makeway.simharness.engine.adapter import SimAdapter
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.event_queue import NodeFailure
from makeway.simharness.engine.invariants import InvariantViolated
from makeway.simharness.engine.partitioned import PartitionSettings
from makeway.simharness.engine.scheduler import Backfill, SchedulerSettings
from makeway.simharness.engine.shared.machine import SharedMachine
from makeway.simharness.engine.shared.nodes import Packing, SharingSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.workloads.job import SimJob
from makeway.simharness.workloads.partitions import Partition, Partitions
from tests import acts
from tests.simharness.engine.commanded import seen, starts


def res(cpu: int = 0, mem: int = 0, gpu: int = 0, a100: int = 0, v100: int = 0) -> Resources:
    return Resources.of(
        {"cpu": cpu, "mem": mem, "gres/gpu": gpu, "gres/gpu:a100": a100, "gres/gpu:v100": v100}
    )


NODE = res(cpu=8, mem=100, gpu=4)


def job(job_id: str, submit_s: float, runtime_s: float, demand: Resources | None, count: int = 1) -> SimJob:
    return SimJob(job_id, submit_s, runtime_s, runtime_s, count, demand=demand)


def shared(
    *jobs: SimJob,
    capacities: tuple[Resources, ...] = (NODE, NODE),
    packing: Packing = Packing.DENSE,
    failures: tuple[NodeFailure, ...] = (),
    backfill: Backfill = Backfill.EASY,
) -> tuple[SimCluster, SimAdapter]:
    cluster = SimCluster(
        len(capacities),
        jobs,
        scheduler=SchedulerSettings(backfill=backfill),
        storage=StorageSettings(),
        sharing=SharingSettings(capacities=capacities, packing=packing),
        failures=failures,
        check=True,
    )
    return cluster, SimAdapter(cluster)


def test_a_snapshot_shows_capacity_allocation_demand_and_share() -> None:
    small, wide = res(cpu=2, mem=50), res(cpu=8, mem=10)
    cluster, adapter = shared(
        job("a", 0.0, 10.0, small), job("whole", 0.0, 10.0, None), job("b", 1.0, 10.0, wide, 2)
    )
    cluster.advance(1.0)
    found = adapter.snapshot()
    assert [node.capacity for node in found.nodes] == [NODE, NODE]
    a, whole, b = (found.jobs_by_id()[name] for name in ("a", "whole", "b"))
    assert (a.nodes, a.allocation, a.node_equivalents, a.demand) == (("n1",), (small,), 0.5, None)
    assert (whole.nodes, whole.allocation, whole.node_equivalents) == (("n2",), None, 1.0)
    assert (b.allocation, b.node_equivalents, b.demand) == (None, None, wide)
    assert found.unused() == {"n1": res(cpu=6, mem=50, gpu=4), "n2": Resources()}
    cluster.advance(10.0)
    assert seen(adapter, "b").allocation == (wide, wide)
    assert seen(adapter, "b").node_equivalents == 2.0


@pytest.mark.parametrize(
    ("packing", "nodes"),
    [(Packing.DENSE, ["n2", "n2", "n1"]), (Packing.LEAST_LOADED, ["n1", "n2", "n1"])],
)
def test_jobs_are_packed_as_the_setting_says(packing: Packing, nodes: list[str]) -> None:
    """Dense: the fewest unused CPUs. Least loaded: the largest share of unused CPUs."""
    jobs = [job(f"{number}", float(number), 100.0, res(cpu=3)) for number in range(3)]
    cluster, adapter = shared(*jobs, capacities=(NODE, res(cpu=6, mem=50)), packing=packing)
    cluster.advance(3.0)
    assert [seen(adapter, f"{number}").nodes[0] for number in range(3)] == nodes


def test_a_gpu_of_any_type_gets_a_type() -> None:
    node = res(cpu=8, gpu=5, a100=2, v100=3)
    cluster, adapter = shared(
        job("any", 0.0, 10.0, res(cpu=1, gpu=2)),
        job("typed", 0.0, 10.0, res(cpu=1, gpu=2, a100=2)),
        job("late", 1.0, 10.0, res(cpu=1, gpu=1, a100=1)),
        job("last", 1.0, 10.0, res(cpu=1, gpu=1)),
        capacities=(node,),
    )
    cluster.advance(1.0)
    assert seen(adapter, "any").allocation == (res(cpu=1, gpu=2, v100=2),)
    assert seen(adapter, "typed").allocation == (res(cpu=1, gpu=2, a100=2),)
    assert seen(adapter, "last").allocation == (res(cpu=1, gpu=1, v100=1),)
    assert starts(cluster)["late"] == 10.0


def test_a_hold_keeps_others_off_the_whole_node_and_its_job_takes_what_is_free() -> None:
    """As on Slurm with IGNORE_JOBS: the neighbour runs on, the rest of the node waits for the hold's end."""
    cluster, adapter = shared(
        job("stays", 0.0, 500.0, res(cpu=2)),
        job("victim", 0.0, 500.0, res(cpu=5)),
        replace(job("u", 1.0, 100.0, res(cpu=4, gpu=2)), kind=JobKind.ON_DEMAND),
        job("other", 2.0, 10.0, res(cpu=1)),
        capacities=(NODE,),
    )
    cluster.advance(1.0)
    adapter.apply(acts.reserve("mw_u", nodes=("n1",), duration_s=600.0, job_id="u"))
    cluster.advance(3.0)
    assert seen(adapter, "other").nodes == ()
    adapter.apply(acts.requeue("victim"))
    cluster.advance(5.0)
    assert seen(adapter, "u").start_s == 3.0
    assert seen(adapter, "u").allocation == (res(cpu=4, gpu=2),)
    assert seen(adapter, "stays").start_s == 0.0
    assert seen(adapter, "other").nodes == ()
    adapter.apply(acts.release("mw_u"))
    cluster.advance(6.0)
    assert seen(adapter, "other").start_s == 5.0
    assert starts(cluster)["victim"] == 0.0


def test_easy_counts_a_held_node_from_the_end_of_the_hold() -> None:
    """`wide` can start at 50 s, when the hold ends: 40 s on the other node fit before it, 60 s do not."""
    for runtime_s, start_s in ((40.0, 3.0), (60.0, 60.0)):
        cluster, adapter = shared(
            job("a", 0.0, 20.0, res(cpu=8)),
            job("wide", 2.0, 10.0, res(cpu=8), 2),
            job("fits", 3.0, runtime_s, res(cpu=5)),
        )
        cluster.advance(0.5)
        adapter.apply(acts.reserve("mw_x", nodes=("n1",), duration_s=49.5, job_id=None))
        assert starts(cluster) == {"a": 0.0, "wide": 50.0, "fits": start_s}


def test_a_failed_node_loses_all_its_jobs_and_serves_again_when_repaired() -> None:
    cluster, adapter = shared(
        job("a", 0.0, 100.0, res(cpu=2)),
        job("b", 0.0, 100.0, res(cpu=2)),
        capacities=(NODE,),
        failures=(NodeFailure(at_s=10.0, node=0, repair_s=500.0),),
    )
    cluster.advance(10.0)
    assert {seen(adapter, name).nodes for name in "ab"} == {()}
    cluster.run()
    assert [record.end_s for record in cluster.record(policy="none").jobs] == [610.0, 610.0]


def test_a_loss_is_priced_by_the_share_of_the_nodes() -> None:
    cluster, adapter = shared(job("a", 0.0, 100.0, res(cpu=4, gpu=3), 2), job("whole", 200.0, 100.0, None))
    cluster.advance(40.0)
    adapter.apply(acts.requeue("a"))
    cluster.advance(400.0)
    record = cluster.record(policy="none")
    first = record.jobs[0]
    assert (first.lost_node_s, first.lost_cpu_s, first.lost_gpu_s) == (40 * 2 * 0.75, 40 * 8, 40 * 6)
    assert {segment.job: segment.share for segment in record.segments} == {0: 0.75, 1: 1.0}
    assert record.capacities == (NODE, NODE)


def test_malleable_jobs_keep_whole_nodes() -> None:
    grown = SimJob("m", 0.0, 100.0, 100.0, 2, kind=JobKind.MALLEABLE, node_count_min=1, save_s=0.0)
    cluster, adapter = shared(grown, job("b", 1.0, 10.0, res(cpu=1)))
    cluster.advance(1.0)
    adapter.apply(acts.shrink("m", keep_nodes=("n1",), walltime_s=300.0))
    cluster.advance(2.0)
    assert seen(adapter, "b").nodes == ("n2",)


def test_an_announced_job_has_its_demand_in_the_notice() -> None:
    urgent = replace(
        job("u", 100.0, 10.0, res(cpu=3)), kind=JobKind.ON_DEMAND, announced_s=1.0, expected_s=100.0
    )
    cluster, adapter = shared(job("a", 0.0, 5.0, res(cpu=1)), urgent)
    cluster.advance(2.0)
    (notice,) = adapter.notices()
    assert isinstance(notice, Notice)
    assert notice.demand == res(cpu=3)


@pytest.mark.parametrize(
    ("demand", "count", "words"),
    [
        (res(cpu=9), 1, "what 1 of the nodes have"),
        (res(cpu=8, gpu=5), 1, "what 1 of the nodes have"),
        (res(cpu=6), 2, "what 2 of the nodes have"),
        (res(v100=1), 1, "what 1 of the nodes have"),
        (Resources(), 1, "not empty"),
    ],
)
def test_a_job_that_no_nodes_can_serve_is_refused(demand: Resources, count: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        shared(job("a", 0.0, 10.0, demand, count), capacities=(NODE, res(cpu=5)))


def test_what_does_not_go_with_shared_nodes_is_refused() -> None:
    with pytest.raises(ValueError, match="start_smaller: shared nodes have backfill none, easy or"):
        SimCluster(
            1,
            [],
            scheduler=SchedulerSettings(start_smaller=True),
            storage=StorageSettings(),
            sharing=SharingSettings(capacities=(NODE,)),
        )
    with pytest.raises(ValueError, match="easy-cqsim: shared nodes have backfill none, easy or"):
        shared(backfill=Backfill.EASY_CQSIM)
    with pytest.raises(ValueError, match="placed and sharing exclude each other"):
        SimCluster(
            1,
            [],
            scheduler=SchedulerSettings(),
            storage=StorageSettings(),
            placed=PartitionSettings(partitions=Partitions(1, (Partition(name="a", nodes=1),))),
            sharing=SharingSettings(capacities=(NODE,)),
        )
    with pytest.raises(ValueError, match="1 capacities: the machine has 2 nodes"):
        SimCluster(
            2,
            [],
            scheduler=SchedulerSettings(),
            storage=StorageSettings(),
            sharing=SharingSettings(capacities=(NODE,)),
        )


@pytest.mark.parametrize("damage", ["capacity", "allocation", "size", "down", "free"])
def test_the_invariants_see_what_no_cluster_can_do(damage: str) -> None:
    small = res(cpu=1)
    cluster, _ = shared(
        job("a", 0.0, 100.0, res(cpu=5)), job("b", 1.0, 50.0, res(cpu=3)), capacities=(NODE, small)
    )
    cluster.advance(0.0)
    machine = cluster.machine
    assert isinstance(machine, SharedMachine)
    match damage:
        case "capacity":
            machine.nodes.give_back(0, 1)
            machine.nodes.take(0, 1, machine.nodes.amounts(res(cpu=1)), 100.0)
            words = "holds"
        case "allocation":
            machine.capacities = (res(cpu=7, mem=100, gpu=4), small)
            words = "jobs hold"
        case "size":
            next(iter(machine.live.values())).nodes = 0b11
            words = "on other nodes than 1"
        case "down":
            machine.down = 0b1
            words = "on other nodes than 1 that are up"
        case _:
            machine.nodes.idle = 0
            words = "neither used nor free"
    with pytest.raises(InvariantViolated, match=words):
        cluster.advance(2.0)
