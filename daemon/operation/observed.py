"""The life of an operation in observe mode: nothing is issued, and its job is watched until it starts without
help.
"""

from dataclasses import replace
from typing import assert_never

from makeway.policies.model import (
    Cluster,
    Job,
    JobKind,
    JobState,
    Operation,
    OperationKind,
    OperationOutcome,
    Phase,
)


def advance_observed(operation: Operation, cluster: Cluster) -> Operation:
    """Bring an operation of observe mode up to date with a snapshot; itself where nothing has changed.

    One for a start ends when its job has started, is gone or is not urgent any more. An urgent job that waits
    for too long is watched further: in act mode its nodes would be lent by then, so they are promised to no
    other job any more.
    """
    job = cluster.jobs_by_id().get(operation.for_job_id)
    match operation.kind:
        case OperationKind.NOTICE | OperationKind.CLEAN_UP:
            return _expire(operation, cluster)
        case OperationKind.FRONT if job is None:
            return close_observed(operation, OperationOutcome.NOT_STARTED, cluster.now_s)
        case OperationKind.FRONT | OperationKind.REORDER:
            if job is None or job.kind is not JobKind.ON_DEMAND:
                return _expire(operation, cluster)
            return _watch(operation, job, cluster)
        case OperationKind.MAKE_WAY | OperationKind.MAKE_WAY_SHARED | OperationKind.ARRIVAL:
            return _watch(operation, job, cluster)
        case OperationKind.QUEUE_HEAD | OperationKind.LEND_HELD | OperationKind.EARLY_START:
            return _watch(operation, job, cluster)
        case _:
            assert_never(operation.kind)


def close_observed(operation: Operation, outcome: OperationOutcome, now_s: float) -> Operation:
    """The operation, over."""
    return replace(operation, phase=Phase.CLOSED, ended_s=now_s, outcome=outcome)


def _watch(operation: Operation, job: Job | None, cluster: Cluster) -> Operation:
    if job is None:
        return close_observed(operation, OperationOutcome.NOT_STARTED, cluster.now_s)
    if job.state is not JobState.PENDING:
        operation = replace(operation, started_s=job.start_s)
        return close_observed(operation, OperationOutcome.STARTED, cluster.now_s)
    if operation.kind.serves_urgent_job and job.kind is not JobKind.ON_DEMAND:
        return close_observed(operation, OperationOutcome.NOT_STARTED, cluster.now_s)
    if not _is_late(operation, cluster) or operation.phase is Phase.LENT:
        return operation
    if job.kind is JobKind.ON_DEMAND:
        return replace(operation, phase=Phase.LENT)
    return close_observed(operation, OperationOutcome.STILL_WAITS, cluster.now_s)


def _expire(operation: Operation, cluster: Cluster) -> Operation:
    if not _is_late(operation, cluster):
        return operation
    return close_observed(operation, OperationOutcome.EXPIRED, cluster.now_s)


def _is_late(operation: Operation, cluster: Cluster) -> bool:
    return cluster.now_s >= operation.give_up_s
