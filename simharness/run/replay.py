"""A replay: the daemon's own cycle on a virtual clock, against the simulated cluster.

Cycles fall on multiples of the poll interval, as on a live cluster; a poke (an urgent job is submitted, a job
acknowledges its checkpoint) starts one at once, and there is one when a regular checkpoint is due after which
a job leaves. Cycles in which nothing can have changed for the daemon are skipped.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from makeway.daemon.config.mode import Mode
from makeway.daemon.control.planner import PlanningFailed
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import CycleReport, LoopSettings
from makeway.daemon.journal.store import Journal
from makeway.daemon.operation.observation import Timeouts
from makeway.policies.contract import Policy, PolicyFailed
from makeway.policies.model import JobKind, Limits, Operation, Phase, memoise_last
from makeway.simharness.engine.adapter import SimAdapter
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.event_queue import Change, ChangeKind
from makeway.simharness.engine.records import ReplayRecord

CYCLES_AT_ONE_INSTANT = 300
"""A command that is accepted is followed by another cycle at once; more in a row than this would be a defect.

An early start or a job that makes way takes three to six cycles; on the whole of CTC up to 46 came
together (p = 0.1).
"""


UNPRICED: Final = Limits(
    min_progress_s=0.0,
    max_loss_node_hours=None,
    max_loss_node_hours_per_day=None,
    price_past_evictions=False,
)
"""The limits of a replay: none. The papers have none either, and policies are compared by what they do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """How the daemon runs in a replay."""

    mode: Mode = Mode.ACT
    poll_interval_s: float = 30.0
    poke: bool = True
    """Whether an urgent submission and an acknowledgement start a cycle at once."""
    limits: Limits = UNPRICED
    timeouts: Timeouts = field(default_factory=Timeouts)
    keep_snapshots: bool = False
    """Whether decisions are stored with their snapshots, which costs time and space."""
    learn_durations: bool = False
    """Whether measured durations of checkpoints replace declared ones, which are exact in a simulation."""


class RunawayCycles(PolicyFailed):
    """The daemon went on acting at one instant of virtual time: a defect of the policy, or of makeway."""


