"""A snapshot with everything that the journal and the configuration add to it."""

from collections.abc import Iterable, Mapping
from typing import Any

from makeway.daemon.config.mode import Mode
from makeway.daemon.control.report import LoopSettings
from makeway.daemon.estimate.checkpoint_times import with_learned
from makeway.daemon.estimate.missed_checkpoints import without_missed
from makeway.daemon.estimate.prices import with_class_reports, with_past_evictions
from makeway.daemon.estimate.recent_losses import DAY_S, RecentLoss, totals
from makeway.daemon.estimate.saving_jobs import with_requested_saves
from makeway.daemon.estimate.unsure_signals import without_signals
from makeway.daemon.journal.store import Journal
from makeway.daemon.operation.changed.resubmitted import resubmitted
from makeway.daemon.operation.returns import leases
from makeway.policies.common.departures import committed
from makeway.policies.contract import Policy
from makeway.policies.model import VERBS, Cluster, Job, Operation, Verb, changed

EVICTIONS_COUNTED_S = 3600.0


def with_operations(seen: Cluster, journal: Journal, settings: LoopSettings) -> Cluster:
    """The snapshot with the operations that are under way, as the last cycle left them, and the limits.

    An operation whose urgent job was submitted again is for the new job from now on: that is written down
    before anything is sent for it.
    """
    before = journal.open_operations()
    if not before:
        return seen
    known = changed(seen, operations=before, limits=settings.limits)
    if settings.mode is not Mode.ACT:
        return known
    after = resubmitted(before, known, journal.notices(), settings.timeouts)
    if after is before:
        return known
    for old, new in zip(before, after, strict=True):
        if new is not old:
            journal.save(new)
    return changed(known, operations=after)


def joined(
    seen: Cluster,
    operations: tuple[Operation, ...],
    journal: Journal,
    settings: LoopSettings,
    policy: Policy[Any],
) -> Cluster:
    """What a policy decides on.

    Args:
        seen: the snapshot.
        operations: those that are open, as the snapshot makes them.
        journal: what is known of the past.
        settings: of this cycle.
        policy: the one that decides.
    """
    limits = settings.limits
    losses = journal.recent_losses(seen.now_s - DAY_S)
    lost = totals(losses)
    notices = journal.notices()
    # What is usual takes long to derive for thousands of jobs, and counts only where jobs may have to leave.
    priced = bool(operations or notices or not policy.arrivals_only or seen.waiting_urgent_jobs())
    return changed(
        seen,
        jobs=_jobs(seen, operations, journal, settings, losses, priced=priced),
        notices=notices,
        operations=operations,
        leases=tuple(lease for op in operations for lease in leases(op, seen)),
        evictions=journal.evictions(seen.now_s - EVICTIONS_COUNTED_S),
        lost_node_s=_with_inherited(lost.by_job, operations),
        lost_by_user=lost.by_user,
        lost_by_account=lost.by_account,
        failures_s=journal.failures_s(seen.now_s - limits.breaker_window_s),
        limits=limits,
        actions=_judged_actions(seen, settings.mode),
        usual_shares=journal.usual_shares() if policy.learns else {},
    )


def _jobs(
    seen: Cluster,
    operations: tuple[Operation, ...],
    journal: Journal,
    settings: LoopSettings,
    losses: tuple[RecentLoss, ...],
    *,
    priced: bool,
) -> tuple[Job, ...]:
    """The jobs with what was learned of their checkpoints and signals; if `priced`, with what is usual in
    their classes. `losses`: those of the last day.
    """
    jobs = seen.jobs
    if settings.learn_durations:
        jobs = with_learned(jobs, journal.learned())
    if settings.limits.price_past_evictions:
        jobs = with_past_evictions(jobs, journal.past_evictions())
    if priced:
        jobs = with_class_reports(jobs, seen.now_s, journal.asked_s())
    jobs = without_missed(jobs, losses, seen.now_s)
    jobs = without_signals(jobs, journal.unanswered_signals(), operations)
    requests = journal.save_requests(seen.now_s)
    return with_requested_saves(
        jobs, requests, lambda: committed(changed(seen, operations=operations)), seen.now_s
    )


def _with_inherited(lost_node_s: Mapping[str, float], operations: Iterable[Operation]) -> Mapping[str, float]:
    """The lost work by urgent job: what was lost for earlier jobs counts for the one that has their nodes by
    now.
    """
    heirs = {
        task.action.for_job_id: operation.for_job_id
        for operation in operations
        if operation.tasks and operation.tasks[0].action.for_job_id != operation.for_job_id
        for task in operation.tasks
        if task.action.for_job_id != operation.for_job_id and task.action.for_job_id in lost_node_s
    }
    if not heirs:
        return lost_node_s
    found: dict[str, float] = {}
    for job_id, lost in lost_node_s.items():
        heir = heirs.get(job_id, job_id)
        found[heir] = found.get(heir, 0.0) + lost
    return found


def _judged_actions(seen: Cluster, mode: Mode) -> frozenset[Verb]:
    """The actions that decisions may count on.

    Where an adapter only reads, observe mode shows what makeway would do if it could act: all of them.
    """
    only_reads = not seen.actions and mode is Mode.OBSERVE
    return VERBS if only_reads else seen.actions
