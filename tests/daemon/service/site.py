"""A folder in which the service runs, for tests."""

import json
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from makeway.adapters.protocol import EntitlementReader
from makeway.adapters.registry import Connection
from makeway.adapters.site.entitlement import ClassEntitlements
from makeway.adapters.site.job_class import JobClass
from makeway.adapters.site.sections import AdapterSection
from makeway.daemon.config.load import AdapterFactory, load
from makeway.daemon.service import socket_api as api
from makeway.daemon.service.service import Service, SignalMessage
from makeway.daemon.service.systemd import Notifier
from makeway.policies.model import Cluster, JobKind
from tests.builders import cluster, node_names, running, urgent
from tests.daemon.service.listener import Listener
from tests.fakes import FakeAdapter
from tests.waiting import limit_s

SELDOM = "poll_interval_s: 3600\npoke_gap_s: 0\n"
"""Nothing happens unless it is requested."""

URGENT = JobClass(name="urgent", words=frozenset({"urgent"}), kind=JobKind.ON_DEMAND)
"""Every user may submit urgent jobs."""
IDLE = "0 urgent waiting; 0 operations open"


class Site:
    """A folder with a configuration, a listener in the place of systemd, and a fake cluster."""

    def __init__(self, folder: Path, listener: Listener) -> None:
        self.folder = folder
        self.listener = listener
        self.config = folder / "makeway.yaml"
        self.socket = folder / "s.sock"
        self.journal = folder / "j.sqlite"
        self.adapter = FakeAdapter(cluster(4))
        self.clock_ahead_s = 0.0
        """By how much the system clock is ahead; 0 once it was followed."""
        self.entitlements: EntitlementReader | None = ClassEntitlements((URGENT,))
        self.adopt: Callable[[AdapterSection], bool] | None = None
        self.inbox: SimpleQueue[SignalMessage] = SimpleQueue()
        self.write(SELDOM)

    def write(self, text: str = "", *, metrics: str = "{enabled: false}") -> None:
        self.config.write_text(
            f"adapter: {{type: simulated}}\njournal: j.sqlite\nsocket: s.sock\nmetrics: {metrics}\n{text}"
        )

    @property
    def factories(self) -> Mapping[str, AdapterFactory]:
        return {
            "simulated": lambda _: Connection(
                adapter=self.adapter,
                now=lambda: 1000.0,
                clock_ahead_s=lambda: self.clock_ahead_s,
                follow_clock=self._follow,
                entitlements=self.entitlements,
                adopt=self.adopt,
            )
        }

    def _follow(self) -> None:
        self.clock_ahead_s = 0.0

    @contextmanager
    def up(self, *, watchdog_s: float | None = None, ends_with: int = 0) -> Generator[None]:
        """Run the service in a thread, from READY to its end. `ends_with`: the exit status."""
        service = Service(
            load(self.config), Notifier(address=self.listener.address, watchdog_s=watchdog_s), self.inbox
        )
        status: list[int] = []
        thread = threading.Thread(target=lambda: status.append(service.run(self.factories)))
        thread.start()
        try:
            self.listener.wait_for("READY=1")
            yield
        finally:
            self.inbox.put(SignalMessage.STOP)
            thread.join(limit_s())
        assert status == [ends_with]

    def ask(self, **message: object) -> dict[str, Any]:
        return api.request(self.socket, message, wait_s=limit_s())

    def status(self) -> dict[str, Any]:
        values: dict[str, Any] = self.ask(command="status")["status"]
        return values

    def cycle(self) -> str:
        """Poke, and the status line after the cycle."""
        self.ask(command="poke")
        return self.listener.wait_for("STATUS=").removeprefix("STATUS=")


def entries(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The log so far."""
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def busy() -> Cluster:
    return cluster(4, urgent("u", 2, submit_s=990.0), running("v\x1b[2J", node_names(4), start_s=500.0))
