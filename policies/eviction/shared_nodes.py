"""Room for an urgent job on nodes that jobs share: which nodes it gets, which jobs on them leave, and how.

Each job leaves in its own way, and only if the urgent job needs what it holds. The choice is the one of
least loss; where the proof would take too long, the rationale names the lower bound that is known.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III-B: the ways in which jobs leave, and their losses.

Differs from the paper:
    The paper's jobs have whole nodes. Here the nodes are chosen too, and a job that leaves may free parts of
    several of them. No job shrinks. Checkpoints that a signal starts run one after another. Regular
    checkpoints are awaited and take no turn, while the programme for whole nodes adds up their waits too.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from types import MappingProxyType

from makeway.policies.choice.alternatives import with_alternatives
from makeway.policies.choice.choose import choose
from makeway.policies.choice.instance import (
    Choice,
    ChoiceInstance,
    Occupant,
    WayToLeave,
    all_ways_to_leave,
    in_time,
    serial_budget,
    ways_to_leave,
)
from makeway.policies.common.departures import NodeRelease
from makeway.policies.common.losses import application_s, system_s
from makeway.policies.common.proposals import hold, no_room
from makeway.policies.common.requests import Proposal, Request, candidates_of, node_text, rationale, wanted
from makeway.policies.common.shared_nodes import held_on
from makeway.policies.common.victims import SharedCandidates
from makeway.policies.model import Candidate, Job, Memo, Method, Same, changed, memoise_last
from makeway.policies.programme.leaving import WORDS, Turn, at_once_s, in_turn_s, leave_actions, turn
from makeway.policies.safety.prices import hours_text, loss_node_s, price_node_s, price_of


def make_room_on_shared_nodes(
    request: Request,
    *,
    latest_s: float,
    leave_s: float,
    step_s: float,
    ending: Mapping[str, NodeRelease] = MappingProxyType({}),
    price: Callable[[Job, float], int] = price_node_s,
    memo: Memo | None = None,
) -> Proposal:
    """The choice of least loss for one request that free nodes do not serve.

    Args:
        request: the request.
        latest_s: when the last job must have left.
        leave_s: how long a job that is killed takes to leave its nodes.
        step_s: the resolution of time: durations are rounded up to it.
        ending: jobs that leave by themselves in time, by id.
        price: what a kill of a job counts as at an instant, in node-seconds.
        memo: what the same decision has worked out already. None: nothing.
    """
    memo = Memo() if memo is None else memo
    within_s = latest_s - request.cluster.now_s
    candidates = candidates_of(request, latest_s, ending)
    plain = ChoiceInstance(
        free=candidates.room,
        demand=request.urgent.job.demand,
        node_count=request.shortage,
        occupants=_occupants(request, candidates, within_s, step_s, price, memo),
        budget_steps=serial_budget(at_once_s(request, latest_s), step_s),
    )
    instance = with_alternatives(plain, request.cluster.capacities())
    choice, in_turn = _chosen(instance, request, memo), False
    in_turn_steps = serial_budget(in_turn_s(request, latest_s), step_s)
    if choice is not None and choice.loss_node_s and in_turn_steps > instance.budget_steps:
        waiting = _chosen(replace(instance, budget_steps=in_turn_steps), request, memo)
        if waiting is not None and waiting.loss_node_s < choice.loss_node_s:
            choice, in_turn = waiting, True
    if choice is None:
        able = len(candidates.jobs) - len(candidates.protected_by)
        text = (
            f"{wanted(request)} is needed; no choice among {able} {'job' if able == 1 else 'jobs'} on "
            f"{node_text(len(candidates.room))} makes room within {within_s:.0f} s."
        )
        return no_room(request, text, _priced(request, candidates, None, memo))
    saved_s = _saved_steps(choice) * step_s
    when = turn(request, saved_s=saved_s, latest_s=latest_s, leave_s=leave_s, in_turn=in_turn)
    return _evict(request, candidates, choice, when, memo)


def _chosen(instance: ChoiceInstance, request: Request, memo: Memo) -> Choice | None:
    """The choice, made once for equal instances: other times and prices may come to the same."""
    takes_turns = any(way.serial_steps for one in instance.occupants for way in one.ways)
    asked = instance if takes_turns else replace(instance, budget_steps=0)
    key = ("choices", request.urgent.job.job_id)
    known = memo.once(key, list[tuple[ChoiceInstance, Choice | None]])
    for other, choice in known:
        if asked == other:
            return choice
    known.append((asked, choose(asked)))
    return known[-1][1]


def _occupants(
    request: Request,
    candidates: SharedCandidates,
    within_s: float,
    step_s: float,
    price: Callable[[Job, float], int],
    memo: Memo,
) -> tuple[Occupant, ...]:
    """The jobs as the choice sees them. Their checkpoints are complete within that time, or do not count."""
    cluster, chosen = request.cluster, request.methods
    now_s = cluster.now_s

    def of_any_time(job: Job, price_node_s: int) -> Occupant:
        ways = all_ways_to_leave(
            price_node_s, system_s=system_s(job), application_s=application_s(job, now_s), step_s=step_s
        )
        held = job.allocation
        if held is None:
            held = tuple(held_on(job, cluster).values())
        return Occupant(job_id=job.job_id, nodes=job.nodes, allocation=held, ways=ways)

    def with_ways(one: Occupant, ways: tuple[WayToLeave, ...]) -> Occupant:
        return one if len(ways) == len(one.ways) else replace(one, ways=ways)

    def stays(one: Occupant) -> Occupant:
        found = staying.get(one.job_id)
        if found is None:
            found = staying[one.job_id] = with_ways(one, ())
        return found

    def restricted(one: Occupant) -> Occupant:
        if one.job_id in candidates.protected_by:
            return stays(one)
        allowed = {chosen[one.job_id], Method.KILL}  # a joint choice lets it leave in this way, or be killed
        return with_ways(one, tuple([way for way in one.ways if way.method in allowed]))

    # Worked out for all jobs, and once for all urgent jobs that have as much time.
    steps = serial_budget(within_s, step_s)
    holders = candidates.holders
    key = ("occupants", now_s, Same(cluster.nodes), Same(holders), step_s, price)
    untimed = memo.once(
        key, lambda: [*map(of_any_time, holders, _prices_node_s(holders, now_s, price, memo))]
    )
    staying = memo.once((*key, "staying"), dict[str, Occupant])
    timed = memo.once((*key, steps), lambda: [with_ways(one, in_time(one.ways, steps)) for one in untimed])
    found = [timed[number] for number in candidates.numbers]
    special = candidates.protected_by.keys() | chosen.keys()
    return tuple([restricted(one) if one.job_id in special else one for one in found])


def _prices_node_s(
    holders: tuple[Job, ...], now_s: float, price: Callable[[Job, float], int], memo: Memo
) -> list[int]:
    """What a kill of each job counts as. What it loses is worked out once."""
    if price is loss_node_s:
        return _losses_node_s(holders, now_s, memo)
    if price is price_node_s:
        return [*map(price_of, _losses_node_s(holders, now_s, memo), holders)]
    return [price(job, now_s) for job in holders]


def _losses_node_s(holders: tuple[Job, ...], now_s: float, memo: Memo) -> list[int]:
    """What a kill of each job loses."""
    key = ("losses", now_s, Same(holders))
    return memo.once(key, lambda: [loss_node_s(job, now_s) for job in holders])


def shared_ways(
    job: Job, price: int, now_s: float, *, within_s: float, step_s: float
) -> tuple[WayToLeave, ...]:
    """How a job may leave where jobs share nodes. `price`: what a kill counts as, in node-seconds."""
    return ways_to_leave(
        price,
        system_s=system_s(job),
        application_s=application_s(job, now_s),
        within_s=within_s,
        step_s=step_s,
    )


def _evict(
    request: Request, candidates: SharedCandidates, choice: Choice, when: Turn, memo: Memo
) -> Proposal:
    """The hold, and the evictions of the choice. `when`: when its checkpoints are written."""
    now_s = request.cluster.now_s
    jobs = request.cluster.jobs_by_id()
    leaving = [(jobs[one.occupant.job_id], one.way.method) for one in choice.leaving]
    lost_node_s = sum(loss_node_s(job, now_s) for job, method in leaving if method is Method.KILL)
    actions = [action for job, method in leaving for action in leave_actions(request, job, method, when)]
    named = ", ".join(f"{job.job_id} ({WORDS[method]})" for job, method in leaving)
    text = (
        f"{wanted(request)} is needed: evict {named} from {', '.join(choice.nodes)}; "
        f"{hours_text(lost_node_s)} node-hours are lost and there is room in "
        f"{when.saved_by_s - now_s:.0f} s."
    )
    if not leaving:
        text = f"{wanted(request)} is needed: jobs that end in time leave it on {', '.join(choice.nodes)}."
    if not choice.proven:
        least = min(choice.bound_node_s, lost_node_s)
        text += f" Any choice is priced at {hours_text(least)} node-hours or more."
    if choice.ended_by_time:
        text += " The search was ended by its time limit: another run may choose otherwise."
    return Proposal(
        actions=(hold(request, choice.nodes), *actions),
        rationale=rationale(
            request,
            text,
            candidates=_priced(request, candidates, choice, memo),
            loss_node_s=lost_node_s,
            ready_s=max(request.releasing_s, when.saved_by_s),
        ),
    )


def _saved_steps(choice: Choice) -> int:
    """Steps until the last checkpoint is complete: signalled ones run one after another."""
    awaited = [one.way.checkpoint_steps for one in choice.leaving if one.way.method is Method.APPLICATION]
    return max(choice.serial_steps, *awaited, 0)


def _priced(
    request: Request, candidates: SharedCandidates, choice: Choice | None, memo: Memo
) -> tuple[Candidate, ...]:
    """Every job with the price of each way to leave; a job that may not be evicted, with the reason."""
    now_s = request.cluster.now_s
    chosen = {} if choice is None else {one.occupant.job_id: one.way.method for one in choice.leaving}
    holders, wide = candidates.holders, _on_several_nodes(candidates.holders)
    offers = memo.once(
        ("shared offers", now_s, Same(holders)),
        lambda: [*map(partial(_offer, now_s=now_s), holders, _losses_node_s(holders, now_s, memo))],
    )

    def special(job: Job, offered: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
        if job.job_id in candidates.protected_by:
            return ()
        node_count, method = candidates.node_count(job), chosen.get(job.job_id)
        if method is None and node_count == len(job.nodes):
            return offered
        return tuple(changed(one, node_count=node_count, chosen=one.method is method) for one in offered)

    is_special = wide | chosen.keys() | candidates.protected_by.keys()
    found = [
        special(job, offers[number]) if job.job_id in is_special else offers[number]
        for number, job in zip(candidates.numbers, candidates.jobs, strict=True)
    ]
    known = memo.once(("staying", Same(holders)), dict[tuple[str, int, str], Candidate])
    return (*chain.from_iterable(found), *candidates.protected(known))


@memoise_last
def _on_several_nodes(jobs: tuple[Job, ...]) -> frozenset[str]:
    return frozenset(job.job_id for job in jobs if len(job.nodes) > 1)


def _offer(job: Job, loss_node_s: int, *, now_s: float) -> tuple[Candidate, ...]:
    """A job on all of its nodes with the price of each way to leave; none of them is chosen.

    `loss_node_s`: what a kill loses.
    """
    ways: tuple[tuple[Method, int, float | None], ...] = (
        (Method.KILL, loss_node_s, 0.0),
        (Method.APPLICATION, 0, application_s(job, now_s)),
        (Method.SYSTEM, 0, system_s(job)),
    )
    return tuple(
        Candidate(
            job_ids=(job.job_id,),
            method=method,
            node_count=len(job.nodes),
            loss_node_s=lost_node_s,
            delay_s=delay_s,
        )
        for method, lost_node_s, delay_s in ways
        if delay_s is not None
    )
