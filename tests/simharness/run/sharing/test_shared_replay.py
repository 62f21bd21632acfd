"""Urgent jobs on shared nodes in a replay: which jobs leave under policies and by Slurm's rule."""

from dataclasses import replace
from pathlib import Path

import pytest

from makeway.daemon.config.policy_finder import find_policy
from makeway.policies.model import JobKind, Resources
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.records import ReplayRecord
from makeway.simharness.engine.scheduler import Backfill, SchedulerSettings
from makeway.simharness.engine.shared.nodes import SharingSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.results.measures import measure
from makeway.simharness.run.experiment import Experiment, ExperimentError, run
from makeway.simharness.run.loading import load_workload
from makeway.simharness.run.replay import Replay, ReplaySettings
from makeway.simharness.workloads.job import SimJob
from makeway.simharness.workloads.unit import TraceUnit
from tests.paths import EXAMPLE_POLICY, SLURM_PREEMPTION

POLICIES = {"eviction": "eviction", "youngest": str(EXAMPLE_POLICY), "slurm": str(SLURM_PREEMPTION)}
LONG_S = 50_000.0


def job(job_id: str, submit_s: float, cpus: int | None, *, nodes: int = 1, urgent: bool = False) -> SimJob:
    """A job of so many CPUs on each node. None: whole nodes."""
    demand = None if cpus is None else Resources.of({"cpu": cpus})
    kind = JobKind.ON_DEMAND if urgent else JobKind.RIGID
    length_s = 100.0 if urgent else LONG_S
    return SimJob(job_id, submit_s, length_s, length_s, nodes, kind=kind, demand=demand)


def replayed(
    policy: str, node_count: int, *jobs: SimJob, capacities: tuple[Resources, ...] | None = None
) -> ReplayRecord:
    """A replay on nodes of eight CPUs, or with these capacities."""
    cluster = SimCluster(
        node_count,
        jobs,
        scheduler=SchedulerSettings(),
        storage=StorageSettings(),
        sharing=SharingSettings(capacities=capacities or (Resources.of({"cpu": 8}),) * node_count),
        check=True,
    )
    chosen = find_policy(POLICIES.get(policy, policy))
    return Replay(cluster, chosen, chosen.config_type(), ReplaySettings()).run()


def outcome(record: ReplayRecord) -> tuple[set[str], float | None]:
    """The jobs that left, and when the urgent job started."""
    left = {one.job.job_id for one in record.jobs if one.evictions}
    return left, next(one.start_s for one in record.jobs if one.job.kind is JobKind.ON_DEMAND)


@pytest.mark.parametrize(("policy", "left"), [("eviction", {"c"}), ("youngest", {"c"}), ("slurm", {"a"})])
def test_one_job_leaves_for_a_part_of_a_node(policy: str, left: set[str]) -> None:
    """Slurm takes the earliest submitted of jobs alike; its loss is the largest."""
    jobs = (job("a", 0.0, 4), job("b", 40.0, 2), job("c", 80.0, 2), job("u", 100.0, 2, urgent=True))
    assert outcome(replayed(policy, 1, *jobs)) == (left, 100.0)


def test_slurm_s_rule_takes_all_that_it_removed_on_the_node() -> None:
    """`a` is removed in vain, then `b` makes room with it; `b` alone, tried first, does not."""
    jobs = (
        job("a", 0.0, 4),
        job("b", 1.0, 4),
        job("c", 2.0, 3),
        job("d", 3.0, 5),
        job("u", 100.0, 6, urgent=True),
    )
    assert outcome(replayed("slurm", 2, *jobs)) == ({"a", "b"}, 100.0)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_that_may_not_be_evicted_stays_and_its_node_serves_all_the_same(policy: str) -> None:
    jobs = (
        replace(job("keep", 0.0, 5), preemptible=False),
        job("b", 1.0, 3),
        job("u", 100.0, 3, urgent=True),
    )
    record = replayed(policy, 1, *jobs)
    assert outcome(record) == ({"b"}, 100.0)
    assert record.jobs[1].lost_cpu_s == 3 * 99.0


@pytest.mark.parametrize("policy", POLICIES)
def test_an_urgent_job_of_whole_nodes_empties_its_nodes(policy: str) -> None:
    jobs = (job("a", 0.0, 8), job("b", 1.0, 4), job("c", 2.0, 4), job("u", 100.0, None, urgent=True))
    left, start_s = outcome(replayed(policy, 2, *jobs))
    assert start_s == 100.0
    assert left in ({"a"}, {"b", "c"})


@pytest.mark.parametrize("policy", ["wcjs", "eviction", "youngest"])
def test_nodes_that_lack_what_an_urgent_job_needs_are_not_held_for_it(policy: str) -> None:
    """The idle node has no GPU. Held for the urgent job, it would be of no use, again and again."""
    gpu = {"cpu": 8, "gres/gpu": 2}
    running = replace(job("a", 0.0, 8), demand=Resources.of(gpu), node_count=1)
    urgent = replace(job("u", 100.0, 1, urgent=True), demand=Resources.of({"cpu": 1, "gres/gpu": 1}))
    record = replayed(policy, 2, running, urgent, capacities=(Resources.of({"cpu": 8}), Resources.of(gpu)))
    left, start_s = outcome(record)
    assert left == {"a"}
    assert start_s is not None
    assert start_s <= 1000.0


@pytest.mark.shared
def test_on_openb_eviction_loses_fewer_gpu_hours_than_slurm_s_rule(shared_traces: Path) -> None:
    """On seven nodes, where the urgent pods have to share with the best-effort ones."""
    path = str(shared_traces / "openb-2023-pods.csv.gz")
    measured = {}
    for policy in ("eviction", "slurm"):
        experiment = Experiment(trace=path, node_count=7, policy=POLICIES[policy])
        measured[policy] = measure(run(experiment, load_workload(experiment)))
    on_time = {policy: one.group("on_demand").on_time for policy, one in measured.items()}
    lost = {policy: one.group("all").lost_gpu_hours or 0.0 for policy, one in measured.items()}
    assert on_time["eviction"] >= on_time["slurm"] > 4101  # 4,101 without makeway
    assert 0.0 < lost["eviction"] < lost["slurm"] / 2


@pytest.mark.parametrize(
    ("base", "error"),
    [
        (
            Experiment(start_smaller=True),
            "--start-smaller: accepted only where a job has its nodes to itself",
        ),
        (
            Experiment(backfill=Backfill.EASY_CQSIM),
            "--backfill easy-cqsim, .* nodes that jobs share; accepted: none, easy, conservative",
        ),
    ],
    ids=["start smaller", "easy-cqsim"],
)
def test_a_scheduler_that_shared_nodes_do_not_have_is_refused(
    tmp_path: Path, base: Experiment, error: str
) -> None:
    (path := tmp_path / "a.swf").write_text(
        "; MaxNodes: 2\n; MaxProcs: 8\n1 0 0 9 2 -1 -1 2 9 -1 1 1" + 6 * " 1"
    )
    experiment = replace(base, trace=str(path), unit=TraceUnit.PACKED)
    workload = load_workload(experiment)
    with pytest.raises(ExperimentError, match=error):
        run(experiment, workload)
    run(replace(experiment, start_smaller=False, backfill=Backfill.CONSERVATIVE), workload)
