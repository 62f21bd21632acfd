"""The daemon's loop on the virtual clock: what a replay as a whole must do."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from makeway.daemon.config.mode import Mode
from makeway.daemon.control.report import CycleReport
from makeway.daemon.operation import transitions
from makeway.policies.contract import Policy
from makeway.policies.model import JobKind, Limits, Operation
from makeway.policies.registry import POLICIES, find
from makeway.simharness.engine.adapter import SimAdapter
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.event_queue import NodeFailure
from makeway.simharness.engine.records import MarkKind, ReplayRecord
from makeway.simharness.engine.scheduler import Backfill, SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.run.replay import UNPRICED, Replay, ReplaySettings
from makeway.simharness.workloads.job import SimJob
from makeway.simharness.workloads.sample import sample_workload

ACTIVE = sorted(name for name, policy in POLICIES.items() if policy.active)
PUNCTUAL = [name for name in ACTIVE if POLICIES[name].arrivals_only and name != "wcjs"]
"""The policies that have an urgent job on time if they can; P1's goes by slowdowns, and spares larger jobs.
"""


def cluster(jobs: list[SimJob], node_count: int = 8, failures: tuple[NodeFailure, ...] = ()) -> SimCluster:
    return SimCluster(
        node_count,
        jobs,
        scheduler=SchedulerSettings(backfill=Backfill.EASY),
        storage=StorageSettings(aggregate_gb_s=20.0, node_gb_s=2.0),
        failures=failures,
        check=True,
    )


class EagerReplay(Replay):
    """Runs a cycle for every change as long as an operation is open that has not lent its nodes."""

    def _is_idle(self, operations: tuple[Operation, ...]) -> bool:
        del operations
        return False


class PollingReplay(Replay):
    """Runs a cycle at every poll."""

    def _cycles(self) -> None:
        super()._cycles()
        if self.cluster.next_event_s() is not None:
            next_s = self._quantised(self.cluster.now_s, after=True)
            self._due_s = next_s if self._due_s is None else min(self._due_s, next_s)


def replay(
    on: SimCluster,
    policy: str = "eviction",
    settings: ReplaySettings | None = None,
    kind: type[Replay] = Replay,
) -> tuple[ReplayRecord, SimAdapter, list[CycleReport]]:
    adapter = SimAdapter(on)
    chosen = find(policy)
    reports: list[CycleReport] = []
    told = kind(
        on,
        chosen,
        settings_of(chosen),
        settings or ReplaySettings(),
        adapter=adapter,
        on_cycle=reports.append,
    )
    record = told.run()
    assert told.journal.open_operations() == ()
    assert on.machine.holds == {}
    return record, adapter, reports


@cache
def on_the_sample(policy: str, seed: int) -> ReplayRecord:
    """A replay of the sample, once for all the tests that look at it."""
    node_count, jobs = sample_workload(seed)
    return replay(cluster(jobs, node_count), policy)[0]


def settings_of(policy: Policy[Any]) -> Any:
    """The policy's defaults; one that plans does so with little effort."""
    return policy.config_type(**({"work": 0.05} if policy.planner else {}))


def batch(job_id: str, node_count: int, submit_s: float = 0.0, runtime_s: float = 9000.0) -> SimJob:
    return SimJob(job_id, submit_s, runtime_s, runtime_s, node_count, user="batch")


def urgent(job_id: str, node_count: int, submit_s: float, runtime_s: float = 600.0) -> SimJob:
    return SimJob(job_id, submit_s, runtime_s, runtime_s, node_count, user="beam", kind=JobKind.ON_DEMAND)


def starts(record: ReplayRecord) -> list[tuple[str, float | None, float | None]]:
    return [(done.job.job_id, done.start_s, done.end_s) for done in record.jobs]


@pytest.mark.parametrize("policy", ACTIVE)
def test_observe_mode_changes_nothing_at_all(policy: str) -> None:
    node_count, jobs = sample_workload(3)
    observed, adapter, reports = replay(cluster(jobs, node_count), policy, ReplaySettings(mode=Mode.OBSERVE))

    assert adapter.calls == []
    assert starts(observed) == starts(on_the_sample("none", 3))
    assert any(report.actions for report in reports)


@pytest.mark.parametrize("policy", ACTIVE)
def test_two_replays_are_alike(policy: str) -> None:
    node_count, jobs = sample_workload(1)
    first = on_the_sample(policy, 1)
    second, _, _ = replay(cluster(jobs, node_count), policy)

    assert first.segments == second.segments
    assert first.marks == second.marks
    assert first.commands == second.commands


