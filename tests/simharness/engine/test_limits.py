"""The time limit of a malleable job grows by what shrinks cost it, however often it is shrunk."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.policies.common.requests import Request
from makeway.policies.common.shrinking import shrink
from makeway.policies.common.urgent_jobs import UrgentJob
from makeway.policies.model import Job, JobKind, JobState
from makeway.simharness.engine.adapter import SimAdapter
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.scheduler import SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.workloads.job import SimJob
from tests import acts

NODES = 8
LIMIT_S = 2000.0
URGENT = UrgentJob(
    job=Job(
        job_id="u",
        kind=JobKind.ON_DEMAND,
        state=JobState.PENDING,
        node_count=1,
        walltime_s=60.0,
        submit_s=0.0,
        user="ada",
    )
)


@dataclass(frozen=True)
class Blow:
    """What happens to the job, so long after what happened before."""

    after_s: float
    verb: str
    amount: int


blows = st.lists(
    st.builds(
        Blow,
        after_s=st.integers(1, 60).map(float),
        verb=st.sampled_from(("shrink", "shrink", "expand", "expand", "checkpoint")),
        amount=st.integers(1, NODES),
    ),
    max_size=16,
)


class Lender:
    """A malleable job that needs exactly its time limit, and what its limit should be.

    Args:
        kept: whether what is taken is kept with the job, as on Slurm.
    """

    def __init__(self, *, kept: bool) -> None:
        job = SimJob("m", 0.0, LIMIT_S, LIMIT_S, NODES, kind=JobKind.MALLEABLE, node_count_min=1, save_s=10.0)
        self.cluster = SimCluster(
            NODES, [job], scheduler=SchedulerSettings(), storage=StorageSettings(), check=True
        )
        if kept:
            self.cluster.machine.taken_clock = lambda: self.cluster.now_s
        self.adapter = SimAdapter(self.cluster)
        self.cluster.advance(0.0)
        self.fair_s = LIMIT_S
        self.raised_s = 0.0

    @property
    def job(self) -> Job:
        return self.adapter.snapshot().jobs[0]

    def wait(self, after_s: float) -> None:
        missing = 1.0 - self.job.node_count / NODES
        self.cluster.advance(self.cluster.now_s + after_s)
        self.fair_s += after_s * missing

    def shrink(self, size: int) -> None:
        """As a policy does it that has to take nodes."""
        job, cluster = self.job, self.adapter.snapshot()
        if size >= job.node_count:
            return
        request = Request(
            cluster=cluster,
            urgent=URGENT,
            policy="test",
            deadline_s=cluster.now_s,
            duration_s=60.0,
            ends_s=60.0,
            free=(),
            releasing=(),
            releasing_s=cluster.now_s,
            unusable=frozenset(),
            excluded=frozenset(),
        )
        self.adapter.apply(shrink(request, job, frozenset(job.nodes[size:])))

    def grow(self, size: int) -> None:
        job = self.job
        others = [f"n{number}" for number in range(1, NODES + 1) if f"n{number}" not in job.nodes]
        self.adapter.apply(
            acts.expand("m", nodes=tuple(others[: max(0, size - job.node_count)]), reservation=None)
        )

    def checkpoint(self) -> None:
        raised_s = self.job.walltime_s + 20.0
        self.adapter.apply(acts.checkpoint("m", signal="USR1", walltime_s=raised_s))
        self.fair_s += 20.0
        self.raised_s += 20.0

    def strike(self, blow: Blow) -> None:
        self.wait(blow.after_s)
        match blow.verb:
            case "shrink":
                self.shrink(blow.amount)
            case "expand":
                self.grow(blow.amount)
            case _:
                self.checkpoint()

    def right_s(self) -> float:
        """The limit that is right for its present size, by P5's linear estimates."""
        run_s = self.cluster.now_s
        return run_s + (self.fair_s - run_s) * NODES / self.job.node_count


@given(todo=blows)
@settings(deadline=None, max_examples=300)
def test_a_limit_is_never_longer_than_what_shrinks_cost_and_never_too_short(todo: list[Blow]) -> None:
    """In a replay. A shrink rounds up to a second, and scales what was rounded before."""
    lender = Lender(kept=False)
    for blow in todo:
        lender.strike(blow)
        assert lender.job.walltime_s <= lender.right_s() + NODES * NODES + lender.raised_s
    lender.grow(NODES)
    assert lender.job.walltime_s == pytest.approx(lender.fair_s)
    lender.cluster.run()
    assert lender.cluster.record(policy="none").jobs[0].end_s is not None


