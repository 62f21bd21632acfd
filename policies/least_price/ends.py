"""A start that waits for jobs to end: nodes of its hold stand idle until the last of them has ended.

The nodes are held no longer than `hold_ahead_s` before that. Until then they serve other jobs, and the urgent
job is at the front of the queue.

Reference:
    Fan et al., "Hybrid Workload Scheduling on HPC Systems" (IPDPS 2022), section III-B: nodes are held for an
    urgent job.

Differs from the paper:
    The paper does not count what stands idle in a hold.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from makeway.policies.common.departures import NodeRelease, ends_by, node_releases
from makeway.policies.common.requests import Proposal, Request
from makeway.policies.common.waiting import Room, ended_s, without_signals
from makeway.policies.model import Job, JobState, Reserve


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A start that waits until the jobs have ended that no action of its proposal concerns."""

    nodes: tuple[str, ...]
    """The nodes of its hold."""
    start_s: float
    """When the last of the jobs ends by its time limit, or now."""
    idle_node_s: float
    """How many node-seconds of its hold are idle until then."""


def wait_of(request: Request, given: Proposal, hold_ahead_s: float) -> Wait:
    """How long the start of a proposal waits for ends, and what is idle meanwhile.

    A node is idle from the end of its last job on, by the time limit, or once the job has left it for another
    urgent job. One whose job leaves for the proposal is not: the job leaves at the start.
    """
    now_s, releases = request.cluster.now_s, node_releases(request.cluster)
    leaving = {action.job_id for action in given.actions}
    nodes = tuple(name for action in given.actions if isinstance(action, Reserve) for name in action.nodes)
    ready_s = dict.fromkeys(nodes, now_s)
    ready_s.update((name, request.releasing_s) for name in request.releasing if name in ready_s)
    for job in request.cluster.holders():
        for name in () if job.job_id in leaving else job.nodes:
            if name in ready_s and name not in request.releasing:
                left_s = _left_s(job, name, releases.get(job.job_id), now_s)
                ready_s[name] = max(ready_s[name], left_s)
    busy = {name for job in request.cluster.holders() if job.job_id in leaving for name in job.nodes}
    start_s = max(ready_s.values(), default=now_s)
    held_s = max(now_s, start_s - hold_ahead_s)
    idle_node_s = sum(start_s - max(at_s, held_s) for name, at_s in ready_s.items() if name not in busy)
    return Wait(nodes=nodes, start_s=start_s, idle_node_s=idle_node_s)


def rooms_after_ends(
    request: Request, latest_s: float, room: Room, writing_s: Callable[[Proposal], float], leave_s: float
) -> list[Proposal]:
    """The rooms on nodes of jobs that end by their time limits, each with the instant until which no job
    leaves (`again_s`).

    No job is asked to leave before the hold has other room. So a room with requested checkpoints counts only
    the jobs that end before these have to begin; a room without them counts all. A joint choice for all
    components of a job may ask for checkpoints in any case (`Request.methods`).

    Args:
        request: the request.
        latest_s: when there must be room.
        room: the room for a request, if these jobs leave by themselves.
        writing_s: how long the requested checkpoints of a room take.
        leave_s: how long a job takes to leave, or to end after its limit.
    """
    last_s = latest_s - leave_s
    by_s, found = last_s - leave_s, list[Proposal]()

    def add(given: Proposal, until_s: float, end_s: float) -> None:
        if request.cluster.now_s < until_s and end_s > -math.inf:
            found.append(replace(given, again_s=until_s))

    while ending := ends_by(request.cluster, by_s):
        given = room(request, ending)
        until_s, end_s = last_s - writing_s(given), ended_s(given, ending, request.cluster)
        if end_s <= until_s - leave_s:
            add(given, until_s, end_s)
            break
        if by_s == last_s - leave_s:
            unasked = room(without_signals(request), ending)
            if not writing_s(unasked):
                add(unasked, last_s, ended_s(unasked, ending, request.cluster))
        by_s = until_s - leave_s
    return found


def _left_s(job: Job, name: str, release: NodeRelease | None, now_s: float) -> float:
    """When the job has left a node. `release`: how it is made to leave. None: it is not."""
    end_s = _end_s(job, now_s)
    if release is None or name in release.kept_nodes:
        return end_s
    return min(end_s, max(now_s, release.by_s))


def _end_s(job: Job, now_s: float) -> float:
    end_s = job.latest_end_s
    return now_s if end_s is None or job.state is JobState.COMPLETING else end_s
