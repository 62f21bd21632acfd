"""Fixtures that every folder of tests shares, the limit of each test, and what CI may not skip."""

import gc
import os
import shutil
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from makeway.daemon.journal.store import Journal
from makeway.daemon.operation.validation import validate
from tests.paths import SHARED
from tests.waiting import limit_s

_LONGEST = (
    *("test_quick.py", "test_crash.py", "test_kills_that_wait.py", "test_shared_replay.py"),
    *("test_safety.py", "test_safety_shared.py", "test_laws.py"),
)
"""The files whose tests take longest."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests come first, so that no worker ends with one. The order is kept otherwise."""
    items.sort(key=lambda item: item.path.name not in _LONGEST)


def pytest_collection_finish() -> None:
    """Take the tests themselves out of what is searched for garbage, and search less often. The second
    took an eighth off 656 of them.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_configure() -> None:
    """Let programs that tests start be interrupted, also where a shell has started the tests in the
    background: SIGINT is ignored there, and programs inherit that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


NEVER_SKIPPED_IN_CI = {"slurm", "shared", "shared_traces", "shellcheck", "chromium"}
"""Markers and fixtures of tests that need something of the machine. In CI the machine has it, or the run
fails.
"""


@pytest.fixture(scope="session", autouse=True)
def _operations_are_valid() -> None:  # pyright: ignore[reportUnusedFunction] - pytest uses it
    """Every operation that a test writes into a journal is one that can come about."""
    Journal.check = validate


@pytest.fixture(scope="session")
def shared_traces() -> Path:
    """The folder of real traces next to the checkout. Skips if there is none."""
    traces = SHARED / "traces"
    if not traces.is_dir():
        pytest.skip("there is no ../shared/traces next to this checkout: tests on real traces are skipped")
    return traces


@pytest.fixture(scope="session")
def shellcheck() -> str:
    """The program shellcheck. Skips if it is not installed."""
    found = shutil.which("shellcheck")
    if found is None:
        pytest.skip("shellcheck is not installed here")
    return found


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser Chromium; its shell without windows takes half the time. Skips if there is neither."""
    found = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if found is None:
        pytest.skip("chromium is not installed here: deploy/install-browser.sh installs it")
    return found


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Give a test without a limit of its own the limit of pyproject.toml, longer on a busy machine."""
    if item.get_closest_marker("timeout") is None and item.config.getoption("timeout") is None:
        item.add_marker(pytest.mark.timeout(limit_s(float(str(item.config.getini("timeout"))))))
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Count a skipped test as failed if CI relies on it. Escape hostile text, so that a worker can send the
    report.

    A test may be skipped for what the cluster cannot do: its marker "needs" names that.
    """
    report = yield
    report.sections = [
        (title, text.encode(errors="backslashreplace").decode()) for title, text in report.sections
    ]
    needs = {marker.name for marker in item.iter_markers()} | set(getattr(item, "fixturenames", ()))
    if report.skipped and os.environ.get("CI") and needs & NEVER_SKIPPED_IN_CI and "needs" not in needs:
        report.outcome = "failed"
        report.longrepr = f"skipped, and CI relies on it: {report.longrepr}"
    return report
