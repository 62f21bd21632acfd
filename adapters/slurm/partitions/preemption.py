"""Whether Slurm itself makes jobs leave for urgent ones, by the QOS and partitions of urgent jobs."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from makeway.adapters.site.job_class import JobClass
from makeway.policies.model import JobKind

_TIER = re.compile(r"PartitionName=(?P<name>\S+).*? PriorityTier=(?P<tier>\d+)")
_SPARED = re.compile(r"PartitionName=(?P<name>\S+).*? PreemptMode=OFF( |$)")


def preempting_qos(lines: Iterable[str]) -> frozenset[str]:
    """The QOS that preempt others, in lines such as `high|low`: a QOS, and those that it preempts."""
    rows = (line.partition("|") for line in lines)
    return frozenset(name for name, _, preempted in rows if preempted.strip())


def partition_tiers(lines: Iterable[str]) -> Mapping[str, int]:
    """The PriorityTier of each partition that `scontrol --oneliner show partitions` lists."""
    found = (_TIER.match(line) for line in lines)
    return {one["name"]: int(one["tier"]) for one in found if one is not None}


def spared_partitions(lines: Iterable[str]) -> frozenset[str]:
    """The partitions of such lines with `PreemptMode=OFF`: their own, or that of the cluster."""
    found = map(_SPARED.match, lines)
    return frozenset(one["name"] for one in found if one is not None)


def preempt_for_urgent(
    kind: str, classes: Sequence[JobClass], qos: Collection[str] | None, tiers: Mapping[str, int]
) -> tuple[str, ...] | None:
    """The QOS or partitions by which an urgent job preempts others in Slurm. None: unknown.

    Args:
        kind: PreemptType.
        classes: the site's.
        qos: those that preempt others. None: unknown.
        tiers: the PriorityTier of each partition.
    """
    urgent = [one for one in classes if one.kind is JobKind.ON_DEMAND]
    match kind:
        case "preempt/qos" if qos is not None:
            able, wanted = frozenset(qos), [one.qos for one in urgent]
        case "preempt/partition_prio" if tiers:
            lowest = min(tiers.values())
            able = frozenset(name for name, tier in tiers.items() if tier > lowest)
            wanted = [one.partitions for one in urgent]
        case _:
            return None
    # A class without such a condition takes jobs of any.
    found = (able & names if names else able for names in wanted)
    return tuple(sorted(frozenset[str]().union(*found)))
