"""What running jobs hold on each node: read once for each run of a job, checked, and priced."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from makeway.adapters.protocol import Unreadable
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.parse_cluster import RawPartition
from makeway.adapters.slurm.resources.counting import Counting
from makeway.adapters.slurm.resources.details import JobDetails, details
from makeway.adapters.slurm.resources.gpu_parts import HeldGpus
from makeway.policies.model import CPU, MEMORY, Resources, dominant_share, total, weighted_share

MOST_BY_ID = 40
"""Above this number of unknown jobs the details of all jobs may be cheaper than those of single jobs."""
JOBS_PER_ID = 46
"""The details of one job by its id take as long as those of this many jobs in one text: 2.3 ms and 0.05 ms
(22.05 to 26.05).
"""
MOST_IN_A_TEXT = 100_000
"""The details of more jobs are too long for one text."""
MOST_AT_ONCE = 2_000
"""The details of so many jobs are read by their ids in one snapshot, which takes 5 s. The others count as
holding whole nodes until a later one.
"""
NO_THREADS: Mapping[str, int] = MappingProxyType({})
"""Every thread counts as a CPU."""
_MEMORY_ERROR = 0.005
"""Slurm may round the memory of a large job to three digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What one run of a job holds."""

    run: tuple[int, float | None, tuple[str, ...], int]
    """Restarts, start, nodes and CPUs: what changes if the job is requeued or resized."""
    held: Mapping[str, Resources] | None
    """By node. None: its details cannot be read or contradict squeue, so that it counts as holding whole
    nodes.
    """
    gpus: Mapping[str, HeldGpus] = field(default_factory=dict[str, HeldGpus])
    """By node: which GPUs it holds. Nodes with none are absent."""
    exclusive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a running job holds: see `Job.allocation` and `Job.node_equivalents`."""

    allocation: tuple[Resources, ...] | None = None
    node_equivalents: float | None = None


