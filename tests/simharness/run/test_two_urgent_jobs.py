"""Urgent jobs that come shortly after one another: their victims write to one file system, and no job loses
work that the decisions did not mean to lose.
"""

import gzip
import random
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from makeway.daemon.control.report import CycleReport
from makeway.daemon.journal.store import Journal
from makeway.policies.eviction.policy import EvictionConfig
from makeway.policies.least_price.policy import LEAST_PRICE
from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.policies.model import JobKind
from makeway.policies.registry import find
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.records import ReplayRecord
from makeway.simharness.engine.scheduler import Backfill, SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.run.experiment import Experiment, storage_of
from makeway.simharness.run.loading import load_workload
from makeway.simharness.run.replay import Replay, ReplaySettings
from makeway.simharness.workloads.job import SimJob

STORAGE = StorageSettings(aggregate_gb_s=16.0, node_gb_s=2.0)
"""Eight nodes fill it."""
FIRST_S = 20_000.0


def batch(job_id: str, alone_s: float, node_count: int = 8) -> SimJob:
    """A job whose checkpoint takes `alone_s` if no other is written."""
    job = SimJob(job_id, 0.0, 80_000.0, 90_000.0, node_count, user="batch")
    return replace(job, system_gb_per_node=alone_s * STORAGE.node_gb_s)


def urgent(job_id: str, submit_s: float, node_count: int = 8) -> SimJob:
    return SimJob(job_id, submit_s, 600.0, 900.0, node_count, user="beam", kind=JobKind.ON_DEMAND)


Model = Literal["serial", "concurrent"]
MODELS: tuple[Model, ...] = ("serial", "concurrent")


def played(
    *jobs: SimJob, node_count: int = 16, checkpoints: Model = "serial"
) -> tuple[ReplayRecord, float, float]:
    """What happened, the node-hours that the decisions meant to lose, and those lost beyond them."""
    reports: list[CycleReport] = []
    policy = find("eviction")
    journal = Journal(None)
    replay = Replay(
        SimCluster(
            node_count,
            jobs,
            scheduler=SchedulerSettings(backfill=Backfill.EASY),
            storage=STORAGE,
            check=True,
        ),
        policy,
        EvictionConfig(checkpoints=checkpoints, aggregate_gb_s=16.0, node_gb_s=2.0),
        ReplaySettings(),
        journal=journal,
        on_cycle=reports.append,
    )
    record = replay.run()
    decided_node_s = sum(report.lost_node_s for report in reports)
    beyond_node_s = sum(
        max(0.0, loss.lost.node_s - loss.run.expected.node_s) for _, loss in journal.losses(float("-inf"))
    )
    return record, decided_node_s / 3600.0, beyond_node_s / 3600.0


def delays_s(record: ReplayRecord) -> list[float]:
    """How long each urgent job waited, in the order of submission."""
    found = sorted((done for done in record.jobs if done.job.job_id[0] == "u"), key=lambda d: d.job.submit_s)
    assert all(done.start_s is not None for done in found)
    return [(done.start_s or 0.0) - done.job.submit_s for done in found]


def evictions(record: ReplayRecord) -> int:
    return sum(done.evictions for done in record.jobs)


@pytest.mark.parametrize("checkpoints", MODELS)
def test_two_urgent_jobs_five_seconds_apart(checkpoints: Model) -> None:
    """Either job could save alone in 400 s; both together take 800 s, and the deadline is after 600 s."""
    jobs = (batch("b1", 400.0), batch("b2", 400.0), urgent("u1", FIRST_S), urgent("u2", FIRST_S + 5.0))
    record, decided, beyond = played(*jobs, checkpoints=checkpoints)
    assert beyond == 0.0
    assert decided == pytest.approx(8 * (FIRST_S + 5.0) / 3600.0), "the second is told what it costs"
    assert max(delays_s(record)) <= EvictionConfig().start_within_s


