"""What becomes of operations that were under way when another daemon took the lease."""

from dataclasses import replace

from makeway.daemon.operation.tasks import ENDED, ended
from makeway.policies.model import Ending, Operation, OperationOutcome, Phase


def left_off(operation: Operation, now_s: float) -> Operation:
    """The operation, over. The daemon that leads gives back what it has taken."""
    tasks = tuple(
        task if task.progress in ENDED else ended(task, Ending.LED_ELSEWHERE, now_s)
        for task in operation.tasks
    )
    return replace(
        operation,
        tasks=tasks,
        phase=Phase.CLOSED,
        outcome=OperationOutcome.LED_ELSEWHERE,
        ended_s=now_s if operation.ended_s is None else operation.ended_s,
    )
