"""What policy "eviction" decides, the actions that are expected of it, and what the cluster shows of them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from makeway.policies.eviction.policy import EVICTION, EvictionConfig
from makeway.policies.model import (
    CheckpointSpec,
    Cluster,
    Decision,
    Job,
    Method,
    Operation,
    OperationKind,
    Prioritise,
    Progress,
    Reason,
    Requeue,
    Reservation,
    Reserve,
    SignalTarget,
    Task,
)

Build = Callable[..., Job]
BuildCluster = Callable[..., Cluster]

NOW_S = 10_000.0
BOTH = CheckpointSpec(
    interval_s=600.0,
    application_s=30.0,
    system_s=100.0,
    signal="USR2",
    signal_to=SignalTarget.STEPS,
    grace_s=200.0,
)


def decide(cluster: Cluster, **settings: Any) -> Decision:
    return EVICTION.decide(cluster, EvictionConfig(**settings))


def hold(for_job_id: str, nodes: str, duration_s: float, reason: Reason = Reason.URGENT_ARRIVAL) -> Reserve:
    return Reserve(
        job_id=for_job_id,
        for_job_id=for_job_id,
        policy="eviction",
        reason=reason,
        reservation=f"mw_{for_job_id}",
        nodes=tuple(nodes.split()),
        duration_s=duration_s,
    )


def requeue(
    job_id: str,
    for_job_id: str,
    method: Method,
    not_after_s: float,
    reason: Reason = Reason.URGENT_ARRIVAL,
) -> Requeue:
    return Requeue(
        job_id=job_id,
        for_job_id=for_job_id,
        policy="eviction",
        reason=reason,
        method=method,
        not_after_s=not_after_s,
    )


def prioritise(job_id: str) -> Prioritise:
    return Prioritise(job_id=job_id, for_job_id=job_id, policy="eviction", reason=Reason.NO_ROOM)


def victims(decision: Decision) -> list[tuple[str, Method]]:
    return [(action.job_id, action.method) for action in decision.actions if isinstance(action, Requeue)]


def carried_out(view: Cluster, decision: Decision) -> Cluster:
    """The snapshot in which the holds of a decision are made and its other commands are accepted, and no job
    has left.
    """
    held = [one for one in decision.actions if isinstance(one, Reserve)]
    deadlines_s = {why.for_job_id: why.deadline_s for why in decision.rationale}
    return replace(
        view,
        reservations=tuple(
            Reservation(name=one.reservation, nodes=one.nodes, start_s=view.now_s, end_s=1e6) for one in held
        ),
        operations=tuple(
            Operation(
                operation_id=f"{one.job_id}@1",
                kind=OperationKind.MAKE_WAY,
                for_job_id=one.job_id,
                policy=one.policy,
                reservation=one.reservation,
                nodes=one.nodes,
                opened_s=view.now_s,
                deadline_s=deadlines_s[one.job_id],
                give_up_s=1e6,
                tasks=tuple(
                    Task(
                        action=action,
                        progress=Progress.DONE if action is one else Progress.ACCEPTED,
                        issued_s=view.now_s,
                    )
                    for action in decision.actions
                    if action.for_job_id == one.job_id
                ),
            )
            for one in held
        ),
    )
