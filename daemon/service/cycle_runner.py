"""What the ticker calls: one cycle with everything around it. Reload, metrics, log, status, housekeeping.

One thread makes these calls. Other threads only read the status and ask for a reload. An exception ends the
cycle that raised it, and never the process.
"""

import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from importlib.metadata import version
from os import getpid

from structlog.typing import FilteringBoundLogger

from makeway.adapters.registry import Connection
from makeway.adapters.site.sections import DAY_S
from makeway.daemon.config.load import Config, load
from makeway.daemon.config.mode import Mode
from makeway.daemon.config.schema import Settings
from makeway.daemon.control.joining import EVICTIONS_COUNTED_S
from makeway.daemon.control.permission import ONLY_DAEMON, Permission
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import CycleReport, LoopSettings
from makeway.daemon.errors import printable
from makeway.daemon.journal.errors import JournalError, JournalReplaced
from makeway.daemon.journal.store import Journal
from makeway.daemon.leader.standing import Standing
from makeway.daemon.operation.announcements import NoticeLimits
from makeway.daemon.operation.due import rests
from makeway.daemon.service import logs
from makeway.daemon.service.hooks import Hooks
from makeway.daemon.service.metrics import Metrics
from makeway.daemon.service.pacing import Pace
from makeway.daemon.service.status import ServiceStatus
from makeway.daemon.service.systemd import Notifier
from makeway.daemon.service.ticker import CycleResult
from makeway.policies.gate.breaker import breaker_tripped
from makeway.policies.none import NONE, NoneConfig

FIXED = ("adapter", "journal", "socket", "metrics")
"""Settings that a reload cannot change, but for what an adapter can take over (`Connection.adopt`)."""
CLOCK_STEP_S = 5.0
"""A system clock that is further from the cycles' clock than this was set."""
PRUNE_STEPS = 200
"""Short pruning transactions in one pass of the housekeeping, at most."""


