"""One story from its beginning to its end: the whole daemon with its journal on the simulated cluster."""

import math
import os
import sqlite3
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from functools import partial
from heapq import heapify, heappop
from pathlib import Path
from tempfile import TemporaryDirectory

from makeway.daemon.control.report import CycleReport
from makeway.daemon.service.pacing import REPEAT_LIMIT
from makeway.simharness.engine.event_queue import Change, ChangeKind
from makeway.simharness.engine.records import MarkKind
from makeway.simharness.engine.snapshot import notice_id, notice_of
from makeway.simharness.swarm import happenings
from makeway.simharness.swarm.journal import Killed
from makeway.simharness.swarm.law import Law, Violation
from makeway.simharness.swarm.planned import PlannedTroubles
from makeway.simharness.swarm.rival import due_after
from makeway.simharness.swarm.story import DAY_S, Story, TroubleKind

LONGEST_S = 40 * DAY_S
"""A story that is not over by then never ends."""
CYCLES_AT_ONCE = 300
STEPS_AT_ONCE = 10_000
"""Cycles that follow one another without a pause; more would be a defect."""
LAST_LOOKS = 400
"""Polls after the last event of the cluster, in which the daemon may tidy up."""
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


class _Telling(PlannedTroubles):
    def __init__(self, story: Story, folder: Path) -> None:
        super().__init__(story, folder)
        for trouble in story.troubles:
            self._plan(trouble)
        heapify(self._agenda)
        self._start()

    def run(self) -> None:
        """Go from instant to instant until nothing more happens."""
        steps, instant_s = 0, self._first_s
        while self._step():
            now_s = self._cluster.now_s
            if now_s > self._first_s + LONGEST_S:
                self._laws.stuck(f"the story is not over after {LONGEST_S / DAY_S:.0f} days")
                return
            steps, instant_s = (steps + 1 if now_s == instant_s else 0), now_s
            if steps == STEPS_AT_ONCE:
                self._laws.stuck(f"the story does not get past {now_s} s")
                return
        self._last_looks()
        if self._journal is not None:
            self._laws.operations = self._journal.open_operations
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

    def _step(self) -> bool:
        """Go to the next instant, of the cluster, of the daemon or of a trouble. False: there is none."""
        event_s = self._cluster.next_event_s()
        due_s, lease_due_s = (
            (self._due_s, self._lease_due_s) if self._reconciler is not None else (None, None)
        )
        rival_s, rival_lease_s = (
            (None, None) if self._rival is None else (self._rival.due_s, self._rival.lease_due_s)
        )
        planned_s = self._agenda[0][0] if self._agenda else None
        at_s = min((one for one in (event_s, due_s, planned_s, rival_s) if one is not None), default=None)
        if at_s is None:
            return False  # leases alone are no reason to go on
        at_s = min([at_s, *(one for one in (lease_due_s, rival_lease_s) if one is not None)])
        if planned_s == at_s:
            self._note(self._cluster.advance(at_s))
            heappop(self._agenda)[2]()
        elif event_s == at_s:
            self._note(self._cluster.step())
        else:
            self._note(self._cluster.advance(at_s))
            if at_s in (rival_s, rival_lease_s):
                self._rival_cycle()
            else:
                self._cycle()
        return True

    def _note(self, changes: list[Change]) -> None:
        """Let the daemon look when something has changed: at its next poll, or at once if it is poked."""
        for change in changes:
            urgent = change.kind is ChangeKind.SUBMITTED and change.job_id in self._pokes
            poke = urgent or change.kind is ChangeKind.ACKNOWLEDGED
            self._look_at(change.at_s if poke else max(self._poll_s(change.at_s), self._pause_end_s))

    def _cycle(self) -> None:
        """Run cycles until the daemon has nothing more to do at this instant."""
        self._due_s = self._lease_due_s = None
        if self._cluster.now_s < self._stopped_until_s:
            self._due_s = self._stopped_until_s
            return
        assert self._journal is not None
        self._laws.operations = self._journal.open_operations
        report = None
        for count in range(CYCLES_AT_ONCE):
            try:
                report = self._one_cycle()
            except Killed:
                self._met(self._death)
                self._die(self._downtime_s)
                return
            if report is None or not report.again:
                break
            if count >= REPEAT_LIMIT and self._weather.any_now(self._cluster.now_s):
                self._pause()  # as in the service: each old view may undo what the last one has brought about
                break
            while self._cluster.next_event_s() == self._cluster.now_s:
                self._note(self._cluster.step())
        else:
            self._laws.stuck(f"{CYCLES_AT_ONCE} cycles follow one another without a pause")
            self._pause()
        now_s = self._cluster.now_s
        self._forget(now_s)
        if report is not None and report.error is None and not self._weather.any_now(now_s):
            if report.standing.cleans_up:
                self._laws.cycle_ends(now_s)
        else:
            self._look_at(self._poll_s(now_s, after=True))
        self._note(self._adapter.take_changes())
        assert self._reconciler is not None
        clock_s = self._adapter.clock_s()
        wakeup_s = self._reconciler.wakeup_s(clock_s, self._story.poll_interval_s)
        if wakeup_s is not None:
            self._look_at(self._poll_s(now_s + max(0.0, wakeup_s - clock_s), after=True))
        look_s = self._reconciler.checkpoint_look_s(clock_s)
        if look_s is not None:
            # Rounding must not make it this instant: it would never pass.
            self._look_at(max(math.nextafter(now_s, math.inf), now_s + look_s - clock_s))
        self._lease_due_s = due_after(self._lease, now_s)

    def _pause(self) -> None:
        """What has changed by now is looked at in the next poll, not again and again at this instant."""
        self._due_s = None
        self._pause_end_s = self._poll_s(self._cluster.now_s, after=True)

    def _rival_cycle(self) -> None:
        """The same for the second daemon."""
        rival = self._rival
        assert rival is not None
        self._laws.operations = rival.operations
        for _ in range(CYCLES_AT_ONCE):
            self._cycles += 1
            self._laws.cycle_begins()
            try:
                report = rival.cycle()
            except Exception as error:  # noqa: BLE001 - whatever it is, it breaks a law
                self._laws.cycle_failed(error)
                break
            self._commands += len(report.actions)
            if not report.again:
                break
            while self._cluster.next_event_s() == self._cluster.now_s:
                self._note(self._cluster.step())
        else:
            self._laws.stuck(f"{CYCLES_AT_ONCE} cycles of the second daemon follow one another")
        self._met(TroubleKind.SECOND_DAEMON)
        self._note(rival.adapter.take_changes())
        rival.plan_next(self._story.poll_interval_s)

    def _one_cycle(self) -> CycleReport | None:
        """One cycle. None: it ended by an exception, as in the service: the next one goes on."""
        assert self._reconciler is not None
        self._cycles += 1
        self._laws.cycle_begins()
        before = self._weather.met.total(), len(self._cluster.machine.marks)
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
        self._compare_losses(report, *before)
        if report.planning_failure is not None:
            self._laws.stuck(f"the planner fails: {report.planning_failure}")
        return report

    def _compare_losses(self, report: CycleReport, met: int, marks: int) -> None:
        """Show the laws what was decided and what was lost.

        The troubles met and the machine's marks are counted before the cycle: a signal is sent in the cycle
        that decides it, and may go wrong there.
        """
        if not report.leaving and not report.losses:
            return
        machine = self._cluster.machine
        downs = [place for place, mark in enumerate(machine.marks) if mark.kind is MarkKind.NODE_DOWN]
        # A daemon that waits for its lease sends nothing yet, and more is lost until it does.
        calm = report.standing.begins and not self._weather.any_now(self._cluster.now_s)
        for run in report.leaving if calm else ():
            self._laws.decided(run, met + bisect_left(downs, marks))
        for loss in report.losses:
            troubles = self._weather.met.total() + len(downs)
            self._laws.lost(loss, troubles, 2 * self._story.poll_interval_s)

    def _forget(self, now_s: float) -> None:
        """The controller may start again now: once in each trouble, when it has something to forget."""
        known = partial(happenings.forget_requeues, known_to=self._laws.operations)
        for kind, forget in (
            (TroubleKind.FORGETS, happenings.forget),
            (TroubleKind.REQUEUES_LOST, known),
        ):
            trouble = self._weather.now(kind, now_s)
            if trouble is None or trouble in self._forgotten:
                continue
            if forget(self._cluster.machine, now_s - trouble.amount):
                self._met(kind)
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