@given(todo=blows)
@settings(deadline=None, max_examples=300)
def test_what_is_kept_with_a_job_is_its_fair_limit(todo: list[Blow]) -> None:
    """As on Slurm: the limit itself stays until the job has all its nodes, and no shrink builds on it."""
    lender = Lender(kept=True)
    most_s = LIMIT_S
    for blow in todo:
        lender.strike(blow)
        most_s = max(most_s, lender.right_s())
        assert lender.job.walltime_s <= most_s + NODES + lender.raised_s
        taken = lender.job.taken
        if taken is not None and taken.lost_nodes is not None:
            fair_s = taken.lost_nodes.fair_walltime_s(lender.cluster.now_s)
            assert fair_s == pytest.approx(lender.fair_s)
    lender.cluster.run()
    assert lender.cluster.record(policy="none").jobs[0].end_s is not None


@pytest.mark.parametrize("kept", [False, True])
def test_eight_shrinks_cost_what_they_cost(kept: bool) -> None:
    lender = Lender(kept=kept)
    for _ in range(8):
        lender.wait(100.0)
        lender.shrink(2)
        lender.wait(20.0)
        lender.grow(7)
    assert lender.job.walltime_s <= 8000.0
    lender.grow(NODES)
    assert lender.fair_s == LIMIT_S + 8 * 20.0 * 0.75 + 7 * 100.0 * 0.125
    if not kept:
        assert lender.job.walltime_s == pytest.approx(lender.fair_s)


@pytest.mark.parametrize("kept", [False, True])
def test_the_next_run_of_a_shrunk_job_is_not_longer(kept: bool) -> None:
    """On Slurm the limit comes back with the turn; a replay gives it back at once."""
    lender = Lender(kept=kept)
    lender.wait(100.0)
    lender.checkpoint()
    lender.wait(100.0)
    lender.shrink(2)
    lender.adapter.apply(acts.requeue("m"))
    if kept:
        assert lender.job.walltime_s > 3 * LIMIT_S
        lender.adapter.apply(acts.prioritise("m"))
    assert lender.job.walltime_s == LIMIT_S + (0.0 if kept else 20.0)


def test_a_limit_below_what_has_elapsed_is_not_set() -> None:
    lender = Lender(kept=False)
    lender.wait(LIMIT_S - 10.0)
    lender.shrink(1)
    lender.wait(60.0)
    lender.grow(4)
    assert lender.job.walltime_s == pytest.approx(lender.right_s())
    assert lender.job.walltime_s > lender.cluster.now_s


def test_a_job_that_has_its_nodes_back_lets_no_other_job_overtake_the_head_of_the_queue() -> None:
    """EASY foretells the start of the head by the limits of the jobs that run.

    On the sample, a limit of 15 hours that had grown to 16 days once let a job of 52 nodes overtake.
    """
    workload = [
        SimJob("m", 0.0, 800.0, 1000.0, 4, kind=JobKind.MALLEABLE, node_count_min=1),
        SimJob("head", 0.0, 100.0, 100.0, NODES),
        SimJob("behind", 300.0, 1500.0, 1500.0, 4),
    ]
    cluster = SimCluster(
        NODES, workload, scheduler=SchedulerSettings(), storage=StorageSettings(), check=True
    )
    adapter = SimAdapter(cluster)
    cluster.advance(100.0)
    nodes = adapter.snapshot().jobs_by_id()["m"].nodes
    adapter.apply(acts.shrink("m", keep_nodes=nodes[:1], walltime_s=100.0 + 900.0 * 4))
    cluster.advance(200.0)
    adapter.apply(acts.expand("m", nodes=nodes[1:], reservation=None))
    assert adapter.snapshot().jobs_by_id()["m"].walltime_s == pytest.approx(1075.0)
    cluster.run()
    started = {entry.job.job_id: entry.start_s for entry in cluster.record(policy="none").jobs}
    assert started == {"m": 0.0, "head": pytest.approx(875.0), "behind": pytest.approx(975.0)}
