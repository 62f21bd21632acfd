"""The circuit breaker: after too many failures, makeway takes nothing from jobs until the failures are old
enough.

A failure is a command that takes something from a job and that the cluster refused finally, or any command
that it did not answer. Both show that makeway and the cluster do not understand each other: a further
eviction would be a loss without a gain. Three answers are not failures: a request to try again, a command
that this cluster does not support, and a refusal of a command that gives something back. Of several
refused holds for one urgent job the last one counts: no job leaves for them.
"""

from collections.abc import Iterable

from makeway.policies.model import Action, Cancel, Checkpoint, Limits, Requeue, Reserve, Shrink


def takes(action: Action) -> bool:
    """Whether the action takes something from a job: its nodes, its time, or nodes that it could have had."""
    return isinstance(action, Checkpoint | Requeue | Cancel | Shrink | Reserve)


def breaker_tripped(failures_s: Iterable[float], limits: Limits, now_s: float) -> bool:
    """Whether too many commands have failed.

    Args:
        failures_s: when commands failed; failures that are too old to count may be included.
        limits: how many failures within which time are too many. A failure exactly that old no longer
            counts, nor does one in the future: the clock was wrong then.
        now_s: the current instant.
    """
    if limits.breaker_failures is None:
        return False
    since_s = now_s - limits.breaker_window_s
    return sum(1 for failed_s in failures_s if since_s < failed_s <= now_s) >= limits.breaker_failures