class Holdings:
    """Remembers what each running job holds, as it only changes when the job is resized.

    Args:
        counts: what this Slurm counts.
    """

    def __init__(self, counts: Counting) -> None:
        self._counts = counts
        self._known: dict[str, Holding] = {}
        self._ambiguous: set[str] = set()
        """The jobs that the text of all jobs does not show beyond doubt: they are asked for by their ids."""

    def to_ask(self, jobs: Sequence[RawJob]) -> tuple[tuple[str, ...], bool]:
        """Which of the snapshot's jobs have to be asked for by id, and whether all have to be asked for.

        Forgets the jobs that are not among them.
        """
        if not self._counts.shares:
            return (), False
        there = {job.job_id for job in jobs}
        self._known = {job_id: found for job_id, found in self._known.items() if job_id in there}
        self._ambiguous &= there
        unknown = [job.job_id for job in jobs if job.nodes and self.of(job) is None]
        new = [job_id for job_id in unknown if job_id not in self._ambiguous]
        if len(new) <= max(MOST_BY_ID, len(jobs) // JOBS_PER_ID) or len(jobs) > MOST_IN_A_TEXT:
            return tuple(unknown[:MOST_AT_ONCE]), False
        return tuple(job_id for job_id in unknown if job_id in self._ambiguous), True

    def learn(
        self,
        jobs: Iterable[RawJob],
        texts: Mapping[str, str],
        records: Mapping[str, str | None],
        threads: Mapping[str, int] = NO_THREADS,
    ) -> None:
        """Take over what was read of the jobs: `texts` by id, `records` from the text of all jobs.

        `threads`: see `counting.threads_per_cpu`.
        """
        for job in jobs:
            if not job.nodes or self.of(job) is not None:
                continue
            if job.job_id in texts:
                self._known[job.job_id] = self._holding(job, details(texts[job.job_id], job), threads)
            elif records:
                record = records.get(job.job_id)
                found = None if record is None else details(record, job)
                if found is None:
                    self._ambiguous.add(job.job_id)
                else:
                    self._known[job.job_id] = self._holding(job, found, threads)

    def of(self, job: RawJob) -> Holding | None:
        """What the job holds. None: it was not asked for yet."""
        known = self._known.get(job.job_id)
        if known is None or known.run == _run(job):
            return known
        # A job that completes gives its nodes away one by one, and may already count its next run.
        leaves = job.state == "COMPLETING" and known.held is not None
        return known if leaves and known.held and known.held.keys() >= set(job.nodes) else None

    def _holding(self, job: RawJob, found: JobDetails | None, threads: Mapping[str, int]) -> Holding:
        held = None if found is None or found.held is None else _in_cpus(found.held, threads)
        sound = held is not None and _adds_up(held, job, self._counts)
        return Holding(
            run=_run(job),
            held=held if sound else None,
            gpus={} if found is None else found.gpus,
            exclusive=found is not None and found.exclusive,
        )


def parts_of(
    job: RawJob, holding: Holding | None, capacities: Mapping[str, Resources]
) -> tuple[Resources, ...] | None:
    """What the job holds of what counts on each of its nodes, in their order. None: whole nodes.

    A job that holds all CPUs or all memory of each of its nodes leaves nothing that others could use.
    """
    held = None if holding is None else holding.held
    if held is None or not all(name in capacities for name in job.nodes):
        return None
    parts = tuple(_counted(held[name], capacities[name]) for name in job.nodes)
    full = all(fills(part, capacities[name]) for part, name in zip(parts, job.nodes, strict=True))
    return None if full else parts


def fills(part: Resources, whole: Resources) -> bool:
    """Whether nothing of a node is left that a job could run on: no CPU or no memory."""
    return any(0 < whole.amount(name) <= part.amount(name) for name in (CPU, MEMORY))


def node_equivalents(
    job: RawJob,
    parts: tuple[Resources, ...] | None,
    capacities: Mapping[str, Resources],
    weights: Mapping[str, float],
) -> float | None:
    """How many whole nodes the allocation counts as. None: as many as there are.

    `weights` are the site's billing weights. Empty: the dominant share counts.
    """
    if parts is None:
        return None
    pairs = [(part, capacities[name]) for part, name in zip(parts, job.nodes, strict=True)]
    if weights:
        return sum(weighted_share(part, whole, weights) for part, whole in pairs)
    return sum(dominant_share(part, whole) for part, whole in pairs)


def billing_weights(partition: RawPartition) -> Mapping[str, float]:
    """The weights of the partition by trackable resource. Raises Unreadable if they cannot be read."""
    if partition.weights is None:
        message = f"TRESBillingWeights of partition {partition.name} cannot be read (price: billing_weights)"
        raise Unreadable(message, command=("scontrol", "show", "partitions"), text="")
    return dict(partition.weights)


def _run(job: RawJob) -> tuple[int, float | None, tuple[str, ...], int]:
    return job.restarts, job.start_s, job.nodes, job.cpu_count


def _counted(part: Resources, whole: Resources) -> Resources:
    names = {name for name, _ in whole.amounts}
    return Resources.of({name: amount for name, amount in part.amounts if name in names})


def _in_cpus(held: Mapping[str, Resources], threads: Mapping[str, int]) -> Mapping[str, Resources]:
    """The same in CPUs, of numbers of threads: see `counting.threads_per_cpu`."""
    if threads.keys().isdisjoint(held):
        return held
    return {
        name: Resources.of(dict(part.amounts) | {CPU: part.amount(CPU) // threads.get(name, 1)})
        for name, part in held.items()
    }


def _adds_up(held: Mapping[str, Resources], job: RawJob, counts: Counting) -> bool:
    """Whether the parts are those that squeue shows the sums of."""
    if set(held) != set(job.nodes):
        return False
    whole = total(tuple(held.values()))
    # Where CPUs are given by number (CR_CPU), squeue shows what was asked for, and the job holds whole cores.
    rounded_up = not counts.memory_by_unit and whole.amount(CPU) > job.cpu_count
    if counts.cpus and whole.amount(CPU) != job.cpu_count and not rounded_up:
        return False
    memory_mb = job.tres_memory_mb
    if counts.memory and memory_mb and abs(whole.amount(MEMORY) - memory_mb) > _MEMORY_ERROR * memory_mb:
        return False
    return all(whole.amount(name) == amount for name, amount in job.tres_gres.items())
