"""The machine of a history, and what each of its jobs takes of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from makeway.adapters.slurm.accounting.jobs import AccountedRun
from makeway.adapters.slurm.accounting.machine import MachineNode, read_machine, unseen_nodes
from makeway.adapters.slurm.accounting.rows import BadExport
from makeway.policies.model import MEMORY, Resources, dominant_share, without_numbers
from makeway.simharness.engine.shared.nodes import SharingSettings
from makeway.simharness.history.reading import machine_text
from makeway.simharness.history.source import HistoryError, HistorySource

_WHOLE = "whole-node"
"""A job that takes whole nodes of a machine with several sorts of nodes holds the one that a node has."""
_SEATS = 4096
"""What a node has of each of its partitions; a job takes one. A node never has so many jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineShape:
    """What jobs may use."""

    node_count: int
    sharing: SharingSettings | None
    """None: all nodes are alike and are given as a whole."""
    partitioned: frozenset[str] = frozenset()
    """The partitions that do not have all nodes: a job of one holds a seat of it on each node."""
    reference: Resources = field(default_factory=Resources)
    """The largest amount of each resource that any node has."""
    unseen_count: int = 0
    """Nodes of its partitions of which nothing is known."""
    _able_counts: dict[Resources, int] = field(
        default_factory=dict[Resources, int], compare=False, repr=False
    )

    @property
    def known(self) -> frozenset[str]:
        """The names of the resources that any node has."""
        return frozenset(name for name, _ in self.reference.amounts)

    def demand(self, run: AccountedRun, partition: str) -> Resources | None:
        """What a run took of each of its nodes, in even shares rounded up. None: whole nodes.

        If fewer nodes than it had are as large as that, the shares are rounded down: its nodes differ.
        """
        if self.sharing is None:
            return None
        if _WHOLE in self.known:
            return self._placed({_WHOLE: 1}, partition)
        counted = {name: amount for name, amount in self._amounts(run) if self._counts(name)}
        nodes = max(1, run.node_count)
        demand = self._placed({name: -(-amount // nodes) for name, amount in counted.items()}, partition)
        if self.able_count(demand) < nodes:
            demand = self._placed({name: amount // nodes for name, amount in counted.items()}, partition)
        return demand

    def able_count(self, demand: Resources | None) -> int:
        """How many of the nodes have as much when they are empty. None: a whole node."""
        if demand is None or self.sharing is None:
            return self.node_count
        if demand not in self._able_counts:  # many jobs are alike, and a machine may have thousands of nodes
            self._able_counts[demand] = self.sharing.able_count(demand)
        return self._able_counts[demand]

    def share(self, demand: Resources) -> float:
        """Which part of a node a demand takes: the largest part of any resource of which a node has most."""
        return dominant_share(demand, self.reference)

    def _amounts(self, run: AccountedRun) -> Iterable[tuple[str, int]]:
        """What a run took, also without the types of its generic resources where the nodes have none."""
        untyped = any(self._is_untyped(name) for name, _ in run.tres)
        return Resources.with_totals(dict(run.tres)).amounts if untyped else run.tres

    def _counts(self, name: str) -> bool:
        """Whether an amount is of interest: memory only where the machine gives it out, a generic resource of
        one type not where the machine has such resources without types.
        """
        return name in self.known or not (name == MEMORY or self._is_untyped(name))

    def _is_untyped(self, name: str) -> bool:
        """Whether the name has a type, such as `gres/gpu:a100`, and the machine has none of this resource."""
        generic, colon, _ = name.partition(":")
        return bool(colon) and generic in self.known and not any(f"{generic}:" in one for one in self.known)

    def _placed(self, amounts: dict[str, int], partition: str) -> Resources:
        seat = {_seat(partition): 1} if partition in self.partitioned else {}
        return Resources.of(amounts | seat)


def machine_shape(source: HistorySource) -> MachineShape:
    """The machine that the source describes.

    Raises:
        HistoryError: there is no description, or it cannot be used.
    """
    if source.machine is None:
        return _uniform(source)
    if source.node_count is not None or source.node is not None:
        raise HistoryError("--machine and --nodes exclude each other: give one of them")
    try:
        text = machine_text(source.machine)
        nodes, unseen = read_machine(text), unseen_nodes(text, source.partition)
    except BadExport as error:
        raise HistoryError(f"{source.machine}: {error}") from None
    if source.partition is not None:
        nodes = tuple(one for one in nodes if source.partition in one.partitions)
        if not nodes:
            raise HistoryError(
                f"--partition {source.partition}: {source.machine} has no node of it; accepted: a partition"
            )
    return replace(shape_of(nodes), unseen_count=len(unseen))


def shape_of(nodes: Sequence[MachineNode]) -> MachineShape:
    """The shape of these nodes; in whole nodes if they are alike and none is shared."""
    every = frozenset[str]().union(*(one.partitions for one in nodes))
    partitioned = frozenset(name for name in every if any(name not in one.partitions for one in nodes))
    if not partitioned and all(one.capacity is None for one in nodes):
        return MachineShape(node_count=len(nodes), sharing=None)
    capacities = tuple(_capacity(one, partitioned) for one in nodes)
    return MachineShape(
        node_count=len(nodes),
        sharing=SharingSettings(capacities=capacities),
        partitioned=partitioned,
        reference=_reference(capacities),
    )


def _capacity(node: MachineNode, partitioned: frozenset[str]) -> Resources:
    own = {_WHOLE: 1} if node.capacity is None else without_numbers(dict(node.capacity.amounts))
    return Resources.of(own | {_seat(name): _SEATS for name in node.partitions & partitioned})


def _reference(capacities: Sequence[Resources]) -> Resources:
    most: dict[str, int] = {}
    for capacity in set(capacities):
        for name, amount in capacity.amounts:
            most[name] = max(amount, most.get(name, 0))
    return Resources.of(most)


def _uniform(source: HistorySource) -> MachineShape:
    """A machine of equal nodes, by options."""
    if source.node_count is None:
        raise HistoryError("the machine is not known; accepted: --machine FILE, or --nodes N [--node TRES]")
    if source.node is None:
        return MachineShape(node_count=source.node_count, sharing=None)
    node = Resources.with_totals(dict(source.node))
    return MachineShape(
        node_count=source.node_count,
        sharing=SharingSettings(capacities=(node,) * source.node_count),
        reference=node,
    )


def _seat(partition: str) -> str:
    return f"partition/{partition}"
