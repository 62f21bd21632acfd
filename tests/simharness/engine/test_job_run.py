"""The arithmetic of one job's work, against a job that is lived second by second."""

from dataclasses import dataclass

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from makeway.policies.model import JobKind
from makeway.policies.safety.prices import loss_node_s
from makeway.simharness.engine.adapter import SimAdapter
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.records import JobRecord
from makeway.simharness.engine.scheduler import SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.workloads.job import SimJob
from tests import acts

NODES = 3
DELAY_S = 4


@dataclass(frozen=True)
class Life:
    """One job, and what is done to it: (second, whether it is requeued, else signalled)."""

    setup: int
    work: int
    interval: int | None
    cost: int
    save: int
    blows: tuple[tuple[int, bool], ...]

    def job(self) -> SimJob:
        checkpoints = 0 if self.interval is None else -(-self.work // self.interval) - 1
        runtime_s = float(self.setup + self.work + checkpoints * self.cost)
        return SimJob(
            job_id="j",
            submit_s=0.0,
            runtime_s=runtime_s,
            walltime_s=runtime_s + 1000.0,
            node_count=NODES,
            setup_s=float(self.setup),
            checkpoint_interval_s=None if self.interval is None else float(self.interval),
            checkpoint_cost_s=float(self.cost),
            save_s=float(self.save),
        )


class Lived:
    """The same job, one second after the other."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.safe = self.lost = self.overhead = self.runs = 0
        self.foreseen = 0
        self.begin()

    def begin(self) -> None:
        self.work = self.safe
        self.since_checkpoint = 0
        self.setup_left = self.life.setup
        self.regular_left = 0
        self.written = self.in_vain = 0
        """Seconds of the present regular checkpoint, and those before a requested one was complete."""
        self.overhead_since = 0
        self.save_left: int | None = None
        self.last_checkpoint: int | None = None

    def blow(self, requeue: bool) -> None:
        if requeue:
            lost = self.work - self.safe + self.written - self.in_vain
            self.foreseen += lost + self.overhead_since
            self.lost += lost
            self.overhead += self.in_vain + self.life.setup - self.setup_left
            self.runs += 1
        elif self.save_left is None:
            self.save_left = self.life.save

    def settle(self, now: int) -> None:
        """What takes no time."""
        if self.save_left == 0:
            self.save_left = None
            self.safe, self.last_checkpoint = self.work, now
            self.overhead_since, self.in_vain = 0, self.written
        if self.save_left is None and self.since_checkpoint == self.life.interval and self.regular_left == 0:
            self.since_checkpoint = 0
            self.safe, self.last_checkpoint = self.work, now
            self.overhead_since = self.written = self.in_vain = 0

    def second(self) -> None:
        if self.save_left is not None:
            self.save_left -= 1
            self.overhead += 1
            self.overhead_since += 1
        elif self.setup_left:
            self.setup_left -= 1
            self.overhead_since += 1
        elif self.regular_left:
            self.regular_left -= 1
            self.written += 1
        else:
            self.work += 1
            self.since_checkpoint += 1
            if self.since_checkpoint == self.life.interval and self.work < self.life.work:
                self.regular_left = self.life.cost

    def live(self) -> tuple[int, dict[int, int | None]]:
        """When it ends, and what its last checkpoint is known to be at each second at which it runs."""
        now, free_at = 0, 0
        seen: dict[int, int | None] = {}
        while True:
            running = now >= free_at
            if running and self.work < self.life.work:
                self.settle(now)
            if self.work == self.life.work and self.save_left is None:
                return now, seen
            if running:
                seen[now] = self.last_checkpoint
                for _, requeue in [blow for blow in self.life.blows if blow[0] == now]:
                    self.blow(requeue)
                    if requeue:
                        free_at = now + DELAY_S
                        self.begin()
                        break
            if now >= free_at:
                self.settle(now)
                self.second()
            now += 1


lives = st.builds(
    Life,
    setup=st.integers(0, 4),
    work=st.integers(1, 25),
    interval=st.one_of(st.none(), st.integers(1, 8)),
    cost=st.integers(0, 3),
    save=st.integers(1, 5),
    blows=st.lists(st.tuples(st.integers(1, 50), st.booleans()), max_size=6).map(
        lambda blows: tuple(sorted(dict(blows).items()))
    ),
)


def simulated(life: Life) -> tuple[JobRecord, dict[int, float | None], int]:
    """What becomes of the job in the simulator, its last checkpoint at each second at which it runs, and what
    a policy expects its requeues to lose, in node-seconds.
    """
    cluster = SimCluster(
        NODES,
        [life.job()],
        scheduler=SchedulerSettings(),
        storage=StorageSettings(),
        requeue_delay_s=float(DELAY_S),
        check=True,
    )
    adapter = SimAdapter(cluster)
    blows = dict(life.blows)
    seen: dict[int, float | None] = {}
    now = foreseen_node_s = 0
    while True:
        cluster.advance(float(now))
        jobs = adapter.snapshot().jobs
        if not jobs:
            return cluster.record(policy="none").jobs[0], seen, foreseen_node_s
        if jobs[0].nodes:
            seen[now] = jobs[0].last_checkpoint_s
            match blows.get(now):
                case True:
                    foreseen_node_s += loss_node_s(jobs[0], now)
                    adapter.apply(acts.requeue("j"))
                case False:
                    adapter.apply(acts.checkpoint("j", signal="USR1", walltime_s=0.0))
                case None:
                    pass
        now += 1


# A requested checkpoint is complete in the middle of a regular one, and the job leaves in that.
@example(life=Life(setup=0, work=20, interval=2, cost=3, save=1, blows=((3, False), (5, True))))
@given(life=lives)
@settings(deadline=None, max_examples=400)
def test_a_life_of_evictions_and_checkpoints(life: Life) -> None:
    lived = Lived(life)
    end, expected = lived.live()
    record, seen, foreseen_node_s = simulated(life)
    assert record.end_s == end
    assert seen == expected
    assert record.lost_node_s == pytest.approx(lived.lost * NODES)
    assert record.overhead_node_s == pytest.approx(lived.overhead * NODES)
    assert record.evictions == lived.runs
    # A policy also counts the setup and the requested checkpoints since then, which are overhead here.
    assert foreseen_node_s == lived.foreseen * NODES


@given(
    runtime_s=st.floats(1.0, 1e6),
    setup=st.floats(0.0, 0.9),
    interval_s=st.floats(0.5, 1e6),
    cost_s=st.floats(0.0, 1e4),
)
@settings(deadline=None)
def test_whoever_is_left_alone_takes_exactly_its_runtime(
    runtime_s: float, setup: float, interval_s: float, cost_s: float
) -> None:
    """Also where the runtime is no sum of setup, intervals and checkpoints."""
    job = SimJob(
        "j", 7.0, runtime_s, runtime_s, 1, setup_s=setup * runtime_s, checkpoint_interval_s=interval_s
    )
    job.checkpoint_cost_s = cost_s
    cluster = SimCluster(1, [job], scheduler=SchedulerSettings(), storage=StorageSettings(), check=True)
    assert end_s(cluster) == 7.0 + runtime_s


def malleable(**changes: object) -> SimJob:
    job = SimJob("m", 0.0, 110.0, 200.0, 4, kind=JobKind.MALLEABLE, node_count_min=1, setup_s=10.0)
    for name, value in changes.items():
        setattr(job, name, value)
    return job


def start(job: SimJob) -> tuple[SimCluster, SimAdapter]:
    cluster = SimCluster(
        4, [job], scheduler=SchedulerSettings(), storage=StorageSettings(), requeue_delay_s=0.0, check=True
    )
    cluster.advance(0.0)
    return cluster, SimAdapter(cluster)


def end_s(cluster: SimCluster) -> float | None:
    cluster.run()
    return cluster.record(policy="none").jobs[0].end_s


def test_a_malleable_job_is_as_slow_as_its_nodes_are_few() -> None:
    """400 node-seconds of work: 4 x 40 s, then 1 x 100 s, then 2 x 70 s."""
    cluster, adapter = start(malleable())
    nodes = adapter.snapshot().jobs[0].nodes
    cluster.advance(50.0)
    adapter.apply(acts.shrink("m", keep_nodes=nodes[:1], walltime_s=1000.0))
    cluster.advance(150.0)
    adapter.apply(acts.expand("m", nodes=nodes[2:3], reservation=None))
    assert end_s(cluster) == pytest.approx(220.0)
    record = cluster.record(policy="none").jobs[0]
    assert (record.shrinks, record.lost_node_s, record.overhead_node_s) == (1, 0.0, 0.0)


def test_setup_does_not_depend_on_the_nodes() -> None:
    cluster, adapter = start(malleable())
    nodes = adapter.snapshot().jobs[0].nodes
    cluster.advance(5.0)
    adapter.apply(acts.shrink("m", keep_nodes=nodes[:2], walltime_s=1000.0))
    assert end_s(cluster) == pytest.approx(10.0 + 400.0 / 2)


def test_a_shrunk_job_that_is_requeued_has_its_full_size_again() -> None:
    """Saved at 30 s: 4 x 20 node-seconds. Then 2 nodes for 40 s more, all of that lost."""
    cluster, adapter = start(malleable(save_s=5.0))
    nodes = adapter.snapshot().jobs[0].nodes
    cluster.advance(30.0)
    adapter.apply(acts.checkpoint("m", signal="USR1", walltime_s=0.0))
    cluster.advance(35.0)
    adapter.apply(acts.shrink("m", keep_nodes=nodes[:2], walltime_s=300.0))
    cluster.advance(75.0)
    adapter.apply(acts.requeue("m"))
    cluster.advance(75.0)
    job = adapter.snapshot().jobs[0]
    assert (job.node_count, job.walltime_s) == (4, 200.0)
    assert end_s(cluster) == pytest.approx(75.0 + 10.0 + 320.0 / 4)
    record = cluster.record(policy="none").jobs[0]
    assert record.lost_node_s == pytest.approx(80.0)
    assert record.overhead_node_s == pytest.approx(5.0 * 4 + 10.0 * 4)


def test_a_shrink_in_the_middle_of_a_checkpoint_loses_neither() -> None:
    cluster, adapter = start(malleable(save_s=20.0))
    nodes = adapter.snapshot().jobs[0].nodes
    cluster.advance(30.0)
    adapter.apply(acts.checkpoint("m", signal="USR1", walltime_s=0.0))
    cluster.advance(40.0)
    adapter.apply(acts.shrink("m", keep_nodes=nodes[:2], walltime_s=1000.0))
    cluster.advance(50.0)
    assert adapter.snapshot().jobs[0].last_checkpoint_s == 50.0
    assert end_s(cluster) == pytest.approx(50.0 + 320.0 / 2)
    assert cluster.record(policy="none").jobs[0].overhead_node_s == pytest.approx(10.0 * 4 + 10.0 * 2)


def test_a_job_at_its_time_limit_is_ended_and_its_work_lost() -> None:
    cluster, adapter = start(malleable())
    nodes = adapter.snapshot().jobs[0].nodes
    cluster.advance(10.0)
    adapter.apply(acts.shrink("m", keep_nodes=nodes[:1], walltime_s=0.0))
    assert end_s(cluster) is None
    assert cluster.now_s == 200.0
    assert cluster.record(policy="none").jobs[0].lost_node_s == pytest.approx(190.0)
