"""The service: it opens the journal, the cluster and the socket, runs cycles until it is told to stop, closes
everything.

Signals and clients of the socket only leave a message. Cycles and reloads run in the ticker's thread
(`cycle_runner.py`), which alone uses the adapter.
"""

import os
import signal
import sys
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType

from makeway.adapters.protocol import Adapter, AdapterError, GatedAdapter, LeaseKeeper
from makeway.daemon.config.load import AdapterFactory, Config, load, open_adapter
from makeway.daemon.config.schema import Settings
from makeway.daemon.control.permission import Permission
from makeway.daemon.errors import TRY_AGAIN
from makeway.daemon.journal.file_guard import check_folder
from makeway.daemon.journal.store import Journal
from makeway.daemon.leader.leadership import Leadership
from makeway.daemon.leader.pause import Pause
from makeway.daemon.service import logs
from makeway.daemon.service import socket_api as api
from makeway.daemon.service.announcing import NoticeDesk
from makeway.daemon.service.cycle_runner import CycleRunner
from makeway.daemon.service.hooks import Hooks
from makeway.daemon.service.metrics import Metrics
from makeway.daemon.service.systemd import Notifier
from makeway.daemon.service.ticker import Ticker
from makeway.policies.model import Progress

TICK_S = 5.0
"""How often the main thread checks that cycles still end, at least."""
_UNFINISHED = frozenset({Progress.PLANNED, Progress.ISSUING, Progress.ACCEPTED})


class SignalMessage(Enum):
    """What a signal, or a cycle, leaves for the main thread."""

    STOP = "stop"
    RELOAD = "reload"
    IGNORE = "ignore"  # it means nothing to makeway, and would end a process that does not handle it
    GIVE_UP = "give_up"  # the journal was replaced: systemd is to start another process


def serve(config_path: Path, factories: Mapping[str, AdapterFactory]) -> int:
    """Run the service in the foreground until SIGTERM or SIGINT. Returns the exit status.

    Args:
        config_path: the configuration, read again at SIGHUP.
        factories: how to open the cluster, by the adapter's type.

    Raises:
        UserError: the configuration, the socket or the address of the metrics cannot be used.
        JournalError: the journal cannot be used.
    """
    with _signals() as inbox:
        config = load(config_path)
        return Service(config, Notifier.from_environment(os.environ), inbox).run(factories)


