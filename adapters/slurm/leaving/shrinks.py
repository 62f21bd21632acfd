"""A running job is left some of its nodes.

Slurm 22.05.8 without slurmdbd shrinks a job once. Another time it waits some seconds for a number that only
the database gives. Then it asks to be asked again ("the DB index is being set"), or sends an answer that
scontrol does not expect ("Unexpected message received"). The job keeps its nodes. Tried on 2026-11-27; 24.11
and 26.05 shrink such a job again.
"""

from makeway.adapters.protocol import Rejected, Unavailable
from makeway.adapters.slurm.access import SlurmClient
from makeway.adapters.slurm.errors import answered_oddly, waits_for_database
from makeway.adapters.slurm.leaving.taken import TakenWords
from makeway.adapters.slurm.parse import RawJob
from makeway.policies.model import Shrink


def shrink_to(
    client: SlurmClient, taken: TakenWords, job: RawJob, action: Shrink, limit_min: int | None
) -> None:
    """Leave a running job the nodes that it keeps, and raise its time limit. Raises what a refusal means.

    `limit_min`: the new time limit in minutes. None: it stays.
    """
    try:
        taken.take(job, action, keep_nodes=action.keep_nodes, limit_min=limit_min)
    except (Rejected, Unavailable) as error:
        waits_for_ever = waits_for_database(error) and not client.known().has_database
        if not (answered_oddly(error) or waits_for_ever):
            raise
        if set(client.running(job.job_id, action.run).nodes) != set(action.keep_nodes):
            why = "22.05 without slurmdbd does so if it has shrunk the job before"
            raise Rejected(f"{error}; the job keeps its nodes ({why})") from error
