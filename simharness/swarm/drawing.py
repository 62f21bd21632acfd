"""Random stories: everything in one is drawn from its seed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random

from makeway.policies.model import JobKind, Resources
from makeway.simharness.swarm.story import BY_CHANCE, CHANGES, Story, Trouble, TroubleKind
from makeway.simharness.workloads.job import SimJob

HOUR_S = 3600.0
POLICIES = (
    "eviction",
    "least-price",
    "n-paa",
    "n-spaa",
    "cua-paa",
    "cua-spaa",
    "cup-paa",
    "cup-spaa",
    "ckpt-backfill",
    "wcjs",
)
"""The policies that a seed may draw: each that decides without a solver of its own."""
_CPUS, _GPUS = 8, 4
_SHARED_NODE = Resources.of({"cpu": _CPUS, "gres/gpu": _GPUS, "mem": 64_000})


def draw(
    seed: int,
    *,
    policies: Sequence[str] = POLICIES,
    kinds: Sequence[TroubleKind] = tuple(TroubleKind),
    components: bool = True,
) -> Story:
    """The story of a seed.

    Args:
        seed: any number; equal seeds give equal stories.
        policies: those that may be drawn.
        kinds: the troubles that may be drawn; a story has a random part of them.
        components: whether urgent jobs may be heterogeneous.
    """
    random = Random(f"story:{seed}")
    policy = policies[seed % len(policies)]
    node_count = random.randint(4, 12)
    span_s = random.uniform(4.0, 30.0) * HOUR_S
    shared = policy != "wcjs" and random.random() < 0.4
    jobs = _jobs(random, node_count, span_s, shared=shared)
    if components:
        jobs = _with_components(Random(f"components:{seed}"), jobs, shared=shared)
    part = random.choice((0.0, 0.1, 0.3, 0.5))
    chosen = [kind for kind in kinds if kind not in _APART and random.random() < part]
    troubles = [
        trouble
        for kind in chosen
        for _ in range(random.randint(1, 3))
        if (trouble := _trouble(random, kind, jobs, node_count, span_s)) is not None
    ]
    troubles += _drawn_apart(seed, kinds, jobs, node_count, span_s, part)
    return Story(
        seed=seed,
        policy=policy,
        node_count=node_count,
        jobs=tuple(jobs),
        troubles=tuple(sorted(troubles, key=lambda trouble: (trouble.at_s, trouble.kind, trouble.subject))),
        capacity=_SHARED_NODE if shared else None,
        switch_nodes=_switch_nodes(Random(f"switches:{seed}"), node_count),
        poll_interval_s=random.choice((10.0, 30.0, 60.0)),
        learns=random.random() < 0.3,
        user_node_hours=random.choice((None, None, 2.0, 8.0, 30.0)),
        linger_s=Random(f"linger:{seed}").choice((0.0, 0.0, 45.0, 900.0)),
    )


def _switch_nodes(random: Random, node_count: int) -> int | None:
    """How many nodes are below a switch, in every third story. The last switch may have fewer."""
    return random.randint(2, node_count // 2) if random.random() < 1 / 3 else None


def _jobs(random: Random, node_count: int, span_s: float, *, shared: bool) -> list[SimJob]:
    """Batch jobs that keep the machine about full, and urgent ones, some of which are announced."""
    jobs: list[SimJob] = []
    work_node_s = node_count * span_s * random.uniform(0.7, 1.3)
    while work_node_s > 0:
        job = _batch(random, str(len(jobs) + 1), node_count, span_s, shared=shared)
        jobs.append(job)
        part = job.demand.amount("cpu") / _CPUS if job.demand is not None else 1.0
        work_node_s -= job.runtime_s * job.node_count * part
    jobs += [
        _urgent(random, f"u{number + 1}", node_count, span_s, shared=shared)
        for number in range(random.randint(2, 12))
    ]
    return sorted(jobs, key=lambda job: job.submit_s)


def _with_components(random: Random, jobs: list[SimJob], *, shared: bool) -> list[SimJob]:
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
            "cpu": random.randint(1, _CPUS),
            "gres/gpu": random.choice((0, 0, 1, 2, _GPUS)),
            "mem": random.choice((1_000, 8_000, 32_000)),
        }
    )


def _trouble(
    random: Random, kind: TroubleKind, jobs: Sequence[SimJob], node_count: int, span_s: float
) -> Trouble | None:
    """One trouble of that kind. None: the workload has no job for it."""
    at_s = random.uniform(0.0, 1.1 * span_s)
    lasts_s = random.choice((60.0, 300.0, 1200.0, HOUR_S)) * random.uniform(0.5, 1.5)
    if kind in BY_CHANCE:
        amount = random.choice((40.0, 100.0, 400.0)) if kind in _DELAYS else 0.0
        return Trouble(
            kind=kind, at_s=at_s, lasts_s=4 * lasts_s, chance=random.choice((0.1, 0.3, 0.8)), amount=amount
        )
    if kind in _OF_JOBS:
        wanted = [job for job in jobs if _OF_JOBS[kind](job)]
        if not wanted:
            return None
        job = random.choice(wanted)
        at_s = job.submit_s + random.choice((0.0, 1.0, 60.0, 900.0)) * random.random()
        return Trouble(kind=kind, at_s=at_s, lasts_s=lasts_s, subject=job.job_id)
    amount = _AMOUNTS[kind](random, node_count) if kind in _AMOUNTS else 0.0
    return Trouble(kind=kind, at_s=at_s, lasts_s=lasts_s, amount=amount)


def _drawn_apart(
    seed: int,
    kinds: Sequence[TroubleKind],
    jobs: Sequence[SimJob],
    node_count: int,
    span_s: float,
    part: float,
) -> Iterator[Trouble]:
    """The troubles on which the others do not depend, nor they on each other."""
    if TroubleKind.SECOND_DAEMON in kinds:
        yield from _second_daemons(Random(f"second daemon:{seed}"), span_s)
    if TroubleKind.SILENT in kinds:
        yield from _starts_of_controller(Random(f"silent:{seed}"), span_s, part)
    if TroubleKind.ASLEEP in kinds:
        yield from _nights(Random(f"asleep:{seed}"), span_s)
    if TroubleKind.HOLDS_LOST in kinds:
        yield from _lost_holds(Random(f"holds lost:{seed}"), jobs, kinds)
    if TroubleKind.REQUEUES_LOST in kinds:
        yield from _lost_requeues(Random(f"requeues lost:{seed}"), jobs, kinds)
    yield from _changes(Random(f"changes:{seed}"), jobs, node_count, kinds)
    if TroubleKind.STAYS in kinds:
        yield from _protections(Random(f"stays:{seed}"), jobs)


def _starts_of_controller(random: Random, span_s: float, part: float) -> list[Trouble]:
    """When no node has answered the controller yet."""
    if random.random() >= part:
        return []
    return [
        Trouble(
            kind=TroubleKind.SILENT,
            at_s=random.uniform(0.0, 1.1 * span_s),
            lasts_s=random.choice((5.0, 60.0, 300.0, 1200.0)) * random.uniform(0.5, 1.5),
        )
        for _ in range(random.randint(1, 4))
    ]


def _nights(random: Random, span_s: float) -> list[Trouble]:
    """When nodes sleep, in some stories."""
    if random.random() >= 0.2:
        return []
    return [
        Trouble(
            kind=TroubleKind.ASLEEP,
            at_s=random.uniform(0.0, span_s),
            lasts_s=random.choice((600.0, HOUR_S, 6 * HOUR_S)),
            amount=random.choice((30.0, 120.0, 300.0, 900.0)),
        )
        for _ in range(random.randint(1, 3))
    ]


def _lost_holds(random: Random, jobs: Sequence[SimJob], kinds: Sequence[TroubleKind]) -> list[Trouble]:
    """When the controller loses the holds of urgent jobs that have just come, in some stories; now and then
    the daemon, or its journal too, is lost with them.
    """
    urgent = [job for job in jobs if job.kind is JobKind.ON_DEMAND]
    if random.random() >= 0.4:
        return []
    troubles: list[Trouble] = []
    for job in random.sample(urgent, min(len(urgent), random.randint(1, 4))):
        at_s = job.submit_s + random.choice((5.0, 60.0, 300.0)) * random.uniform(0.5, 1.5)
        troubles.append(Trouble(kind=TroubleKind.HOLDS_LOST, at_s=at_s, lasts_s=1.0, amount=900.0))
        down = random.choice((None, TroubleKind.KILLED, TroubleKind.JOURNAL_LOST))
        lasts_s = random.choice((10.0, 60.0, 600.0))
        if down is not None and down in kinds:
            troubles.append(Trouble(kind=down, at_s=at_s - 0.5, lasts_s=lasts_s))
    return troubles


def _lost_requeues(random: Random, jobs: Sequence[SimJob], kinds: Sequence[TroubleKind]) -> list[Trouble]:
    """When the controller forgets the next requeues after urgent jobs have come, in some stories; now and
    then the daemon is lost with it, or the answer to the requeue.
    """
    urgent = [job for job in jobs if job.kind is JobKind.ON_DEMAND]
    if random.random() >= 0.4:
        return []
    troubles: list[Trouble] = []
    for job in random.sample(urgent, min(len(urgent), random.randint(1, 6))):
        lost = Trouble(
            kind=TroubleKind.REQUEUES_LOST,
            at_s=job.submit_s + random.choice((0.0, 60.0, 300.0)) * random.random(),
            lasts_s=random.choice((60.0, 600.0, HOUR_S)),
            amount=random.choice((1.0, 5.0, 30.0)),
        )
        troubles.append(lost)
        too = random.choice((None, TroubleKind.KILLED_WRITING, TroubleKind.ANSWER_LOST, TroubleKind.HANGS))
        if too is not None and too in kinds:
            amount = {TroubleKind.KILLED_WRITING: float(random.randint(1, 12)), TroubleKind.HANGS: 10.0}
            troubles.append(
                Trouble(
                    kind=too,
                    at_s=lost.at_s,
                    lasts_s=random.choice((60.0, 600.0)),
                    chance=0.5,
                    amount=amount.get(too, 0.0),
                )
            )
    return troubles


def _changes(
    random: Random, jobs: Sequence[SimJob], node_count: int, kinds: Sequence[TroubleKind]
) -> list[Trouble]:
    """When urgent jobs are changed that have come a while ago, in some stories; now and then twice."""
    wanted = [kind for kind in CHANGES if kind in kinds]
    urgent = [job for job in jobs if job.kind is JobKind.ON_DEMAND]
    if not wanted or random.random() >= 0.4:
        return []
    troubles: list[Trouble] = []
    for job in urgent:
        for _ in range(random.choice((0, 1, 1, 2))):
            kind = random.choice(wanted)
            amount = _CHANGED_TO[kind](random, job, node_count)
            at_s = job.submit_s + random.choice((30.0, 60.0, 120.0, 300.0)) * random.uniform(0.5, 1.5)
            troubles.append(Trouble(kind=kind, at_s=at_s, amount=amount, subject=job.job_id))
    return troubles


def _protections(random: Random, jobs: Sequence[SimJob]) -> list[Trouble]:
    """When jobs may not be made to leave any more, in some stories: soon after an urgent job has come."""
    if random.random() >= 0.4:
        return []
    troubles: list[Trouble] = []
    for job in (job for job in jobs if job.kind is JobKind.ON_DEMAND):
        at_s = job.submit_s + random.choice((30.0, 100.0, 300.0)) * random.uniform(0.5, 1.5)
        troubles += [
            Trouble(kind=TroubleKind.STAYS, at_s=at_s, subject=one.job_id)
            for one in jobs
            if one.preemptible and one.submit_s < at_s < one.submit_s + 3 * one.runtime_s
            if one.kind is not JobKind.ON_DEMAND and random.random() < 0.5
        ]
    return troubles


def _second_daemons(random: Random, span_s: float) -> list[Trouble]:
    """When another daemon runs, in some stories."""
    if random.random() >= 0.2:
        return []
    return [
        Trouble(
            kind=TroubleKind.SECOND_DAEMON,
            at_s=random.choice((0.0, random.uniform(0.0, span_s))),
            lasts_s=random.uniform(0.2, 10.0) * HOUR_S,
        )
        for _ in range(random.randint(1, 2))
    ]


_APART = (
    TroubleKind.SECOND_DAEMON,
    TroubleKind.SILENT,
    TroubleKind.ASLEEP,
    TroubleKind.HOLDS_LOST,
    TroubleKind.REQUEUES_LOST,
    TroubleKind.STAYS,
    *CHANGES,
)
_DELAYS = (TroubleKind.ANSWER_LATE, TroubleKind.STALE_VIEW)
_OF_JOBS: dict[TroubleKind, Callable[[SimJob], bool]] = {
    TroubleKind.HOLDS: lambda job: job.kind is JobKind.ON_DEMAND,
    TroubleKind.CANCELS: lambda job: True,
    TroubleKind.IGNORES: lambda job: job.save_s is not None,
}
"""The kinds that are about a job, and the jobs that they may be about."""
_AMOUNTS: dict[TroubleKind, Callable[[Random, int], float]] = {
    TroubleKind.FLAPS: lambda random, nodes: random.choice((15.0, 40.0, 100.0)),
    TroubleKind.SLOW: lambda random, nodes: random.choice((1.0, 5.0, 20.0)),
    TroubleKind.HANGS: lambda random, nodes: random.choice((10.0, 30.0)),
    TroubleKind.FORGETS: lambda random, nodes: random.choice((5.0, 30.0)),
    TroubleKind.NODE_DOWN: lambda random, nodes: float(random.randrange(nodes)),
    TroubleKind.MAINTENANCE: lambda random, nodes: float(random.randint(1, max(1, nodes // 2))),
    TroubleKind.KILLED_WRITING: lambda random, nodes: float(random.randint(1, 12)),
    TroubleKind.KILLED_WRITTEN: lambda random, nodes: float(random.randint(1, 12)),
    TroubleKind.CLOCK: lambda random, nodes: random.choice((-3600.0, -60.0, 60.0, 3600.0)),
    TroubleKind.NO_SHOW: lambda random, nodes: float(random.randint(1, max(1, nodes // 2))),
}
"""What is drawn for the kinds that have an amount, from the random numbers and the count of nodes."""
_CHANGED_TO: dict[TroubleKind, Callable[[Random, SimJob, int], float]] = {
    TroubleKind.FEWER_NODES: lambda random, job, nodes: float(random.randint(1, max(1, job.node_count - 1))),
    TroubleKind.MORE_NODES: lambda random, job, nodes: float(
        random.randint(job.node_count, max(job.node_count, nodes // 2 if job.het_job_id else nodes))
    ),
    TroubleKind.SHORTER_LIMIT: lambda random, job, nodes: job.walltime_s * random.uniform(0.3, 1.0),
    TroubleKind.LONGER_LIMIT: lambda random, job, nodes: job.walltime_s * random.choice((1.2, 3.0, 30.0)),
    TroubleKind.URGENT_NO_MORE: lambda random, job, nodes: 0.0,
}
"""What an urgent job is changed to, from the random numbers, the job and the count of nodes. The components
of a heterogeneous job fit on the machine together.
"""