def test_two_urgent_jobs_in_one_decision() -> None:
    jobs = (batch("b1", 400.0), batch("b2", 400.0), urgent("u1", FIRST_S), urgent("u2", FIRST_S))
    record, decided, beyond = played(*jobs)
    assert beyond == 0.0
    assert decided == pytest.approx(8 * FIRST_S / 3600.0)
    assert max(delays_s(record)) <= EvictionConfig().start_within_s


def test_checkpoints_that_fit_together_are_written_together() -> None:
    jobs = (batch("b1", 200.0), batch("b2", 200.0), urgent("u1", FIRST_S), urgent("u2", FIRST_S + 5.0))
    record, decided, beyond = played(*jobs)
    assert (decided, beyond, evictions(record)) == (0.0, 0.0, 2)
    assert delays_s(record) == pytest.approx([395.0, 395.0]), "both share, and neither waits for the other"


def test_a_checkpoint_that_would_delay_an_earlier_one_too_much_begins_after_it() -> None:
    """The first needs 400 s of its 570 s. After 300 s the second, of 450 s, would make it late."""
    jobs = (batch("b1", 400.0), batch("b2", 450.0), urgent("u1", FIRST_S), urgent("u2", FIRST_S + 300.0))
    record, decided, beyond = played(*jobs)
    assert (decided, beyond, evictions(record)) == (0.0, 0.0, 2)
    assert delays_s(record) == pytest.approx([400.0, 100.0 + 450.0])


def test_a_checkpoint_that_waits_begins_as_soon_as_the_earlier_ones_are_complete() -> None:
    """Three jobs on one node each do not fill the file system: together they take 90 s, planned are 270 s."""
    small = [batch(f"b{number}", 90.0, node_count=1) for number in range(1, 4)]
    jobs = (*small, batch("c", 330.0), urgent("u1", FIRST_S, 3), urgent("u2", FIRST_S + 60.0))
    record, decided, beyond = played(*jobs, node_count=11)
    assert (decided, beyond, evictions(record)) == (0.0, 0.0, 4)
    assert delays_s(record) == pytest.approx([90.0, 30.0 + 330.0])


@pytest.mark.parametrize("seed", range(12))
def test_no_work_is_lost_beyond_what_was_decided(seed: int) -> None:
    """Bursts of urgent jobs on a machine full of jobs whose checkpoints take long."""
    rng = random.Random(seed)
    jobs = [batch(f"b{number}", rng.uniform(20.0, 500.0), rng.randint(1, 12)) for number in range(10)]
    at_s = FIRST_S
    for number in range(12):
        at_s += rng.choice([0.0, 5.0, rng.uniform(10.0, 900.0)])
        jobs.append(urgent(f"u{number}", at_s, rng.randint(1, 12)))
    _, _, beyond = played(*jobs, node_count=40, checkpoints=rng.choice(MODELS))
    assert beyond == pytest.approx(0.0, abs=1e-6)


DAY_S = 86_400
BURST_S = 2_286_143.0
"""When one of a burst of urgent jobs on KTH made its hold and released it without end: it had a node that a
job was leaving for another one of them.
"""


def test_a_hold_is_not_made_and_released_without_end(shared_traces: Path, tmp_path: Path) -> None:
    part = tmp_path / "kth20.swf"
    with gzip.open(shared_traces / "KTH-SP2-1996-2.1-cln.swf.gz", "rt") as trace, part.open("w") as out:
        out.writelines(
            line
            for line in trace
            if line.startswith(";") or 20 * DAY_S <= int(line.split(maxsplit=2)[1]) < 30 * DAY_S
        )
    experiment = Experiment(trace=str(part), synthesis="W5", seed=103)
    workload = load_workload(experiment)
    cluster = SimCluster(
        workload.node_count, workload.jobs, scheduler=SchedulerSettings(), storage=storage_of(experiment)
    )
    replay = Replay(cluster, LEAST_PRICE, LeastPriceConfig(), ReplaySettings())
    while cluster.now_s <= BURST_S:
        assert replay.step()
