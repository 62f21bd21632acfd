"""One story from its beginning to its end: the whole daemon with its journal on the simulated cluster."""

import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count
from math import ceil, inf
from pathlib import Path
from tempfile import TemporaryDirectory

from makeway.daemon.config.mode import Mode
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import CycleReport, LoopSettings
from makeway.policies.model import Notice
from makeway.policies.registry import find
from makeway.simharness.engine.event_queue import Change, ChangeKind
from makeway.simharness.engine.records import MarkKind
from makeway.simharness.engine.snapshot import notice_id, notice_of
from makeway.simharness.swarm import happenings
from makeway.simharness.swarm.journal import Killed, MortalJournal
from makeway.simharness.swarm.laws import Law, Laws, Violation
from makeway.simharness.swarm.scene import cluster_of
from makeway.simharness.swarm.story import DAY_S, Story, Trouble, TroubleKind
from makeway.simharness.swarm.troubled import TroubledAdapter, Weather

LONGEST_S = 40 * DAY_S
"""A story that is not over by then never ends."""
CYCLES_AT_ONCE = 300
"""Cycles that follow one another without a pause; more would be a defect."""
LAST_LOOKS = 400
"""Polls after the last event of the cluster, in which the daemon may tidy up."""
COMMANDS_PER_CYCLE = 25
VIEW_AGE_MAX_S = 30.0
MEMORY = Path("/dev/shm")
"""Where the journals are, if there is such a folder: no disk is waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """How a story ended."""

    violations: tuple[Violation, ...]
    met: Counter[TroubleKind]
    """How often each kind of trouble had an effect."""
    checks: Counter[Law]
    cluster_s: float
    """How long the cluster ran."""
    cycles: int
    commands: int


def tell(story: Story) -> Told:
    """Tell a story to its end, or to the first defect of the daemon."""
    place = MEMORY if os.access(MEMORY, os.W_OK) else None
    with TemporaryDirectory(prefix="makeway-swarm-", dir=place) as folder:
        telling = _Telling(story, Path(folder))
        try:
            telling.run()
        finally:
            telling.close()
        return telling.told()


class _Telling:
    def __init__(self, story: Story, folder: Path) -> None:
        self._story = story
        self._path = folder / "journal.sqlite"
        self._copies = folder / "copies"
        self._weather = Weather(story)
        self._cluster = cluster_of(story)
        self._first_s = self._cluster.now_s
        self._laws = Laws(
            story,
            self._cluster.machine,
            commands_per_cycle=COMMANDS_PER_CYCLE,
            view_age_s=VIEW_AGE_MAX_S,
        )
        self._adapter = TroubledAdapter(self._cluster, self._weather, self._laws)
        self._policy = find(story.policy)
        self._pokes = {job.job_id for job in story.jobs if job.start_within_s is not None}
        self._journal: MortalJournal | None = None
        self._reconciler: Reconciler | None = None
        self._known_notices: set[str] = set()
        self._forgotten: set[Trouble] = set()
        self._death = TroubleKind.KILLED_WRITING
        self._downtime_s = 0.0
        self._stopped_until_s = -inf
        self._due_s: float | None = None
        self._cycles = self._commands = 0
        self._order = count()
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        for trouble in story.troubles:
            self._plan(trouble)
        heapify(self._agenda)
        self._start()

    def run(self) -> None:
        """Go from instant to instant until nothing more happens."""
        while self._step():
            if self._cluster.now_s > self._first_s + LONGEST_S:
                self._laws.stuck(f"the story is not over after {LONGEST_S / DAY_S:.0f} days")
                return
        self._last_looks()
        self._laws.over()

    def told(self) -> Told:
        """What it has come to so far."""
        machine = self._cluster.machine
        downs = sum(mark.kind is MarkKind.NODE_DOWN for mark in machine.marks)
        return Told(
            violations=tuple(self._laws.violations),
            met=self._weather.met + Counter({TroubleKind.NODE_DOWN: downs}),
            checks=self._laws.checks,
            cluster_s=self._cluster.now_s - self._first_s,
            cycles=self._cycles,
            commands=self._commands,
        )

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()

    def _step(self) -> bool:
        """Go to the next instant, of the cluster, of the daemon or of a trouble. False: there is none."""
        event_s = self._cluster.next_event_s()
        due_s = self._due_s if self._reconciler is not None else None
        planned_s = self._agenda[0][0] if self._agenda else None
        at_s = min((one for one in (event_s, due_s, planned_s) if one is not None), default=None)
        if at_s is None:
            return False
        if planned_s == at_s:
            self._note(self._cluster.advance(at_s))
            heappop(self._agenda)[2]()
        elif event_s == at_s:
            self._note(self._cluster.step())
        else:
            self._note(self._cluster.advance(at_s))
            self._cycle()
        return True

    def _note(self, changes: list[Change]) -> None:
        """Let the daemon look when something has changed: at its next poll, or at once if it is poked."""
        for change in changes:
            urgent = change.kind is ChangeKind.SUBMITTED and change.job_id in self._pokes
            poke = urgent or change.kind is ChangeKind.ACKNOWLEDGED
            self._look_at(change.at_s if poke else self._poll_s(change.at_s))

    def _look_at(self, at_s: float) -> None:
        self._due_s = at_s if self._due_s is None else min(self._due_s, at_s)

    def _poll_s(self, at_s: float, *, after: bool = False) -> float:
        """The first poll at `at_s` or later; with `after`, later."""
        interval_s = self._story.poll_interval_s
        number = ceil(at_s / interval_s)
        return (number + 1 if after and number * interval_s <= at_s else number) * interval_s

    # The daemon

    def _start(self) -> None:
        """The daemon starts, on whatever journal there is."""
        if self._reconciler is not None:
            return
        journal = MortalJournal(
            self._path, lambda: self._weather.meet(TroubleKind.DISK_FULL, self._cluster.now_s) is not None
        )
        self._journal = journal
        self._laws.operations = journal.open_operations
        self._reconciler = Reconciler(
            self._adapter,
            journal,
            self._policy,
            self._policy.config_type(),
            LoopSettings(
                mode=Mode.ACT,
                keep_snapshots=False,
                learn_durations=self._story.learns,
                commands_per_cycle=COMMANDS_PER_CYCLE,
                view_age_max_s=VIEW_AGE_MAX_S,
            ),
            now=self._adapter.clock_s,
            clock=lambda: self._cluster.now_s,
            plan_in_thread=False,
        )
        self._due_s = self._cluster.now_s

    def _die(self, downtime_s: float, then: Callable[[], None] | None = None) -> None:
        """The daemon is killed, and starts again later; `then` is done to its files meanwhile."""
        if self._reconciler is None or self._journal is None:
            return
        self._journal.close()
        self._reconciler = self._journal = None
        if then is not None:
            then()
            self._laws.memory_lost()
        self._at(self._cluster.now_s + downtime_s, self._start)

    def _cycle(self) -> None:
        """Run cycles until the daemon has nothing more to do at this instant."""
        self._due_s = None
        if self._cluster.now_s < self._stopped_until_s:
            self._due_s = self._stopped_until_s
            return
        report = None
        for _ in range(CYCLES_AT_ONCE):
            try:
                report = self._one_cycle()
            except Killed:
                self._met(self._death)
                self._die(self._downtime_s)
                return
            if report is None or not report.again:
                break
            while self._cluster.next_event_s() == self._cluster.now_s:
                self._note(self._cluster.step())
        else:
            self._laws.stuck(f"{CYCLES_AT_ONCE} cycles follow one another without a pause")
        now_s = self._cluster.now_s
        self._forget(now_s)
        if report is not None and report.error is None and not self._weather.any_now(now_s):
            self._laws.cycle_ends(now_s)
        else:
            self._look_at(self._poll_s(now_s, after=True))
        self._note(self._adapter.take_changes())
        assert self._reconciler is not None
        clock_s = self._adapter.clock_s()
        wakeup_s = self._reconciler.wakeup_s(clock_s, self._story.poll_interval_s)
        if wakeup_s is not None:
            self._look_at(self._poll_s(now_s + max(0.0, wakeup_s - clock_s), after=True))

    def _one_cycle(self) -> CycleReport | None:
        """One cycle. None: it ended by an exception, as in the service: the next one goes on."""
        assert self._reconciler is not None
        self._cycles += 1
        self._laws.cycle_begins()
        try:
            self._tell_notices()
            report = self._reconciler.reconcile()
        except sqlite3.OperationalError:
            return None  # the disk is full
        except Exception as error:  # noqa: BLE001 - whatever it is, it breaks a law
            self._laws.cycle_failed(error)
            return None
        self._laws.cycle_failed(None)
        self._commands += len(report.actions)
        self._compare_losses(report)
        if report.planning_failure is not None:
            self._laws.stuck(f"the planner fails: {report.planning_failure}")
        return report

    def _compare_losses(self, report: CycleReport) -> None:
        """Show the laws what was decided and what was lost."""
        troubles = self._weather.met.total() + sum(
            mark.kind is MarkKind.NODE_DOWN for mark in self._cluster.machine.marks
        )
        for run in () if self._weather.any_now(self._cluster.now_s) else report.leaving:
            self._laws.decided(run, troubles)
        for loss in report.losses:
            self._laws.lost(loss, troubles, 2 * self._story.poll_interval_s)

    def _forget(self, now_s: float) -> None:
        """The controller may start again now: once in each trouble, when it has something to forget."""
        trouble = self._weather.now(TroubleKind.FORGETS, now_s)
        if trouble is None or trouble in self._forgotten:
            return
        if happenings.forget(self._cluster.machine, now_s - trouble.amount):
            self._met(TroubleKind.FORGETS)
            self._forgotten.add(trouble)

    def _last_looks(self) -> None:
        """Nothing happens any more on the cluster: the daemon polls on and may tidy up."""
        for _ in range(LAST_LOOKS):
            left = self._journal is None or self._journal.open_operations() or self._cluster.machine.holds
            if not left:
                return
            self._due_s = self._poll_s(self._cluster.now_s, after=True)
            while self._step():
                pass

    def _tell_notices(self) -> None:
        """Give the daemon each new announcement once, as a user does through the socket."""
        assert self._journal is not None
        for job in self._cluster.announced.values():
            if notice_id(job) not in self._known_notices:
                self._journal.add_notice(notice_of(job))
                self._known_notices.add(notice_id(job))

    # The troubles that are planned for an instant; the others are asked for by the adapter

    def _at(self, at_s: float, call: Callable[[], None]) -> None:
        heappush(self._agenda, (at_s, next(self._order), call))

    def _plan(self, trouble: Trouble) -> None:
        begin = {
            TroubleKind.KILLED: self._killed,
            TroubleKind.KILLED_WRITING: self._killed_at_a_write,
            TroubleKind.KILLED_WRITTEN: self._killed_at_a_write,
            TroubleKind.STOPPED: self._stopped,
            TroubleKind.JOURNAL_LOST: self._journal_lost,
            TroubleKind.JOURNAL_OLD: self._journal_copied,
            TroubleKind.MAINTENANCE: self._maintenance,
            TroubleKind.HOLDS: self._held,
            TroubleKind.CANCELS: self._cancels,
            TroubleKind.NO_SHOW: self._no_show,
        }.get(trouble.kind)
        if begin is not None:
            self._at(max(trouble.at_s, self._first_s), partial(begin, trouble))

    def _met(self, kind: TroubleKind, effect: bool = True) -> None:
        self._weather.met[kind] += effect

    def _killed(self, trouble: Trouble) -> None:
        self._met(trouble.kind, self._reconciler is not None)
        self._die(trouble.lasts_s)

    def _killed_at_a_write(self, trouble: Trouble) -> None:
        if self._journal is not None:
            self._death = trouble.kind
            self._downtime_s = trouble.lasts_s
            self._journal.dies_in = int(trouble.amount)
            self._journal.after = trouble.kind is TroubleKind.KILLED_WRITTEN

    def _stopped(self, trouble: Trouble) -> None:
        self._met(trouble.kind)
        self._stopped_until_s = trouble.end_s
        self._look_at(trouble.end_s)

    def _journal_lost(self, trouble: Trouble) -> None:
        def lose() -> None:
            for path in self._path.parent.glob(f"{self._path.name}*"):
                path.unlink()

        self._met(trouble.kind, self._reconciler is not None)
        self._die(trouble.lasts_s, lose)

    def _journal_copied(self, trouble: Trouble) -> None:
        if self._journal is None:
            return
        copy = self._copies / str(next(self._order))
        shutil.copytree(self._path.parent, copy, ignore=shutil.ignore_patterns("copies", "*.lock"))

        def restore() -> None:
            for path in self._path.parent.glob(f"{self._path.name}*"):
                path.unlink()
            shutil.copytree(copy, self._path.parent, dirs_exist_ok=True)

        def back() -> None:
            self._met(trouble.kind, self._reconciler is not None)
            self._die(1.0, restore)

        self._at(trouble.end_s, back)

    def _maintenance(self, trouble: Trouble) -> None:
        name = f"maintenance-{next(self._order)}"
        self._met(trouble.kind)
        self._laws.foreign.add(name)
        happenings.reserve_for_maintenance(self._cluster.machine, name, int(trouble.amount), trouble.end_s)

    def _held(self, trouble: Trouble) -> None:
        until_s = trouble.end_s
        if happenings.hold_back(self._cluster.machine, trouble.subject, until_s):
            self._met(trouble.kind)
            self._at(until_s, lambda: happenings.let_go(self._cluster.machine, trouble.subject, until_s))

    def _cancels(self, trouble: Trouble) -> None:
        if happenings.cancel(self._cluster.machine, trouble.subject):
            self._met(trouble.kind)

    def _no_show(self, trouble: Trouble) -> None:
        if self._journal is None:
            return
        self._met(trouble.kind)
        now_s = self._cluster.now_s
        notice = Notice(
            notice_id=f"nobody-{next(self._order)}",
            user="nobody",
            node_count=int(trouble.amount),
            walltime_s=3600.0,
            announced_s=now_s,
            expected_s=now_s + trouble.lasts_s,
        )
        try:
            self._journal.add_notice(notice)
        except (Killed, sqlite3.OperationalError):
            return
        self._look_at(self._poll_s(now_s))
