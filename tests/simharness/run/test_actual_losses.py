"""The losses that the daemon measures are those that the simulated cluster has recorded."""

import gzip
import random
from dataclasses import replace
from pathlib import Path

import pytest

from makeway.daemon.control.report import CycleReport
from makeway.daemon.estimate.actual_losses import RunLoss
from makeway.daemon.inspect.losses import total_cost
from makeway.daemon.journal.store import Journal
from makeway.policies.model import CPU, GPU, MEMORY, JobKind, Method, Resources
from makeway.policies.registry import find
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.records import ReplayRecord
from makeway.simharness.engine.scheduler import Backfill, SchedulerSettings
from makeway.simharness.engine.shared.nodes import SharingSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.run.experiment import Experiment, storage_of
from makeway.simharness.run.loading import load_workload
from makeway.simharness.run.replay import Replay, ReplaySettings
from makeway.simharness.workloads.job import SimJob

NODES = 12
NODE = Resources.of({CPU: 16, MEMORY: 64_000, GPU: 4})
HORIZON_S = 40_000.0
SEED = 8


def batch_job(number: int, rng: random.Random) -> SimJob:
    """A rigid job, with regular checkpoints, checkpoints on demand, both, or none."""
    runtime_s = rng.uniform(1000.0, 12_000.0)
    return SimJob(
        job_id=f"b{number}",
        submit_s=rng.uniform(0.0, HORIZON_S * 0.6),
        runtime_s=runtime_s,
        walltime_s=4.0 * runtime_s,
        node_count=rng.randint(1, 6),
        setup_s=rng.choice([0.0, 0.0, 120.0]),
        checkpoint_interval_s=rng.choice([None, rng.uniform(300.0, 3000.0)]),
        save_s=rng.choice([None, rng.uniform(20.0, 250.0)]),
    )


def urgent_job(number: int, rng: random.Random) -> SimJob:
    return SimJob(
        job_id=f"u{number}",
        submit_s=rng.uniform(500.0, HORIZON_S * 0.8),
        runtime_s=rng.uniform(100.0, 1500.0),
        walltime_s=2000.0,
        node_count=rng.randint(1, 8),
        kind=JobKind.ON_DEMAND,
    )


def on_parts(job: SimJob, rng: random.Random) -> SimJob:
    """The job with a demand for a part of each node, or for whole nodes."""
    gpus = rng.randint(0, 3)
    demand = Resources.of({CPU: rng.randint(1, 12), MEMORY: rng.randint(1, 40) * 1000, GPU: gpus})
    return replace(job, node_count=min(job.node_count, 4), demand=demand if rng.random() < 0.9 else None)


def new_replay(seed: int, policy: str, journal: Journal, *, shared: bool = False) -> Replay:
    rng = random.Random(seed)
    jobs = [batch_job(number, rng) for number in range(40)] + [urgent_job(number, rng) for number in range(6)]
    if shared:
        jobs += [replace(batch_job(number, rng), job_id=f"c{number}") for number in range(40)]
        jobs = [on_parts(job, rng) for job in jobs]
    cluster = SimCluster(
        NODES,
        sorted(jobs, key=lambda job: job.submit_s),
        scheduler=SchedulerSettings(backfill=Backfill.EASY),
        storage=StorageSettings(aggregate_gb_s=20.0, node_gb_s=2.0),
        check=True,
        sharing=SharingSettings(capacities=(NODE,) * NODES) if shared else None,
    )
    chosen = find(policy)
    return Replay(cluster, chosen, chosen.config_type(), ReplaySettings(), journal=journal)


