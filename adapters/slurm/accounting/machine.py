"""The shape of a machine by what `scontrol` prints of it."""

import re
from dataclasses import dataclass

from makeway.adapters.hostlist import expand
from makeway.adapters.protocol import Unreadable
from makeway.adapters.slurm.accounting.rows import BadExport
from makeway.adapters.slurm.parse import config
from makeway.adapters.slurm.parse_cluster import RawNode, RawPartition, nodes, partitions
from makeway.adapters.slurm.resources.counting import capacity, counting, shared_partitions
from makeway.policies.model import Resources

_SELECT = "SelectType"
_SHOW_NODES = ("scontrol", "--all", "--oneliner", "show", "nodes")
_SHOW_PARTITIONS = ("scontrol", "--all", "--oneliner", "show", "partitions")
"""With all: else a user who is no operator misses hidden partitions, and the nodes that no other one has."""

_NAME = re.compile(r"(?:Node|Partition)Name=(\S+)")
_NODES = re.compile(r"(?<=\s)Nodes=(\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineNode:
    """One node."""

    name: str
    capacity: Resources | None
    """What jobs may use of it. None: all nodes of the machine are given as a whole."""
    partitions: frozenset[str]


def machine_commands() -> str:
    """The commands, for a shell, that print the shape of the machine."""
    return (
        f"( scontrol show config | grep '^{_SELECT}'; {' '.join(_SHOW_PARTITIONS)}; {' '.join(_SHOW_NODES)} )"
    )


def read_machine(text: str) -> tuple[MachineNode, ...]:
    """The nodes of what `machine_commands` prints, in its order. A node in no partition runs no job and is
    left out.

    Raises:
        BadExport: a part of it is missing or cannot be read, or no node is in a partition.
    """
    lines = text.splitlines()
    for start, what in (
        (_SELECT, "SelectType and SelectTypeParameters of `scontrol show config`"),
        ("PartitionName=", "`scontrol --oneliner show partitions`"),
        ("NodeName=", "`scontrol --oneliner show nodes`"),
    ):
        if not any(line.startswith(start) for line in lines):
            raise BadExport(f"line {len(lines)}: the text ends without {start}; accepted: also {what}")
    counts = counting(config("\n".join(line for line in lines if line.startswith(_SELECT))))
    found: list[RawNode] = []
    known: list[RawPartition] = []
    for number, line in enumerate(lines, 1):
        try:
            if line.startswith("NodeName="):
                found += nodes([line], command=_SHOW_NODES)
            elif line.startswith("PartitionName="):
                known += partitions([line], command=_SHOW_PARTITIONS)
        except Unreadable as error:
            raise BadExport(f"line {number}: {error}; accepted: scontrol's lines with --oneliner") from None
    usable = [one for one in found if one.partitions]
    if not usable:
        raise BadExport(f"line {len(lines)}: no node is in a partition; accepted: nodes that can run jobs")
    # A job of an exclusive partition holds all CPUs of its nodes: where others share, it is one of them.
    shared = frozenset(one.name for one in known) if shared_partitions(known, counts) else frozenset[str]()
    return tuple(
        MachineNode(name=one.name, capacity=capacity(one, counts, shared), partitions=one.partitions)
        for one in usable
    )


def unseen_nodes(text: str, partition: str | None = None) -> frozenset[str]:
    """The nodes that a partition has and of which the text says no more: cloud nodes that sleep, before Slurm
    24.11, and nodes of the future.

    Args:
        text: what `machine_commands` prints.
        partition: only those of this partition. None: of all.

    Raises:
        BadExport: a list of nodes cannot be read.
    """
    listed: set[str] = set()
    shown: set[str] = set()
    for number, line in enumerate(text.splitlines(), 1):
        name, names = _NAME.match(line), _NODES.search(line)
        if line.startswith("NodeName=") and name is not None:
            shown.add(name[1])
        elif name is not None and names is not None and partition in (None, name[1]):
            try:
                listed.update(expand(names[1]))
            except ValueError as error:
                raise BadExport(f"line {number}: {error}; accepted: scontrol's lines") from None
    return frozenset(listed - shown)
