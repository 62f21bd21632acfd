"""Random small clusters with a heterogeneous urgent job, and the least price of its room by enumeration."""

import random
from dataclasses import replace

from makeway.policies.choice.instance import serial_budget, ways_to_leave
from makeway.policies.common.losses import departures, system_s
from makeway.policies.eviction.policy import EvictionConfig
from makeway.policies.joint.instance import JointComponent, JointInstance, JointJob
from makeway.policies.joint.reference import enumerate_jointly
from makeway.policies.model import (
    CPU,
    MEMORY,
    NO_RESOURCES,
    CheckpointSpec,
    Cluster,
    Decision,
    Job,
    Limits,
    Method,
    Reserve,
    Resources,
)
from makeway.policies.safety.prices import price_node_s
from tests.builders import cluster, node_names, running, urgent

NOW_S = 1000.0
SINCE_S = 990.0
UNLIMITED = Limits(max_loss_node_hours=None, max_loss_node_hours_per_day=None)
HAS = {CPU: 8, MEMORY: 16}


def component(offset: int, node_count: int, *eligible: str, demand: Resources | None = None) -> Job:
    """A waiting component. `eligible`: the nodes that may serve it; none: all."""
    job = urgent(f"7+{offset}", node_count, submit_s=SINCE_S)
    return replace(job, het_job_id="7", eligible_nodes=frozenset(eligible) or None, demand=demand)


def random_cluster(seed: int, *, shared: bool) -> Cluster:
    """Three to six nodes, mostly full, and a job of two or three components."""
    rng = random.Random(seed)
    names = node_names(rng.randint(3, 6))
    components = [_random_component(rng, offset, names, shared) for offset in range(rng.choice((2, 2, 3)))]
    jobs = _sharing_jobs(rng, names) if shared else _whole_jobs(rng, names)
    view = replace(cluster(len(names), *components, *jobs), limits=UNLIMITED)
    return with_capacity(view) if shared else view


def with_capacity(view: Cluster) -> Cluster:
    """The cluster whose nodes have CPUs and memory that jobs share."""
    return replace(view, nodes=tuple(replace(node, capacity=Resources.of(HAS)) for node in view.nodes))


def _random_component(rng: random.Random, offset: int, names: tuple[str, ...], shared: bool) -> Job:
    eligible = () if rng.random() < 0.4 else rng.sample(names, rng.randint(1, len(names)))
    amounts = {CPU: rng.choice((1, 4, 6, 8)), MEMORY: rng.choice((1, 8, 12))}
    demand = Resources.of(amounts) if shared and rng.random() < 0.9 else None
    return component(offset, rng.randint(1, 2), *eligible, demand=demand)


def _random_job(rng: random.Random, number: int, nodes: tuple[str, ...]) -> Job:
    spec = CheckpointSpec(system_s=float(rng.choice((60, 150, 300)))) if rng.random() < 0.3 else None
    age_s = rng.choice((60, 120, rng.randint(1, 900)))
    job = running(f"v{number}", nodes, start_s=NOW_S - age_s, walltime_s=1e6, checkpoint=spec)
    return replace(job, preemptible=rng.random() > 0.1)


def _whole_jobs(rng: random.Random, names: tuple[str, ...]) -> list[Job]:
    left, jobs = rng.sample(names, len(names)), list[Job]()
    while left and rng.random() < 0.95:
        size = min(len(left), rng.choice((1, 1, 2, 3)))
        jobs.append(_random_job(rng, len(jobs), tuple(left[:size])))
        left = left[size:]
    return jobs


def _sharing_jobs(rng: random.Random, names: tuple[str, ...]) -> list[Job]:
    free, jobs = {name: dict(HAS) for name in names}, list[Job]()
    for _ in range(rng.randint(3, 6)):
        held = {CPU: rng.choice((1, 2, 4, 6)), MEMORY: rng.choice((1, 4, 8))}
        able = [name for name in names if all(free[name][what] >= amount for what, amount in held.items())]
        nodes = tuple(rng.sample(able, min(len(able), rng.choice((1, 1, 2, 3)))))
        for name in nodes:
            free[name] = {what: free[name][what] - held.get(what, 0) for what in HAS}
        if nodes:
            allocation = (Resources.of(held),) * len(nodes)
            jobs.append(replace(_random_job(rng, len(jobs), nodes), allocation=allocation))
    return jobs


def least_price_node_s(view: Cluster, config: EvictionConfig) -> int | None:
    """The price of the cheapest room for all components, by trying every choice. None: there is none."""
    latest_s = SINCE_S + config.start_within_s - config.margin_s
    unused, capacities = view.unused(), view.capacities()
    jobs = [
        JointJob(
            job_id=job.job_id,
            held=dict(zip(job.nodes, job.allocation, strict=True))
            if job.allocation is not None
            else {name: capacities.get(name, NO_RESOURCES) for name in job.nodes},
            ways=ways_to_leave(
                price_node_s(job, NOW_S),
                system_s=system_s(job),
                application_s=None,
                within_s=latest_s - NOW_S,
                step_s=config.step_s,
            )
            if job.preemptible
            else (),
        )
        for job in view.jobs
        if job.nodes
    ]
    components = [
        JointComponent(
            node_count=job.node_count,
            free={
                node.name: unused.get(node.name, NO_RESOURCES)
                for node in view.nodes
                if job.eligible_nodes is None or node.name in job.eligible_nodes
            },
            demand=job.demand,
        )
        for job in view.jobs
        if job.het_job_id
    ]
    budget = serial_budget(latest_s - NOW_S, config.step_s)
    found = enumerate_jointly(
        JointInstance(components=tuple(components), jobs=tuple(jobs), budget_steps=budget)
    )
    return None if found is None else found.loss_node_s


def price_of(decision: Decision, view: Cluster) -> int:
    """The price of the evictions of a decision, in node-seconds."""
    left = departures(decision.actions, view)
    return sum(price_node_s(job, NOW_S) for job, method in left if method is Method.KILL)


def holds(decision: Decision) -> dict[str, tuple[str, ...]]:
    """The nodes that are held, by job."""
    return {one.job_id: one.nodes for one in decision.actions if isinstance(one, Reserve)}
