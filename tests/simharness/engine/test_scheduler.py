"""The base scheduler against an independent one, against published figures, and against its own promises."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.policies.model import JobKind
from makeway.policies.queue.profile import Profile
from makeway.simharness.engine.adapter import SimAdapter
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.job_run import JobRun
from makeway.simharness.engine.records import JobRecord
from makeway.simharness.engine.scheduler import Backfill, Order, Scheduler, SchedulerSettings, shadow
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.workloads.job import SimJob
from makeway.simharness.workloads.trace import read_trace
from tests import acts
from tests.simharness.engine.brute_force import Ask, Span, earliest_s, in_use, start_times

KTH = "KTH-SP2-1996-2.1-cln.swf.gz"
MOST_JOBS = 10_000
"""Of a trace whose figures are not known. With all of KTH's jobs the tests of the reference figures check the
invariants.
"""
SCHEDULERS = [(order, backfill) for order in Order for backfill in Backfill]


def simulated(
    node_count: int, asks: list[Ask], order: Order, backfill: Backfill, *, check: bool = True
) -> list[float | None]:
    """When the simulator starts each job."""
    jobs = [
        SimJob(str(number), ask.submit_s, ask.runtime_s, ask.walltime_s, ask.size)
        for number, ask in enumerate(asks)
    ]
    cluster = SimCluster(
        node_count,
        jobs,
        scheduler=SchedulerSettings(order=order, backfill=backfill),
        storage=StorageSettings(),
        check=check,
    )
    cluster.run()
    record = cluster.record(policy="none")
    assert [job.end_s for job in record.jobs] == [
        None if job.start_s is None else job.start_s + job.job.runtime_s for job in record.jobs
    ]
    return [job.start_s for job in record.jobs]


def test_by_wfp_another_job_may_be_the_first_of_the_queue_a_second_later() -> None:
    scheduler = Scheduler(SchedulerSettings(order=Order.WFP))
    asked = (SimJob("long", 0.0, 1000.0, 1000.0, 1), SimJob("short", 10.0, 10.0, 10.0, 2))
    assert scheduler.first(10.0) is None
    runs = [JobRun(index, job, JobRecord(job)) for index, job in enumerate(asked)]
    for run in runs:
        scheduler.add(run)
    assert [scheduler.first(now_s) for now_s in (10.0, 11.0)] == runs


@st.composite
def workloads(draw: st.DrawFn) -> tuple[int, list[Ask]]:
    """A machine of up to 6 nodes, and up to 12 jobs whose times are whole seconds, so that instants
    coincide.
    """
    node_count = draw(st.integers(1, 6))
    span = draw(st.sampled_from([0, 8, 25]))
    ask = st.builds(
        lambda submit, run, spare, size: Ask(float(submit), float(run), float(run + spare), size),
        st.integers(0, span),
        st.integers(1, 10),
        st.sampled_from([0, 0, 1, 3, 20]),
        st.integers(1, node_count),
    )
    return node_count, draw(st.lists(ask, min_size=1, max_size=12))


@pytest.mark.parametrize(("order", "backfill"), SCHEDULERS)
@given(workload=workloads())
@settings(deadline=None, max_examples=200)
def test_every_start_is_the_brute_force_one(
    order: Order, backfill: Backfill, workload: tuple[int, list[Ask]]
) -> None:
    node_count, asks = workload
    expected = start_times(node_count, asks, order=order.value, backfill=backfill.value)
    assert simulated(node_count, asks, order, backfill) == expected


@pytest.mark.parametrize(("order", "backfill"), SCHEDULERS)
def test_every_start_is_the_brute_force_one_on_500_crowded_machines(order: Order, backfill: Backfill) -> None:
    for seed in range(500):
        random = Random(seed)
        node_count = random.randint(2, 8)
        asks = []
        for _ in range(random.randint(6, 16)):
            runtime_s = random.randint(1, 12)
            limit_s = runtime_s + random.choice((0, 0, random.randint(1, 10)))
            submit_s = random.randint(0, 20)
            asks.append(Ask(float(submit_s), float(runtime_s), float(limit_s), random.randint(1, node_count)))
        expected = start_times(node_count, asks, order=order.value, backfill=backfill.value)
        assert simulated(node_count, asks, order, backfill, check=False) == expected, f"seed {seed}"


@given(
    node_count=st.integers(1, 8),
    running=st.lists(st.tuples(st.integers(1, 12), st.integers(1, 3)), max_size=5),
    asked=st.lists(st.tuples(st.integers(1, 8), st.integers(1, 9)), min_size=1, max_size=6),
)
@settings(deadline=None, max_examples=300)
def test_profile_places_jobs_where_brute_force_does(
    node_count: int, running: list[tuple[int, int]], asked: list[tuple[int, int]]
) -> None:
    spans: list[Span] = []
    for end, size in running:
        if in_use(spans, 0.0) + size <= node_count:
            spans.append(Span(0.0, float(end), size))
    releases = sorted((span.end_s, number, span.size) for number, span in enumerate(spans))
    profile = Profile(0.0, node_count - in_use(spans, 0.0), releases)
    for size, length in asked:
        expected_s = earliest_s(0.0, spans, node_count, size, float(length))
        assert profile.place(size, float(length)) == expected_s
        if expected_s < float("inf"):
            spans.append(Span(expected_s, expected_s + length, size))


def test_shadow_counts_all_that_ends_at_its_instant() -> None:
    releases = [(10.0, 0, 2), (20.0, 1, 3), (20.0, 2, 1), (30.0, 3, 5)]
    assert shadow(releases, 4, 1) == (20.0, 3)
    assert shadow(releases, 3, 1) == (10.0, 0)


def test_shadow_of_a_job_that_can_never_start_is_infinite() -> None:
    assert shadow([(10.0, 0, 2)], 4, 1)[0] == float("inf")


class Stub:
    """A machine of four nodes of which three are busy until 10 s."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.started: list[str] = []

    def available(self) -> int:
        return 1 - len(self.started)

    def releases(self) -> list[tuple[float, int, int]]:
        return [(10.0, -1, 3)]

    def start(self, live: JobRun, node_count: int) -> None:
        assert node_count == live.size
        self.started.append(live.job.job_id)


