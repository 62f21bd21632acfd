"""The jobs of random stories: batch jobs that keep the machine about full, and urgent ones."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from makeway.policies.model import JobKind, Resources
from makeway.simharness.swarm.story import Trouble, TroubleKind
from makeway.simharness.workloads.job import SimJob

HOUR_S = 3600.0
CPUS, GPUS = 8, 4
"""Of a node that jobs share."""


def drawn_jobs(random: Random, node_count: int, span_s: float, *, shared: bool) -> list[SimJob]:
    """Batch jobs that keep the machine about full, and urgent ones, some of which are announced."""
    jobs: list[SimJob] = []
    work_node_s = node_count * span_s * random.uniform(0.7, 1.3)
    while work_node_s > 0:
        job = _batch(random, str(len(jobs) + 1), node_count, span_s, shared=shared)
        jobs.append(job)
        part = job.demand.amount("cpu") / CPUS if job.demand is not None else 1.0
        work_node_s -= job.runtime_s * job.node_count * part
    jobs += [
        _urgent(random, f"u{number + 1}", node_count, span_s, shared=shared)
        for number in range(random.randint(2, 12))
    ]
    return sorted(jobs, key=lambda job: job.submit_s)


def with_components(random: Random, jobs: list[SimJob], *, shared: bool) -> list[SimJob]:
    """The jobs; in every fourth story, urgent ones that are not announced are divided into two components.
    Drawn apart, as a second daemon is.
    """
    if random.random() >= 0.25:
        return jobs
    found: list[SimJob] = []
    for job in jobs:
        if job.kind is not JobKind.ON_DEMAND or job.announced_s is not None:
            found.append(job)
            continue
        sizes = (random.randint(1, max(1, job.node_count - 1)), max(1, job.node_count // 2))
        found += [
            replace(
                job,
                job_id=f"{job.job_id}+{offset}",
                node_count=size,
                demand=_demand(random) if shared and random.random() < 0.8 else None,
                het_job_id=job.job_id,
            )
            for offset, size in enumerate(sizes)
        ]
    return found


def submitted_again(random: Random, jobs: Sequence[SimJob]) -> tuple[list[SimJob], list[Trouble]]:
    """The urgent jobs that their users submit again, in some stories, and when they cancel the first ones:
    soon after these have come, in half of the cases within one poll. Now and then the second one is smaller.
    """
    again: list[SimJob] = []
    cancelled: list[Trouble] = []
    for job in jobs if random.random() < 0.4 else ():
        if job.kind is not JobKind.ON_DEMAND or job.het_job_id or random.random() < 0.5:
            continue
        at_s = job.submit_s + random.choice((5.0, 30.0, 60.0, 120.0, 300.0)) * random.uniform(0.5, 1.5)
        size = job.node_count if random.random() < 0.8 else random.randint(1, job.node_count)
        second = replace(
            job,
            job_id=f"{job.job_id}a",
            submit_s=at_s + random.choice((0.0, 1.0, 5.0, 20.0, 60.0, 150.0)),
            node_count=size,
            announced_s=None,
            expected_s=None,
        )
        again.append(second)
        cancelled.append(Trouble(kind=TroubleKind.RESUBMITS, at_s=at_s, subject=job.job_id))
    return again, cancelled


def _batch(random: Random, job_id: str, node_count: int, span_s: float, *, shared: bool) -> SimJob:
    runtime_s = random.uniform(0.2, 6.0) * HOUR_S
    size = random.randint(1, max(1, node_count // 2))
    kind = JobKind.MALLEABLE if not shared and size > 1 and random.random() < 0.25 else JobKind.RIGID
    interval_s = random.uniform(0.2, 1.5) * HOUR_S if random.random() < 0.3 else None
    return SimJob(
        job_id,
        random.uniform(0.0, 0.9 * span_s) if random.random() < 0.6 else random.uniform(0.0, 600.0),
        runtime_s,
        runtime_s * random.uniform(1.0, 3.0),
        size,
        user=f"user{random.randint(1, 4)}",
        kind=kind,
        node_count_min=random.randint(1, size) if kind is JobKind.MALLEABLE else None,
        setup_s=random.choice((0.0, 20.0, 120.0)),
        checkpoint_interval_s=None if kind is JobKind.MALLEABLE else interval_s,
        checkpoint_cost_s=0.0 if interval_s is None else 30.0,
        save_s=random.uniform(5.0, 400.0) if random.random() < 0.6 else None,
        preemptible=random.random() < 0.85,
        demand=_demand(random) if shared and kind is JobKind.RIGID else None,
    )


def _urgent(random: Random, job_id: str, node_count: int, span_s: float, *, shared: bool) -> SimJob:
    runtime_s = random.uniform(120.0, HOUR_S)
    submit_s = random.uniform(600.0, span_s)
    announced = random.random() < 0.3
    announced_s = max(0.0, submit_s - random.uniform(600.0, 5400.0)) if announced else None
    expected_s = max(announced_s or 0.0, submit_s + random.uniform(-900.0, 1800.0)) if announced else None
    return SimJob(
        job_id,
        submit_s,
        runtime_s,
        runtime_s * random.uniform(1.0, 2.0),
        random.randint(1, max(1, node_count // 2)),
        user="beam",
        kind=JobKind.ON_DEMAND,
        announced_s=announced_s,
        expected_s=expected_s,
        start_within_s=random.choice((0.0, 60.0, 300.0, 1200.0)),
        demand=_demand(random) if shared and random.random() < 0.8 else None,
    )


def _demand(random: Random) -> Resources:
    return Resources.of(
        {
            "cpu": random.randint(1, CPUS),
            "gres/gpu": random.choice((0, 0, 1, 2, GPUS)),
            "mem": random.choice((1_000, 8_000, 32_000)),
        }
    )
