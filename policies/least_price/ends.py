"""Jobs whose time limits end in time: they leave by themselves, at no cost.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III-B: the ways to leave.

Differs from the paper:
    A job may also end by itself.
"""

from collections.abc import Mapping
from dataclasses import replace

from makeway.policies.common.departures import NodeRelease
from makeway.policies.common.requests import Proposal
from makeway.policies.common.victims import VictimGroup
from makeway.policies.model import Method, Requeue
from makeway.policies.programme.items import EvictionJob


def ending_by_itself(
    item: EvictionJob, group: VictimGroup, ending: Mapping[str, NodeRelease], now_s: float
) -> EvictionJob:
    """An item that costs nothing and takes no file system, if all of its jobs end; else the item.

    It leaves as if after a regular checkpoint, which is complete at its end.
    """
    if not all(job.job_id in ending for job in group.jobs):
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
        alone=frozenset({Method.APPLICATION}),
    )


def leaving_to_end(given: Proposal, ending: Mapping[str, NodeRelease]) -> tuple[Proposal, tuple[str, ...]]:
    """The proposal without the requeues of jobs that end by themselves, and the ids of these jobs."""
    ends = tuple(
        action.job_id
        for action in given.actions
        if isinstance(action, Requeue) and action.job_id in ending and action.method is Method.APPLICATION
    )
    actions = tuple(action for action in given.actions if action.job_id not in ends)
    return replace(given, actions=actions), ends
