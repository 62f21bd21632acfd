"""What a policy returns: the actions that it wants, and why. Imported through `model`."""

from dataclasses import dataclass

from makeway.policies.model.actions import Action, Method


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One choice that a policy considered for one job (or for jobs that share nodes), with its price."""

    job_ids: tuple[str, ...]
    method: Method | None
    """None: it is left alone."""
    node_count: int
    loss_node_s: int
    """Node-seconds of work that would be lost."""
    delay_s: float
    """How long it would take until the nodes are free."""
    chosen: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rationale:
    """Why a policy did, or did not do, something for one urgent job."""

    for_job_id: str
    node_count: int
    free_node_count: int
    deadline_s: float
    summary: str
    candidates: tuple[Candidate, ...] = ()
    loss_node_s: int = 0
    ready_s: float | None = None
    """When the nodes are expected to be free. None: not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a policy wants done, and why. The actions for one urgent job follow each other, the hold first."""

    policy: str
    actions: tuple[Action, ...] = ()
    rationale: tuple[Rationale, ...] = ()
    again_s: float | None = None
    """When the decision may change because time passes. None: only a change of the cluster can change it."""
