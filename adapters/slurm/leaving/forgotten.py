"""A job whose requeue a crashed slurmctld has forgotten is requeued again: see decision 7.

slurmctld saves its state some seconds late. In its next life it takes the end of the job for the job's own.
"""

from makeway.adapters.protocol import Gone, NotForgotten, Rejected
from makeway.adapters.slurm import build
from makeway.adapters.slurm.access import SlurmClient, check_run
from makeway.adapters.slurm.leaving.taken import TakenWords
from makeway.adapters.slurm.translate import over, state
from makeway.policies.model import JobState, Requeue

_CANCELLED = "CANCELLED"
_REVOKED = "REVOKED"
"""The state of a job that another cluster of the federation has. A job that came from another cluster has it
for a moment after its requeue: then that cluster has put it into the queue, and offers it again.
"""


def requeue_again(client: SlurmClient, taken: TakenWords, action: Requeue, requeue_count: int) -> None:
    """Repeat the requeue of a job from the run of that number. The job may have ended.

    Raises:
        NotForgotten: the job waits, or is in a later run.
        Rejected: it is still completing: how it ends is not known yet.
        Gone: it was cancelled, is over for another reason, or in another run of that number.
    """
    job_id = action.job_id
    job = next((one for one in client.squeue(job_id, ended=True) if one.job_id == job_id), None)
    if job is None or (over(job) and job.restarts != requeue_count):
        raise Gone(f"job {job_id} is over")
    if job.state == _CANCELLED:
        raise Gone(f"job {job_id} was cancelled")
    if job.state == _REVOKED:
        raise NotForgotten(f"another cluster of the federation has job {job_id}")
    if job.restarts > requeue_count or state(job) is JobState.PENDING:
        raise NotForgotten(f"job {job_id} has left the run that is meant")
    if job.restarts == requeue_count and state(job) is JobState.COMPLETING:
        raise Rejected(f"job {job_id} is still completing", retryable=True)
    if job.restarts < requeue_count or not (over(job) or state(job) is JobState.RUNNING):
        raise Gone(f"job {job_id} is not in the run that is meant, or suspended")
    check_run(job, action.run)
    if state(job) is JobState.RUNNING:
        taken.note_requeue(job, action)
    client.do(build.requeue_any(job_id))
    taken.owe_turn(action, requeue_count)
