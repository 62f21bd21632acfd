"""The service around the loop: opens everything, runs a cycle when one is due, reloads, stops, and tells systemd.

Signals and the socket only leave a message; the adapter, the settings and the loop are touched by one thread alone,
which runs the cycles. Whatever a cycle raises ends that cycle and not the process.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from queue import Empty, SimpleQueue

from structlog.typing import FilteringBoundLogger

from makeway.adapters.protocol import Adapter, AdapterError
from makeway.daemon.config.load import AdapterFactory, Config, Connection, load, open_adapter
from makeway.daemon.config.schema import Settings
from makeway.daemon.config.sections import DAY_S
from makeway.daemon.control.reconciler import EVICTIONS_COUNTED_S, Reconciler
from makeway.daemon.control.report import CycleReport, LoopSettings
from makeway.daemon.journal.store import Journal
from makeway.daemon.service import logs
from makeway.daemon.service import socket_api as api
from makeway.daemon.service.metrics import Metrics
from makeway.daemon.service.pacing import Pace
from makeway.daemon.service.systemd import Notifier
from makeway.daemon.service.ticker import Ticker, Turn
from makeway.policies.model import Notice

FIXED = ("adapter", "journal", "socket", "metrics")
"""Settings that a reload cannot change."""
NOTICE_LIMIT = 1000
NOTICE_LIMIT_PER_USER = 100
TIDY_STEPS = 200
"""So many short steps the journal is tidied by at a time."""
TICK_S = 5.0
"""How often the main thread looks after the cycles, at the least."""


class Message(Enum):
    """What a signal leaves for the main thread."""

    STOP = "stop"
    RELOAD = "reload"


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How the service is, as the socket tells it."""

    version: str
    pid: int
    configuration: str
    mode: str
    policy: str
    adapter: str
    sentence: str = "no cycle yet"
    """The last cycle's."""
    cycles: int = 0
    failures: int = 0
    """Cycles in a row that ended without a decision."""
    snapshot_age_s: float = 0.0
    operations_open: int = 0
    urgent_waiting: int = 0
    breaker_open: bool = False
    reload_problem: str | None = None
    """Why the last reload was refused, or what of it waits for a restart. None: nothing."""

    def line(self) -> str:
        """For `systemctl status`."""
        return f"{self.sentence} | {self.reload_problem}" if self.reload_problem else self.sentence


def serve(config_path: Path, factories: Mapping[str, AdapterFactory]) -> int:
    """Run the service in the foreground until SIGTERM or SIGINT. Returns the exit status.

    Args:
        config_path: the configuration, read again at SIGHUP.
        factories: how to open the cluster, by the adapter's type.

    Raises:
        UserError: the configuration, the socket or the metrics' address cannot be used.
        JournalError: the journal cannot be used.
    """
    with _signals() as inbox:
        config = load(config_path)
        return Service(config, Notifier.from_environment(os.environ), inbox).run(factories)


