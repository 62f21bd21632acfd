"""Random job logs for the offline optimum: small enough to be solved, and as P1 sizes them.

Reference:
    P1, section 5.5 (table 2: how many jobs on how many blocks) and section 7.3 (table 3: 20 logs of 5 batch
    and 2 urgent jobs, sizes at random from 512 to 8,192 nodes).

Differs from the paper:
    It does not tell runtimes and submissions: here runtimes are 10 to 240 minutes, and all jobs come within
    an hour.
"""

from math import ceil
from random import Random

from makeway.policies.model import JobKind
from makeway.simharness.papers.p1_offline.optimum import OfflineJob, OfflineProblem
from makeway.simharness.workloads.job import SimJob
from makeway.simharness.workloads.mira import checkpoint_s
from makeway.simharness.workloads.partitions import Partition, Partitions

RUNTIME_MIN = (10, 240)
SUBMIT_WITHIN_MIN = 60
TABLE_2 = tuple(
    (batch, urgent, blocks) for batch, urgent in ((2, 2), (3, 2), (4, 3)) for blocks in (4, 8, 16)
)
"""The rows of table 2: batch jobs, urgent jobs, blocks of 512 nodes."""
TABLE_3 = (5, 2, 16)
TABLE_3_LOGS = 20


def random_log(batch: int, urgent: int, machine_blocks: int, seed: int) -> OfflineProblem:
    """A random log: sizes are powers of two up to the whole machine, times uniform and whole minutes."""
    random = Random(seed)
    sizes = sizes_of(machine_blocks)
    jobs: list[OfflineJob] = []
    for index in range(batch + urgent):
        blocks = random.choice(sizes)
        is_urgent = index >= batch
        jobs.append(
            OfflineJob(
                job_id=str(index + 1),
                submit_s=60 * random.randint(0, SUBMIT_WITHIN_MIN),
                runtime_s=60 * random.randint(*RUNTIME_MIN),
                blocks=blocks,
                urgent=is_urgent,
                overhead_s=0 if is_urgent else ceil(checkpoint_s(blocks)),
            )
        )
    return OfflineProblem(jobs=tuple(jobs), machine_blocks=machine_blocks)


def as_workload(problem: OfflineProblem) -> list[SimJob]:
    """The same jobs for a replay, where they are not known in advance; their limits are their run times."""
    return [
        SimJob(
            job.job_id,
            float(job.submit_s),
            float(job.runtime_s),
            float(job.runtime_s),
            job.blocks,
            user="rtj" if job.urgent else "bj",
            kind=JobKind.ON_DEMAND if job.urgent else JobKind.RIGID,
        )
        for job in problem.jobs
    ]


def as_partitions(problem: OfflineProblem) -> Partitions:
    """The machine's aligned runs of blocks."""
    blocks = problem.machine_blocks
    every = tuple(
        Partition(name=f"{size} blocks from {first}", nodes=((1 << size) - 1) << first)
        for size in sizes_of(blocks)
        for first in range(0, blocks, size)
    )
    return Partitions(blocks, every)


def sizes_of(machine_blocks: int) -> list[int]:
    """Powers of two up to the whole machine."""
    return [1 << power for power in range(machine_blocks.bit_length()) if 1 << power <= machine_blocks]
