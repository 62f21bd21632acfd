"""The workload of a fight: jobs of all kinds on shared nodes, by a seed. Pure.

One second here is about a minute on a site: jobs of one to three hours that save their work about hourly, in
up to two minutes.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

NODES = 8
CORES_PER_NODE = 16
MEMORY_MB = 64_000
"""Of each node."""
GPU_NODES = 4
"""The last ones."""
GPUS_PER_NODE = 4
GPU_TYPE = "a100"

HORIZON_S = 180.0
"""Jobs are submitted until then."""
LOAD = 1.0
"""The core-seconds that the batch jobs ask for, as a share of what the cluster has until the horizon; of
GPU-seconds at most the same share.
"""
_BURST = 1.2
"""The cores that are asked for at the very beginning, as a share of the cluster's."""
_BURST_S = 5.0
_FIRST_URGENT_S = 45.0
_URGENT_ROUNDS = 3
"""How many urgent jobs of each kind there are."""


class Quality(StrEnum):
    """The QOS of a job."""

    NORMAL = "normal"
    """May be interrupted."""
    STEADY = "steady"
    """May not."""
    URGENT = "urgent"


class FightKind(StrEnum):
    """What a job is like. The urgent ones are named for what they ask for."""

    SAVING = "saving"
    """Saves its work, at intervals and at a signal."""
    WIDE = "wide"
    """The same on two nodes."""
    LARGE = "large"
    """The same with much memory and few cores."""
    FIXED = "fixed"
    """Cannot save its work."""
    ARRAY = "array"
    """An array of small jobs, of which half save their work."""
    GPU_SAVING = "gpu-saving"
    GPU_FIXED = "gpu-fixed"
    STEADY = "steady"
    """Cannot save its work, and may not be interrupted."""
    CORES = "cores"
    MEMORY = "memory"
    GPUS = "gpus"
    NODE = "node"
    MANY_NODES = "nodes"


URGENT_KINDS = (
    FightKind.CORES,
    FightKind.MEMORY,
    FightKind.GPUS,
    FightKind.NODE,
    FightKind.MANY_NODES,
)
_MIX = {
    FightKind.SAVING: 6,
    FightKind.WIDE: 2,
    FightKind.LARGE: 1,
    FightKind.FIXED: 4,
    FightKind.ARRAY: 1,
    FightKind.GPU_SAVING: 3,
    FightKind.GPU_FIXED: 2,
    FightKind.STEADY: 1,
}
"""How many of 20 submissions of batch jobs are of each kind."""
_WITHOUT_GPUS = {FightKind.GPU_SAVING: FightKind.SAVING, FightKind.GPU_FIXED: FightKind.FIXED}
_ALWAYS_SAVING = {FightKind.SAVING, FightKind.WIDE, FightKind.LARGE, FightKind.GPU_SAVING}


@dataclass(frozen=True, slots=True, kw_only=True)
class FightJob:
    """One submission: a job, or an array of equal tasks."""

    name: str
    kind: FightKind
    quality: Quality
    submit_s: float
    """After the beginning."""
    work_s: float
    """How long it works, without setup and checkpoints."""
    setup_s: float
    """From a start to the first work."""
    interval_s: float | None
    """Work between two regular checkpoints. None: it cannot save its work."""
    save_s: float
    """Duration of a checkpoint."""
    nodes: int
    cores: int
    """On all its nodes; of an array's task."""
    gpus: int
    tasks: int | None
    """Tasks of the array. None: it is no array."""
    options: tuple[str, ...]
    """What it asks for, as options of sbatch."""

    @property
    def urgent(self) -> bool:
        """Whether others make way for it."""
        return self.quality is Quality.URGENT

    @property
    def run_names(self) -> tuple[str, ...]:
        """The name of each job under which it writes down what it does."""
        if self.tasks is None:
            return (self.name,)
        return tuple(f"{self.name}_{task}" for task in range(self.tasks))

    @property
    def core_s(self) -> float:
        """Core-seconds of work, of all tasks."""
        return self.work_s * self.cores * (self.tasks or 1)


def workload(seed: int) -> tuple[FightJob, ...]:
    """The jobs of a seed, in the order of their submission."""
    rng = random.Random(seed)
    jobs = [*_batch_jobs(rng), *_urgent_jobs(rng)]
    return tuple(sorted(jobs, key=lambda job: (job.submit_s, job.name)))