@pytest.mark.parametrize("policy", PUNCTUAL)
@pytest.mark.parametrize("seed", [1, 5, 9])
def test_on_the_sample_every_urgent_job_starts_in_time(policy: str, seed: int) -> None:
    def late(record: ReplayRecord) -> int:
        return sum(
            1
            for done in record.jobs
            if done.job.kind is JobKind.ON_DEMAND
            and (done.start_s is None or done.start_s > done.job.submit_s + 600.0)
        )

    assert late(on_the_sample("none", seed)) >= 10
    assert late(on_the_sample(policy, seed)) <= 1


@pytest.mark.parametrize("seed", [1, 5, 9])
def test_on_the_sample_wcjs_lowers_what_urgent_jobs_wait(seed: int) -> None:
    def wait_s(policy: str) -> float:
        waits = [
            (done.start_s or 0.0) - done.job.submit_s
            for done in on_the_sample(policy, seed).jobs
            if done.job.kind is JobKind.ON_DEMAND
        ]
        return sum(waits) / len(waits)

    assert wait_s("wcjs") < 0.75 * wait_s("none")


def test_a_poke_starts_a_cycle_at_once_and_a_poll_waits() -> None:
    jobs = [batch("1", 8), urgent("u", 4, 1003.0)]
    poked, _, _ = replay(cluster(jobs), settings=ReplaySettings(poll_interval_s=30.0))
    polled, _, reports = replay(cluster(jobs), settings=ReplaySettings(poll_interval_s=30.0, poke=False))

    assert poked.jobs[1].start_s == 1003.0
    assert polled.jobs[1].start_s == 1020.0
    assert all(report.at_s % 30.0 == 0.0 for report in reports)


def test_cycles_in_which_nothing_can_have_changed_are_skipped() -> None:
    jobs = [batch("1", 4, runtime_s=1e6), urgent("u", 4, 1000.0, runtime_s=5e5)]
    _, _, reports = replay(cluster(jobs))

    assert len(reports) < 20


def test_no_cycle_is_run_for_an_urgent_job_that_starts_at_once() -> None:
    jobs = [batch("1", 4, runtime_s=1e4), *(urgent(f"u{i}", 1, 1000.0 * i) for i in range(1, 9))]
    _, _, reports = replay(cluster(jobs))

    assert reports == []


def test_an_announcement_concerns_only_a_policy_that_holds_nodes_for_it() -> None:
    announced = replace(urgent("u", 4, 5000.0), announced_s=1000.0, expected_s=5000.0)
    jobs = [batch("1", 4, runtime_s=1e4), announced]

    assert replay(cluster(jobs))[2] == []
    assert replay(cluster(jobs), "cua-spaa")[2][0].at_s == 1020.0


def test_a_poke_shows_what_the_next_poll_would_have_shown() -> None:
    """An urgent job that starts at once needs nothing, but the lender gets its nodes back so much sooner."""
    borrower = urgent("u", 4, 1000.0, runtime_s=603.0)
    other = urgent("v", 1, 1610.0)
    jobs = [replace(batch("1", 8), save_s=0.0), borrower]
    _, _, alone = replay(cluster(jobs))
    _, _, poked = replay(cluster([*jobs, other]))

    end_s = next(report.at_s for report in alone if report.at_s > 1100.0)
    assert end_s % 30.0 == 0.0
    assert next(report.at_s for report in poked if report.at_s > 1100.0) == 1610.0 < end_s


def same(one: ReplayRecord, other: ReplayRecord) -> bool:
    """Whether the same was done at the same instants, and decided as often."""
    return (one.jobs, one.segments, one.marks, one.commands, len(one.decision_s)) == (
        other.jobs,
        other.segments,
        other.marks,
        other.commands,
        len(other.decision_s),
    )


@pytest.mark.parametrize("policy", ["eviction", "least-price", "n-spaa", "cua-spaa", "cup-spaa"])
def test_cycles_that_are_skipped_would_have_changed_nothing(policy: str) -> None:
    fewer = 0
    for seed in range(3):
        node_count, jobs = sample_workload(seed)
        lazy, _, lazy_reports = replay(cluster(jobs, node_count), policy)
        eager, _, eager_reports = replay(cluster(jobs, node_count), policy, kind=EagerReplay)
        assert same(lazy, eager)
        fewer += len(eager_reports) - len(lazy_reports)
    assert fewer > 0


