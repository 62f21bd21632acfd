"""Nodes held for an announced job, and their loans, for tests."""

from collections.abc import Callable
from dataclasses import replace

from makeway.policies.hybrid.arrival import HybridConfig
from makeway.policies.model import (
    CheckpointSpec,
    Cluster,
    Job,
    Notice,
    Operation,
    OperationKind,
    Phase,
    Progress,
    Reason,
    Reservation,
    Reserve,
    Task,
)

Build = Callable[..., Job]

BuildCluster = Callable[..., Cluster]

NOW_S = 10_000.0

SAVES = CheckpointSpec(system_s=60.0)

ANY = HybridConfig(backfill_held="any")

NOTICE = Notice(
    notice_id="notice-1",
    user="urgent",
    node_count=3,
    walltime_s=1800.0,
    announced_s=NOW_S - 60.0,
    expected_s=NOW_S + 1200.0,
)


def collected(nodes: str, notice: Notice = NOTICE, *, job_id: str | None = None) -> Operation:
    """The operation of a notice that holds these nodes. `job_id`: the job that has come for it."""
    hold = Reserve(
        job_id=notice.notice_id,
        for_job_id=notice.notice_id,
        policy="cua-paa",
        reason=Reason.ANNOUNCED,
        reservation=f"mw_{notice.notice_id}",
        nodes=tuple(nodes.split()),
        duration_s=1800.0,
        user="urgent",
        kind=OperationKind.NOTICE,
    )
    return Operation(
        operation_id=f"{notice.notice_id}@1",
        kind=OperationKind.NOTICE if job_id is None else OperationKind.ARRIVAL,
        for_job_id=job_id or notice.notice_id,
        policy="cua-paa",
        reservation=hold.reservation,
        nodes=hold.nodes,
        opened_s=NOW_S - 60.0,
        deadline_s=notice.expected_s,
        give_up_s=notice.expected_s + 600.0,
        tasks=(Task(action=hold, progress=Progress.DONE),),
        notice=notice,
    )


def loan(job_id: str, nodes: str, *out_of: str, walltime_s: float = 9000.0) -> Reserve:
    return Reserve(
        job_id=job_id,
        for_job_id=job_id,
        policy="cua-paa",
        reason=Reason.SPECULATIVE,
        reservation=f"mw_{job_id}",
        nodes=tuple(nodes.split()),
        duration_s=walltime_s + 600.0,
        kind=OperationKind.LEND_HELD,
        out_of=out_of or ("mw_notice-1",),
    )


def guests_of(hold: Reserve, phase: Phase = Phase.LENT) -> Operation:
    """The operation of a job that was let on held nodes."""
    return Operation(
        operation_id=f"{hold.job_id}@2",
        kind=hold.kind,
        for_job_id=hold.job_id,
        policy="cua-paa",
        reservation=hold.reservation,
        nodes=hold.nodes,
        opened_s=NOW_S - 30.0,
        deadline_s=NOW_S + 1200.0,
        give_up_s=NOW_S + 30.0,
        phase=phase,
        tasks=(Task(action=hold, progress=Progress.DONE),),
        out_of=hold.out_of,
    )


def under_way(cluster: Cluster, *operations: Operation) -> Cluster:
    """The cluster with these operations; those that make room have their reservations."""
    kept = tuple(
        Reservation(name=one.reservation, nodes=one.nodes, start_s=NOW_S - 60.0, end_s=NOW_S + 1800.0)
        for one in operations
        if one.phase is Phase.MAKING_ROOM
    )
    notices = tuple(
        replace(one.notice, job_id=None if one.for_job_id == one.notice.notice_id else one.for_job_id)
        for one in operations
        if one.notice is not None
    )
    return replace(cluster, operations=operations, reservations=kept, notices=notices)
