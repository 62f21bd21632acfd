"""The rules that the decisions of all policies keep, as checks of one decision."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

import pytest
from hypothesis import event

from makeway.policies.common.holds import shortfall
from makeway.policies.common.placements import fitting
from makeway.policies.gate.arbiter import arbitrate
from makeway.policies.hybrid.arrival import HybridConfig
from makeway.policies.model import (
    Action,
    Cancel,
    Checkpoint,
    Cluster,
    Decision,
    Job,
    JobKind,
    JobState,
    Method,
    NodeState,
    Notice,
    Operation,
    OperationKind,
    Phase,
    Progress,
    Reason,
    Release,
    Requeue,
    Reserve,
    Shrink,
)
from makeway.policies.safety.protection import protection, start_protection
from tests.policies.any_cluster import NOW_S, leaves_by_itself_s
from tests.policies.under_test import UNDER_TEST, at_once


def decide(name: str, cluster: Cluster) -> Decision:
    return UNDER_TEST[name].decide(cluster, at_once(name))


def unannounced(cluster: Cluster) -> Cluster:
    """The cluster without what is held for announced jobs: a policy that does not collect never sees that."""
    held = {operation.reservation for operation in cluster.operations if operation.notice is not None}
    return replace(
        cluster,
        operations=tuple(operation for operation in cluster.operations if operation.notice is None),
        reservations=tuple(kept for kept in cluster.reservations if kept.name not in held),
    )


def groups(decision: Decision) -> Iterator[tuple[str, list[Action]]]:
    """The actions for each urgent job, which must follow each other."""
    found = [
        (key, list(group)) for key, group in groupby(decision.actions, key=lambda action: action.for_job_id)
    ]
    assert len({key for key, _ in found}) == len(found), "the actions for one urgent job follow each other"
    yield from found


Evicting = Checkpoint | Requeue | Cancel | Shrink


def evictions(group: list[Action]) -> list[Evicting]:
    return [action for action in group if isinstance(action, Checkpoint | Requeue | Cancel | Shrink)]


def under_way(cluster: Cluster) -> list[Evicting]:
    """The evictions that operations which make room have not yet completed."""
    return [
        task.action
        for operation in cluster.operations
        for task in operation.tasks
        if isinstance(task.action, Requeue)
        and task.progress in (Progress.PLANNED, Progress.ISSUING, Progress.ACCEPTED)
        and (operation.phase is Phase.MAKING_ROOM or task.progress is not Progress.PLANNED)
    ]


def freed_by(carried_out: list[Evicting], cluster: Cluster) -> set[str]:
    """The nodes that no job uses any more once these evictions are carried out, and jobs have completed."""
    held: Counter[str] = Counter()
    given: Counter[str] = Counter()
    leaving = {action.job_id: action for action in carried_out if not isinstance(action, Checkpoint)}
    for job in cluster.jobs:
        held.update(job.nodes)
        action = leaving.get(job.job_id)
        if action is not None:
            kept = action.keep_nodes if isinstance(action, Shrink) else ()
            given.update(name for name in job.nodes if name not in kept)
        elif leaves_by_itself_s(job) is not None:
            given.update(job.nodes)
    return {name for name in given if given[name] == held[name]}


def check_safe(name: str, cluster: Cluster) -> None:
    """The decision keeps every rule that holds for all policies."""
    if not UNDER_TEST[name].collects:
        cluster = unannounced(cluster)
    decision = decide(name, cluster)
    check_repeatable(name, decision, cluster)
    given_up = {
        action.reservation: action.nodes if isinstance(action, Reserve) else ()
        for action in decision.actions
        if isinstance(action, Reserve | Release)
    }
    notices = {notice.notice_id: notice for notice in cluster.notices if notice.job_id is None}
    commitments: set[str] = set()
    asked: Counter[str] = Counter()
    so_far = under_way(cluster)
    for for_job_id, group in groups(decision):
        before, so_far = so_far, so_far + evictions(group)
        if group[0].reason is Reason.SPECULATIVE:
            event("a loan of held nodes")
            commitments |= check_loan(group, cluster, commitments, set(given_up))
            continue
        urgent = None if for_job_id in notices else check_request(for_job_id, cluster)
        if urgent is not None and not isinstance(group[0], Reserve):
            event("no room")
            check_no_room(group, urgent, cluster)
            continue
        if isinstance(group[0], Release):
            event("nothing is left to hold")
            assert [kept.name for kept in cluster.reservations].count(group[0].reservation) == len(group) == 1
            continue
        hold = group[0]
        assert isinstance(hold, Reserve), "the hold comes first"
        assert len(evictions(group)) == len(group) - 1, "one hold, and nothing but evictions after it"
        event(f"{hold.reason}, {'with' if evictions(group) else 'without'} evictions")
        assert not commitments & set(hold.nodes), "no node is promised twice"
        commitments |= set(hold.nodes)
        if urgent is None:
            asked.update(check_announced(hold, notices[for_job_id], group, cluster))
            continue
        kept = kept_at_home(hold, urgent, cluster)
        check_hold(hold, urgent, cluster, kept, so_far, given_up)
        deadline_s = next(why.deadline_s for why in decision.rationale if why.for_job_id == for_job_id)
        check_in_time(hold, cluster, so_far, deadline_s)
        for action in evictions(group):
            check_eviction(action, cluster, group, deadline_s)
            asked[action.job_id] += not isinstance(action, Checkpoint)
        if name == "eviction":
            check_nobody_need_not_go(hold, urgent, cluster, before, evictions(group))
    assert all(times == 1 for times in asked.values()), "no job is acted upon twice"
    check_allowed(decision, cluster)


def check_allowed(decision: Decision, cluster: Cluster) -> None:
    """The arbiter refuses nothing of it."""
    # Rates, sizes and the breaker are off here; every other rule is one that the policies keep by themselves.
    verdicts = arbitrate(decision.actions, cluster)
    refused = [(verdict.refusal, verdict.detail) for verdict in verdicts if not verdict.allowed]
    assert refused == []


def check_loan(group: list[Action], cluster: Cluster, commitments: set[str], changed: set[str]) -> set[str]:
    """A job of the queue starts on idle nodes that are held for announced jobs alone. Returns the nodes."""
    [hold] = group
    assert isinstance(hold, Reserve)
    job = cluster.jobs_by_id()[hold.job_id]
    assert start_protection(job, cluster) is None
    assert job.eligible_s is None
    assert len(hold.nodes) == job.node_count
    assert not changed.intersection(hold.out_of)
    lenders = [one for one in cluster.operations if one.reservation in hold.out_of]
    assert all(one.kind is OperationKind.NOTICE for one in lenders)
    assert set(hold.nodes) <= {name for one in lenders for name in one.nodes}
    others = [kept.nodes for kept in cluster.reservations if kept.name not in hold.out_of]
    others += [other.nodes for other in cluster.jobs]
    assert not set(hold.nodes) & ({name for nodes in others for name in nodes} | commitments)
    assert job.eligible_nodes is None or set(hold.nodes) <= job.eligible_nodes
    loses = job.kind is not JobKind.MALLEABLE or job.checkpoint is None
    stays_s = job.walltime_s if loses else cluster.limits.min_runtime_s
    arrives_s = [one.deadline_s for one in lenders]
    assert not stays_s or NOW_S + stays_s <= min(arrives_s)
    return set(hold.nodes)


def check_no_room(group: list[Action], urgent: Job, cluster: Cluster) -> None:
    """The job goes to the front, once, if it could start. What was held since its announcement goes back; its
    own hold does so only if no job leaves for it.
    """
    own = [operation for operation in cluster.operations if operation.for_job_id == urgent.job_id]
    announced = {operation.reservation for operation in own if operation.notice is not None}
    of_no_use = {operation.reservation for operation in own if not takes(operation)}
    verbs = [action.verb for action in group]
    assert verbs in (["prioritise"], ["release"], ["prioritise", "release"])
    assert ("prioritise" in verbs) == (not urgent.prioritised and could_start(urgent, cluster))
    released = [action.reservation for action in group if isinstance(action, Release)]
    assert announced <= set(released) <= announced | of_no_use
    assert len(released) <= 1


def takes(operation: Operation) -> bool:
    """Whether a job was asked to leave for an operation, or will be."""
    return any(
        isinstance(task.action, Checkpoint | Requeue | Cancel | Shrink)
        and (task.issued_s is not None or task.progress not in (Progress.DROPPED, Progress.REFUSED))
        for task in operation.tasks
    )


def could_start(urgent: Job, cluster: Cluster) -> bool:
    """Whether enough nodes for the job are up and not in a reservation of the site."""
    count = 0
    for node in cluster.nodes:
        reserved = any(
            node.name in held.nodes and held.start_s <= NOW_S < held.end_s and not held.by_makeway
            for held in cluster.reservations
        )
        fits = urgent.demand is None or (node.capacity is not None and node.capacity.covers(urgent.demand))
        eligible = urgent.eligible_nodes is None or node.name in urgent.eligible_nodes
        count += node.state is NodeState.UP and not reserved and fits and eligible
    return count >= urgent.node_count


def end_s(hold: Reserve) -> float:
    """When a hold ends that is made now."""
    return NOW_S + hold.duration_s if hold.until_s is None else hold.until_s


def check_announced(hold: Reserve, notice: Notice, group: list[Action], cluster: Cluster) -> list[str]:
    """A hold for an announced job: no node of another one, and no job leaves later than the arrival. Returns
    the jobs that are evicted.
    """
    assert (hold.user, hold.reservation) == (notice.user, f"mw_{notice.notice_id}")
    assert len(hold.nodes) == len(set(hold.nodes))
    own = [operation for operation in cluster.operations if operation.for_job_id == notice.notice_id]
    assert {node.name for node in cluster.nodes if node.state is NodeState.UP} >= set(hold.nodes)
    for kept in cluster.reservations:
        if kept.name != hold.reservation and kept.start_s < end_s(hold):
            assert not set(kept.nodes) & set(hold.nodes)
    assert NOW_S + hold.duration_s >= notice.expected_s + 600.0
    occupied = {name for job in cluster.jobs for name in job.nodes}
    idle = set(hold.nodes) - occupied
    assert len(idle) <= notice.node_count, "no more idle nodes than were requested"
    if evictions(group):
        assert len(hold.nodes) == notice.node_count
        assert all(operation.phase is Phase.MAKING_ROOM for operation in own)
    for action in evictions(group):
        check_eviction(action, cluster, group, notice.expected_s)
    return [action.job_id for action in evictions(group) if not isinstance(action, Checkpoint)]


def check_repeatable(name: str, decision: Decision, cluster: Cluster) -> None:
    """Two runs decide alike, whatever the order of the jobs."""
    assert all(action.policy == name for action in decision.actions)
    assert decide(name, cluster) == decision
    assert decide(name, replace(cluster, jobs=cluster.jobs[::-1])) == decision
    assert decide(name, replace(cluster, jobs=(*cluster.jobs[1:], cluster.jobs[0]))) == decision


def check_request(for_job_id: str, cluster: Cluster) -> Job:
    """Something is done only for an urgent job that waits, and has no operation or one that lacks nodes."""
    urgent = cluster.jobs_by_id()[for_job_id]
    assert urgent.kind is JobKind.ON_DEMAND
    assert urgent.state is JobState.PENDING
    for operation in cluster.operations:
        if operation.for_job_id == for_job_id:
            assert operation.phase is Phase.MAKING_ROOM
            assert shortfall(operation, cluster) or operation.notice is not None
    return urgent


def still_held(for_job_id: str, cluster: Cluster) -> set[str]:
    """The nodes that an operation of the urgent job holds, has not lost, and can use."""
    eligible = cluster.jobs_by_id()[for_job_id].eligible_nodes
    return {
        name
        for operation in cluster.operations
        if operation.for_job_id == for_job_id
        for name in set(operation.nodes) - set(shortfall(operation, cluster))
        if eligible is None or name in eligible
    }


def kept_at_home(hold: Reserve, urgent: Job, cluster: Cluster) -> set[str]:
    """What the urgent job still holds, within the placement of the hold if the cluster has placements."""
    kept = still_held(urgent.job_id, cluster)
    if not cluster.placements:
        return kept
    homes = [set(place.nodes) for place in fitting(cluster, urgent.node_count, urgent.eligible_nodes)]
    around = [home for home in homes if home.issuperset(hold.nodes)]
    assert around, "the hold is within one placement of the right size"
    return min((kept & home for home in around), key=len)


def check_hold(
    hold: Reserve,
    urgent: Job,
    cluster: Cluster,
    kept: set[str],
    carried_out: list[Evicting],
    given_up: dict[str, tuple[str, ...]],
) -> None:
    """Exactly the nodes that are needed: held already, or good for the job and free or about to be.

    Of a range the least, and beyond it only what is free.

    `kept`: what it holds already and may keep. `given_up`: the nodes that are left to reservations which this
    decision changes.
    """
    assert len(hold.nodes) == len(set(hold.nodes)) >= urgent.node_count
    if len(hold.nodes) > urgent.node_count:
        assert urgent.node_count_max is not None
        assert len(hold.nodes) <= urgent.node_count_max
        assert set(hold.nodes) <= kept | set(cluster.free_nodes())
    useful = {node.name for node in cluster.nodes if node.state is NodeState.UP}
    if urgent.eligible_nodes is not None:
        useful &= urgent.eligible_nodes
    releasing = set(cluster.free_nodes()) | freed_by(carried_out, cluster)
    assert len(set(hold.nodes) & kept) == min(len(kept), max(urgent.node_count, urgent.node_count_max or 0))
    assert set(hold.nodes) <= kept | (useful & releasing)
    for reservation in cluster.reservations:
        if reservation.name != hold.reservation and reservation.start_s < end_s(hold):
            assert not set(given_up.get(reservation.name, reservation.nodes)) & set(hold.nodes)
    assert end_s(hold) >= NOW_S + urgent.walltime_s


def check_eviction(action: Evicting, cluster: Cluster, group: list[Action], deadline_s: float) -> None:
    """Its job may be evicted and leaves before the deadline; a checkpoint has the time that it takes."""
    job = cluster.jobs_by_id()[action.job_id]
    assert protection(job, cluster) is None
    assert job.job_id not in {action.job_id for action in under_way(cluster)}
    assert deadline_s >= NOW_S, "no job is evicted for a start that is late anyway"
    match action:
        case Checkpoint():
            follower = group[group.index(action) + 1]
            assert isinstance(follower, Requeue)
            assert (follower.job_id, follower.method) == (job.job_id, Method.SYSTEM)
            turn_s = NOW_S if action.not_before_s is None else action.not_before_s
            assert turn_s + action.grace_s == pytest.approx(follower.not_after_s)
        case Requeue() | Cancel():
            # A job that is evicted for an announced job keeps its whole warning, even if the eviction is
            # late.
            late_s = HybridConfig().warning_s if action.reason is Reason.ANNOUNCED else 0.0
            assert NOW_S <= action.not_after_s <= deadline_s + late_s
            if action.method is Method.SYSTEM:
                assert job.checkpoint is not None
                assert job.checkpoint.system_s is not None
                assert NOW_S + job.checkpoint.system_s <= action.not_after_s
        case Shrink():
            assert job.kind is JobKind.MALLEABLE
            assert job.node_count_min is not None
            assert job.start_s is not None
            assert len(action.keep_nodes) >= job.node_count_min
            assert action.keep_nodes[0] == job.nodes[0]
            assert set(action.keep_nodes) < set(job.nodes)
            assert action.walltime_s >= max(job.walltime_s, NOW_S - job.start_s)


def check_in_time(hold: Reserve, cluster: Cluster, carried_out: list[Evicting], deadline_s: float) -> None:
    """The jobs on the nodes leave by the deadline, or the deadline has passed."""
    by_s = {
        action.job_id: action.not_after_s for action in carried_out if isinstance(action, Requeue | Cancel)
    }
    for job in cluster.jobs:
        if set(job.nodes) & set(hold.nodes) - still_held(hold.for_job_id, cluster) and deadline_s >= NOW_S:
            assert by_s.get(job.job_id, leaves_by_itself_s(job) or NOW_S) <= deadline_s


def check_nobody_need_not_go(
    hold: Reserve, urgent: Job, cluster: Cluster, before: list[Evicting], group: list[Evicting]
) -> None:
    """Without any one of the victims (and those that it shares nodes with) the hold could not be filled."""
    anyway = still_held(urgent.job_id, cluster) | set(cluster.free_nodes())
    for excluded in group:
        fewer = before + [action for action in group if action.job_id != excluded.job_id]
        assert len(set(hold.nodes) & (anyway | freed_by(fewer, cluster))) < urgent.node_count
