"""Actions and operations for the arbiter, and what it refuses of them."""

from collections.abc import Callable

from makeway.policies.gate.arbiter import arbitrate
from makeway.policies.model import (
    Action,
    Cancel,
    Checkpoint,
    Cluster,
    Expand,
    Job,
    Method,
    Operation,
    OperationKind,
    Phase,
    Prioritise,
    Reason,
    Release,
    Requeue,
    Reserve,
    Shrink,
    Task,
    reservation_name,
)
from makeway.policies.safety.protection import Refusal

Build = Callable[..., Job]

BuildCluster = Callable[..., Cluster]


def hold(for_job_id: str, nodes: str, name: str | None = None) -> Reserve:
    return Reserve(
        job_id=for_job_id,
        for_job_id=for_job_id,
        policy="test",
        reason=Reason.URGENT_ARRIVAL,
        reservation=reservation_name(for_job_id) if name is None else name,
        nodes=tuple(nodes.split()),
        duration_s=3600.0,
    )


def requeue(job_id: str, for_job_id: str = "u") -> Requeue:
    return Requeue(
        job_id=job_id,
        for_job_id=for_job_id,
        policy="test",
        reason=Reason.URGENT_ARRIVAL,
        method=Method.KILL,
        not_after_s=10_000.0,
    )


def cancel(job_id: str, for_job_id: str = "u") -> Cancel:
    return Cancel(
        job_id=job_id,
        for_job_id=for_job_id,
        policy="test",
        reason=Reason.URGENT_ARRIVAL,
        method=Method.KILL,
        not_after_s=10_000.0,
    )


def checkpoint(job_id: str, for_job_id: str = "u") -> Checkpoint:
    return Checkpoint(
        job_id=job_id,
        for_job_id=for_job_id,
        policy="test",
        reason=Reason.URGENT_ARRIVAL,
        signal="USR1",
        grace_s=60.0,
        walltime_s=3660.0,
    )


def shrink(job_id: str, keep: str, for_job_id: str = "u") -> Shrink:
    return Shrink(
        job_id=job_id,
        for_job_id=for_job_id,
        policy="test",
        reason=Reason.URGENT_ARRIVAL,
        keep_nodes=tuple(keep.split()),
        walltime_s=30_000.0,
    )


def giving_back(for_job_id: str = "u") -> tuple[Action, ...]:
    return (
        Expand(
            job_id="a",
            for_job_id=for_job_id,
            policy="test",
            reason=Reason.BORROWER_ENDED,
            nodes=("n0",),
            reservation=None,
        ),
        Prioritise(job_id="a", for_job_id=for_job_id, policy="test", reason=Reason.BORROWER_ENDED),
        Release(
            job_id=for_job_id,
            for_job_id=for_job_id,
            policy="test",
            reason=Reason.BORROWER_ENDED,
            reservation="mw_u",
        ),
    )


def refusals(actions: tuple[Action, ...], cluster: Cluster) -> list[Refusal | None]:
    verdicts = arbitrate(actions, cluster)
    assert tuple(verdict.action for verdict in verdicts) == actions
    assert all(bool(verdict.detail) == (verdict.refusal is not None) for verdict in verdicts)
    assert all(verdict.allowed == (verdict.refusal is None) for verdict in verdicts)
    return [verdict.refusal for verdict in verdicts]


def operation(
    *actions: Action, phase: Phase = Phase.MAKING_ROOM, nodes: str = "n0", observe: bool = False
) -> Operation:
    return Operation(
        operation_id="u@1",
        kind=OperationKind.MAKE_WAY,
        for_job_id="u",
        policy="test",
        reservation="mw_u",
        nodes=tuple(nodes.split()),
        opened_s=9_000.0,
        deadline_s=10_500.0,
        give_up_s=11_000.0,
        phase=phase,
        tasks=tuple(Task(action=action) for action in actions),
        observe=observe,
    )
