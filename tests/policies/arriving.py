"""What policy "eviction" decides, and the actions that are expected of it."""

from collections.abc import Callable
from typing import Any

from makeway.policies.eviction.policy import EVICTION, EvictionConfig
from makeway.policies.model import (
    CheckpointSpec,
    Cluster,
    Decision,
    Job,
    Method,
    Prioritise,
    Reason,
    Requeue,
    Reserve,
    SignalTarget,
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
