"""What the sizes of a trace's jobs are counted in: whole nodes, or processors where jobs share nodes."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from makeway.policies.model import CPU, MEMORY, Resources
from makeway.simharness.workloads.job import SimJob

SHARED_FROM = 0.5
"""The share of jobs smaller than a node from which a trace is read by processors."""


class TraceUnit(StrEnum):
    """What a job of a trace takes."""

    NODE = "node"  # whole nodes, rounded up
    PROCESSOR = "processor"  # processors, of whichever nodes
    PACKED = "packed"  # processors and memory of nodes that jobs share


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceMachine:
    """The machine of a trace, before its unit is chosen."""

    node_count: int
    procs_per_node: int
    processors: int
    """All of them; with nodes that differ it is not the product of the two."""
    node: Resources
    """What a shared node has; CPUs are processors."""

    def units(self, unit: TraceUnit) -> int:
        """The size of the machine, counted in that unit."""
        return self.processors if unit is TraceUnit.PROCESSOR else self.node_count


def small_share(jobs: Sequence[SimJob], procs_per_node: int) -> float:
    """The share of the jobs, sized in processors, that ask for fewer than a node has."""
    if not jobs or procs_per_node == 1:
        return 0.0
    return sum(1 for job in jobs if job.node_count < procs_per_node) / len(jobs)


def natural_unit(share: float) -> TraceUnit:
    """The unit of a trace in which this share of the jobs is smaller than a node.

    Jobs that ask for less than a node share nodes on the machine that the trace comes from: rounded up to
    whole nodes, the same jobs would need a machine several times as large.
    """
    return TraceUnit.PROCESSOR if share >= SHARED_FROM else TraceUnit.NODE


_Impossible = tuple[tuple[str, int], ...]
"""Id and size of each job that the machine cannot run."""


def fit(
    jobs: list[SimJob], machine: TraceMachine, unit: TraceUnit, memory_kb: Sequence[float]
) -> tuple[list[SimJob], _Impossible]:
    """The jobs, sized in processors, with their sizes in `unit`.

    Args:
        jobs: the jobs.
        machine: what they run on.
        unit: what their sizes become.
        memory_kb: what each job asks for, for each processor; 0 or less: nothing is known.

    Returns:
        The jobs that the machine can run, and those that it cannot.
    """
    if unit is TraceUnit.PACKED:
        return _pack(jobs, machine, memory_kb)
    per_unit = 1 if unit is TraceUnit.PROCESSOR else machine.procs_per_node
    largest = machine.units(unit)
    impossible: list[tuple[str, int]] = []
    for job in jobs:
        if per_unit > 1:
            job.node_count = -(-job.node_count // per_unit)
        if job.node_count > largest:
            impossible.append((job.job_id, job.node_count))
    if impossible:
        jobs = [job for job in jobs if job.node_count <= largest]
    return jobs, tuple(impossible)


def _pack(
    jobs: list[SimJob], machine: TraceMachine, memory_kb: Sequence[float]
) -> tuple[list[SimJob], _Impossible]:
    """The jobs on the fewest nodes on which an even share of their processors and memory fits.

    The share is rounded up: 9 processors on nodes of 8 are 5 on each of two. Memory counts where the nodes
    have any.
    """
    shares: dict[tuple[int, int], tuple[int, Resources] | None] = {}
    possible: list[SimJob] = []
    impossible: list[tuple[str, int]] = []
    for job, kb in zip(jobs, memory_kb, strict=True):
        key = (job.node_count, max(0, int(kb)))
        if key not in shares:
            shares[key] = _even_share(*key, machine.node)
        found = shares[key]
        if found is None or found[0] > machine.node_count:
            impossible.append((job.job_id, job.node_count if found is None else found[0]))
            continue
        job.node_count, job.demand = found
        possible.append(job)
    return possible, tuple(impossible)


def _even_share(processors: int, kb: int, node: Resources) -> tuple[int, Resources] | None:
    """How many nodes, and what of each. None: one processor and its memory are more than a node has."""
    most = node.amount(CPU)
    if kb and node.amount(MEMORY):
        most = min(most, node.amount(MEMORY) * 1024 // kb)
    if not most:
        return None
    nodes = -(-processors // most)
    each = -(-processors // nodes)
    memory_mb = -(-each * kb // 1024) if node.amount(MEMORY) else 0
    return nodes, Resources.of({CPU: each, MEMORY: memory_mb})
