"""How far an operation for an announced job is. Imported through `model`.

A notice opens an operation under the notice's id. When the announced job arrives, the operation passes to the job; it is
`unbound` until the policy has made the hold again under the job's id.
"""

from makeway.policies.model.actions import Reserve
from makeway.policies.model.operation import Operation


def awaited(operation: Operation) -> bool:
    """Whether the operation holds nodes for an announced job that has not arrived."""
    return operation.notice is not None and operation.for_job_id == operation.notice.notice_id


def unbound(operation: Operation) -> bool:
    """Whether the announced job has arrived and no hold has been requested under its own id yet."""
    return (
        operation.notice is not None
        and not awaited(operation)
        and not any(
            isinstance(task.action, Reserve) and task.action.job_id == operation.for_job_id
            for task in operation.tasks
        )
    )