@contextmanager
def _signals() -> "Generator[SimpleQueue[SignalMessage]]":
    """Turn signals into messages. A handler may fill a SimpleQueue; it must not set an Event."""
    inbox: SimpleQueue[SignalMessage] = SimpleQueue()
    meanings = {
        signal.SIGTERM: SignalMessage.STOP,
        signal.SIGINT: SignalMessage.STOP,
        signal.SIGHUP: SignalMessage.RELOAD,
        # slurmctld opens its log again at SIGUSR2: a logrotate may send it to the wrong process.
        signal.SIGUSR1: SignalMessage.IGNORE,
        signal.SIGUSR2: SignalMessage.IGNORE,
    }

    def receive(number: int, _frame: FrameType | None) -> None:
        inbox.put(meanings[signal.Signals(number)])

    before = {number: signal.signal(number, receive) for number in meanings}
    try:
        yield inbox
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Service:
    """One run of the service.

    Args:
        config: the configuration to start with.
        notifier: reports to systemd.
        inbox: where the signals leave their messages.
    """

    def __init__(self, config: Config, notifier: Notifier, inbox: "SimpleQueue[SignalMessage]") -> None:
        settings = config.settings
        self._config = config
        self._notifier = notifier
        self._inbox = inbox
        self._log = logs.configure(settings.log.level, settings.log.format, sys.stderr)
        self._metrics = Metrics(
            version=version("makeway"), policy=config.policy.name, adapter=settings.adapter.adapter_name
        )

    def run(self, factories: Mapping[str, AdapterFactory]) -> int:
        """Open everything, run until told to stop, close everything. Returns the exit status."""
        settings = self._config.settings
        with ExitStack() as stack:
            check_folder(settings.journal.parent)
            self._journal = Journal(settings.journal)
            stack.callback(self._journal.close)
            for row in self._journal.damaged:
                self._log.warning("a row of the journal cannot be read and was set aside", row=row)
            self._connection = open_adapter(settings.adapter, factories)
            stack.callback(self._connection.adapter.close)
            self._pause = Pause(self._journal)
            self._leadership = leadership_of(settings, self._connection.adapter, self._journal)
            self._runner = self._make_runner(stack)
            self._desk = NoticeDesk(
                self._journal,
                self._connection.entitlements,
                self._connection.now,
                lambda: self._runner.notice_limits,
            )
            self._ticker = Ticker(self._runner.cycle, self._runner.pace, self._runner.prune_journal)
            self._metrics.set_mode(settings.mode)
            if settings.metrics.enabled:
                host = settings.metrics.host
                port = stack.enter_context(self._metrics.serve(host, settings.metrics.port))
                self._log.info("metrics are served", host=host, port=port)
            stack.enter_context(api.serve(settings.socket, self, self._log))
            self._log_start()
            self._notifier.ready(f"{settings.mode}: started")
            stack.callback(self._withdraw)
            stack.enter_context(self._ticker.running())
            status = self._wait()
            self._notifier.stopping()
            self._log.info("makeway stops after the present cycle")
        self._log.info("makeway has stopped", status=status)
        return status

    def _make_runner(self, stack: ExitStack) -> CycleRunner:
        """What runs the cycles, with the site's commands, which end with the stack."""
        hooks = Hooks(self._config.settings.hooks, self._log)
        stack.enter_context(hooks.running())
        return CycleRunner(
            self._config,
            self._connection,
            self._journal,
            metrics=self._metrics,
            notifier=self._notifier,
            log=self._log,
            give_up=lambda: self._inbox.put(SignalMessage.GIVE_UP),
            hooks=hooks,
            permission=Permission(leadership=self._leadership, pause=self._pause),
        )

    def poke(self) -> None:
        """Start a cycle as soon as the present one and the gap after it are over."""
        self._metrics.count_poke()
        self._ticker.request()

    def acknowledge(self, job_id: str) -> bool:
        """Start a cycle if an open operation waits for this job. Returns whether one does.

        What the job has saved, or that it has left, is read from the cluster in that cycle, never from the
        message.
        """
        awaited = any(
            task.action.job_id == job_id and task.progress in _UNFINISHED
            for operation in self._journal.open_operations()
            if not operation.observe
            for task in operation.tasks
        )
        self._log.info("acknowledgement", job_id=job_id, awaited=awaited)
        if awaited:
            self.poke()
        return awaited

    def status(self) -> Mapping[str, object]:
        """The status, with the present age of the last snapshot."""
        return self._runner.status()

    def restore(self) -> None:
        """Have the next cycles give everything back. The status says when that is done."""
        self._log.info("makeway gives everything back and takes nothing more")
        self._runner.want_restore()
        self._ticker.request(at_once=True)

    def _withdraw(self) -> None:
        """Remove the lease after the last cycle, if everything is given back: nothing of makeway's stays."""
        if self._leadership is not None and self._runner.status()["restored"]:
            self._leadership.withdraw()

    def stop(self) -> None:
        """End as at SIGTERM."""
        self._inbox.put(SignalMessage.STOP)

    def announce(self, announcement: api.Announcement) -> str:
        """Write an announcement to the journal and start a cycle. Returns its id.

        Raises:
            BadRequest: it is not taken.
        """
        notice = self._desk.announce(announcement)
        self._log.info("notice", **asdict(notice))
        self.poke()
        return notice.notice_id

    def pause(self, on: bool) -> None:
        """Write down that nothing is taken from now on, or go on, and start a cycle."""
        self._pause.set(on)
        self._log.warning("paused by an operator" if on else "resumed by an operator")
        self.poke()

    def hand_over(self) -> bool:
        """Have the next cycle give the lease up. Returns whether this daemon leads."""
        leads = self._leadership is not None and self._leadership.hand_over()
        self._log.warning("handover asked for by an operator", leads=leads)
        if leads:
            self.poke()
        return leads

    def _wait(self) -> int:
        """The main thread: handle signals, and feed systemd's watchdog while cycles end in time. Returns the
        exit status.
        """
        watchdog_s = self._notifier.watchdog_s
        tick_s = TICK_S if watchdog_s is None else min(TICK_S, watchdog_s / 2)
        while True:
            if self._ticker.is_on_time(self._runner.cycle_limit_s):
                self._notifier.alive()
            try:
                message = self._inbox.get(timeout=tick_s)
            except Empty:
                continue
            match message:
                case SignalMessage.STOP:
                    return 0
                case SignalMessage.GIVE_UP:
                    return TRY_AGAIN
                case SignalMessage.IGNORE:
                    self._log.warning("SIGUSR1 or SIGUSR2 came, which means nothing to makeway: it goes on")
                case SignalMessage.RELOAD:
                    self._notifier.reloading()
                    self._runner.want_reload()
                    self._ticker.request(at_once=True)

    def _log_start(self) -> None:
        settings = self._config.settings
        self._log.info(
            "makeway is up",
            version=version("makeway"),
            mode=settings.mode,
            policy=self._config.policy.name,
            cluster=_cluster_name(self._connection.adapter),
            journal=str(settings.journal),
            socket=str(settings.socket),
        )


def leadership_of(settings: Settings, adapter: Adapter, journal: Journal) -> Leadership | None:
    """The lease of this daemon. None: it is taken for the only one, by the configuration or because the
    adapter keeps no leases.
    """
    if not settings.leader.enabled or not isinstance(adapter, LeaseKeeper):
        return None
    leadership = Leadership(adapter, journal, settings.leader.lease_s)
    if isinstance(adapter, GatedAdapter):
        adapter.ask_before_commands(leadership.may_act)
    return leadership


def _cluster_name(adapter: Adapter) -> str:
    """The name of the cluster; where it does not answer yet, why."""
    try:
        return adapter.capabilities.name
    except AdapterError as error:
        return f"unknown yet: {error}"
