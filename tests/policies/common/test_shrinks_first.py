"""Several urgent jobs of one decision, and a job that shrinks for the first of them."""

from dataclasses import replace

import pytest

from makeway.policies.common.commitments import SHRINK_S
from makeway.policies.contract import Policy
from makeway.policies.eviction.policy import EVICTION, EvictionConfig
from makeway.policies.hybrid.arrival import HybridConfig
from makeway.policies.hybrid.policy import N_SPAA
from makeway.policies.least_price.policy import LEAST_PRICE
from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.policies.model import Cluster, Decision, JobKind, Progress, Reason, Shrink, Task
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.scheduler import SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.run.replay import Replay, ReplaySettings
from makeway.simharness.workloads.job import SimJob
from tests.policies.arriving import NOW_S, Build, BuildCluster, victims
from tests.policies.common.operations import operation

POLICIES = [
    (EVICTION, EvictionConfig(shrink=True)),
    (LEAST_PRICE, LeastPriceConfig()),
    (N_SPAA, HybridConfig()),
]
LENDER = "m"


@pytest.fixture(params=POLICIES, ids=lambda pair: pair[0].name)
def policy(request: pytest.FixtureRequest) -> tuple[Policy[object], object]:
    found: tuple[Policy[object], object] = request.param
    return found


@pytest.fixture
def two(running: Build, waiting: Build, cluster_of: BuildCluster) -> Cluster:
    """A malleable job could give four nodes up, and each of two urgent jobs needs two."""
    lender = running(LENDER, "n0 n1 n2 n3 n4 n5", kind=JobKind.MALLEABLE, node_count_min=2)
    urgents = [waiting(name, 2, submit_s=NOW_S) for name in ("u", "v")]
    return cluster_of(8, lender, running("r", "n6 n7"), *urgents)


def shrunk(decision: Decision) -> list[tuple[str, str]]:
    return [(one.job_id, one.for_job_id) for one in decision.actions if isinstance(one, Shrink)]


def test_no_job_leaves_before_the_lender_has_shrunk(
    policy: tuple[Policy[object], object], two: Cluster
) -> None:
    decision = policy[0].decide(two, policy[1])
    assert (shrunk(decision), victims(decision)) == ([(LENDER, "u")], [])
    assert decision.again_s == NOW_S + 1.0
    assert {action.for_job_id for action in decision.actions} == {"u"}
    assert decision.rationale[1].summary == (
        "2 more nodes are needed. Job m shrinks for another urgent job first: then it is asked again."
    )


@pytest.mark.parametrize(
    ("issued_s", "left_s", "waits"),
    [
        (NOW_S - SHRINK_S, 300.0, True),
        (NOW_S - SHRINK_S - 1.0, 300.0, False),
        (NOW_S, SHRINK_S, True),
        (NOW_S, SHRINK_S - 1.0, False),
    ],
)
def test_a_command_that_was_sent_is_waited_for_in_time(
    policy: tuple[Policy[object], object], two: Cluster, issued_s: float, left_s: float, waits: bool
) -> None:
    shrink = Shrink(
        job_id=LENDER,
        for_job_id="u",
        policy="test",
        reason=Reason.URGENT_ARRIVAL,
        keep_nodes=("n2", "n3", "n4", "n5"),
        walltime_s=9000.0,
    )
    task = Task(action=shrink, progress=Progress.ACCEPTED, issued_s=issued_s)
    operations = (replace(operation("u", "n0 n1"), tasks=(task,)),)
    jobs = tuple(replace(job, start_within_s=left_s) if job.job_id == "v" else job for job in two.jobs)
    decision = policy[0].decide(replace(two, jobs=jobs, operations=operations), policy[1])
    assert any("then it is asked again" in why.summary for why in decision.rationale) is waits


def test_both_urgent_jobs_start_at_once(policy: tuple[Policy[object], object]) -> None:
    def urgent(name: str) -> SimJob:
        return SimJob(name, 1000.0, 500.0, 600.0, 2, kind=JobKind.ON_DEMAND)

    lender = SimJob(LENDER, 0.0, 4000.0, 8000.0, 6, kind=JobKind.MALLEABLE, node_count_min=2, save_s=120.0)
    jobs = [lender, SimJob("r", 0.0, 4000.0, 8000.0, 4), urgent("u"), urgent("v")]
    cluster = SimCluster(10, jobs, scheduler=SchedulerSettings(), storage=StorageSettings(), check=True)
    record = Replay(cluster, policy[0], policy[1], ReplaySettings()).run()
    found = {one.job.job_id: one for one in record.jobs}
    assert [found[name].start_s for name in ("u", "v")] == [1000.0, 1000.0]
    assert (found[LENDER].shrinks, found["r"].evictions) == (2, 0)
    assert sum(one.lost_node_s for one in record.jobs) == 0.0
