"""What the programme compares, packed into one integer.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III-C, Algorithm 1: the least loss.

Differs from the paper:
    Ties of loss are broken: see `knapsack`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest
from operator import attrgetter

from makeway.policies.model import Method
from makeway.policies.programme.items import EvictionJob

UNREACHED = 1 << 62
"""More than any price."""
_LOSSES = ("loss_node_s", "setup_node_s", "saving_node_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceWeights:
    """How a price packs its criteria into one integer, the loss first, so that one comparison compares them
    all.
    """

    loss: int
    eviction: int
    node: int
    system: int

    def price(self, item: EvictionJob, method: Method) -> int:
        """The price of the item leaving by `method`."""
        price = self.eviction * (1 + item.past_evictions) + self.node * item.node_count
        if method is Method.SYSTEM:
            price += self.system
        return price + self.loss * item.cost_node_s(method)

    @classmethod
    def of(cls, items: Sequence[EvictionJob], rows: int) -> "PriceWeights":
        """Weights with which no criterion overflows into the one before it.

        No cell is reached by more items than it has nodes, and no cell exceeds the last row by more than one
        item. (A malleable item frees more nodes than the rows count.) If 62 bits do not hold all criteria, as
        on a very large cluster, the last ones are replaced by the order of the items.

        Raises:
            ValueError: not even the losses fit.
        """
        losses = sum(sum(map(attrgetter(part), items)) for part in _LOSSES)
        evictions = min(rows, len(items)) + sum(nlargest(rows, map(attrgetter("past_evictions"), items)))
        node_counts = [item.node_count for item in items]
        nodes = sum(node_counts)
        if not any(map(attrgetter("spare_node_count"), items)):
            nodes = min(nodes, rows + max(node_counts, default=0))
        for with_nodes, with_system in ((True, True), (True, False), (False, False)):
            node = evictions + 1 if with_system else 1
            eviction = node * (nodes + 1) if with_nodes else 1
            loss = eviction * (evictions + 1)
            if loss * (losses + 1) < UNREACHED // 2:
                return cls(
                    loss=loss, eviction=eviction, node=int(with_nodes) and node, system=int(with_system)
                )
        raise ValueError(f"losses of {losses} node-seconds in all are beyond what can be weighed")
