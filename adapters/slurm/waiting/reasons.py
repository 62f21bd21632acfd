"""What a waiting job lacks, by the reason that Slurm gives. Pure functions."""

from collections.abc import Mapping

from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.resources.details import present_reason
from makeway.policies.model import ANOTHER_JOB

_NOT_LOOKED_AT = None
"""Slurm has not looked at the job since it was changed: for some three seconds it shows no reason."""
_NODES = ""
"""It waits for nodes, for its turn, or for its requeue to be over: free nodes would let it start."""
_REASONS: tuple[tuple[str, str | None], ...] = (
    ("None", _NOT_LOOKED_AT),
    ("SchedDefer", _NOT_LOOKED_AT),
    ("FedJobLock", _NOT_LOOKED_AT),  # another cluster of the federation tries to start it
    ("Resources", _NODES),
    ("Priority", _NODES),
    ("BeginTime", _NODES),
    ("Reservation", _NODES),
    ("ReqNodeNotAvail", _NODES),
    ("Nodes required for job are DOWN", _NODES),
    ("Cleaning", _NODES),
    ("Licenses", "a licence"),
    ("BurstBuffer", "a burst buffer"),
    ("Dependency", ANOTHER_JOB),
    ("JobHeld", "its release from a hold"),
    ("job requeued in held state", "its release from a hold"),
    ("launch failed requeued held", "its release from a hold"),
    ("JobArrayTaskLimit", "other tasks of its array"),
    ("QOS", "a limit of its QOS"),
    ("InvalidQOS", "a valid QOS"),
    ("Assoc", "a limit of its account or user"),
    ("AccountingPolicy", "a limit of its account or user"),
    ("InvalidAccount", "a valid account"),
    ("Partition", "what its partition does not allow now"),
)
"""What a waiting job lacks, by how Slurm's reason begins; the first that fits counts. A job with any other
reason lacks that.

Tried on 22.05 and 24.11: None, Resources, Priority, BeginTime, ReqNodeNotAvail, Licenses, Dependency,
JobHeldUser, JobHeldAdmin, QOSMaxJobsPerUserLimit, QOSGrpNodeLimit, PartitionDown, PartitionNodeLimit,
PartitionTimeLimit.
"""


OF_PARTITION = ("Partition", "Job's account", "Job's QOS", "MaxMemPerLimit")
"""How the reasons begin by which one partition refuses a job, as tried on 22.05, 24.11 and 26.05. Of a job in
several partitions, Slurm names the one that it tried last.
"""
OF_LIMITS = ("QOS", "Assoc")
"""How the reasons begin by which a limit keeps a job from starting, likewise."""


def lacks_by_reason(raw: RawJob, tasks_left: Mapping[str, float]) -> str:
    """What Slurm's reason says that a waiting job lacks besides nodes. Empty: nothing. `tasks_left`: see
    `details.tasks_left`.
    """
    return _lacks(raw, tasks_left) or ""


def looked_at(raw: RawJob, tasks_left: Mapping[str, float]) -> bool:
    """Whether Slurm has looked at a waiting job since it was changed."""
    return _lacks(raw, tasks_left) is not _NOT_LOOKED_AT


def _lacks(raw: RawJob, tasks_left: Mapping[str, float]) -> str | None:
    reason = present_reason(raw, tasks_left).replace("_", " ")
    found = (lacks for begin, lacks in _REASONS if reason.startswith(begin))
    return next(found, "what Slurm names as the reason")
