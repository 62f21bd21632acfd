"""The nouns of makeway: a cluster at one instant, and the actions that may be taken on it.

Every value is frozen. Names ending in `_s` are seconds: instants are POSIX time on a live cluster and trace
time in the simulator, durations are plain seconds. A job that is absent from `Cluster.jobs` has ended or
never existed. This is the only module of the folder that others import. The folder uses the standard library
only, so that an adapter that imports it loads nothing else.
"""

from makeway.policies.model.actions import (
    QUEUE_POSITIONS,
    VERBS,
    Action,
    Cancel,
    Checkpoint,
    Expand,
    Method,
    Prioritise,
    Reason,
    Release,
    Requeue,
    Reserve,
    RestorePriority,
    Shrink,
    Verb,
)
from makeway.policies.model.cluster import (
    Cluster,
    Limits,
    Plan,
    memoise_last,
    names,
)
from makeway.policies.model.decision import (
    Candidate,
    Decision,
    Rationale,
)
from makeway.policies.model.entities import (
    RESERVATION_PREFIX,
    Acknowledgement,
    CheckpointSpec,
    Eviction,
    Job,
    JobKind,
    JobState,
    Node,
    NodeState,
    Notice,
    Placement,
    Reservation,
    SignalTarget,
    reservation_name,
)
from makeway.policies.model.kind import OperationKind
from makeway.policies.model.operation import (
    Ending,
    Lease,
    Operation,
    OperationOutcome,
    Phase,
    Progress,
    Task,
    kind_of,
)

__all__ = [
    "QUEUE_POSITIONS",
    "RESERVATION_PREFIX",
    "VERBS",
    "Acknowledgement",
    "Action",
    "Cancel",
    "Candidate",
    "Checkpoint",
    "CheckpointSpec",
    "Cluster",
    "Decision",
    "Ending",
    "Eviction",
    "Expand",
    "Job",
    "JobKind",
    "JobState",
    "Lease",
    "Limits",
    "Method",
    "Node",
    "NodeState",
    "Notice",
    "Operation",
    "OperationKind",
    "OperationOutcome",
    "Phase",
    "Placement",
    "Plan",
    "Prioritise",
    "Progress",
    "Rationale",
    "Reason",
    "Release",
    "Requeue",
    "Reservation",
    "Reserve",
    "RestorePriority",
    "Shrink",
    "SignalTarget",
    "Task",
    "Verb",
    "kind_of",
    "memoise_last",
    "names",
    "reservation_name",
]
