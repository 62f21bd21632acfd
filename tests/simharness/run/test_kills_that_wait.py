"""Kills that wait, on small random machines with shared nodes: the whole loop, once with kills that wait and
once with kills at once, on the same future.
"""

from dataclasses import replace
from typing import Any

from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from makeway.policies.contract import Policy
from makeway.policies.eviction.policy import EVICTION, EvictionConfig
from makeway.policies.least_price.policy import LEAST_PRICE
from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.policies.model import CPU, GPU, Cluster, Decision, JobKind, Limits, Requeue, Resources
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.records import JobRecord, ReplayRecord
from makeway.simharness.engine.scheduler import SchedulerSettings
from makeway.simharness.engine.shared.nodes import SharingSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.run.replay import UNPRICED, Replay, ReplaySettings
from makeway.simharness.workloads.job import SimJob

NODE = Resources.of({CPU: 8, GPU: 2})
ARRIVAL_S = 900.0
WITHIN_S = 300.0
CONFIG = EvictionConfig(start_within_s=WITHIN_S, margin_s=5.0, leave_s=5.0, step_s=5.0)
LEAST = LeastPriceConfig(start_within_s=WITHIN_S, margin_s=5.0, leave_s=5.0, step_s=5.0)
POLL_S = 1.0
SPARSE_POLL_S = 5.0
"""Under limits, each poll makes a new decision, which takes time."""

DEMANDS = st.builds(
    lambda cpus, gpus: Resources.of({CPU: cpus, GPU: gpus}),
    st.sampled_from([2, 4, 4, 8]),
    st.sampled_from([0, 0, 0, 1, 2]),
)


@st.composite
def batch_jobs(draw: st.DrawFn, index: int) -> SimJob:
    """A job that is there when the urgent job comes, or comes later; some save their work, some may not be
    evicted.
    """
    runtime_s = float(draw(st.integers(950, 1300) | st.integers(60, 3000)))
    saves = draw(st.integers(0, 3)) == 0
    interval_s = draw(st.sampled_from([120.0, 400.0])) if saves else None
    return SimJob(
        f"b{index}",
        float(draw(st.sampled_from([0, 0, 0, 0, 300, 800, 950, 1100]))),
        runtime_s,
        runtime_s * draw(st.sampled_from([1.0, 1.2, 3.0])),
        draw(st.sampled_from([1, 1, 1, 2])),
        checkpoint_interval_s=interval_s,
        checkpoint_cost_s=5.0 if interval_s else 0.0,
        save_s=draw(st.sampled_from([5.0, 60.0])) if saves else None,
        demand=draw(DEMANDS),
        preemptible=draw(st.integers(0, 4)) > 0,
    )


@st.composite
def futures(draw: st.DrawFn) -> list[SimJob]:
    jobs = [draw(batch_jobs(index)) for index in range(draw(st.integers(5, 12)))]
    urgent = SimJob(
        "u",
        ARRIVAL_S,
        200.0,
        400.0,
        draw(st.integers(1, 2)),
        kind=JobKind.ON_DEMAND,
        demand=draw(st.none() | DEMANDS),
    )
    return [*jobs, urgent]


def played(
    jobs: list[SimJob],
    config: EvictionConfig | LeastPriceConfig,
    policy: Policy[Any] = EVICTION,
    limits: Limits = UNPRICED,
    poll_s: float = POLL_S,
) -> ReplayRecord:
    sharing = SharingSettings(capacities=(NODE,) * 3)
    cluster = SimCluster(
        3,
        jobs,
        scheduler=SchedulerSettings(),
        storage=StorageSettings(),
        requeue_delay_s=10.0,
        check=True,
        sharing=sharing,
    )
    return Replay(cluster, policy, config, ReplaySettings(poll_interval_s=poll_s, limits=limits)).run()


def urgent_of(record: ReplayRecord) -> JobRecord:
    return next(one for one in record.jobs if one.job.job_id == "u")


def on_time(record: ReplayRecord) -> bool:
    start_s = urgent_of(record).start_s
    return start_s is not None and start_s <= ARRIVAL_S + WITHIN_S


def lost_node_s(record: ReplayRecord) -> float:
    return sum(one.lost_node_s for one in record.jobs)


def cpus(count: int) -> Resources:
    return Resources.of({CPU: count})


def saving(job: SimJob) -> SimJob:
    """The job, if it saves its work now and then, and within 5 s when it is told to."""
    return replace(job, checkpoint_interval_s=120.0, checkpoint_cost_s=5.0, save_s=5.0)


