"""What a policy written elsewhere may import: stable names, in one module.

A name leaves this list, or changes its meaning, only with a new major version of makeway.
`docs/examples/youngest.py` is a policy that imports nothing else of makeway. The three parts:

- the contract: `Policy`, `Planner`, and `require_durations` for settings;
- the model: the snapshot that a policy gets (`Cluster` and what it contains), the actions, and the `Decision`
that it returns;
- the frame of a policy that makes room for urgent jobs: `decide_each` calls it for each `Request` that free
  nodes do not serve; it chooses among `victim_groups` and returns a `Proposal` of a `hold` and
  `eviction_actions`, or `no_room`.
"""

from makeway.policies.common.losses import application_s, loss_node_s, system_s
from makeway.policies.common.proposals import decide_each, eviction_actions, hold, no_room
from makeway.policies.common.queue_order import queue_key, waits_for_nodes
from makeway.policies.common.requests import Proposal, Request, rationale
from makeway.policies.common.urgent_jobs import UrgentJob
from makeway.policies.common.victims import VictimGroup, leavers, stays, take_until, victim_groups
from makeway.policies.contract import Planner, Policy, require_durations
from makeway.policies.model import (
    Action,
    Cancel,
    Candidate,
    Checkpoint,
    CheckpointSpec,
    Cluster,
    Decision,
    Expand,
    Job,
    JobKind,
    JobState,
    Limits,
    Method,
    Node,
    NodeState,
    Notice,
    Operation,
    OperationKind,
    Placement,
    Plan,
    Prioritise,
    Rationale,
    Reason,
    Release,
    Requeue,
    Reservation,
    Reserve,
    RestorePriority,
    Shrink,
    reservation_name,
)

__all__ = [
    "Action",
    "Cancel",
    "Candidate",
    "Checkpoint",
    "CheckpointSpec",
    "Cluster",
    "Decision",
    "Expand",
    "Job",
    "JobKind",
    "JobState",
    "Limits",
    "Method",
    "Node",
    "NodeState",
    "Notice",
    "Operation",
    "OperationKind",
    "Placement",
    "Plan",
    "Planner",
    "Policy",
    "Prioritise",
    "Proposal",
    "Rationale",
    "Reason",
    "Release",
    "Request",
    "Requeue",
    "Reservation",
    "Reserve",
    "RestorePriority",
    "Shrink",
    "UrgentJob",
    "VictimGroup",
    "application_s",
    "decide_each",
    "eviction_actions",
    "hold",
    "leavers",
    "loss_node_s",
    "no_room",
    "queue_key",
    "rationale",
    "require_durations",
    "reservation_name",
    "stays",
    "system_s",
    "take_until",
    "victim_groups",
    "waits_for_nodes",
]
