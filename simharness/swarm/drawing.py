"""Random stories: everything in one is drawn from its seed."""

from collections.abc import Callable, Iterator, Sequence
from random import Random

from makeway.policies.model import JobKind, Resources
from makeway.simharness.swarm.drawn.jobs import (
    CPUS,
    GPUS,
    HOUR_S,
    drawn_jobs,
    submitted_again,
    with_components,
)
from makeway.simharness.swarm.story import BY_CHANCE, CHANGES, Story, Trouble, TroubleKind
from makeway.simharness.workloads.job import SimJob

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
_SHARED_NODE = Resources.of({"cpu": CPUS, "gres/gpu": GPUS, "mem": 64_000})


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
    jobs = drawn_jobs(random, node_count, span_s, shared=shared)
    if components:
        jobs = with_components(Random(f"components:{seed}"), jobs, shared=shared)
    part = random.choice((0.0, 0.1, 0.3, 0.5))
    chosen = [kind for kind in kinds if kind not in _APART and random.random() < part]
    troubles = [
        trouble
        for kind in chosen
        for _ in range(random.randint(1, 3))
        if (trouble := _trouble(random, kind, jobs, node_count, span_s)) is not None
    ]
    troubles += _drawn_apart(seed, kinds, jobs, node_count, span_s, part)
    if TroubleKind.RESUBMITS in kinds:
        again, cancelled = submitted_again(Random(f"submitted again:{seed}"), jobs)
        jobs, troubles = sorted((*jobs, *again), key=lambda job: job.submit_s), troubles + cancelled
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
    if TroubleKind.REFUSES in kinds:
        yield from _refusals(Random(f"refuses:{seed}"), node_count, span_s)
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


def _refusals(random: Random, node_count: int, span_s: float) -> list[Trouble]:
    """When the controller refuses holds with one of the nodes, in some stories."""
    if random.random() >= 0.25:
        return []
    return [
        Trouble(
            kind=TroubleKind.REFUSES,
            at_s=random.uniform(0.0, span_s),
            lasts_s=random.choice((60.0, 600.0, HOUR_S, 6 * HOUR_S)) * random.uniform(0.5, 1.5),
            amount=float(random.randrange(node_count)),
        )
        for _ in range(random.randint(1, 4))
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
    TroubleKind.REFUSES,
    TroubleKind.HOLDS_LOST,
    TroubleKind.REQUEUES_LOST,
    TroubleKind.STAYS,
    TroubleKind.RESUBMITS,
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
