"""A lower bound of what a joint choice loses, by decomposition: the loss of each job is shared out among its
nodes, and each component takes its cheapest nodes, also those that another one takes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor

from makeway.policies.choice.prices import ROUNDED_DOWN
from makeway.policies.joint.instance import JointInstance
from makeway.policies.joint.kinds import NodeKind, Wants

NEAREST = 32
"""How many kinds more than all components need are cheap for one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedBound:
    """What the shared losses say."""

    least_node_s: int
    """No choice loses less."""
    kinds: tuple[NodeKind, ...]
    """The nodes that a choice below the limit may have, with the covers that it may use."""
    nearest: tuple[NodeKind, ...]
    """Those of `kinds` that are cheap for some component, the cheapest first."""


def shared_bound(
    instance: JointInstance, kinds: Sequence[NodeKind], limit_node_s: int | None
) -> SharedBound | None:
    """The bound. None: some component has too few nodes.

    `limit_node_s`: only choices that lose less are looked for. None: all.
    """
    prices = _shares(instance, kinds)
    costs = [CostsOfKind(kind, prices) for kind in kinds]
    least, dearest = 0.0, list[float]()
    for index, component in enumerate(instance.components):
        pairs = [(one.least[index], one.kind.size) for one in costs if index in one.least]
        found = _cheapest(pairs, component.node_count)
        if found is None:
            return None
        least += found[0]
        dearest.append(found[1])
    kept = tuple(kinds)
    if limit_node_s is not None:
        most = [limit_node_s - floor(least * ROUNDED_DOWN) + one for one in dearest]
        kept = tuple(kind for one in costs if (kind := one.below(most)).components)
    ranks = _ranks(instance, costs)
    nearest = sorted((kind for kind in kept if kind.names in ranks), key=lambda kind: ranks[kind.names])
    return SharedBound(least_node_s=ceil(least * ROUNDED_DOWN), kinds=kept, nearest=tuple(nearest))


def _ranks(
    instance: JointInstance, costs: Sequence["CostsOfKind"]
) -> Mapping[tuple[str, ...], tuple[float, tuple[str, ...]]]:
    """The kinds that are among the cheapest for some component, by their names, each with what sorts it: how
    many kinds are cheaper for a component, as a share of what it needs.
    """
    found: dict[tuple[str, ...], tuple[float, tuple[str, ...]]] = {}
    for index, component in enumerate(instance.components):
        needed = component.node_count
        able = sorted((one.least[index], one.kind.names) for one in costs if index in one.least)
        for place, (_, names) in enumerate(able[: instance.node_count + NEAREST]):
            rank = place / max(1, needed), names
            found[names] = min(rank, found.get(names, rank))
    return found


class CostsOfKind:
    """What it costs at least to free a node of a kind."""

    def __init__(self, kind: NodeKind, prices: Mapping[str, float]) -> None:
        self.kind = kind
        self.covers = {
            index: [sum(prices[job_id] for job_id in cover) for cover in covers]
            for index, covers in kind.covers.items()
        }
        """By component, of each cover."""
        self.least = {index: min(found) for index, found in self.covers.items()}
        """By component."""
        for index, ways in kind.crowded.items():
            cost = min(cost_of(wants, prices) for wants in ways)
            self.least[index] = min(cost, self.least.get(index, cost))

    def below(self, most: Sequence[float]) -> NodeKind:
        """The kind with the covers that cost less. `most`: by component."""
        listed = {
            index: tuple(
                cover for cover, cost in zip(covers, self.covers[index], strict=True) if cost < most[index]
            )
            for index, covers in self.kind.covers.items()
        }
        return replace(
            self.kind,
            covers={index: covers for index, covers in listed.items() if covers},
            crowded={
                index: ways for index, ways in self.kind.crowded.items() if self.least[index] < most[index]
            },
        )


def _shares(instance: JointInstance, kinds: Iterable[NodeKind]) -> dict[str, float]:
    """What each job costs on each of its nodes, so that it costs no more on the chosen ones than it loses."""
    nodes = Counter[str]()
    for kind in kinds:
        for job_id in kind.jobs():
            nodes[job_id] += kind.size
    losses = {job.job_id: min((way.loss_node_s for way in job.ways), default=0) for job in instance.jobs}
    return {
        job_id: losses[job_id] / max(1, min(count, instance.node_count)) for job_id, count in nodes.items()
    }


def cost_of(wants: Wants, prices: Mapping[str, float]) -> float:
    """A bound of what it costs to free a crowded node: the dearest resource, had jobs in parts."""
    dearest = 0.0
    for missing, gives in wants:
        cost = 0.0
        for job_id, amount in sorted(gives, key=lambda one: prices[one[0]] / one[1]):
            taken = min(amount, missing)
            cost += prices[job_id] * taken / amount
            missing -= taken
        dearest = max(dearest, cost)
    return dearest


def _cheapest(costs: Iterable[tuple[float, int]], count: int) -> tuple[float, float] | None:
    """What the cheapest nodes cost together, and the dearest of them. None: there are too few."""
    total, dearest = 0.0, 0.0
    for cost, size in sorted(costs):
        if not count:
            break
        taken = min(size, count)
        total, dearest, count = total + taken * cost, cost, count - taken
    return None if count else (total, dearest)