def queued(index: int, runtime_s: float, size: int, rank: int = 0) -> JobRun:
    job = SimJob(f"{index}", 0.0, runtime_s, runtime_s, size)
    live = JobRun(index, job, JobRecord(job))
    live.rank = rank
    return live


@pytest.mark.parametrize("removed", [False, True])
def test_a_change_in_the_middle_of_the_queue_has_everything_looked_at_again(removed: bool) -> None:
    """The long job may not delay the wide one; it may once that is gone, and so may any job before
    that.
    """
    wide, long = queued(0, 5.0, 4), queued(1, 50.0, 1)
    machine = Stub()
    scheduler = Scheduler(SchedulerSettings())
    scheduler.add(wide)
    scheduler.add(long)
    scheduler.run_pass(machine)
    assert machine.started == []
    if removed:
        scheduler.remove(wide)
    else:
        scheduler.add(queued(2, 50.0, 1, rank=-1))
    scheduler.run_pass(machine)
    assert machine.started == (["1"] if removed else ["2"])


def malleable(
    job_id: str, submit_s: float, work_s: float, smallest: int, size: int, setup_s: float = 0.0
) -> SimJob:
    """A job that takes its setup and `work_s` on `size` nodes, in a limit of twice that."""
    run_s = setup_s + work_s
    return SimJob(
        job_id,
        submit_s,
        run_s,
        2 * run_s,
        size,
        kind=JobKind.MALLEABLE,
        node_count_min=smallest,
        setup_s=setup_s,
        save_s=0.0,
    )


def spans(
    jobs: list[SimJob], backfill: Backfill = Backfill.EASY, *, start_smaller: bool = True
) -> dict[str, tuple[float, float, int]]:
    """For each job on eight nodes: start, end and number of nodes."""
    cluster = SimCluster(
        8,
        jobs,
        scheduler=SchedulerSettings(backfill=backfill, start_smaller=start_smaller),
        storage=StorageSettings(),
        check=True,
    )
    cluster.run()
    record = cluster.record(policy="none")
    return {
        record.jobs[one.job].job.job_id: (one.start_s, one.end_s, one.nodes.bit_count())
        for one in record.segments
    }


@pytest.mark.parametrize("backfill", [Backfill.NONE, Backfill.EASY, Backfill.EASY_CQSIM])
def test_the_first_of_the_queue_starts_with_what_is_free(backfill: Backfill) -> None:
    jobs = [SimJob("a", 0.0, 100.0, 100.0, 5), malleable("m", 1.0, 60.0, 2, 6, setup_s=10.0)]
    assert spans(jobs, backfill)["m"] == (1.0, 1.0 + 10.0 + 120.0, 3)
    assert spans(jobs, backfill, start_smaller=False)["m"] == (100.0, 170.0, 6)
    too_few = [SimJob("a", 0.0, 100.0, 100.0, 7), jobs[1]]
    assert spans(too_few, backfill)["m"] == (100.0, 170.0, 6)


