"""One cycle of the daemon: read, compare, decide, limit, write down, act, and say in one sentence what was done."""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from makeway.adapters.protocol import Adapter, Unavailable, Unreadable
from makeway.daemon.config.mode import Mode
from makeway.daemon.control.executor import ActionReport, Executor, Outcome
from makeway.daemon.control.planner import Planning
from makeway.daemon.control.report import CycleReport, LoopSettings
from makeway.daemon.control.sentence import sentence_of
from makeway.daemon.estimate.checkpoint_times import Measurement, lesson, with_learned
from makeway.daemon.estimate.run_times import ended_runs, running
from makeway.daemon.journal.store import Journal
from makeway.daemon.operation.due import awaits_regular_checkpoint, next_due, wakeup_s
from makeway.daemon.operation.handover import changes, handed_over
from makeway.daemon.operation.orphans import left_behind
from makeway.daemon.operation.returns import leases
from makeway.daemon.operation.transitions import advance, give_back, open_operation, record, top_up
from makeway.policies.common.urgent_jobs import is_only_watched
from makeway.policies.contract import Policy
from makeway.policies.model import (
    Action,
    Cluster,
    Decision,
    Job,
    JobKind,
    JobState,
    Notice,
    Operation,
    Phase,
    Progress,
    Reason,
    Reserve,
    awaited,
)
from makeway.policies.safety.arbiter import Verdict, arbitrate

EVICTIONS_COUNTED_S = 3600.0


