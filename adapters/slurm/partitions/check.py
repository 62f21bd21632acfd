"""Whether jobs of the classes can meet each other: on the same nodes, and at all."""

import re
from collections.abc import Iterable, Mapping

from makeway.adapters.hostlist import expand
from makeway.adapters.site.checks import Check, warning
from makeway.adapters.site.job_class import JobClass, never_met
from makeway.policies.model import JobKind

_NODES = re.compile(r"PartitionName=(?P<name>\S+).*? Nodes=(?P<nodes>\S+)")


def nodes_of_partitions(lines: Iterable[str]) -> Mapping[str, frozenset[str]]:
    """The nodes of each partition that `scontrol --oneliner show partitions` lists."""
    found = (_NODES.match(line) for line in lines)
    return {one["name"]: frozenset(expand(one["nodes"])) for one in found if one is not None}


def check_meeting(
    partition_nodes: Mapping[str, frozenset[str]], classes: tuple[JobClass, ...]
) -> list[Check]:
    """Whether each class has jobs, and each urgent class nodes in common with a class whose jobs may leave.

    `partition_nodes`: see `nodes_of_partitions`.
    """
    checks: list[Check] = []
    if shadowed := never_met(classes):
        named = ", ".join(f"{one.name} ({before.name})" for one, before in shadowed)
        text = f"no job is ever of these classes, because a class before has all of their jobs: {named}; "
        checks.append(warning("classes", f"{text}change the order, or the conditions"))
    leaving = [one for one in classes if one.preemptible and one.kind is not JobKind.ON_DEMAND]
    urgent = [one for one in classes if one.kind is JobKind.ON_DEMAND]
    wrong = any(not one.partitions <= partition_nodes.keys() for one in (*leaving, *urgent))
    if not leaving or not partition_nodes or wrong:
        return checks  # other checks report wrong names
    taken = frozenset[str]().union(*(_nodes(one, partition_nodes) for one in leaving))
    apart = [one.name for one in urgent if taken.isdisjoint(_nodes(one, partition_nodes))]
    if apart:
        text = (
            f"the partitions of class {', '.join(apart)} have no node in common with those of the "
            "preemptible classes: no job ever leaves for such urgent jobs; correct the names, or opt other "
            "partitions in"
        )
        checks.append(warning("classes", text))
    return checks


def _nodes(one: JobClass, partition_nodes: Mapping[str, frozenset[str]]) -> frozenset[str]:
    names = one.partitions or partition_nodes.keys()
    return frozenset[str]().union(*(partition_nodes[name] for name in names))