@pytest.mark.parametrize("policy", ["eviction", "least-price", "cup-spaa"])
def test_with_limits_a_replay_does_what_one_does_that_looks_at_every_poll(policy: str) -> None:
    limits = Limits(min_runtime_s=300.0, evictions_per_hour=2, max_loss_node_hours_per_day=60.0)
    settings = ReplaySettings(limits=limits)
    node_count, jobs = sample_workload(1)
    jobs = jobs[: len(jobs) // 2]
    record, _, reports = replay(cluster(jobs, node_count), policy, settings)
    polled, _, polls = replay(cluster(jobs, node_count), policy, settings, PollingReplay)
    assert same(record, polled)
    assert len(reports) < len(polls)


def test_a_job_that_its_progress_protects_leaves_at_the_first_poll_at_which_it_may() -> None:
    """No event tells that it has run for long enough."""
    jobs = [replace(batch("1", 8), save_s=0.0), urgent("u", 8, 1000.0), urgent("v", 8, 1700.0)]
    limits = replace(UNPRICED, min_progress_s=300.0)
    record, _, _ = replay(cluster(jobs), settings=ReplaySettings(limits=limits))

    assert record.jobs[1].end_s == 1600.0
    back_s = next(one.start_s for one in record.segments if one.job == 0 and one.start_s > 1000.0)
    assert record.jobs[2].start_s == pytest.approx(back_s + 300.0, abs=30.0)


@pytest.mark.parametrize("policy", ["n-spaa", "cua-spaa"])
def test_a_job_leaves_at_the_first_poll_at_which_its_checkpoint_has_made_it_cheap_enough(policy: str) -> None:
    """No event tells that it has saved its work."""
    saves = replace(batch("1", 8), checkpoint_interval_s=3600.0, checkpoint_cost_s=60.0, save_s=0.0)
    limits = replace(UNPRICED, max_loss_node_hours=4.0, max_loss_machine_share=0.0)
    on = cluster([replace(saves, runtime_s=30_000.0, walltime_s=60_000.0), urgent("u", 8, 3500.0)])
    record, _, _ = replay(on, policy, ReplaySettings(limits=limits))
    assert record.jobs[1].start_s == 3660.0


@pytest.mark.parametrize(
    ("policy", "limits"),
    [
        ("cua-spaa", {"max_nodes": 16}),
        ("cua-spaa", {"max_loss_node_hours": 3.0}),
        ("n-spaa", {"evictions_per_hour": 1}),
        ("n-spaa", {"max_loss_node_hours_per_day": 20.0}),
        ("n-spaa", {"max_loss_node_hours_per_user_per_day": 5.0}),
        ("n-spaa", {"max_loss_node_hours_per_account_per_day": 5.0}),
    ],
    ids=str,
)
def test_each_limit_alone_is_awaited(policy: str, limits: dict[str, Any]) -> None:
    settings = ReplaySettings(limits=replace(UNPRICED, **limits))
    node_count, jobs = sample_workload(0)
    jobs = jobs[: len(jobs) // 3]
    record, _, _ = replay(cluster(jobs, node_count), policy, settings)
    polled, _, _ = replay(cluster(jobs, node_count), policy, settings, PollingReplay)
    assert same(record, polled)


def test_with_limits_a_replay_ends_although_an_urgent_job_waits_for_ever() -> None:
    on = cluster([urgent("u", 8, 100.0)])
    on.drain(0)
    record, _, _ = replay(on, settings=ReplaySettings(limits=Limits()))
    assert record.jobs[0].start_s is None


def test_a_job_leaves_for_an_announced_one_at_the_first_poll_at_which_it_may() -> None:
    jobs = [
        replace(batch("1", 8), checkpoint_interval_s=600.0, checkpoint_cost_s=20.0),
        replace(urgent("u", 8, 3000.0), announced_s=100.0, expected_s=3000.0),
    ]
    limits = replace(UNPRICED, min_runtime_s=1000.0)
    record, _, _ = replay(cluster(jobs), "cup-spaa", ReplaySettings(limits=limits))
    assert 1000.0 < next(one.end_s for one in record.segments if one.job == 0) < 3000.0
    assert record.jobs[1].start_s == 3000.0


@pytest.mark.parametrize("policy", ["eviction", "cup-spaa"])
def test_an_operation_that_only_awaits_the_end_of_its_job_need_not_be_looked_at(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = on_the_sample(policy, 1)

    def never(operation: Operation) -> bool:
        del operation
        return False

    monkeypatch.setattr(transitions, "only_awaits_end", never)
    node_count, jobs = sample_workload(1)
    assert same(quick, replay(cluster(jobs, node_count), policy)[0])


def test_the_lender_resumes_when_the_borrower_ends() -> None:
    jobs = [replace(batch("1", 8), save_s=60.0), urgent("u", 4, 1000.0), batch("2", 8, 500.0)]
    record, _, _ = replay(cluster(jobs))
    marks = [(mark.kind, record.jobs[mark.job].job.job_id) for mark in record.marks if mark.job is not None]

    assert (MarkKind.RETURNED, "1") in marks
    returned_s = next(mark.at_s for mark in record.marks if mark.kind is MarkKind.RETURNED)
    assert returned_s < 1660.0 + 30.0 + 1.0  # the urgent job's end, and one poll
    second = next(done for done in record.jobs if done.job.job_id == "2")
    first = next(done for done in record.jobs if done.job.job_id == "1")
    assert first.end_s is not None
    assert second.start_s is not None
    assert second.start_s >= first.end_s
    assert first.lost_node_s == 0.0


def test_a_node_that_fails_while_room_is_made_is_replaced() -> None:
    jobs = [
        replace(batch("1", 4), save_s=300.0),
        replace(batch("2", 4), save_s=300.0),
        urgent("u", 4, 1000.0),
    ]
    failed = NodeFailure(at_s=1100.0, node=0, repair_s=50_000.0)
    record, _, _ = replay(cluster(jobs, failures=(failed,)))

    start_s = record.jobs[2].start_s
    assert start_s is not None
    assert start_s <= 1600.0


def test_two_urgent_jobs_at_one_instant_share_nothing() -> None:
    jobs = [batch("1", 4), batch("2", 4), urgent("u", 4, 1000.0), urgent("w", 4, 1000.0)]
    record, _, _ = replay(cluster(jobs))

    assert [record.jobs[index].start_s for index in (2, 3)] == [1000.0, 1000.0]


def test_an_urgent_job_that_nobody_can_make_room_for_goes_first_and_waits() -> None:
    jobs = [
        SimJob("1", 0.0, 5000.0, 5000.0, 8, user="beam", kind=JobKind.ON_DEMAND),
        batch("2", 8, 500.0),
        urgent("u", 8, 1000.0),
    ]
    record, adapter, _ = replay(cluster(jobs))

    assert [call.verb for call in adapter.calls] == ["prioritise"]
    assert record.jobs[2].start_s == 5000.0


def test_a_job_without_a_checkpoint_is_spared_for_one_that_has_one() -> None:
    jobs = [batch("1", 4), replace(batch("2", 4), save_s=60.0), urgent("u", 4, 4000.0)]
    record, adapter, _ = replay(cluster(jobs))

    assert {call.action.job_id for call in adapter.calls if call.verb == "requeue"} == {"2"}
    assert record.jobs[2].start_s == 4060.0
    assert sum(done.lost_node_s for done in record.jobs) == 0.0


def test_the_time_that_a_job_spends_on_our_checkpoint_is_not_its_own() -> None:
    # Job 2 ends while job 1 saves: the urgent job takes its nodes, and job 1, signalled for nothing, runs on.
    jobs = [
        replace(batch("1", 4, runtime_s=2000.0), save_s=300.0),
        SimJob("2", 0.0, 1100.0, 9000.0, 4, user="batch"),
        urgent("u", 4, 1000.0),
    ]
    record, adapter, _ = replay(cluster(jobs))

    assert "checkpoint" in {call.verb for call in adapter.calls}
    assert all(done.end_s is not None for done in record.jobs)


@pytest.mark.parametrize("policy", ACTIVE)
def test_every_stored_decision_can_be_taken_again(policy: str) -> None:
    node_count, jobs = sample_workload(5)
    chosen = find(policy)
    config = settings_of(chosen)
    told = Replay(cluster(jobs, node_count), chosen, config, ReplaySettings(keep_snapshots=True))
    told.run()
    stored = [told.journal.decision(found.decision_id) for found in told.journal.decisions(1000)]

    assert len(stored) >= 5
    for found in stored:
        assert found is not None
        assert found.cluster is not None
        assert chosen.decide(found.cluster, config) == found.decision
