"""Random job logs for the offline optimum: small enough to be solved, and as P1 sizes them.

Reference:
    P1, section 5.5 (table 2: how many jobs on how many blocks) and section 7.3 (table 3: 20 logs of 5 batch and 2 urgent
    jobs, sizes at random from 512 to 8,192 nodes).

Differs from the paper:
    It does not tell runtimes and submissions: here runtimes are 10 to 240 minutes, and all jobs come within an hour.
"""

from random import Random

from makeway.simharness.offline import BLOCK_NODES, OfflineJob, OfflineProblem, overhead_s

RUNTIME_MIN = (10, 240)
SUBMIT_WITHIN_MIN = 60
TABLE_2 = tuple(
    (batch, urgent, blocks) for batch, urgent in ((2, 2), (3, 2), (4, 3)) for blocks in (4, 8, 16)
)
"""The rows of table 2: batch jobs, urgent jobs, blocks of 512 nodes."""
TABLE_3 = (5, 2, 16)
TABLE_3_LOGS = 20


def random_log(batch: int, urgent: int, machine_blocks: int, seed: int) -> OfflineProblem:
    """A log of so many jobs: sizes are powers of two up to the whole machine, all times uniform and whole minutes."""
    random = Random(seed)
    sizes = [1 << power for power in range(machine_blocks.bit_length()) if 1 << power <= machine_blocks]
    jobs = []
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
                overhead_s=0 if is_urgent else overhead_s(blocks * BLOCK_NODES),
            )
        )
    return OfflineProblem(jobs=tuple(jobs), machine_blocks=machine_blocks)
