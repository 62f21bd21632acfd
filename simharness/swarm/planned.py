"""What goes wrong at an instant that a story says; the adapter asks for the other troubles."""

import shutil
import sqlite3
from collections import Counter
from functools import partial

from makeway.simharness.engine.job_run import JobRun
from makeway.simharness.swarm import happenings
from makeway.simharness.swarm.announcing import announce_in_vain
from makeway.simharness.swarm.daemons import TwoDaemons
from makeway.simharness.swarm.journal import Killed
from makeway.simharness.swarm.rival import SECOND, Rival
from makeway.simharness.swarm.story import CHANGES, Trouble, TroubleKind
from makeway.simharness.swarm.troubled import TroubledAdapter


class PlannedTroubles(TwoDaemons):
    """The daemons of a story, and what happens to them and to the cluster at planned instants."""

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
            TroubleKind.RESUBMITS: self._cancels,
            TroubleKind.STAYS: self._stays,
            TroubleKind.NO_SHOW: self._no_show,
            TroubleKind.SECOND_DAEMON: self._another_daemon,
            TroubleKind.HOLDS_LOST: self._holds_lost,
            **dict.fromkeys(CHANGES, self._changed),
        }.get(trouble.kind)
        if begin is not None:
            self._at(max(trouble.at_s, self._first_s), partial(begin, trouble))

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

    def _holds_lost(self, trouble: Trouble) -> None:
        """A job that lacks something else is not kept from starting: makeway would leave it alone."""
        admission = self._cluster.admission

        def keeps(live: JobRun) -> bool:
            return live.eligible_s is None and not admission.blocked_by(live)

        self._met(
            trouble.kind,
            happenings.lose_holds(self._cluster.machine, trouble.at_s - trouble.amount, keeps) > 0,
        )

    def _another_daemon(self, trouble: Trouble) -> None:
        if self._rival is not None:
            return
        self._rival = Rival(
            TroubledAdapter(self._cluster, self._weather, self._laws, SECOND),
            self._path.parent / SECOND / "journal.sqlite",
            self._policy,
            self._settings(),
            clock=lambda: self._cluster.now_s,
            seed=f"{self._story.seed}:{next(self._order)}",
        )

        def killed() -> None:
            assert self._rival is not None
            self._rival.close()
            self._rival = None
            self._look_at(self._poll_s(self._cluster.now_s))

        self._at(trouble.end_s, killed)

    def _held(self, trouble: Trouble) -> None:
        until_s = trouble.end_s
        if happenings.hold_back(self._cluster.machine, trouble.subject, until_s):
            self._met(trouble.kind)
            self._at(until_s, lambda: happenings.let_go(self._cluster.machine, trouble.subject, until_s))

    def _cancels(self, trouble: Trouble) -> None:
        if happenings.cancel(self._cluster.machine, trouble.subject):
            self._met(trouble.kind)

    def _changed(self, trouble: Trouble) -> None:
        job = happenings.change(self._cluster.machine, trouble)
        if job is not None:
            self._met(trouble.kind)
            self._laws.changed(job)
            self._look_at(self._poll_s(self._cluster.now_s))

    def _stays(self, trouble: Trouble) -> None:
        if happenings.protect(self._cluster.machine, trouble.subject):
            self._met(trouble.kind)
            self._look_at(self._poll_s(self._cluster.now_s))

    def _no_show(self, trouble: Trouble) -> None:
        if self._journal is None:
            return
        self._met(trouble.kind)
        now_s = self._cluster.now_s
        clean = not (self._weather.met - Counter({TroubleKind.NO_SHOW: self._weather.met.total()}))
        try:
            notice = announce_in_vain(self._journal, trouble, now_s, next(self._order))
        except (Killed, sqlite3.OperationalError):
            return
        if notice is not None and clean:
            self._laws.announced(notice)
        self._look_at(self._poll_s(now_s))