def assert_measured_as_recorded(record: ReplayRecord, journal: Journal) -> None:
    """The simulated cluster counts a setup that is repeated as overhead. The daemon counts it as lost if the
    run lost everything since its start.
    """
    measured: dict[str, list[RunLoss]] = {}
    for job_id, loss in journal.losses(float("-inf")):
        measured.setdefault(job_id, []).append(loss)
    for done in record.jobs:
        found = measured.get(done.job.job_id, [])
        setup = total_cost(
            [
                loss.run.held.cost(min(done.job.setup_s, loss.left_s - loss.run.start_s))
                for loss in found
                if loss.evicted and loss.run.saved_s is None
            ]
        )
        lost = total_cost([loss.lost for loss in found])
        overhead = total_cost([loss.overhead for loss in found])
        assert sum(loss.evicted for loss in found) == done.evictions
        assert lost.node_s - setup.node_s == pytest.approx(done.lost_node_s, abs=1e-3)
        assert overhead.node_s + setup.node_s == pytest.approx(done.overhead_node_s, abs=1e-3)
        if lost.core_s is not None and lost.gpu_s is not None:
            assert setup.core_s is not None
            assert setup.gpu_s is not None
            assert lost.core_s - setup.core_s == pytest.approx(done.lost_cpu_s, abs=1e-3)
            assert lost.gpu_s - setup.gpu_s == pytest.approx(done.lost_gpu_s, abs=1e-3)
    assert not journal.leaving_runs()


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("policy", ["eviction", "n-paa", "cup-spaa"])
def test_the_measured_losses_are_those_of_the_record(policy: str, seed: int) -> None:
    journal = Journal(None)
    assert_measured_as_recorded(new_replay(seed, policy, journal).run(), journal)


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("policy", ["eviction", "n-paa"])
def test_so_are_those_of_jobs_on_parts_of_nodes(policy: str, seed: int) -> None:
    journal = Journal(None)
    assert_measured_as_recorded(new_replay(seed, policy, journal, shared=True).run(), journal)
    assert all(loss.lost.gpu_s is not None for _, loss in journal.losses(float("-inf")))


@pytest.mark.parametrize("shared", [False, True])
def test_the_scenarios_lose_work_and_save_it(shared: bool) -> None:
    journal = Journal(None)
    new_replay(SEED, "eviction", journal, shared=shared).run()
    evicted = [loss for _, loss in journal.losses(float("-inf")) if loss.evicted]
    assert any(loss.run.held.nodes % 1.0 for loss in evicted) == shared
    assert {loss.run.method for loss in evicted} == {Method.KILL, Method.SYSTEM, Method.APPLICATION}
    assert any(loss.lost_s > 0.0 for loss in evicted)
    assert any(loss.overhead_s > 0.0 for loss in evicted)


def test_a_daemon_that_is_started_again_goes_on_measuring(tmp_path: Path) -> None:
    """It is stopped at every instant at which a run is still to leave."""
    path = tmp_path / "journal.sqlite"
    replay = new_replay(SEED, "eviction", Journal(path))
    restarts, stopped_s = 0, -1.0
    while replay.step():
        if replay.journal.leaving_runs() and replay.cluster.now_s > stopped_s:
            stopped_s = replay.cluster.now_s
            replay.journal.close()
            replay.restart(Journal(path))
            restarts += 1
    assert restarts > 5
    assert_measured_as_recorded(replay.record(), replay.journal)
    replay.journal.close()


DAY_S = 86_400
FROM_DAY, DAYS = 77, 30


@pytest.fixture(scope="session")
def thirty_days(shared_traces: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The jobs that were submitted to Theta in 30 days, with the comments at the head of the trace."""
    with gzip.open(shared_traces / "ANL-Theta-2023.swf.gz", "rt") as trace:
        lines = trace.readlines()
    days = range(FROM_DAY * DAY_S, (FROM_DAY + DAYS) * DAY_S)
    path = tmp_path_factory.mktemp("theta") / "theta.swf"
    path.write_text("".join(line for line in lines if line[0] == ";" or int(line.split()[1]) in days))
    return path


@pytest.mark.shared
@pytest.mark.parametrize(("seed", "departures"), [(0, 156), (1, 100)])
def test_in_thirty_days_of_theta_no_more_is_lost_than_was_decided(
    thirty_days: Path, seed: int, departures: int
) -> None:
    experiment = Experiment(trace=str(thirty_days), synthesis="W5", seed=seed)
    workload = load_workload(experiment)
    cluster = SimCluster(
        workload.node_count,
        workload.jobs,
        scheduler=SchedulerSettings(order=experiment.order, backfill=experiment.backfill),
        storage=storage_of(experiment),
    )
    beyond: list[float] = []

    def note(report: CycleReport) -> None:
        beyond.extend(loss.lost.node_s - loss.run.expected.node_s for loss in report.losses if loss.evicted)

    policy = find("eviction")
    Replay(cluster, policy, policy.config_type(), ReplaySettings(), on_cycle=note).run()
    assert len(beyond) == departures
    assert max(beyond) == pytest.approx(0.0, abs=1.0)
