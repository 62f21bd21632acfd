"""Which nodes Slurm gives to one job by its topology. Pure functions.

Tried on 22.05 to 26.05: with `topology/tree` all nodes of a job are below one switch, so that none of them is
of another network. With `topology/block` a job gets as few blocks as hold its nodes, if there are larger
blocks those of one of them, whatever `TopologyParam` says. A topology that a partition has of its own
(topology.yaml; 26.05 as tried) counts for the jobs of the partition, in place of that of the cluster.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil, inf
from typing import Any

from makeway.adapters.hostlist import expand

_SWITCH = re.compile(r"SwitchName=\S+ .*?\bNodes=(?P<nodes>\S+)")
_BLOCK = re.compile(
    r"(?P<kind>BlockName|AggregatedBlock)=\S+ .*?\bNodes=(?P<nodes>\S+) BlockSize=(?P<size>\d+)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The sets of nodes that one job may have."""

    parts: tuple[frozenset[str], ...] = ()
    """The nodes below each switch that is below no other, or those of each of the smallest blocks. Empty: a
    job may have any nodes.
    """
    block_size: int | None = None
    """How many nodes a block counts as. None: there are no blocks, and a job has nodes of one part."""
    larger: tuple[tuple[int, frozenset[str]], ...] = ()
    """The size and the nodes of each larger block."""

    def confined(
        self, node_count: int, rank: Callable[[frozenset[str]], tuple[Any, ...]]
    ) -> frozenset[str] | None:
        """The best set of nodes for a job of so many nodes. None: it may have any.

        Args:
            node_count: how many nodes it needs.
            rank: how good a set is for it. Of equal ones the first counts.
        """
        if node_count < 2 or not self.parts:
            return None
        if self.block_size is None:
            return max((part for part in self.parts if len(part) >= node_count), key=rank, default=None)
        most = ceil(node_count / self.block_size)
        sets = (
            sorted((part for part in self.parts if part <= nodes), key=rank, reverse=True)[:most]
            for nodes in self._around(node_count)
        )
        return max((frozenset[str]().union(*blocks) for blocks in sets), key=rank)

    def segments_count(self, segment_size: int, node_count: int) -> bool:
        """Whether it matters that a job of so many nodes is in segments of that size."""
        return self.block_size is not None and 1 < segment_size < node_count > self.block_size

    def _around(self, node_count: int) -> tuple[frozenset[str], ...]:
        """The sets of nodes of which all blocks of the job have to be."""
        all_nodes = frozenset[str]().union(*self.parts)
        size = min((size for size, _ in self.larger if size >= node_count), default=inf)
        around = tuple(nodes for this_size, nodes in self.larger if this_size == size)
        return around if around and node_count > (self.block_size or 0) else (all_nodes,)


ONE_NETWORK = Network()
"""A job may have any nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Networks:
    """The networks of a cluster."""

    default: Network = ONE_NETWORK
    of_partitions: Mapping[str, Network] = field(default_factory=dict[str, Network])
    """By name of the partition: those with a topology of their own."""

    def of(self, partitions: Iterable[str]) -> Network:
        """The network of a job in these partitions. Where they differ, it is not known which one counts: the
        job may have any nodes.
        """
        first, *others = (self.of_partitions.get(name, self.default) for name in partitions)
        return first if all(one == first for one in others) else ONE_NETWORK


ONE_FOR_ALL = Networks()


def trees_confine(settings: Mapping[str, str]) -> bool:
    """Whether by the settings of `scontrol show config` a job in a tree may have nodes below one switch
    alone.
    """
    return "topooptional" not in settings.get("TopologyParam", "").lower()


def confines(settings: Mapping[str, str]) -> bool:
    """Whether by the settings of `scontrol show config` not every job may have any nodes."""
    plugin = settings.get("TopologyPlugin", "")
    return plugin == "topology/block" or (plugin == "topology/tree" and trees_confine(settings))


def network(lines: Iterable[str], *, trees: bool = True) -> Network:
    """What `scontrol show topology` says. What cannot be read confines no job. `trees`: see `trees_confine`.

    A cluster of which every job may have any nodes has `ONE_NETWORK`.
    """
    switches: list[frozenset[str]] = []
    blocks: dict[str, list[tuple[int, frozenset[str]]]] = {"BlockName": [], "AggregatedBlock": []}
    for line in lines:
        try:
            if switch := _SWITCH.match(line):
                switches.append(frozenset(expand(switch["nodes"])))
            elif block := _BLOCK.match(line):
                blocks[block["kind"]].append((int(block["size"]), frozenset(expand(block["nodes"]))))
        except ValueError:
            return ONE_NETWORK
    smallest = blocks["BlockName"]
    if smallest:
        parts = tuple(nodes for _, nodes in smallest)
        return Network(parts=parts, block_size=smallest[0][0], larger=tuple(blocks["AggregatedBlock"]))
    highest = tuple(
        dict.fromkeys(one for one in switches if one and not any(one < other for other in switches))
    )
    return Network(parts=highest) if trees and len(highest) > 1 else ONE_NETWORK
