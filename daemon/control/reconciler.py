"""One cycle of the daemon: read, compare, decide, limit, write down, act, and say in one sentence what was
done.
"""

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from makeway.adapters.protocol import Adapter, Unavailable, Unreadable
from makeway.daemon.config.mode import Mode
from makeway.daemon.control.executor import ActionReport, Executor
from makeway.daemon.control.joining import joined, with_operations
from makeway.daemon.control.opening import NOTHING_OPENED, Opening, open_clean_up, open_decided, pass_on
from makeway.daemon.control.permission import ONLY_DAEMON, Permission
from makeway.daemon.control.planner import Planning
from makeway.daemon.control.quiet import QuietCycles
from makeway.daemon.control.report import CycleReport, Deferred, LoopSettings, start_delay_s
from makeway.daemon.control.resumed import ResumedJobs
from makeway.daemon.control.said_before import SaidBefore
from makeway.daemon.control.sending import Sending, reports_of_protected
from makeway.daemon.control.sentence import sentence_of
from makeway.daemon.control.silent_nodes import SilentNodes
from makeway.daemon.estimate.actual_losses import LeavingRun, RunLoss, loss_lesson
from makeway.daemon.estimate.checkpoint_times import Measurement, lesson
from makeway.daemon.estimate.completing_jobs import CompletingJobs
from makeway.daemon.estimate.run_times import ended_runs, running
from makeway.daemon.journal.command_log import Outcome
from makeway.daemon.journal.store import Journal
from makeway.daemon.leader.leaving_off import left_off
from makeway.daemon.operation.changed.failed_starts import FailedStarts
from makeway.daemon.operation.changed.refused_holds import RefusedHolds
from makeway.daemon.operation.due import NextCycle
from makeway.daemon.operation.giving_back import give_back, give_everything_back
from makeway.daemon.operation.handover import Watch, changes, handed_over
from makeway.daemon.operation.kept.lost_holds import LostHolds
from makeway.daemon.operation.kept.remaining import is_restored, remaining
from makeway.daemon.operation.observed import close_observed
from makeway.daemon.operation.orphans import left_behind
from makeway.daemon.operation.tasks import planned_places, without_times_to_come
from makeway.daemon.operation.transitions import advance
from makeway.policies.contract import Policy, PolicyError
from makeway.policies.model import (
    Cluster,
    Decision,
    Job,
    Operation,
    OperationKind,
    OperationOutcome,
    Phase,
    Reason,
    changed,
)
from makeway.policies.safety.prices import spending