class Reconciler:
    """The decision loop on one adapter and one journal.

    Args:
        adapter: the cluster.
        journal: what is under way on it.
        policy: who decides, with `policy_config`, a value of the policy's own `config_type`.
        settings: mode, limits and waits.
        now: the time in the seconds of the snapshots.
        plan_beside: whether plans are made beside the cycles, which then never wait for one; else within the cycle that
            asks for it, as in a replay.

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
        plan_beside: bool = True,
    ) -> None:
        self._adapter = adapter
        self._journal = journal
        self._executor = Executor(adapter, journal, now)
        self._now = now
        self._planning = Planning(journal, beside=plan_beside)
        self._snapshot_s: float | None = None
        self._again_s: float | None = None
        # Who ran in the last snapshot, so that runs are seen to end; only what is learned of users depends on it.
        self._ran: dict[str, Job] = {}
        # What was said last, so that a state that lasts is reported once; no decision depends on it.
        self._refused_before: frozenset[tuple[str, str, str]] = frozenset()
        self._waiting_before: frozenset[str] = frozenset()
        self.reconfigure(policy, policy_config, settings)

    def reconfigure(self, policy: Policy[Any], policy_config: object, settings: LoopSettings) -> None:
        """Take other settings from the next cycle on."""
        self._planning.reconfigure(policy, policy_config)
        self._policy = policy
        self._policy_config = policy_config
        self._settings = settings

    def reconcile(self) -> CycleReport:
        """Run one cycle. Adapter failures are part of the report; anything else that is raised is a defect."""
        began = time.perf_counter()
        # 1. One whole snapshot, or no decision.
        try:
            seen = self._adapter.snapshot()
        except (Unavailable, Unreadable) as error:
            return self._blind(error, time.perf_counter() - began)
        snapshot_s = time.perf_counter() - began
        self._snapshot_s = seen.now_s
        self._note_runs(seen)

        # 2. What the journal knows belongs to the view; operations are brought up to date with what is seen.
        before = self._journal.open_operations()
        operations = tuple(self._advance(operation, seen) for operation in before)
        operations = self._arrive(operations, seen)
        cluster = self._planning.with_plan(self._join(seen, operations))

        # 3. The policy decides on that view alone.
        began, cpu_s = time.perf_counter(), time.thread_time()
        decision = self._policy.decide(cluster, self._policy_config)
        decision_s, decision_cpu_s = time.perf_counter() - began, time.thread_time() - cpu_s
        self._again_s = decision.again_s

        # 4. The arbiter lets each group of actions pass whole, or not at all; what passes becomes an operation.
        opened, reports, lost_node_s = self._open(decision, cluster)
        opened += [
            self._begin((action,), cluster, cluster.now_s)
            for action in left_behind(
                cluster,
                self._journal.open_operations(),
                self._policy.name,
                plans=self._policy.planner is not None,
            )
        ]
        decision_id = self._keep(decision, cluster, new=bool(opened or reports))

        # 5. Whatever is due is written down and sent.
        reports += self._carry_out(seen, cluster, anew=bool(opened))

        # 6. What checkpoints took is learned, whether or not it is used.
        after = self._journal.open_operations()
        closed = tuple(operation for operation in operations if operation.phase is Phase.CLOSED)
        measured = self._learn((*closed, *after), seen)

        # 7. One sentence.
        started = [
            new
            for old, new in zip(before, operations, strict=True)
            if old.started_s is None and new.started_s is not None and not new.observe
        ]
        waiting = sum(
            1 for job in seen.jobs if job.kind is JobKind.ON_DEMAND and job.state is JobState.PENDING
        )
        return CycleReport(
            at_s=seen.now_s,
            mode=self._settings.mode,
            sentence=sentence_of(self._settings.mode, waiting, reports, started, closed, len(after)),
            snapshot_s=snapshot_s,
            decision_s=decision_s,
            decision_cpu_s=decision_cpu_s,
            snapshot_age_s=max(0.0, self._now() - seen.now_s),
            actions=tuple(reports),
            decision_id=decision_id,
            stored_rationale=() if decision_id is None else decision.rationale,
            operations_open=len(after),
            urgent_waiting=waiting,
            urgent_started=tuple(
                _delay_s(operation, cluster) for operation in started if operation.keeps_hold
            ),
            lost_node_s=lost_node_s,
            closed=closed,
            checkpoints=measured,
        )

    def wakeup_s(self, now_s: float, poll_interval_s: float) -> float | None:
        """The next instant at which time alone makes something due. None: only a change of the cluster does."""
        instants = []
        if self._again_s is not None and self._again_s > now_s:
            instants.append(self._again_s)
        for operation in self._journal.open_operations():
            due_s = wakeup_s(operation, now_s, self._settings.timeouts)
            if due_s is not None:
                instants.append(due_s)
            if awaits_regular_checkpoint(operation):
                instants.append(now_s + poll_interval_s)
        return min(instants, default=None)

    def _blind(self, error: Unavailable | Unreadable, snapshot_s: float) -> CycleReport:
        """The report of a cycle without a snapshot: half a view decides nothing."""
        self._ran = {}  # when they end is not seen
        age_s = None if self._snapshot_s is None else self._now() - self._snapshot_s
        what = "unavailable" if isinstance(error, Unavailable) else "unreadable"
        return CycleReport(
            at_s=self._now(),
            mode=self._settings.mode,
            sentence=f"no decision: the cluster is {what}: {error}",
            snapshot_s=snapshot_s,
            snapshot_age_s=age_s,
            operations_open=len(self._journal.open_operations()),
            error=f"{what}: {error}",
        )

    def _advance(self, operation: Operation, cluster: Cluster) -> Operation:
        """An operation as the snapshot makes it, written down if that changed it."""
        new = advance(operation, cluster, self._settings.timeouts)
        acts = self._settings.mode is Mode.ACT
        if new.observe and acts and new.phase is not Phase.CLOSED:
            new = replace(
                new, phase=Phase.CLOSED, ended_s=cluster.now_s, outcome="observed until the mode became act"
            )
        elif not new.observe and not acts and new.phase is Phase.MAKING_ROOM:
            # An earlier life acted: what it took goes back, and nothing more is taken.
            new = give_back(new, cluster, Reason.GIVEN_UP)
        elif (
            awaited(new) and new.phase is Phase.MAKING_ROOM and not new.observe and not self._policy.collects
        ):
            new = give_back(new, cluster, Reason.ORPHANED)
        if new != operation:
            self._journal.save(new)
        return new

    def _arrive(self, operations: tuple[Operation, ...], seen: Cluster) -> tuple[Operation, ...]:
        """Bring the announcements up to date; what is held for one whose job has arrived becomes the job's.

        First which job it is, then the operation: whatever a death comes between, the next cycle goes on from there.
        """
        notices = self._journal.notices()
        if not notices:
            return operations
        told = changes(notices, operations, seen, self._settings.timeouts)
        for notice in told.arrived:
            self._journal.add_notice(notice)
        for notice_id in told.over:
            self._journal.remove_notice(notice_id)
        if told.arrived or told.over:
            notices = self._journal.notices()
        found = []
        for operation in operations:
            new = handed_over(operation, notices, seen)
            if new is not operation:
                self._journal.save(new)
            found.append(new)
        return tuple(found)

    def _join(self, seen: Cluster, operations: Iterable[Operation]) -> Cluster:
        """The snapshot with everything that the journal and the configuration add to it."""
        open_operations = tuple(op for op in operations if op.phase is not Phase.CLOSED)
        limits = self._settings.limits
        window_s = limits.breaker_window_s
        return replace(
            seen,
            jobs=with_learned(seen.jobs, self._journal.learned())
            if self._settings.learn_durations
            else seen.jobs,
            notices=self._journal.notices(),
            operations=open_operations,
            leases=tuple(lease for op in open_operations for lease in leases(op, seen)),
            evictions=self._journal.evictions(seen.now_s - EVICTIONS_COUNTED_S),
            failures_s=self._journal.failures_s(seen.now_s - window_s),
            limits=limits,
            usual_shares=self._journal.usual_shares() if self._policy.learns else {},
        )

    def _note_runs(self, seen: Cluster) -> None:
        """Write down which runs have ended since the last snapshot, for policies that go by it."""
        if not self._policy.learns:
            return
        ended = ended_runs(self._ran, seen)
        if ended:
            self._journal.add_runs(ended)
        self._ran = running(seen)

    def _open(
        self, decision: Decision, cluster: Cluster
    ) -> tuple[list[Operation], list[ActionReport], float]:
        """Turn the groups that the arbiter lets pass into operations, all written down."""
        verdicts = arbitrate(decision.actions, cluster)
        refused = [verdict for verdict in verdicts if verdict.refusal is not None]
        refused_jobs = {verdict.action.for_job_id for verdict in refused}
        reports = self._new_refusals(refused)
        losses = {why.for_job_id: why for why in decision.rationale}
        opened: list[Operation] = []
        lost_node_s = 0.0
        for for_job_id, actions in _groups(decision.actions).items():
            if for_job_id in refused_jobs:
                continue
            why = losses.get(for_job_id)
            deadline_s = why.deadline_s if why is not None else cluster.now_s
            operation = self._begin(actions, cluster, deadline_s)
            opened.append(operation)
            if operation.observe:
                reports += [ActionReport(action=action, outcome=Outcome.OBSERVED) for action in actions]
            elif why is not None:
                lost_node_s += why.loss_node_s
        return opened, reports, lost_node_s

    def _begin(self, actions: tuple[Action, ...], cluster: Cluster, deadline_s: float) -> Operation:
        """A new operation for a group, or the open one with more to do."""
        mine = [
            operation
            for operation in cluster.operations
            if operation.for_job_id == actions[0].for_job_id
            and operation.phase is Phase.MAKING_ROOM
            and not is_only_watched(operation)
        ]
        if mine:
            operation = top_up(
                mine[0], actions, cluster, deadline_s=deadline_s, timeouts=self._settings.timeouts
            )
        else:
            operation = open_operation(
                actions,
                cluster,
                deadline_s=deadline_s,
                timeouts=self._settings.timeouts,
                observe=self._settings.mode is Mode.OBSERVE,
                notice=_announced(actions, cluster),
            )
        self._journal.save(operation)
        return operation

    def _carry_out(self, seen: Cluster, cluster: Cluster, *, anew: bool) -> list[ActionReport]:
        """Send what is due of all operations; `anew`: some were opened since the view was joined."""
        if anew:
            cluster = replace(self._join(seen, self._journal.open_operations()), plan=cluster.plan)
        # What is held for announced jobs first: they may have to give up nodes that a job which is here needs.
        reports: list[ActionReport] = []
        for operation in sorted(self._journal.open_operations(), key=lambda one: not awaited(one)):
            reports += self._carry_on(operation, cluster)
        return reports

    def _carry_on(self, operation: Operation, cluster: Cluster) -> list[ActionReport]:
        """Issue whatever of an operation is due, one after another."""
        reports = []
        for _ in range(len(operation.tasks)):
            index = next_due(operation, cluster, self._settings.timeouts)
            if index is None:
                break
            verdict = arbitrate((operation.tasks[index].action,), cluster)[0]
            if verdict.refusal is not None:
                operation = record(operation, index, Progress.REFUSED, cluster.now_s, verdict.detail)
                self._journal.save(operation)
                reports.append(_refused(verdict))
                continue
            operation, report = self._executor.issue(operation, index)
            reports.append(report)
        return reports

    def _new_refusals(self, refused: list[Verdict]) -> list[ActionReport]:
        """Reports of the refusals that the last cycle did not have too."""
        keys = frozenset((v.action.verb, v.action.job_id, str(v.refusal)) for v in refused)
        reports = [
            _refused(verdict)
            for verdict in refused
            if (verdict.action.verb, verdict.action.job_id, str(verdict.refusal)) not in self._refused_before
        ]
        self._refused_before = keys
        return reports

    def _learn(self, operations: Iterable[Operation], seen: Cluster) -> tuple[Measurement, ...]:
        """Keep what the snapshot tells of checkpoints. Returns what is measured now."""
        found = lesson(operations, seen, self._journal.checkpoints_under_way())
        if found is None:
            return ()
        self._journal.learn(found)
        return tuple(measurement for _, measurement in found.measured)

    def _keep(self, decision: Decision, cluster: Cluster, *, new: bool) -> int | None:
        """Store a decision that begins something, is refused anew, or concerns other jobs than the last one."""
        waiting = frozenset(why.for_job_id for why in decision.rationale)
        worth = (bool(decision.actions) and new) or bool(waiting - self._waiting_before)
        self._waiting_before = waiting
        if not worth:
            return None
        kept = cluster if self._settings.keep_snapshots else None
        return self._journal.add_decision(cluster.now_s, decision, kept)


def _groups(actions: tuple[Action, ...]) -> dict[str, tuple[Action, ...]]:
    """Actions by the job for whose sake they are, in the order of the decision."""
    groups: dict[str, tuple[Action, ...]] = {}
    for action in actions:
        groups[action.for_job_id] = (*groups.get(action.for_job_id, ()), action)
    return groups


def _announced(actions: tuple[Action, ...], cluster: Cluster) -> Notice | None:
    """The announcement that a hold is made for. None: it is for a job, or there is no hold."""
    for action in actions:
        if isinstance(action, Reserve) and action.user is not None:
            return next((one for one in cluster.notices if one.notice_id == action.job_id), None)
    return None


def _refused(verdict: Verdict) -> ActionReport:
    return ActionReport(
        action=verdict.action, outcome=Outcome.REFUSED, refusal=verdict.refusal, detail=verdict.detail
    )


def _delay_s(operation: Operation, cluster: Cluster) -> float:
    """How long an urgent job that runs has waited."""
    job = cluster.jobs_by_id()[operation.for_job_id]
    start_s = operation.started_s if operation.started_s is not None else cluster.now_s
    return start_s - job.submit_s
