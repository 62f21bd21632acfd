"""Jobs whose time limits end in time: they leave by themselves, at no cost, and nothing is done to them.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III-B: the ways to leave.

Differs from the paper:
    A job may also end by itself, whether or not it may be evicted.
"""

from collections.abc import Mapping
from dataclasses import replace

from makeway.policies.common.departures import NodeRelease
from makeway.policies.common.victims import VictimGroup
from makeway.policies.model import Method
from makeway.policies.programme.items import EvictionJob


def ends_by_itself(group: VictimGroup, ending: Mapping[str, NodeRelease]) -> bool:
    """Whether all jobs of the group end, and no other job is left on its nodes then.

    A job that may be evicted is in a group without the nodes that it shares with a protected one.

    `ending`: the jobs that end in time, by id.
    """
    others = bool(group.protected_by) and group.shares_nodes
    return bool(ending) and not others and all(job.job_id in ending for job in group.jobs)


def ending_by_itself(
    item: EvictionJob, group: VictimGroup, ending: Mapping[str, NodeRelease], now_s: float
) -> EvictionJob:
    """An item that costs nothing, takes no file system and does not shrink, if all of its jobs end; else the
    item.

    It leaves as if after a regular checkpoint, which is complete at its end.
    """
    if not ends_by_itself(group, ending):
        return item
    ends_s = max(ending[job.job_id].by_s for job in group.jobs)
    return replace(
        item,
        loss_node_s=0,
        setup_node_s=0,
        saving_node_s=0,
        system_s=None,
        application_s=max(0.0, ends_s - now_s),
        application_wait_s=0.0,
        spare_node_count=0,
        alone=frozenset({Method.APPLICATION}),
    )
