"""Policy "youngest": the jobs that started last are killed until the urgent job fits, whatever they lose.

An example of a policy in a file of its own: `makeway replay sample --policy eviction --policy
docs/examples/youngest.py` compares it. It resembles what Slurm does by itself if a partition or QOS may
preempt another one with `PreemptMode=REQUEUE` and `SchedulerParameters=preempt_youngest_first`.

Reference:
    The manual page slurm.conf(5) of Slurm: PreemptMode, and preempt_youngest_first under SchedulerParameters.
"""

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
    candidates_of,
    decide_each,
    eviction_actions,
    hold,
    leavers,
    loss_node_s,
    no_room,
    rationale,
    take_until,
    take_until_room,
    victim_groups,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class YoungestConfig:
    """Settings of policy "youngest"; `--set start_within_s=120` changes the only one."""

    start_within_s: float = 600.0
    """How long after it became eligible the start of an urgent job is on time, unless the job declares its
    own limit."""


def decide(cluster: Cluster, config: YoungestConfig) -> Decision:
    """Serve every urgent job in order: from free nodes if these suffice, else by `make_room`."""
    return decide_each(
        cluster, YOUNGEST.name, make_room, start_within_s=config.start_within_s, hold_slack_s=600.0
    )


def make_room(request: Request) -> Proposal:
    """Hold the nodes and requeue the jobs on them, without a signal to checkpoint."""
    if request.late:
        return no_room(request, f"{request.shortage} more nodes are needed and the deadline has passed.")
    demand = request.urgent.job.demand
    leaving, freed = on_whole_nodes(request) if demand is None else on_shared_nodes(request, demand)
    if len(freed) < request.shortage:
        return no_room(
            request, f"{request.shortage} more nodes are needed, and only {len(freed)} can be had."
        )
    held = hold(request, tuple(freed))
    named = ", ".join(job.job_id for job in leaving)
    now_s = request.cluster.now_s
    return Proposal(
        actions=(
            held,
            *(step for job in leaving for step in eviction_actions(request, job, Method.KILL, now_s)),
        ),
        rationale=rationale(
            request,
            f"{request.shortage} more nodes are needed: the youngest leave, {named}.",
            loss_node_s=sum(loss_node_s(job, now_s) for job in leaving),
            ready_s=max(request.releasing_s, now_s),
        ),
    )


def on_whole_nodes(request: Request) -> tuple[list[Job], list[str]]:
    """The jobs that leave, and the nodes that are then free. Jobs that share nodes leave together."""
    able = [
        group
        for group in victim_groups(
            request.cluster, request.urgent, unusable=request.unusable, excluded=request.excluded
        )
        if not group.protected_by
    ]
    able.sort(key=lambda group: (-max(job.start_s or 0.0 for job in group.jobs), group.job_ids))
    chosen, freed = take_until(able, request.shortage, lambda group: group.nodes)
    held = hold(request, tuple(freed))
    return [job for group in chosen for job in leavers(group, held)], freed


def on_shared_nodes(request: Request, demand: Resources) -> tuple[list[Job], list[str]]:
    """The jobs that leave, one by one, and the nodes on which there is then room for the demand."""
    considered = candidates_of(request, request.cluster.now_s)
    able = [job for job in considered.jobs if job.job_id not in considered.protected_by]
    able.sort(key=lambda job: (-(job.start_s or 0.0), job.job_id))
    return take_until_room(able, considered, request.cluster, demand, request.shortage)


YOUNGEST = Policy(
    name="youngest",
    summary="Kill the jobs that started last until the urgent job fits.",
    config_type=YoungestConfig,
    decide=decide,
    shares_nodes=True,
    serves_components=True,
)
