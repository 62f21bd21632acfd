"""Actions for tests that apply them directly: a policy's fields are filled in, and do not matter to an
adapter.
"""

from makeway.policies.model import (
    Cancel,
    Checkpoint,
    Expand,
    Method,
    Prioritise,
    Reason,
    Release,
    Requeue,
    Reserve,
    RestoreLimit,
    RestorePriority,
    RunIdentity,
    Shrink,
    SignalTarget,
    TakenFromJob,
)

_FOR = "urgent"
_POLICY = "test"
_WHY = Reason.URGENT_ARRIVAL


def checkpoint(
    job_id: str,
    *,
    signal: str,
    walltime_s: float,
    signal_to: SignalTarget = SignalTarget.BATCH,
    run: RunIdentity | None = None,
) -> Checkpoint:
    """Ask the running job to checkpoint."""
    return Checkpoint(
        job_id=job_id,
        for_job_id=_FOR,
        policy=_POLICY,
        reason=_WHY,
        signal=signal,
        grace_s=60.0,
        walltime_s=walltime_s,
        signal_to=signal_to,
        run=run,
    )


def requeue(
    job_id: str,
    *,
    forgotten_run: int | None = None,
    ended_by: str | None = None,
    run: RunIdentity | None = None,
) -> Requeue:
    """Put the job back into the queue."""
    return Requeue(
        job_id=job_id,
        for_job_id=_FOR,
        policy=_POLICY,
        reason=_WHY,
        method=Method.KILL,
        not_after_s=0.0,
        forgotten_run=forgotten_run,
        ended_by=ended_by,
        run=run,
    )


def cancel(job_id: str, *, run: RunIdentity | None = None) -> Cancel:
    """End the job."""
    return Cancel(
        job_id=job_id,
        for_job_id=_FOR,
        policy=_POLICY,
        reason=_WHY,
        method=Method.KILL,
        not_after_s=0.0,
        run=run,
    )


def shrink(
    job_id: str, *, keep_nodes: tuple[str, ...], walltime_s: float, run: RunIdentity | None = None
) -> Shrink:
    """Leave the running job these nodes only."""
    return Shrink(
        job_id=job_id,
        for_job_id=_FOR,
        policy=_POLICY,
        reason=_WHY,
        keep_nodes=keep_nodes,
        walltime_s=walltime_s,
        run=run,
    )


def expand(job_id: str, *, nodes: tuple[str, ...], reservation: str | None) -> Expand:
    """Give the running job these nodes back."""
    return Expand(
        job_id=job_id, for_job_id=_FOR, policy=_POLICY, reason=_WHY, nodes=nodes, reservation=reservation
    )


def reserve(
    name: str,
    *,
    nodes: tuple[str, ...],
    duration_s: float,
    job_id: str | None,
    user: str | None = None,
    overlap: bool = False,
    own: str | None = None,
    until_s: float | None = None,
) -> Reserve:
    """Hold the nodes for the pending job, or (`job_id` None) for an announced job of `user` (None: of u1)."""
    return Reserve(
        job_id="announced" if job_id is None else job_id,
        for_job_id=_FOR,
        policy=_POLICY,
        reason=_WHY,
        reservation=name,
        nodes=nodes,
        duration_s=duration_s,
        user=None if job_id is not None else "u1" if user is None else user,
        out_of=("mw_other",) if overlap else (),
        own_reservation=own,
        until_s=until_s,
    )


def release(name: str, *, job_id: str = _FOR, own: str | None = None, lost: bool = False) -> Release:
    """End the reservation of the job, which keeps its own one; `lost`: the cluster has lost it already."""
    return Release(
        job_id=job_id,
        for_job_id=_FOR,
        policy=_POLICY,
        reason=_WHY,
        reservation=name,
        own_reservation=own,
        lost=lost,
    )


def prioritise(job_id: str, *, queue_position: int | None = None) -> Prioritise:
    """Move the pending job to the front, or to its place in the planned order."""
    return Prioritise(
        job_id=job_id, for_job_id=_FOR, policy=_POLICY, reason=_WHY, queue_position=queue_position
    )


def restore_priority(job_id: str) -> RestorePriority:
    """Give the job the priority again that the cluster sets by itself."""
    return RestorePriority(job_id=job_id, for_job_id=_FOR, policy=_POLICY, reason=_WHY)


def restore_limit(
    job_id: str, taken: TakenFromJob, walltime_s: float | None = None, left: TakenFromJob | None = None
) -> RestoreLimit:
    """Give the job its time limit back."""
    return RestoreLimit(
        job_id=job_id,
        for_job_id=_FOR,
        policy=_POLICY,
        reason=_WHY,
        walltime_s=walltime_s,
        taken=taken,
        left=left,
    )
