"""Policy "slurm-preemption": the jobs leave that Slurm's own preemption would take, whatever they lose.

Preemptable jobs are removed one by one, those on the fewest nodes first and of equal ones the earliest
submitted, until the urgent job fits. The last one that was removed is then tried first, which is what Slurm's
`preempt_reorder_count=1` does. The jobs that leave are those of the removed ones that are on the nodes where
the urgent job fits. `makeway replay openb-2023-pods.csv.gz --policy eviction --policy
docs/examples/slurm_preemption.py` compares it.

Reference:
    The manual page slurm.conf(5) of Slurm: PreemptType (preempt/qos, preempt/partition_prio), and
    preempt_reorder_count under SchedulerParameters.

Differs from Slurm:
    All preemptable jobs have one priority. Of the nodes where the urgent job fits, the first ones are taken.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from makeway.policies.api import (
    Cluster,
    Decision,
    Job,
    Method,
    Policy,
    Proposal,
    Request,
    Resources,
    SharedCandidates,
    candidates_of,
    decide_each,
    eviction_actions,
    hold,
    leavers,
    loss_node_s,
    no_room,
    rationale,
    take_until,
    victim_groups,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmPreemptionConfig:
    """Settings of policy "slurm-preemption"; `--set start_within_s=120` changes the only one."""

    start_within_s: float = 600.0
    """How long after it became eligible the start of an urgent job is on time, unless the job declares its
    own limit."""


def decide(cluster: Cluster, config: SlurmPreemptionConfig) -> Decision:
    """Serve every urgent job in order: from free nodes if these suffice, else by `make_room`."""
    return decide_each(
        cluster, SLURM_PREEMPTION.name, make_room, start_within_s=config.start_within_s, hold_slack_s=600.0
    )


def make_room(request: Request) -> Proposal:
    """Hold the nodes and requeue the jobs on them, without a signal to checkpoint."""
    demand = request.urgent.job.demand
    leaving, freed = on_whole_nodes(request) if demand is None else on_shared_nodes(request, demand)
    if len(freed) < request.shortage:
        return no_room(
            request, f"{request.shortage} more nodes are needed, and only {len(freed)} can be had."
        )
    now_s = request.cluster.now_s
    named = ", ".join(job.job_id for job in leaving)
    return Proposal(
        actions=(
            hold(request, tuple(freed)),
            *(step for job in leaving for step in eviction_actions(request, job, Method.KILL, now_s)),
        ),
        rationale=rationale(
            request,
            f"{request.shortage} more nodes are needed: Slurm's preemption would take {named}.",
            loss_node_s=sum(loss_node_s(job, now_s) for job in leaving),
            ready_s=max(request.releasing_s, now_s),
        ),
    )


def on_whole_nodes(request: Request) -> tuple[list[Job], list[str]]:
    """The jobs that leave, and the nodes that are then free. Jobs that share nodes leave together."""
    groups = [
        group
        for group in victim_groups(
            request.cluster, request.urgent, unusable=request.unusable, excluded=request.excluded
        )
        if not group.protected_by
    ]
    groups.sort(key=lambda group: turn(group.jobs[0]))
    chosen, _ = take_until(groups, request.shortage, lambda group: group.nodes)
    chosen, freed = take_until(chosen[::-1], request.shortage, lambda group: group.nodes)
    held = hold(request, tuple(freed))
    return [job for group in chosen for job in leavers(group, held)], freed


def on_shared_nodes(request: Request, demand: Resources) -> tuple[list[Job], list[str]]:
    """The jobs that leave, and the nodes on which there is then room for the demand."""
    considered = candidates_of(request, request.cluster.now_s)
    able = [job for job in considered.jobs if job.job_id not in considered.protected_by]
    removed, nodes = remove_until_room(sorted(able, key=turn), considered, request, demand)
    if len(nodes) < request.shortage:
        return [], nodes
    usable = frozenset(nodes)
    again = sorted(removed[:-1], key=lambda job: -len(usable.intersection(job.nodes)))
    removed, nodes = remove_until_room([*removed[-1:], *again], considered, request, demand)
    return [job for job in removed if not frozenset(nodes).isdisjoint(job.nodes)], nodes


def remove_until_room(
    order: Sequence[Job], considered: SharedCandidates, request: Request, demand: Resources
) -> tuple[list[Job], list[str]]:
    """The first jobs of the order without which the demand fits on enough nodes, and these nodes."""
    room = dict(considered.room)
    capacities = request.cluster.capacities()
    removed: list[Job] = []
    for job in order:
        if sum(free.covers(demand) for free in room.values()) >= request.shortage:
            break
        removed.append(job)
        held = job.allocation or tuple(capacities.get(name, Resources()) for name in job.nodes)
        for name, part in zip(job.nodes, held, strict=True):
            if name in room:
                room[name] = room[name].plus(part)
    return removed, [name for name, free in room.items() if free.covers(demand)][: request.shortage]


def turn(job: Job) -> tuple[int, float, str]:
    """Where a job is in the order in which Slurm removes jobs of one priority."""
    return (len(job.nodes), job.submit_s, job.job_id)


SLURM_PREEMPTION = Policy(
    name="slurm-preemption",
    summary="Evict the jobs that Slurm's own preemption would take.",
    config_type=SlurmPreemptionConfig,
    decide=decide,
    shares_nodes=True,
    serves_components=True,
)
