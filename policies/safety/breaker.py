"""The circuit breaker: after too many failures nothing more is taken from any job, until they are old enough.

A failure is a command that takes something and that the cluster refused for good, or any command that it did not answer.
Both show that makeway does not understand the cluster, or the cluster its commands: to take more would be a loss without
a gain. A request to try again is no failure, nor is a command that this cluster cannot carry out at all, nor a refusal
of a command that gives something back.
"""

from collections.abc import Iterable

from makeway.policies.model import Action, Cancel, Checkpoint, Limits, Requeue, Reserve, Shrink


def takes(action: Action) -> bool:
    """Whether the action takes something from a job: its nodes, its time, or nodes that it could have had."""
    return isinstance(action, Checkpoint | Requeue | Cancel | Shrink | Reserve)


def breaker_tripped(failures_s: Iterable[float], limits: Limits, now_s: float) -> bool:
    """Whether too many commands have failed.

    Args:
        failures_s: when commands failed; those that are too old to count may be among them.
        limits: how many failures within which time are too many. One that is exactly as old as that time counts no more.
        now_s: the present instant.
    """
    if limits.breaker_failures is None:
        return False
    since_s = now_s - limits.breaker_window_s
    return sum(1 for failed_s in failures_s if failed_s > since_s) >= limits.breaker_failures
