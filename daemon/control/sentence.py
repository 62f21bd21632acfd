"""What a cycle did, in the one sentence that is logged."""

from collections import Counter

from makeway.daemon.config.mode import Mode
from makeway.daemon.control.executor import ActionReport
from makeway.policies.model import Operation


def sentence_of(
    mode: Mode,
    waiting: int,
    reports: list[ActionReport],
    started: list[Operation],
    closed: tuple[Operation, ...],
    open_count: int,
) -> str:
    """What a cycle did, in the words of the log."""
    parts = [f"{waiting} urgent waiting"]
    done = Counter((report.outcome, report.action.verb) for report in reports)
    parts += [f"{outcome.replace('_', ' ')} {verb} ×{count}" for (outcome, verb), count in done.items()]
    parts += [_told_start(operation) for operation in started]
    parts += [
        f"operation for {operation.for_job_id} closed: {operation.outcome}"
        for operation in closed
        if operation.reservation
    ]
    parts.append(f"{open_count} operation{'' if open_count == 1 else 's'} open")
    return f"{mode}: " + "; ".join(parts)


def _told_start(operation: Operation) -> str:
    """That the job of an operation has started, in the words of the log."""
    if operation.speculative:
        return f"job {operation.for_job_id} started before its turn"
    if not operation.keeps_hold:
        return f"job {operation.for_job_id}, first of the queue, started"
    return f"urgent job {operation.for_job_id} started"
