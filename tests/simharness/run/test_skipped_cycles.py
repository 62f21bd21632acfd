"""What a replay leaves out changes nothing: next to the same replay that leaves nothing out."""

import pytest

from makeway.daemon.operation import transitions
from makeway.policies.model import Operation
from makeway.policies.registry import find
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.records import ReplayRecord
from makeway.simharness.engine.scheduler import SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.run.replay import Replay, ReplaySettings
from makeway.simharness.workloads.sample import sample_workload

POLICIES = ("eviction", "least-price", "n-spaa", "cua-spaa", "cup-spaa")


class EagerReplay(Replay):
    """Runs a cycle for every change as long as an operation is open that has not lent its nodes."""

    def _is_idle(self, operations: tuple[Operation, ...]) -> bool:
        del operations
        return False


def replayed(policy: str, seed: int, kind: type[Replay] = Replay) -> tuple[ReplayRecord, int]:
    """The record, and how many cycles were run."""
    node_count, jobs = sample_workload(seed)
    cycles: list[float] = []
    cluster = SimCluster(
        node_count,
        jobs,
        scheduler=SchedulerSettings(),
        storage=StorageSettings(aggregate_gb_s=20.0, node_gb_s=2.0),
    )
    found = find(policy)
    told = kind(
        cluster,
        found,
        found.config_type(),
        ReplaySettings(),
        on_cycle=lambda report: cycles.append(report.at_s),
    )
    return told.run(), len(cycles)


def same(one: ReplayRecord, other: ReplayRecord) -> bool:
    """Whether the same was done at the same instants, and decided as often."""
    return (one.jobs, one.segments, one.marks, one.commands, len(one.decision_s)) == (
        other.jobs,
        other.segments,
        other.marks,
        other.commands,
        len(other.decision_s),
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_cycles_that_are_skipped_would_have_changed_nothing(policy: str) -> None:
    fewer = 0
    for seed in range(3):
        lazy, lazy_count = replayed(policy, seed)
        eager, eager_count = replayed(policy, seed, EagerReplay)
        assert same(lazy, eager)
        fewer += eager_count - lazy_count
    assert fewer > 0


@pytest.mark.parametrize("policy", POLICIES)
def test_an_operation_that_only_awaits_the_end_of_its_job_need_not_be_looked_at(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick, _ = replayed(policy, 1)
    monkeypatch.setattr(transitions, "only_awaits_end", lambda operation: False)
    whole, _ = replayed(policy, 1)
    assert same(quick, whole)
