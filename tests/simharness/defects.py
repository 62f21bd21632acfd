"""Policies in files that fail in a replay."""

from pathlib import Path

_RAISES = '''"""A policy that raises an exception."""

from dataclasses import dataclass

from makeway.policies.api import Cluster, Decision, Policy


@dataclass(frozen=True)
class RaisesConfig:
    """No settings."""


def decide(cluster: Cluster, config: RaisesConfig) -> Decision:
    """Fail as soon as an urgent job waits."""
    if cluster.waiting_urgent_jobs():
        raise ZeroDivisionError("no way")
    return Decision(policy="raises")


RAISES = Policy(name="raises", summary="It raises an exception.", config_type=RaisesConfig, decide=decide)
'''
_LOOPS = '''"""A policy that holds nodes and releases them again, without end."""

from dataclasses import dataclass

from makeway.policies.api import Cluster, Decision, Policy, Reason, Release, Reserve


@dataclass(frozen=True)
class LoopsConfig:
    """No settings."""


def decide(cluster: Cluster, config: LoopsConfig) -> Decision:
    """Hold nodes for the first urgent job that waits, or release its hold."""
    held = cluster.operations_by_job()
    for job in cluster.waiting_urgent_jobs()[:1]:
        base = {"job_id": job.job_id, "for_job_id": job.job_id, "policy": "loops", "reason": Reason.NO_ROOM}
        if job.job_id in held:
            release = Release(reservation=held[job.job_id].reservation, **base)
            return Decision(policy="loops", actions=(release,))
        nodes = tuple(node.name for node in cluster.nodes[: job.node_count])
        reserve = Reserve(
            reservation=cluster.hold_name(job.job_id), nodes=nodes, duration_s=9000.0, **base
        )
        return Decision(policy="loops", actions=(reserve,))
    return Decision(policy="loops")


LOOPS = Policy(name="loops", summary="It never ends.", config_type=LoopsConfig, decide=decide)
'''


def write_defects(folder: Path) -> None:
    """Write `raises.py` and `loops.py` there."""
    (folder / "raises.py").write_text(_RAISES)
    (folder / "loops.py").write_text(_LOOPS)
