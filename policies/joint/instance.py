"""The joint choice as values: what is known, and what is chosen.

Each component needs a number of nodes of its own and, on each of them, an amount of every resource, or the
whole node. A running job stays, or it leaves in one of its ways and frees what it holds on all of its nodes.
What it loses counts once, whichever components it makes room for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from makeway.policies.choice.instance import WayToLeave
from makeway.policies.model import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class JointComponent:
    """What one component needs, and where it may get that."""

    node_count: int
    """How many nodes it needs. No two components get the same node."""
    free: Mapping[str, Resources]
    """The candidate nodes, and what no job uses of each."""
    demand: Resources | None
    """What it needs on each of its nodes. None: nodes that no job of the instance uses."""
    alternatives: Mapping[str, tuple[Resources, ...]] = field(
        default_factory=dict[str, tuple[Resources, ...]]
    )
    """The nodes that can meet the demand in several ways, and what each way needs. One way is enough."""

    def ways_on(self, name: str) -> tuple[Resources, ...] | None:
        """What it needs on a candidate node: one of these amounts. None: that no job uses the node."""
        return None if self.demand is None else self.alternatives.get(name, (self.demand,))


@dataclass(frozen=True, slots=True, kw_only=True)
class JointJob:
    """A running job on candidate nodes."""

    job_id: str
    held: Mapping[str, Resources]
    """What it holds on each of its nodes."""
    ways: tuple[WayToLeave, ...]
    """How it can leave. Empty: it stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JointInstance:
    """The nodes to choose for all components. The order of nodes and of jobs does not matter."""

    components: tuple[JointComponent, ...]
    jobs: tuple[JointJob, ...]
    """The running jobs, each once; one that holds nothing on a candidate node does not matter."""
    budget_steps: int = 0
    """How many serial steps all that leave may use together."""

    @property
    def node_count(self) -> int:
        """How many nodes all components need together."""
        return sum(component.node_count for component in self.components)


@dataclass(frozen=True, slots=True, kw_only=True)
class JointChoice:
    """The nodes for each component, and the jobs that leave for them."""

    nodes: tuple[tuple[str, ...], ...]
    """Of each component as many as it needs, sorted by name."""
    leaving: Mapping[str, WayToLeave]
    """The jobs that leave, by id, and how."""

    @property
    def loss_node_s(self) -> int:
        """Node-seconds of work that are lost."""
        return sum(way.loss_node_s for way in self.leaving.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class JointResult:
    """What is known about all choices."""

    bound_node_s: int
    """No choice loses less than this."""
    choice: JointChoice | None = None
    """One that loses less than what was known. None: none was found."""
