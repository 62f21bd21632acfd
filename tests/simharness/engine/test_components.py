"""Heterogeneous jobs of the simulated cluster: their components start at one instant or not at all."""

from dataclasses import replace

from makeway.policies.model import JobKind, JobState, Resources
from makeway.simharness.engine.adapter import SimAdapter
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.scheduler import SchedulerSettings
from makeway.simharness.engine.shared.nodes import SharingSettings
from makeway.simharness.swarm.happenings import lose_holds
from makeway.simharness.workloads.job import SimJob
from tests import acts
from tests.simharness.engine.commanded import STORAGE, job, seen, starts, world


def component(offset: int, submit_s: float, node_count: int) -> SimJob:
    return replace(job(f"u+{offset}", submit_s, 50.0, node_count), het_job_id="u", kind=JobKind.ON_DEMAND)


def test_components_start_together_when_there_are_nodes_for_all() -> None:
    cluster, adapter = world(
        4, job("a", 0.0, 100.0, 2), job("b", 0.0, 200.0, 1), component(0, 5.0, 1), component(1, 5.0, 2)
    )
    cluster.advance(10.0)
    assert seen(adapter, "u+0").het_job_id == "u"
    assert starts(cluster) == {"a": 0.0, "b": 0.0, "u+0": 100.0, "u+1": 100.0}


def test_a_component_in_its_hold_waits_for_the_others() -> None:
    """The hold of the first one is free at once, that of the second when its job has left."""
    cluster, adapter = world(
        3, job("a", 0.0, 100.0, 1), job("b", 0.0, 500.0, 1), component(0, 5.0, 1), component(1, 5.0, 1)
    )
    cluster.advance(10.0)
    adapter.apply(acts.reserve("mw_u+0", nodes=("n3",), duration_s=300.0, job_id="u+0"))
    adapter.apply(acts.reserve("mw_u+1", nodes=("n1",), duration_s=300.0, job_id="u+1"))
    cluster.advance(50.0)
    assert seen(adapter, "u+0").state is JobState.PENDING
    found = starts(cluster)
    assert (found["u+0"], found["u+1"]) == (100.0, 100.0)


def test_a_component_that_is_not_eligible_keeps_the_others_waiting() -> None:
    cluster, _ = world(4, component(0, 5.0, 1), component(1, 5.0, 1))
    cluster.admission.hold("u+1")
    cluster.advance(10.0)
    cluster.call_at(60.0, lambda: cluster.admission.release("u+1"))
    assert starts(cluster) == {"u+0": 60.0, "u+1": 60.0}


def test_components_that_share_nodes_with_others_start_on_different_nodes() -> None:
    half = Resources.of({"cpu": 4})
    jobs = [replace(component(offset, 5.0, 1), demand=half) for offset in range(2)]
    whole = Resources.of({"cpu": 8})
    cluster = SimCluster(
        2,
        jobs,
        scheduler=SchedulerSettings(),
        storage=STORAGE,
        check=True,
        sharing=SharingSettings(capacities=(whole, whole)),
    )
    adapter = SimAdapter(cluster)
    cluster.advance(10.0)
    assert {seen(adapter, f"u+{offset}").nodes for offset in range(2)} == {("n1",), ("n2",)}


def test_a_component_that_is_freed_from_a_lost_hold_waits_for_the_others() -> None:
    cluster, adapter = world(2, job("a", 0.0, 30.0, 2), component(0, 5.0, 1), component(1, 5.0, 1))
    cluster.admission.hold("u+1")
    cluster.machine.taken_clock = lambda: cluster.now_s
    cluster.advance(10.0)
    adapter.apply(acts.reserve("mw_u+0", nodes=("n1",), duration_s=300.0, job_id="u+0"))
    cluster.advance(20.0)
    assert lose_holds(cluster.machine, 5.0, lambda _: True)
    adapter.apply(acts.release("mw_u+0", job_id="u+0", lost=True))
    cluster.call_at(60.0, lambda: cluster.admission.release("u+1"))
    assert starts(cluster) == {"a": 0.0, "u+0": 60.0, "u+1": 60.0}
