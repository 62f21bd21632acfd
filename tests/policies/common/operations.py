"""Operations under way, for tests of what the policies share."""

from collections.abc import Callable

from makeway.policies.model import (
    Cluster,
    Job,
    Method,
    Operation,
    OperationKind,
    Phase,
    Progress,
    Reason,
    Requeue,
    Task,
)

Build = Callable[..., Job]

BuildCluster = Callable[..., Cluster]

NOW_S = 10_000.0


def operation(
    for_job_id: str,
    nodes: str,
    *victims: str,
    progress: Progress = Progress.PLANNED,
    phase: Phase = Phase.MAKING_ROOM,
    observe: bool = False,
) -> Operation:
    tasks = tuple(
        Task(
            action=Requeue(
                job_id=victim,
                for_job_id=for_job_id,
                policy="test",
                reason=Reason.URGENT_ARRIVAL,
                method=Method.KILL,
                not_after_s=NOW_S,
            ),
            progress=progress,
        )
        for victim in victims
    )
    return Operation(
        operation_id=f"{for_job_id}@1",
        kind=OperationKind.MAKE_WAY,
        for_job_id=for_job_id,
        policy="test",
        reservation=f"mw_{for_job_id}",
        nodes=tuple(nodes.split()),
        opened_s=NOW_S - 100.0,
        deadline_s=NOW_S + 500.0,
        give_up_s=NOW_S + 1100.0,
        phase=phase,
        tasks=tasks,
        observe=observe,
    )