class CycleRunner:
    """Runs cycles on an open cluster and an open journal.

    Args:
        config: the configuration to start with.
        connection: the cluster and its clock.
        journal: the daemon's journal.
        metrics: counts every cycle.
        notifier: reports the status to systemd.
        log: the service's log.
        hooks: runs the site's commands.
        permission: this daemon's lease, and what an operator has said.
        give_up: called once if the journal was deleted or replaced: this process cannot go on.
    """

    def __init__(
        self,
        config: Config,
        connection: Connection,
        journal: Journal,
        *,
        metrics: Metrics,
        notifier: Notifier,
        log: FilteringBoundLogger,
        give_up: Callable[[], None],
        hooks: Hooks,
        permission: Permission = ONLY_DAEMON,
    ) -> None:
        self._give_up = give_up
        self._hooks = hooks
        self._permission = permission
        self._given_up = False
        self._clock_apart = False
        self._config = config
        self._connection = connection
        self._journal = journal
        self._metrics = metrics
        self._notifier = notifier
        self._log = log
        self._reload_wanted = threading.Event()
        self._restore_wanted = threading.Event()
        self._reconciler = self._new_reconciler()
        self._status = ServiceStatus(
            version=version("makeway"),
            pid=getpid(),
            configuration=str(config.path),
            mode=config.settings.mode,
            policy=config.policy.name,
            adapter=config.settings.adapter.adapter_name,
        )

    @property
    def cycle_limit_s(self) -> float:
        """A cycle that takes longer counts as hung."""
        return self._config.settings.cycle_limit_s

    @property
    def notice_limits(self) -> NoticeLimits:
        """What one user may announce, by the present settings."""
        return self._config.settings.notices.to_limits()

    def status(self) -> Mapping[str, object]:
        """The status, with the present age of the last snapshot. May be called from any thread."""
        return asdict(replace(self._status, snapshot_age_s=round(self._metrics.snapshot_age_s, 3)))

    def pace(self) -> Pace:
        """When cycles begin, by the present settings."""
        settings = self._config.settings
        return Pace(
            poll_interval_s=settings.poll_interval_s,
            poke_gap_s=settings.poke_gap_s,
            backoff_max_s=settings.backoff_max_s,
        )

    def want_reload(self) -> None:
        """Have the next cycle read the configuration again. May be called from any thread."""
        self._reload_wanted.set()

    def want_restore(self) -> None:
        """Have the next cycles give everything back, and take nothing. May be called from any thread."""
        self._restore_wanted.set()

    def cycle(self) -> CycleResult:
        """Run one cycle, after a reload if one was asked for. Raises nothing."""
        began_s = time.monotonic()
        if self._given_up:
            return CycleResult(failures=self._status.failures)
        try:
            self._journal.verify()
            if self._reload_wanted.is_set():
                self._reload_wanted.clear()
                self._reload()
            restoring = self._restore_wanted.is_set()
            if restoring:
                self._configure(self._config, self._config.settings)
            report = self._reconciler.reconcile()
            stepped = self._watch_clock()
            breaker_open = self._breaker_open()
            due_in_s = self._due_in_s()
        except JournalReplaced as error:
            return self._journal_replaced(error, time.monotonic() - began_s)
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends this cycle only
            return self._crashed(error, time.monotonic() - began_s)
        cycle_s = time.monotonic() - began_s
        self._metrics.observe_cycle(report, cycle_s)
        self._hooks.add(report, self._config.policy.name)
        self._metrics.set_breaker(breaker_open)
        _log_cycle(self._log, report, cycle_s)
        seen, last = report.error is None, self._status
        failures = 0 if seen else 1 if report.starting else last.failures + 1
        self._publish(
            replace(
                last,
                sentence=report.sentence,
                failures=failures,
                operations_open=report.operations_open,
                urgent_waiting=report.urgent_waiting if seen else last.urgent_waiting,
                lost_in_a_day="; ".join(printable(one.text) for one in report.lost_in_a_day)
                or last.lost_in_a_day,
                breaker_open=breaker_open,
                restored=report.restored if restoring else None,
                not_given_back="; ".join(map(printable, report.not_given_back)) or None,
                leader=_leader_text(report.standing),
                lease=report.standing.lease_text,
                leader_problem=report.standing.problem,
                paused=report.paused,
                planning_failure=report.planning_failure if seen else last.planning_failure,
            )
        )
        return CycleResult(failures=failures, again=report.again or stepped, due_in_s=due_in_s)

    def prune_journal(self) -> None:
        """Remove journal entries that are older than `journal_keep_days`, a part of them at a time. Raises
        nothing.
        """
        settings = self._config.settings
        if settings.journal_keep_days is None:
            return
        keep_s = max(
            settings.journal_keep_days * DAY_S,
            settings.limits.breaker_window_s,
            settings.notices.no_show_window_s,
            EVICTIONS_COUNTED_S,
        )
        try:
            before_s = self._connection.now() - keep_s
            for _ in range(PRUNE_STEPS):
                if self._journal.prune(before_s) == 0:
                    return
        except Exception:  # noqa: BLE001 - old entries do no harm, and the next pass tries again
            self._log.exception("old entries of the journal could not be removed")

    def _crashed(self, error: Exception, cycle_s: float) -> CycleResult:
        """Report a cycle that a defect ended, or a journal that cannot be used now, as on a full disk."""
        failures = self._status.failures + 1
        if isinstance(error, JournalError):
            self._log.error("a cycle failed", failures=failures, problem=str(error))
        elif isinstance(error, sqlite3.OperationalError):
            where = f"{self._config.settings.journal}: {error}"  # SQLite does not name its file
            self._log.error("a cycle failed", failures=failures, problem=where)
        else:
            self._log.exception("a cycle failed", failures=failures)
        return self._failed(f"the last cycle failed: {type(error).__name__}: {error}", cycle_s)

    def _failed(self, sentence: str, cycle_s: float) -> CycleResult:
        """Count a cycle that gave no report."""
        failures = self._status.failures + 1
        self._metrics.count_crash(cycle_s)
        self._publish(replace(self._status, sentence=sentence, failures=failures))
        return CycleResult(failures=failures)

    def _journal_replaced(self, error: JournalReplaced, cycle_s: float) -> CycleResult:
        """Stop before anything is sent: what is written ahead would be written nowhere.

        What was taken is in the file that is still open. It is copied to its place, for the next start to
        give it back.
        """
        self._given_up = True
        self._log.error("makeway stops: its journal is not what it was", problem=str(error))
        try:
            moved = self._journal.save_copy()
        except JournalError as failure:
            self._log.error("the journal could not be saved", problem=str(failure))
        else:
            self._log.warning("the journal was saved", moved_aside=[str(path) for path in moved])
        self._give_up()
        return self._failed(f"makeway stops: {error}", cycle_s)

    def _publish(self, status: ServiceStatus) -> None:
        """Keep the status after a cycle, and send it to systemd."""
        self._status = replace(status, cycles=status.cycles + 1)
        self._notifier.status(self._status.line())

    def _breaker_open(self) -> bool:
        """Whether the circuit breaker stops makeway from taking nodes from running jobs."""
        limits, now_s = self._config.settings.limits.to_limits(), self._connection.now()
        return breaker_tripped(self._journal.failures_s(now_s - limits.breaker_window_s), limits, now_s)

    def _due_in_s(self) -> float | None:
        """Real seconds until time alone makes something due. None: nothing."""
        connection = self._connection
        now_s = connection.now()
        interval_s = self._config.settings.poll_interval_s * connection.speed
        wakeup_s = self._reconciler.wakeup_s(now_s, interval_s)
        waits_s = [] if wakeup_s is None else [max(0.0, wakeup_s - now_s) / connection.speed]
        leadership = self._permission.leadership
        lease_due_s = None if leadership is None else leadership.due_in_s()
        return min([*waits_s, *([] if lease_due_s is None else [lease_due_s])], default=None)

    def _watch_clock(self) -> bool:
        """Follow a system clock that was set. Returns whether the time of the cycles has stepped.

        It steps if no operation waits for anything but the end of its job. Else it follows slowly, so that no
        grace is over too soon, and that is reported once. Meanwhile new urgent jobs may seem late.
        """
        ahead_s = self._connection.clock_ahead_s() if self._connection.clock_ahead_s is not None else 0.0
        apart, follow = abs(ahead_s) > CLOCK_STEP_S, self._connection.follow_clock
        if apart and follow is not None and not self._measures():
            follow()
            # What it remembers has the times of the old clock.
            self._reconciler = self._new_reconciler()
            self._log.warning("the system clock was set; makeway follows it", ahead_s=round(ahead_s, 1))
            self._clock_apart = False
            return True
        if apart and not self._clock_apart:
            self._log.warning(
                "the system clock was set; makeway follows it slowly", ahead_s=round(ahead_s, 1)
            )
        self._clock_apart = apart
        return False

    def _measures(self) -> bool:
        """Whether an operation waits for something by the time of the cycles."""
        return not all(one.observe or rests(one) for one in self._journal.open_operations())

    def _new_reconciler(self) -> Reconciler:
        config, connection = self._config, self._connection
        return Reconciler(
            connection.adapter,
            self._journal,
            config.policy,
            config.policy_config,
            _loop_settings(config.settings),
            now=connection.now,
            permission=self._permission,
        )

    def _reload(self) -> None:
        """Read the configuration again. One that cannot be used changes nothing and is reported."""
        accepted = False
        try:
            config = load(self._config.path)
            self._adopt(config)
            accepted = True
        except (OSError, ValueError) as error:
            problems = str(error).splitlines() or [type(error).__name__]
            self._log.error("reload refused, the old settings stay in use", problems=problems)
            problem = f"reload refused, old settings in use: {problems[0]}"
            self._status = replace(self._status, reload_problem=problem)
        finally:
            self._metrics.count_reload(accepted)
            self._notifier.ready(self._status.line())

    def _configure(self, config: Config, settings: Settings) -> None:
        """Have cycles go by these settings, except while everything is to go back.

        Then no policy decides, whatever the mode, and what an earlier life took goes back as well.
        """
        loop = _loop_settings(settings)
        if not self._restore_wanted.is_set():
            self._reconciler.reconfigure(config.policy, config.policy_config, loop)
            return
        loop = replace(loop, mode=Mode.ACT, restoring=True)
        self._reconciler.reconfigure(NONE, NoneConfig(), loop)

    def _adopt(self, config: Config) -> None:
        """Use other settings from now on, as far as they can change at run time."""
        old = self._config.settings
        kept = [name for name in FIXED if getattr(old, name) != getattr(config.settings, name)]
        if old.leader.enabled != config.settings.leader.enabled:
            kept.append("leader")
        adopt = self._connection.adopt
        if "adapter" in kept and adopt is not None and adopt(config.settings.adapter):
            kept.remove("adapter")
        settings = config.settings.model_copy(update={name: getattr(old, name) for name in kept})
        self._configure(config, settings)
        if self._permission.leadership is not None:
            self._permission.leadership.configure(settings.leader.lease_s)
        self._config = replace(config, settings=settings)
        self._status = replace(
            self._status,
            mode=settings.mode,
            policy=config.policy.name,
            reload_problem=f"waits for a restart: {', '.join(kept)}" if kept else None,
        )
        self._hooks.configure(settings.hooks)
        logs.configure(settings.log.level, settings.log.format, sys.stderr)
        self._metrics.set_mode(settings.mode)
        self._metrics.set_policy(config.policy.name)
        self._log.info("reloaded", mode=settings.mode, policy=config.policy.name)
        if kept:
            self._log.warning("settings that cannot change at run time wait for a restart", settings=kept)


def _loop_settings(settings: Settings) -> LoopSettings:
    return LoopSettings(
        mode=settings.mode,
        limits=settings.limits.to_limits(),
        timeouts=settings.timeouts.to_timeouts(),
        keep_snapshots=settings.keep_snapshots,
        learn_durations=settings.learn_durations,
        commands_per_cycle=settings.commands_per_cycle,
        view_age_max_s=settings.view_age_max_s,
    )


def _leader_text(standing: Standing) -> str:
    """The role and the term, for the status."""
    return standing.role if standing.term is None else f"{standing.role} (term {standing.term})"


def _log_cycle(log: FilteringBoundLogger, report: CycleReport, cycle_s: float) -> None:
    """The sentence of a cycle, and a line for every action."""
    say = log.info if report.error is None else log.warning
    say(report.sentence, at_s=report.at_s, cycle_s=round(cycle_s, 4), decision=report.decision_id)
    for entry in report.actions:
        action = entry.action
        log.info(
            "action",
            verb=action.verb,
            job_id=action.job_id,
            for_job_id=action.for_job_id,
            policy=action.policy,
            reason=action.reason,
            outcome=entry.outcome,
            refusal=entry.refusal,
            detail=entry.detail,
        )
