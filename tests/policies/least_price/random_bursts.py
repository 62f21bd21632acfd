"""Random clusters with a burst of urgent jobs, and settings under which all, some or none are refused."""

import random
from dataclasses import replace

from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.policies.model import (
    Acknowledgement,
    CheckpointSpec,
    Cluster,
    Job,
    JobKind,
    Limits,
    Placement,
    Resources,
)
from tests.builders import cluster, node_names, running, urgent

NOW_S = 100_000.0


def _checkpoint(rng: random.Random) -> CheckpointSpec | None:
    """None: the job can only be killed."""
    regular = rng.random() < 0.4
    return rng.choice(
        (
            None,
            CheckpointSpec(
                interval_s=float(rng.randint(60, 1800)) if regular else None,
                application_s=float(rng.randint(0, 200)) if regular else None,
                system_s=rng.choice((None, rng.uniform(10.0, 400.0))),
                grace_s=float(rng.randint(30, 600)),
                acknowledgement=rng.choice(tuple(Acknowledgement)),
            ),
        )
    )


def _holder(rng: random.Random, index: int, nodes: tuple[str, ...], *, kill_only: bool, again: bool) -> Job:
    """A job on these nodes. `again`: whether jobs were evicted before."""
    start_s = NOW_S - rng.randint(30, 30_000)
    soon = rng.random() < 0.15
    job = running(
        f"r{index}",
        nodes,
        kind=rng.choice((JobKind.RIGID, JobKind.RIGID, JobKind.MALLEABLE)),
        start_s=start_s,
        walltime_s=NOW_S - start_s + (rng.uniform(-200.0, 4_000.0) if soon else rng.uniform(4_000.0, 9e4)),
        checkpoint=None if kill_only else _checkpoint(rng),
        last_checkpoint_s=rng.choice((None, None, NOW_S - rng.randint(0, 3_000))),
        node_count_min=rng.randint(1, len(nodes)),
        setup_s=float(rng.choice((0, 0, 300, 900))),
        preemptible=rng.random() < 0.9,
        user=rng.choice(("alice", "bob", "root")),
    )
    evicted = rng.choice((0, 0, 1, 2)) if again else 0
    return replace(job, past_evictions=evicted, requeue_count=evicted)


def _waiting(rng: random.Random, index: int, names: tuple[str, ...], *, alike: bool, since_s: float) -> Job:
    """One of the burst. `alike`: whether they are of one size, and may have all nodes."""
    largest = max(1, len(names) // 4)
    job = urgent(f"u{index}", 2 if alike else rng.randint(1, largest), submit_s=since_s)
    return replace(
        job,
        walltime_s=rng.choice((600.0, 3600.0)),
        user=rng.choice(("beam", "beam", "beam", "vip")),
        start_within_s=None if alike else rng.choice((None, None, None, 200.0, 2000.0)),
        eligible_nodes=None if alike or rng.random() < 0.8 else frozenset(names[: 1 + len(names) // 2]),
        array_job_id=rng.choice(("", "", "", "", "a")),
    )


def _limits(rng: random.Random) -> Limits:
    if rng.random() < 0.7:
        return Limits(max_loss_node_hours=None, max_loss_node_hours_per_day=None)
    return Limits(
        max_loss_node_hours=rng.choice((None, 5.0, 50.0)),
        max_loss_node_hours_per_day=rng.choice((None, 10.0, 100.0)),
        max_loss_node_hours_per_user_per_day=rng.choice((None, 20.0)),
        max_loss_machine_share=0.0,
        max_loss_machine_share_per_day=0.0,
        min_runtime_s=rng.choice((0.0, 600.0)),
        evictions_per_hour=rng.choice((None, None, 3)),
        evictions_per_job=rng.choice((None, 1)),
        max_nodes=rng.choice((None, None, 10)),
        protected_users=rng.choice((frozenset[str](), frozenset({"root"}))),
    )


def random_burst(rng: random.Random) -> Cluster:
    """A cluster, mostly full, with two to nine urgent jobs."""
    names = node_names(rng.randint(8, 60))
    kill_only, again = rng.random() < 0.3, rng.random() < 0.3
    jobs, at, largest = list[Job](), 0, rng.choice((2, 5, 20))
    while at < len(names):
        nodes = names[at : at + rng.randint(1, largest)]
        if rng.random() < 0.97:
            jobs.append(_holder(rng, len(jobs), nodes, kill_only=kill_only, again=again))
        at += len(nodes)
    alike, apart_s = rng.random() < 0.4, rng.choice((0, 0, 1, 60))
    since_s = NOW_S - rng.choice((0, 10, 10, 10, 10, 300, 560, 700))
    waiting = [
        _waiting(rng, index, names, alike=alike, since_s=since_s - index * apart_s)
        for index in range(rng.randint(2, 9))
    ]
    found = replace(cluster(len(names), *jobs, *waiting, now_s=NOW_S), limits=_limits(rng))
    if rng.random() < 0.15:
        half = len(names) // 2
        places = Placement(name="p0", nodes=names[:half]), Placement(name="p1", nodes=names[half:])
        found = replace(found, placements=places)
    if rng.random() < 0.2:
        capacity = Resources.of({"cpu": 8})
        found = replace(found, nodes=tuple(replace(node, capacity=capacity) for node in found.nodes))
    lost = {job.job_id: rng.uniform(0.0, 1e4) for job in waiting if rng.random() < 0.1}
    return replace(found, lost_node_s=lost)


def random_settings(rng: random.Random) -> LeastPriceConfig:
    """Settings, of which the ceiling refuses anything from all to none."""
    return LeastPriceConfig(
        ceiling_machine_hours=rng.choice((None, 0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)),
        instant_machine_hours=rng.choice((None, 0.02, 0.2)),
        waiting_machine_hours=rng.choice((None, 0.05, 2.0)),
        waits_for_ends=rng.random() < 0.7,
        late=rng.choice(("queue", "queue", "evict")),
        budget_machine_hours=rng.choice((None, None, None, None, 0.5)),
        vital_users=rng.choice((frozenset[str](), frozenset[str](), frozenset({"vip"}))),
        checkpoints=rng.choice(("serial", "serial", "parallel")),
        shrink=rng.random() < 0.8,
        step_s=rng.choice((10.0, 30.0)),
    )
