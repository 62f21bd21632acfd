"""What a policy written elsewhere may import: stable names, in one module.

A name leaves this list, or changes its meaning, only with a new major version of makeway.
`docs/examples/youngest.py` is a policy that imports nothing else of makeway. The three parts:

- the contract: `Policy`, `Planner`, and `require_durations` for settings;
- the model: the snapshot that a policy gets (`Cluster` and what it contains), the actions, and the `Decision`
that it returns;
- the frame of a policy that makes room for urgent jobs: `decide_each` calls it for each `Request` that free
  nodes do not serve; it chooses among `victim_groups` and returns a `Proposal` of a `hold` and
  `eviction_actions`, or `no_room`. With `shares_nodes=True`, a policy also serves urgent jobs that need a
  part of their nodes (`Job.demand`): it chooses among the jobs of `candidates_of` until there is room
  (`take_until_room`). Without, it sees only jobs that need whole nodes. With `whole_placements=True`, in the
  policy and for `decide_each`, a request has `places` where nodes are given as whole placements: the policy
  proposes something within the `cheapest_place` (`in_place`), or there is `no_place`. With
  `serves_components=True`, `decide_each` serves all components of an urgent heterogeneous job or none: each
  is a request of its own. Without, such jobs wait.
"""

from makeway.policies.common.losses import application_s, system_s
from makeway.policies.common.proposals import (
    cheapest_place,
    decide_each,
    eviction_actions,
    hold,
    in_place,
    no_place,
    no_room,
)
from makeway.policies.common.requests import Proposal, Request, candidates_of, rationale
from makeway.policies.common.shared_nodes import take_until_room
from makeway.policies.common.urgent_jobs import UrgentJob
from makeway.policies.common.victims import (
    SharedCandidates,
    VictimGroup,
    leavers,
    stays,
    take_until,
    victim_groups,
)
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
    Quota,
    Rationale,
    Reason,
    Release,
    Requeue,
    Reservation,
    Reserve,
    Resources,
    RestoreLimit,
    RestorePriority,
    Shrink,
    reservation_name,
)
from makeway.policies.queue.order import queue_key, waits_for_nodes
from makeway.policies.safety.prices import loss_node_s

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
    "Quota",
    "Rationale",
    "Reason",
    "Release",
    "Request",
    "Requeue",
    "Reservation",
    "Reserve",
    "Resources",
    "RestoreLimit",
    "RestorePriority",
    "SharedCandidates",
    "Shrink",
    "UrgentJob",
    "VictimGroup",
    "application_s",
    "candidates_of",
    "cheapest_place",
    "decide_each",
    "eviction_actions",
    "hold",
    "in_place",
    "leavers",
    "loss_node_s",
    "no_place",
    "no_room",
    "queue_key",
    "rationale",
    "require_durations",
    "reservation_name",
    "stays",
    "system_s",
    "take_until",
    "take_until_room",
    "victim_groups",
    "waits_for_nodes",
]