A_LONG_WAIT = [
    SimJob("b0", 300.0, 950.0, 950.0, 1, demand=cpus(2)),
    SimJob("b1", 950.0, 950.0, 950.0, 1, demand=cpus(2), preemptible=False),
    SimJob("b2", 950.0, 950.0, 950.0, 1, demand=cpus(2), preemptible=False),
    SimJob("b3", 0.0, 1201.0, 1201.0, 1, demand=cpus(8), preemptible=False),
    saving(SimJob("b4", 0.0, 950.0, 950.0, 1, demand=cpus(2))),
    SimJob("u", ARRIVAL_S, 200.0, 400.0, 2, kind=JobKind.ON_DEMAND),
]
"""The hold lacks room for longer than a hold may that lost its nodes."""

DEARER_THE_LATER = [
    SimJob("b0", 0.0, 950.0, 950.0, 1, demand=cpus(2), preemptible=False),
    SimJob("b1", 300.0, 950.0, 950.0, 1, demand=cpus(2), preemptible=False),
    SimJob("b2", 300.0, 950.0, 950.0, 1, demand=cpus(4), preemptible=False),
    SimJob("b3", 300.0, 950.0, 950.0, 1, demand=cpus(8)),
    replace(saving(SimJob("b4", 0.0, 950.0, 950.0, 1, demand=cpus(2))), preemptible=False),
    SimJob("u", ARRIVAL_S, 200.0, 400.0, 1, kind=JobKind.ON_DEMAND),
]
"""Killed at once, the fourth job loses 600 node-seconds; at the last moment too many for a limit of 700."""

NO_CHOICE_AT_ONCE = [
    *(
        SimJob(
            f"b{index}",
            300.0 if index == 2 else 0.0,
            241.0 if index == 3 else 950.0,
            241.0 if index == 3 else 950.0,
            2 if index == 9 else 1,
            demand=cpus(4 if index in {1, 3, 4, 11} else 2),
            preemptible=index == 9,
        )
        for index in range(12)
    ),
    SimJob("u", ARRIVAL_S, 200.0, 400.0, 1, kind=JobKind.ON_DEMAND),
]
"""No node comes free by kills when the urgent job comes, and one does when jobs end."""

AN_END_AFTER_A_CHECKPOINT = [
    SimJob("b0", 0.0, 950.0, 950.0, 1, demand=cpus(4), preemptible=False),
    SimJob("b1", 800.0, 950.0, 950.0, 1, demand=cpus(2)),
    SimJob("b2", 800.0, 950.0, 950.0, 1, demand=cpus(2)),
    SimJob("b3", 0.0, 1131.0, 1131.0, 1, demand=cpus(2), preemptible=False),
    SimJob(
        "b4",
        300.0,
        950.0,
        950.0,
        1,
        checkpoint_interval_s=400.0,
        checkpoint_cost_s=5.0,
        save_s=60.0,
        demand=cpus(2),
    ),
    SimJob("u", ARRIVAL_S, 200.0, 400.0, 2, kind=JobKind.ON_DEMAND),
]
"""The checkpoint of b4 would have to begin 1 s before b3 ends on the same node."""

A_CHOICE_ONLY_LATER = [
    SimJob("b0", 0.0, 950.0, 950.0, 1, demand=cpus(2), preemptible=False),
    SimJob("b1", 300.0, 950.0, 950.0, 1, demand=cpus(2), preemptible=False),
    saving(SimJob("b2", 0.0, 950.0, 950.0, 1, demand=cpus(2), preemptible=False)),
    SimJob("b3", 0.0, 951.0, 951.0, 1, demand=cpus(2), preemptible=False),
    SimJob("b4", 0.0, 992.0, 1190.4, 1, demand=cpus(4), preemptible=False),
    SimJob("b5", 0.0, 241.0, 241.0, 1, demand=cpus(2), preemptible=False),
    saving(SimJob("b6", 0.0, 993.0, 993.0, 1, demand=cpus(8))),
    SimJob("b7", 0.0, 950.0, 950.0, 1, demand=cpus(2), preemptible=False),
    saving(SimJob("b8", 0.0, 950.0, 950.0, 1, demand=cpus(2), preemptible=False)),
    SimJob("b9", 0.0, 950.0, 950.0, 1, demand=cpus(2)),
    SimJob("u", ARRIVAL_S, 200.0, 400.0, 2, kind=JobKind.ON_DEMAND),
]
"""Kills at once find room only when b4 ends sooner than planned, on a node that b1 has if another is held."""