@contextmanager
def _signals() -> "Iterator[SimpleQueue[Message]]":
    """Turn SIGTERM, SIGINT and SIGHUP into messages. A SimpleQueue may be filled from a handler, an Event may not."""
    inbox: SimpleQueue[Message] = SimpleQueue()
    meanings = {
        signal.SIGTERM: Message.STOP,
        signal.SIGINT: Message.STOP,
        signal.SIGHUP: Message.RELOAD,
    }
    before = {
        number: signal.signal(number, lambda *_, message=message: inbox.put(message))
        for number, message in meanings.items()
    }
    try:
        yield inbox
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Service:
    """One run of the service.

    Args:
        config: what to begin with.
        notifier: tells systemd.
        inbox: where the signals leave their messages.
    """

    def __init__(self, config: Config, notifier: Notifier, inbox: "SimpleQueue[Message]") -> None:
        settings = config.settings
        self._config = config
        self._notifier = notifier
        self._inbox = inbox
        self._log = logs.configure(settings.log.level, settings.log.format, sys.stderr)
        self._status = Status(
            version=version("makeway"),
            pid=os.getpid(),
            configuration=str(config.path),
            mode=settings.mode,
            policy=config.policy.name,
            adapter=settings.adapter.type,
        )
        self._metrics = Metrics(
            version=self._status.version, policy=config.policy.name, adapter=settings.adapter.type
        )
        self._ticker = Ticker(self._cycle, self._pace, self._tidy)
        self._reload_asked = threading.Event()
        self._notice_lock = threading.Lock()
        self._notice_count = 0

    def run(self, factories: Mapping[str, AdapterFactory]) -> int:
        """Open everything, run until told to stop, close everything. Returns the exit status."""
        settings = self._config.settings
        with ExitStack() as stack:
            self._journal = Journal(settings.journal)
            stack.callback(self._journal.close)
            self._connection = open_adapter(settings.adapter, factories)
            stack.callback(self._connection.adapter.close)
            self._daemon = _daemon(self._config, self._connection, self._journal)
            self._metrics.set_mode(settings.mode)
            if settings.metrics.enabled:
                host = settings.metrics.host
                port = stack.enter_context(self._metrics.serve(host, settings.metrics.port))
                self._log.info("metrics are served", host=host, port=port)
            stack.enter_context(api.serve(settings.socket, self, self._log))
            self._log.info(
                "makeway is up",
                version=self._status.version,
                mode=settings.mode,
                policy=self._config.policy.name,
                cluster=_cluster_name(self._connection.adapter),
                journal=str(settings.journal),
                socket=str(settings.socket),
            )
            self._notifier.ready(f"{settings.mode}: started")
            stack.enter_context(self._ticker.running())
            self._wait()
            self._notifier.stopping()
            self._log.info("makeway stops after the present cycle")
        self._log.info("makeway has stopped")
        return 0

    def poke(self) -> None:
        """Start a cycle at once: after the present one, and not before the gap is over."""
        self._metrics.count_poke()
        self._ticker.ask()

    def status(self) -> Mapping[str, object]:
        """The status, with the age that the snapshot has now."""
        return asdict(replace(self._status, snapshot_age_s=round(self._metrics.snapshot_age_s, 3)))

    def announce(self, announcement: api.Announcement) -> str:
        """Keep an announcement in the journal and start a cycle. Returns its id.

        Raises:
            BadRequest: too many are kept already.
        """
        now_s = self._connection.now()
        with self._notice_lock:
            kept = [notice for notice in self._journal.notices() if notice.job_id is None]
            theirs = sum(1 for notice in kept if notice.user == announcement.user)
            if len(kept) >= NOTICE_LIMIT or theirs >= NOTICE_LIMIT_PER_USER:
                raise api.BadRequest("too many announcements are kept already")
            self._notice_count += 1
            notice = Notice(
                notice_id=f"notice-{now_s:.0f}-{os.getpid()}-{self._notice_count}",
                user=announcement.user,
                node_count=announcement.node_count,
                walltime_s=announcement.walltime_s,
                announced_s=now_s,
                expected_s=now_s + announcement.in_s,
            )
            self._journal.add_notice(notice)
        self._log.info("notice", **asdict(notice))
        self.poke()
        return notice.notice_id

    def _wait(self) -> None:
        """The main thread: obey signals, and give signs of life while the cycles go on."""
        watchdog_s = self._notifier.watchdog_s
        tick_s = TICK_S if watchdog_s is None else min(TICK_S, watchdog_s / 2)
        while True:
            if self._ticker.going(self._config.settings.cycle_limit_s):
                self._notifier.alive()
            try:
                message = self._inbox.get(timeout=tick_s)
            except Empty:
                continue
            match message:
                case Message.STOP:
                    return
                case Message.RELOAD:
                    self._notifier.reloading()
                    self._reload_asked.set()
                    self._ticker.ask(at_once=True)

    def _pace(self) -> Pace:
        settings = self._config.settings
        return Pace(
            poll_interval_s=settings.poll_interval_s,
            poke_gap_s=settings.poke_gap_s,
            backoff_max_s=settings.backoff_max_s,
        )

    def _cycle(self) -> Turn:
        """One cycle, after a reload if one was asked for. Raises nothing."""
        began_s = time.monotonic()
        try:
            if self._reload_asked.is_set():
                self._reload_asked.clear()
                self._reload()
            report = self._daemon.reconcile()
            breaker_open = self._breaker_open()
            due_in_s = self._due_in_s()
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends this cycle only
            self._metrics.count_crash(time.monotonic() - began_s)
            self._log.exception("a cycle failed", failures=self._status.failures + 1)
            sentence = f"the last cycle failed: {type(error).__name__}: {error}"
            self._tell(replace(self._status, sentence=sentence, failures=self._status.failures + 1))
            return Turn(failures=self._status.failures)
        cycle_s = time.monotonic() - began_s
        self._metrics.observe_cycle(report, cycle_s)
        self._metrics.set_breaker(breaker_open)
        _log_cycle(self._log, report, cycle_s)
        failures = self._status.failures + 1 if report.error is not None else 0
        self._tell(
            replace(
                self._status,
                sentence=report.sentence,
                failures=failures,
                operations_open=report.operations_open,
                urgent_waiting=report.urgent_waiting,
                breaker_open=breaker_open,
            )
        )
        return Turn(failures=failures, again=report.again, due_in_s=due_in_s)

    def _tidy(self) -> None:
        """Let the journal forget what is old enough, some of it. Raises nothing."""
        settings = self._config.settings
        if settings.journal_keep_days is None:
            return
        kept_s = max(
            settings.journal_keep_days * DAY_S, settings.limits.breaker_window_s, EVICTIONS_COUNTED_S
        )
        try:
            before_s = self._connection.now() - kept_s
            for _ in range(TIDY_STEPS):
                if self._journal.prune(before_s) == 0:
                    return
        except Exception:  # noqa: BLE001 - old entries do no harm, and the next time comes
            self._log.exception("old entries of the journal could not be removed")

    def _tell(self, status: Status) -> None:
        """Keep the status after a cycle, and show it to systemd."""
        self._status = replace(status, cycles=status.cycles + 1)
        self._notifier.status(self._status.line())

    def _breaker_open(self) -> bool:
        """Whether the circuit breaker keeps us from taking anything from anybody."""
        limits = self._config.settings.limits
        if limits.breaker_failures is None:
            return False
        failures = self._journal.failures_s(self._connection.now() - limits.breaker_window_s)
        return len(failures) >= limits.breaker_failures

    def _due_in_s(self) -> float | None:
        """Real seconds until time alone makes something due. None: nothing."""
        connection = self._connection
        now_s = connection.now()
        interval_s = self._config.settings.poll_interval_s * connection.speed
        wakeup_s = self._daemon.wakeup_s(now_s, interval_s)
        return None if wakeup_s is None else max(0.0, wakeup_s - now_s) / connection.speed

    def _reload(self) -> None:
        """Read the configuration again. One that cannot be used changes nothing, and everybody is told."""
        accepted = False
        try:
            config = load(self._config.path)
            self._adopt(config)
            accepted = True
        except ValueError as error:
            problems = str(error).splitlines() or [type(error).__name__]
            self._log.error("reload refused, the old settings stay", problems=problems)
            problem = f"reload refused, old settings in use: {problems[0]}"
            self._status = replace(self._status, reload_problem=problem)
        finally:
            self._metrics.count_reload(accepted)
            self._notifier.ready(self._status.line())

    def _adopt(self, config: Config) -> None:
        """Use other settings from now on, as far as they can change at run time."""
        old = self._config.settings
        kept = [name for name in FIXED if getattr(old, name) != getattr(config.settings, name)]
        settings = config.settings.model_copy(update={name: getattr(old, name) for name in kept})
        self._daemon.reconfigure(config.policy, config.policy_config, _loop_settings(settings))
        self._config = replace(config, settings=settings)
        self._status = replace(
            self._status,
            mode=settings.mode,
            policy=config.policy.name,
            reload_problem=f"waits for a restart: {', '.join(kept)}" if kept else None,
        )
        logs.configure(settings.log.level, settings.log.format, sys.stderr)
        self._metrics.set_mode(settings.mode)
        self._metrics.set_policy(config.policy.name)
        self._log.info("reloaded", mode=settings.mode, policy=config.policy.name)
        if kept:
            self._log.warning("settings that cannot change at run time wait for a restart", settings=kept)


def _cluster_name(adapter: Adapter) -> str:
    """What the cluster is called; why it does not say so, where it is down when we start."""
    try:
        return adapter.capabilities.name
    except AdapterError as error:
        return f"unknown yet: {error}"


def _loop_settings(settings: Settings) -> LoopSettings:
    return LoopSettings(
        mode=settings.mode,
        limits=settings.limits.to_limits(),
        timeouts=settings.timeouts.to_patience(),
        keep_snapshots=settings.keep_snapshots,
        learn_durations=settings.learn_durations,
    )


def _daemon(config: Config, connection: Connection, journal: Journal) -> Reconciler:
    return Reconciler(
        connection.adapter,
        journal,
        config.policy,
        config.policy_config,
        _loop_settings(config.settings),
        now=connection.now,
    )


def _log_cycle(log: FilteringBoundLogger, report: CycleReport, cycle_s: float) -> None:
    """The sentence, and a line for every action."""
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