class Replay:
    """One workload under one policy.

    Args:
        cluster: the machine and the workload, at its start.
        policy: who decides, with `policy_config`, a value of the policy's own `config_type`.
        settings: how the daemon runs.
        adapter: how it reaches the cluster. None: a `SimAdapter` without faults.
        journal: what it remembers. None: one in memory.
        on_cycle: called with the report of every cycle.
    """

    def __init__(
        self,
        cluster: SimCluster,
        policy: Policy[Any],
        policy_config: object,
        settings: ReplaySettings,
        *,
        adapter: SimAdapter | None = None,
        journal: Journal | None = None,
        on_cycle: Callable[[CycleReport], None] | None = None,
    ) -> None:
        self.cluster = cluster
        self.adapter = adapter if adapter is not None else SimAdapter(cluster)
        self.journal = journal if journal is not None else Journal(None)
        self._policy = policy
        self._policy_config = policy_config
        self._settings = settings
        self._on_cycle = on_cycle
        self._urgent = {job.job_id for job in cluster.machine.jobs if job.kind is JobKind.ON_DEMAND}
        self._noticed: set[str] = set()
        self._decision_s: list[float] = []
        self._waiting = 0
        self._due_s: float | None = None
        # No event tells that such a limit allows what it forbade: every poll looks at urgent jobs.
        self._await_limits = _end_by_themselves(settings.limits)
        self._daemon = self._new_daemon()

    def restart(self, journal: Journal) -> None:
        """Go on with a new daemon that knows what `journal` knows, as after a crash."""
        self.journal = journal
        self._daemon = self._new_daemon()
        self._due_s = self.cluster.now_s

    def run(self, progress: Callable[[float], None] | None = None) -> ReplayRecord:
        """Replay to the end. `progress` is called with the clock from time to time."""
        began = time.perf_counter()
        if self._policy.active:
            steps = 0
            while self.step():
                steps += 1
                if progress is not None and steps % 256 == 0:
                    progress(self.cluster.now_s)
        else:
            self.cluster.run(progress)
        return self.record(wall_s=time.perf_counter() - began)

    def step(self) -> bool:
        """Go to the next instant, of the cluster or of the daemon. False: there is none."""
        event_s, due_s = self.cluster.next_event_s(), self._due_s
        if event_s is None and due_s is None:
            return False
        if due_s is not None and (event_s is None or due_s < event_s):
            self.cluster.advance(due_s)
            self._cycles()
            return True
        self._note(self.cluster.step(event_s))
        if self._due_s is not None and self._due_s <= self.cluster.now_s and not self._pending_now():
            self._cycles()
        return True

    def record(self, *, wall_s: float = 0.0) -> ReplayRecord:
        """What the replay has left behind so far."""
        record = self.cluster.record(policy=self._policy.name, commands=self.adapter.accepted, wall_s=wall_s)
        record.decision_s = self._decision_s
        return record

    def _new_daemon(self) -> Reconciler:
        settings = LoopSettings(
            mode=self._settings.mode,
            limits=self._settings.limits,
            timeouts=self._settings.timeouts,
            keep_snapshots=self._settings.keep_snapshots,
            learn_durations=self._settings.learn_durations,
            told=self._on_cycle is not None,
        )
        return Reconciler(
            self.adapter,
            self.journal,
            self._policy,
            self._policy_config,
            settings,
            now=lambda: self.cluster.now_s,
            plan_in_thread=False,
            cpu_clock=time.thread_time,
        )

    def _cycles(self) -> None:
        """Run the daemon until it has nothing more to do at this instant."""
        self._due_s = None
        self._tell_notices()
        latest: deque[CycleReport] = deque(maxlen=2)
        for _ in range(CYCLES_AT_ONE_INSTANT):
            report = self._daemon.reconcile()
            latest.append(report)
            if report.urgent_waiting:
                self._decision_s.append(report.decision_cpu_s)
            self._waiting = report.urgent_waiting
            if self._on_cycle is not None:
                self._on_cycle(report)
            if report.planning_failure is not None:
                raise PlanningFailed(self._failed(f"no plan: {report.planning_failure}"))
            if report.error is not None:
                self._due_s = self._quantised(self.cluster.now_s, after=True)
                return
            if not report.again:
                break
            while self._pending_now():
                self.cluster.step()
        else:
            raise RunawayCycles(self._failed(_without_end(latest)))
        wakeup_s = self._daemon.wakeup_s(self.cluster.now_s, self._settings.poll_interval_s)
        look_s = self._daemon.checkpoint_look_s(self.cluster.now_s)
        instants = [] if wakeup_s is None else [self._quantised(wakeup_s)]
        awaits = self._waiting or (self._policy.collects and self._is_any_awaited())
        # Without an event to come no job runs that could be allowed to leave.
        if self._await_limits and awaits and self.cluster.next_event_s() is not None:
            instants.append(self._quantised(self.cluster.now_s, after=True))
        self._due_s = min([*instants, *([] if look_s is None else [look_s])], default=None)

    def _failed(self, how: str) -> str:
        return f"policy {self._policy.name} failed at {self.cluster.now_s:.0f} s: {how}"

    def _pending_now(self) -> bool:
        """Whether the cluster has something left to do at this very instant."""
        return self.cluster.next_event_s() == self.cluster.now_s

    def _note(self, changes: Sequence[Change]) -> None:
        """Set when the next cycle is due because of changes. A poke only makes the daemon see earlier what it
        would see at the next poll.
        """
        operations = self.journal.open_operations()
        poked_s: float | None = None
        if self._policy.arrivals_only and not (self._waiting or operations):
            # Of many thousand changes, these alone can matter then.
            changes = [
                one for one in changes if one.job_id in self._urgent or one.kind is ChangeKind.ACKNOWLEDGED
            ]
        for change in changes:
            pokes = self._settings.poke and self._is_poke(change)
            if pokes and poked_s is None:
                poked_s = change.at_s
            wanted_s = self._wanted_s(operations, change, pokes=pokes)
            if wanted_s is not None and (self._due_s is None or wanted_s < self._due_s):
                self._due_s = wanted_s
        if poked_s is not None and self._due_s is not None and self._due_s <= self._quantised(poked_s):
            self._due_s = min(self._due_s, poked_s)

    def _is_poke(self, change: Change) -> bool:
        if change.kind is ChangeKind.SUBMITTED:
            return change.job_id in self._urgent
        return change.kind is ChangeKind.ACKNOWLEDGED

    def _wanted_s(self, operations: tuple[Operation, ...], change: Change, *, pokes: bool) -> float | None:
        """The poll at which the daemon should run a cycle because of a change. None: the change does not
        concern it.
        """
        always = not self._policy.arrivals_only and change.kind is not ChangeKind.STARTED
        concerns = pokes or always or self._waiting or change.job_id in self._urgent
        if not (concerns or any(operation.phase is not Phase.LENT for operation in operations)):
            return None
        if self._policy.arrivals_only and self._is_idle(operations) and not self._affects(operations, change):
            return None
        return self._quantised(change.at_s)

    def _is_idle(self, operations: tuple[Operation, ...]) -> bool:
        """Whether a policy that acts for urgent jobs only has none to act for: none waits, none is announced
        as far as that counts, and all that `operations` do is to give back.
        """
        return not (
            self._waiting
            or any(
                operation.phase is Phase.MAKING_ROOM or operation.for_job_id not in self._urgent
                for operation in operations
            )
            or (self._policy.collects and self._is_any_awaited())
        )

    def _is_any_awaited(self) -> bool:
        """Whether a job is announced that has not arrived, as far as the daemon knows."""
        return bool(self.cluster.announced) or any(one.job_id is None for one in self.journal.notices())

    def _affects(self, operations: tuple[Operation, ...], change: Change) -> bool:
        """Whether a change makes an urgent job wait, or may be what an operation waits for. An announcement
        waits for the end of its job.
        """
        job_id = change.job_id
        if job_id is None or change.kind is ChangeKind.ACKNOWLEDGED or job_id in _jobs_of(operations):
            return True
        if any(notice.job_id == job_id for notice in self.journal.notices()):
            return True
        live = self.cluster.machine.live.get(job_id)
        return live is not None and live.job.kind is JobKind.ON_DEMAND and not live.nodes

    def _quantised(self, at_s: float, *, after: bool = False) -> float:
        """The first poll at `at_s` or later; with `after`, later."""
        interval_s = self._settings.poll_interval_s
        count = math.ceil(at_s / interval_s)
        if after and count * interval_s <= at_s:
            count += 1
        return count * interval_s

    def _tell_notices(self) -> None:
        """Give the daemon each new announcement once.

        A job says itself which announcement is its own.
        """
        current = {notice.notice_id: notice for notice in self.adapter.notices()}
        if current.keys() != self._noticed:
            for notice_id in sorted(current.keys() - self._noticed):
                self.journal.add_notice(current[notice_id])
            self._noticed = set(current)