A_NEIGHBOUR_STAYS = [
    SimJob("b0", 300.0, 950.0, 950.0, 1, demand=cpus(8), preemptible=False),
    SimJob("b1", 800.0, 950.0, 950.0, 2, demand=cpus(2)),
    SimJob("b2", 0.0, 995.0, 995.0, 1, demand=cpus(2), preemptible=False),
    SimJob("b4", 800.0, 950.0, 950.0, 1, demand=cpus(8), preemptible=False),
    SimJob("u", ARRIVAL_S, 200.0, 400.0, 1, kind=JobKind.ON_DEMAND),
]
"""The node on which b2 ends is not free then: b1 is on it, too, and on another one."""


@settings(deadline=None, max_examples=150)
@example(jobs=A_LONG_WAIT)
@example(jobs=NO_CHOICE_AT_ONCE)
@example(jobs=AN_END_AFTER_A_CHECKPOINT)
@example(jobs=A_CHOICE_ONLY_LATER)
@example(jobs=A_NEIGHBOUR_STAYS)
@given(jobs=futures())
def test_waiting_is_on_time_and_loses_little_if_nothing_comes_of_it(jobs: list[SimJob]) -> None:
    """On time whenever kills at once are. Then more is lost at most by the growth that the policy allows, and
    by what the jobs work from a decision to its poll. Where no job is told to leave when the urgent job
    comes, because no choice makes room yet or jobs end in time, nothing says how much may be lost.
    """
    first: list[Decision] = []

    def noting(cluster: Cluster, config: EvictionConfig) -> Decision:
        first.append(EVICTION.decide(cluster, config))
        return first[-1]

    noted = replace(EVICTION, decide=noting)
    at_once, late = played(jobs, replace(CONFIG, kills="at_once"), noted), played(jobs, CONFIG)
    if not on_time(at_once):
        event("on time only by waiting" if on_time(late) else "not on time")
        return
    assert on_time(late)
    if not any(isinstance(action, Requeue) for decision in first[:1] for action in decision.actions):
        event("no job leaves at once")
        return
    assert lost_node_s(late) <= 2 * lost_node_s(at_once) + 3 * 2 * POLL_S
    event("less is lost" if lost_node_s(late) < lost_node_s(at_once) else "as much or more is lost")


@settings(deadline=None, max_examples=100)
@example(jobs=A_LONG_WAIT)
@example(jobs=AN_END_AFTER_A_CHECKPOINT)
@given(jobs=futures())
def test_with_least_price_an_urgent_job_is_on_time_whenever_kills_at_once_are(jobs: list[SimJob]) -> None:
    """It may lose more work than they do: a long checkpoint can cost more than the work that it saves."""
    at_once = played(jobs, replace(CONFIG, kills="at_once"))
    late = played(jobs, LEAST, LEAST_PRICE)
    if on_time(at_once):
        assert on_time(late)


@settings(deadline=None, max_examples=60)
@example(jobs=DEARER_THE_LATER, limit_node_s=700.0)
@given(jobs=futures(), limit_node_s=st.sampled_from([200.0, 400.0, 700.0, 900.0, 1000.0, 1100.0, 1300.0]))
def test_no_limit_refuses_in_the_end_what_it_allowed_at_once(jobs: list[SimJob], limit_node_s: float) -> None:
    limits = replace(UNPRICED, max_loss_node_hours=limit_node_s / 3600.0, max_loss_machine_share=0.0)
    if not on_time(played(jobs, replace(CONFIG, kills="at_once"), limits=limits, poll_s=SPARSE_POLL_S)):
        event("not on time")
        return
    assert on_time(played(jobs, CONFIG, limits=limits, poll_s=SPARSE_POLL_S))
    assert on_time(played(jobs, LEAST, LEAST_PRICE, limits=limits, poll_s=SPARSE_POLL_S))


@settings(deadline=None, max_examples=40)
@given(jobs=futures())
def test_without_time_to_wait_nothing_changes(jobs: list[SimJob]) -> None:
    hurried = replace(CONFIG, start_within_s=9.0)
    at_once, late = played(jobs, replace(hurried, kills="at_once")), played(jobs, hurried)
    assert late.segments == at_once.segments
    assert late.commands == at_once.commands
