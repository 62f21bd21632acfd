"""The messages to systemd."""

import os
import time
from pathlib import Path

import pytest

from makeway.daemon.service.systemd import Notifier
from tests.daemon.service.listener import Listener


@pytest.fixture(params=["path", "abstract"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return (
        str(tmp_path / "notify")
        if request.param == "path"
        else f"@makeway-test-{os.getpid()}-{tmp_path.name}"
    )


def test_the_messages_of_a_life(address: str) -> None:
    with Listener(address) as listener:
        notifier = Notifier.from_environment({"NOTIFY_SOCKET": address})
        before_us = time.monotonic_ns() // 1000
        notifier.ready("observe: started")
        notifier.status("2 urgent waiting")
        notifier.alive()
        notifier.reloading()
        notifier.stopping()
        received = [listener.receive() for _ in range(5)]
    assert received[:3] == ["READY=1\nSTATUS=observe: started", "STATUS=2 urgent waiting", "WATCHDOG=1"]
    first, second = received[3].split("\n")
    assert first == "RELOADING=1"
    name, stamp = second.split("=")
    assert name == "MONOTONIC_USEC"
    assert before_us <= int(stamp) <= time.monotonic_ns() // 1000
    assert received[4] == "STOPPING=1\nSTATUS=stopping"


def test_a_status_cannot_smuggle_a_message(address: str) -> None:
    with Listener(address) as listener:
        Notifier(address=address).status("job x\nSTOPPING=1\x1b[2J \ud800")
        assert listener.receive() == "STATUS=job x\\nSTOPPING=1\\x1b[2J \\ud800"


def test_a_long_status_is_cut() -> None:
    with Listener("@makeway-test-long") as listener:
        Notifier(address="@makeway-test-long").status("x" * 100_000)
        assert len(listener.receive()) < 1000


@pytest.mark.parametrize("address", [None, "@no-listener-here", "/nonexistent/notify"])
def test_no_listener(address: str | None) -> None:
    Notifier(address=address).ready("up")


@pytest.mark.parametrize(
    ("environment", "watchdog_s"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "60000000"}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "-5"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "²"}, None),
    ],
)
def test_the_watchdog_of_the_environment(environment: dict[str, str], watchdog_s: float | None) -> None:
    assert Notifier.from_environment(environment).watchdog_s == watchdog_s


@pytest.mark.parametrize("address", ["", "relative/path", "vsock:2:3"])
def test_addresses_that_are_not_understood_count_as_absent(address: str) -> None:
    assert Notifier.from_environment({"NOTIFY_SOCKET": address}).address is None