def _end_by_themselves(limits: Limits) -> bool:
    """Whether some limit forbids for a time only: until a job has run for long enough or has saved its work,
    until a plan takes fewer nodes, or until an hour or a day is over.
    """
    sums = (
        limits.evictions_per_hour,
        limits.max_nodes,
        limits.max_loss_node_hours,
        limits.max_loss_node_hours_per_day,
        limits.max_loss_node_hours_per_user_per_day,
        limits.max_loss_node_hours_per_account_per_day,
    )
    return bool(limits.min_runtime_s or limits.min_progress_s) or any(limit is not None for limit in sums)


def _without_end(latest: Iterable[CycleReport]) -> str:
    """How the cycles at one instant go on. `latest`: the last ones."""
    told = (f"{one.action.verb} for {one.action.for_job_id}" for report in latest for one in report.actions)
    actions = ", ".join(dict.fromkeys(told)) or "no action"
    return f"it acts without end: {CYCLES_AT_ONE_INSTANT} cycles at one instant, the last ones with {actions}"


@memoise_last
def _jobs_of(operations: tuple[Operation, ...]) -> frozenset[str]:
    """The jobs that operations are for, and those that they do something to."""
    own = (operation.for_job_id for operation in operations)
    return frozenset(own).union(task.action.job_id for operation in operations for task in operation.tasks)
