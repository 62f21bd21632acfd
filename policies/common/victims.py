"""The running jobs that may be evicted for an urgent job, what that would cost, and how enough of them are
taken.

The unit is a victim group: one running job, or several that share nodes, because a node is free only when
every job on it has left.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III-B: the items among which is chosen.

Differs from the paper:
    Jobs that share nodes are one item.
"""

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import filterfalse
from typing import TypeVar

from makeway.policies.common.losses import application_s, loss_node_s, system_s
from makeway.policies.common.urgent_jobs import UrgentJob
from makeway.policies.model import Candidate, Cluster, Job, Reserve, memoise_last, names
from makeway.policies.safety.protection import protection

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class VictimGroup:
    """Running jobs that can only leave together, sorted by id: the nodes that come free, and what the
    eviction costs.
    """

    jobs: tuple[Job, ...]
    nodes: tuple[str, ...]
    """The nodes that would serve the urgent job, in the order in which the jobs hold them."""
    loss_node_s: int
    """Node-seconds of work that a kill loses."""
    system_s: float | None
    """How long checkpoints that a signal starts take, one after another. None: some job has none."""
    application_s: float | None
    """How long until the next regular checkpoint is complete. None: there is none, or there are several jobs.
    """
    protected_by: str = ""
    """Why the group may not be evicted. Empty: it may."""

    @property
    def job_ids(self) -> tuple[str, ...]:
        """The ids of the jobs, sorted."""
        return tuple(job.job_id for job in self.jobs)


def victim_groups(
    cluster: Cluster, urgent: UrgentJob, *, unusable: AbstractSet[str], excluded: AbstractSet[str]
) -> tuple[VictimGroup, ...]:
    """Every group that holds a node which could serve the urgent job, sorted by job ids; see
    `VictimGroup.protected_by`.

    Args:
        cluster: the snapshot.
        urgent: the job that needs the nodes. Those that it keeps are not offered a second time.
        unusable: nodes that may not be promised.
        excluded: jobs that may not be evicted, because another decision concerns them already.
    """
    barred = frozenset(unusable).union(urgent.kept_nodes) if urgent.kept_nodes else frozenset(unusable)
    up = cluster.up_nodes()
    if len(up) < len(cluster.nodes):
        barred = barred.union(node.name for node in cluster.nodes if node.name not in up)
    found = _holders(cluster.jobs, barred, urgent.job.eligible_nodes)
    groups = _sharing(found) if cluster.shared_nodes() else [[holder] for holder in found]
    return tuple(
        sorted((_victim_group(group, cluster, excluded) for group in groups), key=lambda group: group.job_ids)
    )


_Holder = tuple[Job, tuple[str, ...]]
"""A job and those of its nodes that would serve the urgent job."""


@memoise_last
def _holders(
    jobs: tuple[Job, ...], barred: frozenset[str], eligible: frozenset[str] | None
) -> tuple[_Holder, ...]:
    """Every job that holds nodes which are not barred and are eligible."""
    found: list[_Holder] = []
    for job in jobs:
        held = job.nodes
        if not barred.isdisjoint(held):
            held = tuple(filterfalse(barred.__contains__, held))
        if eligible is not None and not eligible.issuperset(held):
            held = tuple(filter(eligible.__contains__, held))
        if held:
            found.append((job, held))
    return tuple(found)


def _victim_group(group: list[_Holder], cluster: Cluster, excluded: AbstractSet[str]) -> VictimGroup:
    jobs = tuple(job for job, _ in group)
    system = [system_s(job) for job in jobs]
    return VictimGroup(
        jobs=jobs,
        nodes=group[0][1] if len(group) == 1 else tuple(dict.fromkeys(names(nodes for _, nodes in group))),
        loss_node_s=sum(loss_node_s(job, cluster.now_s) for job in jobs),
        system_s=None if None in system else sum(duration for duration in system if duration is not None),
        application_s=application_s(jobs[0], cluster.now_s) if len(jobs) == 1 else None,
        protected_by=_protected_by(jobs, cluster, excluded),
    )


def _protected_by(jobs: tuple[Job, ...], cluster: Cluster, excluded: AbstractSet[str]) -> str:
    """The first reason why one of the jobs may not be evicted. Empty: there is none."""
    for job in jobs:
        refusal = protection(job, cluster)
        reason = "" if refusal is None else refusal.value
        if job.job_id in excluded:
            reason = "committed to another operation"
        if reason:
            return reason if len(jobs) == 1 else f"job {job.job_id}: {reason}"
    return ""


def _sharing(holders: Sequence[_Holder]) -> list[list[_Holder]]:
    """The holders in groups that are connected by shared nodes, each group in the order of job ids."""
    nodes_of_all = [nodes for _, nodes in holders]
    if len(frozenset[str]().union(*nodes_of_all)) == sum(map(len, nodes_of_all)):
        return [[holder] for holder in holders]
    group_of_node: dict[str, int] = {}
    groups: list[list[_Holder]] = []
    for holder in holders:
        touched = sorted({group_of_node[name] for name in holder[1] if name in group_of_node})
        merged = [member for index in touched for member in groups[index]]
        for index in touched:
            groups[index] = []
        merged.append(holder)
        for _, nodes in merged if touched else [holder]:
            group_of_node.update(dict.fromkeys(nodes, len(groups)))
        groups.append(merged)
    return [sorted(group, key=lambda holder: holder[0].job_id) for group in groups if group]


def take_until(
    ranked: Iterable[_Item], node_count: int, nodes_of: Callable[[_Item], Iterable[str]]
) -> tuple[list[_Item], list[str]]:
    """The first items of a ranking that free enough nodes together, and these nodes; all of them if too few.

    Args:
        ranked: jobs, groups or the like, the first choice first.
        node_count: how many nodes are needed. 0 or less: nothing is taken.
        nodes_of: the nodes that an item frees.
    """
    chosen: list[_Item] = []
    freed: list[str] = []
    for item in ranked:
        if len(freed) >= node_count:
            break
        chosen.append(item)
        freed.extend(nodes_of(item))
    return chosen, freed


def leavers(group: VictimGroup, held: Reserve) -> tuple[Job, ...]:
    """The jobs of a group that use a node of the hold: the others need not leave."""
    nodes = frozenset(held.nodes)
    return tuple(job for job in group.jobs if not nodes.isdisjoint(job.nodes))


def stays(group: VictimGroup) -> Candidate:
    """A group that may not be evicted, as a candidate of the rationale."""
    return Candidate(
        job_ids=group.job_ids,
        method=None,
        node_count=len(group.nodes),
        loss_node_s=0,
        delay_s=0.0,
        note=group.protected_by,
    )