class Reconciler:
    """The decision loop on one adapter and one journal.

    Args:
        adapter: the cluster.
        journal: what is under way on it.
        policy: who decides, with `policy_config`, a value of the policy's own `config_type`.
        settings: mode, limits and waits.
        now: the time in the seconds of the snapshots.
        clock: a monotonic clock in real seconds, by which a view grows old.
        plan_in_thread: whether plans are made in a thread, so that no cycle waits for one; else within the
            cycle that asks for it, as in a replay.
        permission: this daemon's lease, and what an operator has said. Default: it is the only daemon.
        cpu_clock: the processor time of this thread in seconds, by which decisions on urgent jobs that wait
            are measured. None: they are not.

    Raises:
        SolverUnavailable: the policy plans, and OR-Tools is not installed.
    """

    def __init__(
        self,
        adapter: Adapter,
        journal: Journal,
        policy: Policy[Any],
        policy_config: object,
        settings: LoopSettings,
        *,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        plan_in_thread: bool = True,
        permission: Permission = ONLY_DAEMON,
        cpu_clock: Callable[[], float] | None = None,
    ) -> None:
        self._adapter = adapter
        self._journal = journal
        self._executor = Executor(adapter, journal, now)
        self._now = now
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._permission = permission
        self._planning = Planning(journal, in_thread=plan_in_thread)
        self._watch = Watch()
        self._silent, self._completing = SilentNodes(), CompletingJobs()
        self._failed_starts = FailedStarts(journal.holds_since, journal.nodes_left_for)
        self._refused_holds = RefusedHolds(journal.hold_answers_since)
        self._quiet, self._next = QuietCycles(journal), NextCycle()
        # Which jobs ran in the last snapshot: only what is learned of users depends on it.
        self._ran: dict[str, Job] = {}
        self._resumed, self._said = ResumedJobs(), SaidBefore()
        self._lost_holds = LostHolds(journal.last_hold)
        self.reconfigure(policy, policy_config, settings)

    def reconfigure(self, policy: Policy[Any], policy_config: object, settings: LoopSettings) -> None:
        """Take other settings from the next cycle on."""
        self._planning.reconfigure(policy, policy_config)
        self._quiet.forget()
        self._policy = policy
        self._policy_config = policy_config
        self._settings = settings
        # Those of this cycle, by what this daemon may do in it.
        self._present = settings

    def reconcile(self) -> CycleReport:
        """Run one cycle. A failure of the adapter is reported; anything else that is raised is a defect."""
        read_began_s, began = self._clock(), time.perf_counter()
        # 1. One whole snapshot, or no decision.
        try:
            seen = self._look()
        except (Unavailable, Unreadable) as error:
            return self._without_snapshot(error, time.perf_counter() - began)
        snapshot_s = time.perf_counter() - began
        self._note_runs(seen)
        repeated = self._quiet.repeated(seen, self._permission, snapshot_s, self._age_s(seen))
        if repeated is None:
            return self._decide_and_act(seen, read_began_s, snapshot_s)
        self._watch = self._watch.at(seen.now_s)
        return repeated

    def _decide_and_act(self, seen: Cluster, read_began_s: float, snapshot_s: float) -> CycleReport:
        """The rest of a cycle, whose snapshot was begun at `read_began_s` and took `snapshot_s`."""
        # 2. What the journal knows belongs to the view; operations are brought up to date with what is seen.
        known = with_operations(seen, self._journal, self._present)
        before = known.operations
        operations = self._hand_over(tuple(self._advance(one, known) for one in before), seen)
        if self._permission.begins and not self._settings.restoring:
            operations = pass_on(operations, seen, self._present, self._journal)
        cluster = self._planning.with_plan(self._join(seen))

        # 3. The policy decides on that view alone.
        began, cpu_s = time.perf_counter(), self._cpu_s(seen)
        decision = self._decided(cluster, read_began_s)
        decision_s, decision_cpu_s = time.perf_counter() - began, self._cpu_s(seen) - cpu_s

        # 4. What the arbiter lets pass becomes operations.
        opening, reports = self._open(decision, cluster)
        reports += reports_of_protected(before, operations, known)
        decision_id = self._store_decision(decision, cluster, new=bool(opening.operations or reports))

        # 5. What is to leave is known before it leaves. Whatever is due is written down and sent.
        closed = tuple(operation for operation in operations if operation.phase is Phase.CLOSED)
        leaving, losses = self._note_losses((*closed, *self._journal.open_operations()), cluster)
        if opening.operations:  # newer than the view
            plan, cluster = cluster.plan, self._join(seen)
            cluster = cluster if plan is None else changed(cluster, plan=plan)
        sent, deferred = self._send_due(cluster, read_began_s)
        under_way = self._journal.open_operations()
        again_s = min(filter(None, (decision.again_s, self._refused_holds.again_s)), default=None)
        self._next.note(under_way, cluster, self._present.timeouts, again_s=again_s, unsent=bool(deferred))

        # 6. What checkpoints took is learned, whether or not it is used. Then all of it is reported.
        report = self._report(seen, before, operations, closed, (*reports, *sent), deferred)
        complete = report(
            snapshot_s=snapshot_s,
            decision_s=decision_s,
            decision_cpu_s=decision_cpu_s,
            decision_id=decision_id,
            stored_rationale=() if decision_id is None else decision.rationale,
            lost_node_s=opening.lost_node_s,
            lost_in_a_day=spending(cluster) if self._settings.told else (),
            leaving=leaving,
            losses=losses,
            checkpoints=self._learn((*closed, *under_way), seen),
        )
        return self._quiet.noted(seen, decision, complete, self._policy, self._settings)

    def wakeup_s(self, now_s: float, poll_interval_s: float) -> float | None:
        """The next instant at which time alone makes something due. None: only a change of the cluster."""
        under_way = self._journal.open_operations()
        return self._next.wakeup_s(under_way, now_s, poll_interval_s, self._settings.timeouts)

    def checkpoint_look_s(self, now_s: float) -> float | None:
        """See `NextCycle`."""
        return self._next.checkpoint_look_s(now_s)

    def _age_s(self, seen: Cluster) -> float:
        return max(0.0, self._now() - seen.now_s)

    def _cpu_s(self, seen: Cluster) -> float:
        """The processor time, which is only read for decisions on urgent jobs that wait."""
        return self._cpu_clock() if self._cpu_clock is not None and seen.waiting_urgent_jobs() else 0.0

    def _look(self) -> Cluster:
        """A snapshot. What it says about the lease makes the settings of this cycle."""
        seen = self._permission.look(self._adapter, self._journal, self._settings.mode)
        self._present = self._permission.of_cycle(self._settings)
        seen = self._failed_starts.counted(self._completing.counted(self._silent.counted(seen)))
        return self._refused_holds.counted(seen, self._settings.timeouts.refused_s)

    def _without_snapshot(self, error: Unavailable | Unreadable, snapshot_s: float) -> CycleReport:
        """The report of a cycle without a snapshot: half a view decides nothing."""
        self._ran = {}  # when they end is not seen
        age_s = None if self._watch.last_s is None else self._now() - self._watch.last_s
        what = "unavailable" if isinstance(error, Unavailable) else "unreadable"
        return CycleReport(
            at_s=self._now(),
            mode=self._settings.mode,
            sentence=f"no decision: the cluster is {what}: {error}",
            snapshot_s=snapshot_s,
            snapshot_age_s=age_s,
            operations_open=len(self._journal.open_operations()),
            error=f"{what}: {error}",
            starting=isinstance(error, Unavailable) and error.starting,
            standing=self._permission.standing,
            paused=self._permission.paused,
        )

    def _report(
        self,
        seen: Cluster,
        before: tuple[Operation, ...],
        operations: tuple[Operation, ...],
        closed: tuple[Operation, ...],
        actions: tuple[ActionReport, ...],
        deferred: tuple[Deferred, ...],
    ) -> Callable[..., CycleReport]:
        """What a cycle did, to be completed by what it measured. `before` and `operations`: the same
        operations, before and after they were brought up to date.
        """
        started = [
            new
            for old, new in zip(before, operations, strict=True)
            if old.started_s is None and new.started_s is not None and not new.observe
        ]
        waiting = len(seen.waiting_urgent_jobs())
        mode, failure, standing = self._settings.mode, self._planning.failure, self._permission.standing
        open_count = len(self._journal.open_operations())
        notes = (standing.text, *self._failed_starts.news, *self._refused_holds.news)
        said = (mode, waiting, actions, started, closed, deferred, open_count, failure, notes)
        # What is there while another daemon leads is that one's to give back.
        restoring, follows, told = self._settings.restoring, self._permission.follows, self._settings.told
        return partial(
            CycleReport,
            at_s=seen.now_s,
            mode=mode,
            sentence=sentence_of(*said) if told else "",
            snapshot_age_s=self._age_s(seen),
            actions=actions,
            deferred=deferred,
            operations_open=open_count,
            urgent_waiting=waiting,
            urgent_started=tuple(
                start_delay_s(operation, seen) for operation in started if operation.kind.serves_urgent_job
            ),
            served=tuple(one.for_job_id for one in started if one.kind.serves_urgent_job),
            resumed=self._resumed.in_snapshot(seen, self._journal.past_evictions) if told else (),
            closed=closed,
            planning_failure=failure,
            restored=restoring and (follows or is_restored(seen, self._journal.open_operations())),
            not_given_back=remaining(seen) if restoring and not follows else (),
            standing=standing,
            paused=self._permission.paused,
        )

    def _advance(self, operation: Operation, cluster: Cluster) -> Operation:
        """An operation as the snapshot and the mode make it, written down if that changed it."""
        past = without_times_to_come(operation, self._now())
        new = advance(past, cluster, self._settings.timeouts)
        acts = self._present.mode is Mode.ACT
        if self._permission.follows and not new.observe and new.phase is not Phase.CLOSED:
            new = left_off(new, cluster.now_s)
        elif new.observe and acts and new.phase is not Phase.CLOSED:
            new = close_observed(new, OperationOutcome.MODE_CHANGED, cluster.now_s)
        elif self._settings.restoring:
            new = give_everything_back(new, cluster)
        elif not new.observe and new.phase is Phase.MAKING_ROOM:
            if not acts:
                # An earlier life acted: what it took goes back, and nothing more is taken.
                new = give_back(new, cluster, Reason.GIVEN_UP)
            elif new.kind is OperationKind.NOTICE and not self._policy.collects:
                new = give_back(new, cluster, Reason.ORPHANED)
        if new is not operation and new != operation:
            self._journal.save(new)
        return new

    def _hand_over(self, operations: tuple[Operation, ...], seen: Cluster) -> tuple[Operation, ...]:
        """Bring the announcements up to date; what is held for one whose job has arrived becomes the job's.

        First which job it is, then the operation: wherever a death comes in between, the next cycle goes on
        from there.
        """
        watch, self._watch = self._watch, self._watch.at(seen.now_s)
        notices = self._journal.notices()
        if not notices:
            return operations
        found = changes(notices, operations, seen, self._settings.timeouts, watch)
        for notice_id in found.missed:
            self._journal.note_missed(notice_id, seen.now_s)
        for notice in found.arrived:
            self._journal.add_notice(notice)
        for notice_id in found.over:
            self._journal.remove_notice(notice_id)
        if found.arrived or found.over:
            notices = self._journal.notices()
        after = tuple(handed_over(operation, notices, seen) for operation in operations)
        for old, new in zip(operations, after, strict=True):
            if new is not old:
                self._journal.save(new)
        return after

    def _join(self, seen: Cluster) -> Cluster:
        """The snapshot with everything that the journal and the configuration add to it."""
        return joined(seen, self._journal.open_operations(), self._journal, self._present, self._policy)

    def _note_runs(self, seen: Cluster) -> None:
        """Write down which runs have ended since the last snapshot, for policies that go by it."""
        if not self._policy.learns:
            return
        ended = ended_runs(self._ran, seen)
        if ended:
            self._journal.add_runs(ended)
        self._ran = running(seen)

    def _open(self, decision: Decision, cluster: Cluster) -> tuple[Opening, list[ActionReport]]:
        """Write down the operations of a decision, and those that take away what nothing needs any more.

        A daemon that follows another one takes nothing away, for it does not know what that one needs.
        """
        opening = NOTHING_OPENED
        if self._permission.begins:
            opening = open_decided(decision, cluster, self._present, self._journal)
        if opening.operations:  # together: a run that saves its work is always awaited
            self._journal.save(*opening.operations)
        under_way, name = self._journal.open_operations(), self._policy.name
        plans, urgent_first = self._policy.planner is not None, not self._settings.restoring
        unneeded = left_behind(cluster, under_way, name, plans=plans, urgent_first=urgent_first)
        freeing = self._lost_holds.releases(cluster, under_way, name)
        wanted = (*unneeded, *freeing) if self._permission.standing.cleans_up else ()
        clean_up = open_clean_up(wanted, cluster, self._present, self._journal)
        for operation in clean_up:
            self._journal.save(operation)
        reports = self._said.new_refusals(opening.refused)
        reports += [ActionReport(action=action, outcome=Outcome.OBSERVED) for action in opening.observed]
        begun = opening.operations + clean_up
        return (changed(opening, operations=begun) if clean_up else opening), reports

    def _decided(self, cluster: Cluster, read_began_s: float) -> Decision:
        """What the policy decides. If it cannot, what is to be given back is sent all the same."""
        try:
            return self._refused_holds.explained(self._policy.decision(cluster, self._policy_config))
        except PolicyError:
            self._send_due(cluster, read_began_s, takes=False)
            raise

    def _send_due(
        self, cluster: Cluster, read_began_s: float, *, takes: bool = True
    ) -> tuple[tuple[ActionReport, ...], tuple[Deferred, ...]]:
        """Send what is due of all operations. Returns what became of it, and what has to wait."""
        if not any(map(planned_places, self._journal.open_operations())):
            return (), ()
        known = (self._executor, self._journal, cluster, self._present)
        sending = Sending(*known, read_began_s, self._clock, self._permission)
        sending.send(takes=takes)
        return tuple(sending.reports), sending.deferred()

    def _note_losses(
        self, operations: Iterable[Operation], seen: Cluster
    ) -> tuple[tuple[LeavingRun, ...], tuple[RunLoss, ...]]:
        """Store what the snapshot shows of runs that are to leave. Returns those that are new, and what is
        measured now.
        """
        found = loss_lesson(operations, seen, self._journal.leaving_runs())
        if found is None:
            return (), ()
        self._journal.note_losses(found)
        return tuple(run for _, run in found.begun), tuple(loss for _, loss in found.measured)

    def _learn(self, operations: Iterable[Operation], seen: Cluster) -> tuple[Measurement, ...]:
        """Store what the snapshot shows about checkpoints. Returns what is measured now."""
        found = lesson(operations, seen, self._journal.checkpoints_under_way())
        if found is None:
            return ()
        self._journal.learn(found)
        return tuple(measurement for _, measurement in found.measured)

    def _store_decision(self, decision: Decision, cluster: Cluster, *, new: bool) -> int | None:
        """Store a decision that begins something, is refused for the first time, concerns other jobs than the
        last one, or comes after another refusal of a hold.
        """
        says_more = self._said.concerns_others(decision) or bool(self._refused_holds.news)
        worth = (bool(decision.actions) and new) or says_more
        kept = cluster if self._settings.keep_snapshots else None
        return self._journal.add_decision(cluster.now_s, decision, kept) if worth else None