def _batch_jobs(rng: random.Random) -> Iterator[FightJob]:
    cores = NODES * CORES_PER_NODE
    at_once, left_core_s = _BURST * cores, LOAD * cores * HORIZON_S
    left_gpu_s = LOAD * GPU_NODES * GPUS_PER_NODE * HORIZON_S
    kinds, at_s, number = _kinds(rng), 0.0, 0
    while left_core_s > 0:
        kind = next(kinds)
        if left_gpu_s <= 0:
            kind = _WITHOUT_GPUS.get(kind, kind)
        job = _batch_job(rng, f"b{number:03d}", kind, at_s)
        yield job
        number += 1
        left_gpu_s -= job.work_s * job.gpus
        at_once -= job.cores * (job.tasks or 1)
        left_core_s -= job.core_s
        at_s = rng.uniform(0.0, _BURST_S) if at_once > 0 else rng.uniform(_BURST_S, HORIZON_S)


def _kinds(rng: random.Random) -> Iterator[FightKind]:
    """Kinds in random order, each as often as the mix says."""
    while True:
        deck = [kind for kind, count in _MIX.items() for _ in range(count)]
        rng.shuffle(deck)
        yield from deck


def _batch_job(rng: random.Random, name: str, kind: FightKind, at_s: float) -> FightJob:
    cores, gpus, nodes, tasks = rng.choice((1, 2, 4, 4, 8)), 0, 1, None
    work_s, memory_mb = rng.uniform(60.0, 180.0), 1000 * cores * rng.randint(1, 3)
    match kind:
        case FightKind.WIDE:
            cores, nodes, memory_mb = 16, 2, 16_000
        case FightKind.LARGE:
            cores, memory_mb = rng.randint(1, 2), 1000 * rng.randint(20, 32)
        case FightKind.ARRAY:
            cores, tasks, work_s = rng.randint(1, 2), rng.randint(4, 8), rng.uniform(40.0, 90.0)
            memory_mb = 1500 * cores
        case FightKind.GPU_SAVING | FightKind.GPU_FIXED:
            cores, gpus, memory_mb = rng.randint(2, 4), rng.choice((1, 1, 2, 2, 3, 4)), 8000
        case _:
            pass
    saves = kind in _ALWAYS_SAVING or (kind is FightKind.ARRAY and rng.random() < 0.5)
    return FightJob(
        name=name,
        kind=kind,
        quality=Quality.STEADY if kind is FightKind.STEADY else Quality.NORMAL,
        submit_s=at_s,
        work_s=work_s,
        setup_s=1.0,
        interval_s=rng.uniform(40.0, 70.0) if saves else None,
        save_s=rng.uniform(0.5, 2.0),
        nodes=nodes,
        cores=cores,
        gpus=gpus,
        tasks=tasks,
        options=_options(work_s, nodes, cores // nodes, memory_mb, gpus),
    )


def _urgent_jobs(rng: random.Random) -> Iterator[FightJob]:
    kinds = [kind for kind in URGENT_KINDS for _ in range(_URGENT_ROUNDS)]
    rng.shuffle(kinds)
    gap_s = (HORIZON_S - _FIRST_URGENT_S) / len(kinds)
    for number, kind in enumerate(kinds):
        at_s = _FIRST_URGENT_S + gap_s * (number + rng.random())
        yield _urgent_job(rng, f"u{number:02d}", kind, at_s)


def _urgent_job(rng: random.Random, name: str, kind: FightKind, at_s: float) -> FightJob:
    cores, gpus, nodes, memory_mb = 1, 0, 1, 4000
    more: tuple[str, ...] = ()
    match kind:
        case FightKind.CORES:
            cores = rng.choice((4, 8, 12))
        case FightKind.MEMORY:
            memory_mb = 1000 * rng.randint(36, 56)
        case FightKind.GPUS:
            cores, gpus = 2, rng.randint(1, 3)
        case FightKind.NODE:
            cores, more = CORES_PER_NODE, ("--exclusive",)
        case _:
            nodes = rng.randint(2, 3)
            cores, memory_mb = 12 * nodes, 12_000
    work_s = rng.uniform(15.0, 30.0)
    return FightJob(
        name=name,
        kind=kind,
        quality=Quality.URGENT,
        submit_s=at_s,
        work_s=work_s,
        setup_s=1.0,
        interval_s=None,
        save_s=0.0,
        nodes=nodes,
        cores=cores,
        gpus=gpus,
        tasks=None,
        options=(*_options(work_s, nodes, cores // nodes, memory_mb, gpus), *more),
    )


def _options(work_s: float, nodes: int, cores: int, memory_mb: int, gpus: int) -> tuple[str, ...]:
    """What sbatch is asked for; cores and memory of each node."""
    limit_min = math.ceil((1.3 * work_s + 60.0) / 60.0)
    asked = (f"--nodes={nodes}", f"--ntasks-per-node={cores}", f"--mem={memory_mb}", f"--time={limit_min}")
    return (*asked, f"--gres=gpu:{gpus}") if gpus else asked