@pytest.mark.parametrize(
    ("work_s", "limit_ends_s", "nodes"),
    [(30.0, 62.0, 4), (40.0, 82.0, 4), (50.0, 102.0, 2)],
    ids=["in time", "just in time", "too long for more than the first one leaves"],
)
def test_a_backfilled_job_takes_as_much_as_delays_nobody(
    work_s: float, limit_ends_s: float, nodes: int
) -> None:
    """The wide one is due at 82 s, and leaves two nodes."""
    jobs = [
        SimJob("a", 0.0, 82.0, 82.0, 4),
        SimJob("wide", 1.0, 10.0, 10.0, 6),
        malleable("m", 2.0, work_s, 1, 4),
    ]
    assert 2.0 + 2 * work_s == limit_ends_s
    told = spans(jobs)
    assert told["m"] == (2.0, 2.0 + work_s * 4 / nodes, nodes)
    assert told["wide"][0] == 82.0


def test_the_limit_grows_as_the_size_falls_and_a_requeue_restores_both() -> None:
    jobs = [SimJob("a", 0.0, 100.0, 100.0, 5), malleable("m", 1.0, 60.0, 2, 8)]
    cluster = SimCluster(
        8,
        jobs,
        scheduler=SchedulerSettings(start_smaller=True),
        storage=StorageSettings(),
        requeue_delay_s=200.0,
        check=True,
    )
    adapter = SimAdapter(cluster)
    cluster.advance(31.0)
    running = adapter.snapshot().jobs_by_id()["m"]
    assert (running.node_count, running.node_count_max, running.walltime_s) == (3, 8, 320.0)
    adapter.apply(acts.checkpoint("m", signal="USR1", walltime_s=0.0))
    cluster.advance(31.0)
    adapter.apply(acts.requeue("m"))
    waiting = adapter.snapshot().jobs_by_id()["m"]
    assert (waiting.node_count, waiting.walltime_s) == (8, 120.0)
    cluster.run()
    [job] = [one for one in cluster.record(policy="none").jobs if one.job.job_id == "m"]
    assert job.end_s == pytest.approx(231.0 + 60.0 - 30.0 * 3 / 8)


def test_conservative_backfill_wants_jobs_of_one_size() -> None:
    with pytest.raises(ValueError, match="start_smaller: there is no conservative backfill"):
        SchedulerSettings(backfill=Backfill.CONSERVATIVE, start_smaller=True)


def figures(
    path: Path, order: Order, backfill: Backfill, *, check: bool = False, first: int | None = None
) -> tuple[float, float]:
    """Mean wait in seconds, and mean bounded slowdown with a bound of 10 s, of a trace or its first jobs."""
    trace = read_trace(path)
    asks = [Ask(job.submit_s, job.runtime_s, job.walltime_s, job.node_count) for job in trace.jobs[:first]]
    waits_s = []
    slowdowns = []
    starts = simulated(trace.node_count, asks, order, backfill, check=check)
    for ask, start_s in zip(asks, starts, strict=True):
        assert start_s is not None
        bounded_s = max(ask.runtime_s, 10.0)
        waits_s.append(start_s - ask.submit_s)
        slowdowns.append((start_s - ask.submit_s + bounded_s) / bounded_s)
    return sum(waits_s) / len(asks), sum(slowdowns) / len(asks)


@pytest.mark.shared
def test_kth_easy_has_the_reference_figures(shared_traces: Path) -> None:
    wait_s, slowdown = figures(shared_traces / KTH, Order.FCFS, Backfill.EASY, check=True)
    assert wait_s == pytest.approx(6_858.4, abs=0.05)
    assert slowdown == pytest.approx(90.86, abs=0.01)


@pytest.mark.shared
def test_kth_fcfs_has_the_reference_figure(shared_traces: Path) -> None:
    wait_s, _ = figures(shared_traces / KTH, Order.FCFS, Backfill.NONE, check=True)
    assert wait_s == pytest.approx(390_091.99, abs=0.005)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "order", "backfill"),
    [
        (KTH, Order.FCFS, Backfill.CONSERVATIVE),
        (KTH, Order.WFP, Backfill.EASY),
        ("CTC-SP2-1996-3.1-cln.swf.gz", Order.FCFS, Backfill.EASY),
    ],
)
def test_real_traces_keep_the_invariants(
    shared_traces: Path, name: str, order: Order, backfill: Backfill
) -> None:
    wait_s, slowdown = figures(shared_traces / name, order, backfill, check=True, first=MOST_JOBS)
    assert wait_s > 0
    assert slowdown > 1
