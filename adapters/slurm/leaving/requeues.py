"""Whether a job that is requeued runs again. A pure function of a record."""

from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.partitions.rules import PartitionRules
from makeway.adapters.slurm.waiting.eligibility import is_held


def goes_back(raw: RawJob, rules: PartitionRules, size_before: int = 0) -> bool:
    """Whether Slurm requeues the job if it is asked to, and lets it start again. `size_before`: how many
    nodes it had before it was shrunk.

    Slurm ends a waiting job that could not be over by its deadline. A job that was held while it runs keeps
    running, and would be held in the queue (22.05, 24.11 as tried). So would one whose partition was closed.
    """
    held = bool(raw.nodes) and is_held(raw)
    able = raw.batch and raw.requeueable and raw.deadline_s is None
    return able and not held and rules.starts_again(raw, size_before)
