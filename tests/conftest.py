"""Fixtures that every folder of tests shares, and what CI may not skip."""

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.paths import SHARED

NEVER_SKIPPED_IN_CI = {"slurm", "shared", "shared_traces"}
"""Markers and fixtures of tests that need something of the machine. Where CI runs, the machine has it, or the run has failed."""


@pytest.fixture(scope="session")
def shared_traces() -> Path:
    """The folder of real traces beside the checkout; skips where there is none."""
    traces = SHARED / "traces"
    if not traces.is_dir():
        pytest.skip("no ../shared/traces beside this checkout: tests on real traces are left out")
    return traces


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Count a test that was skipped as failed where CI relies on it; let hostile text reach the process that reports."""
    report = yield
    report.sections = [
        (title, text.encode(errors="backslashreplace").decode()) for title, text in report.sections
    ]
    needs = {marker.name for marker in item.iter_markers()} | set(getattr(item, "fixturenames", ()))
    if report.skipped and os.environ.get("CI") and needs & NEVER_SKIPPED_IN_CI:
        report.outcome = "failed"
        report.longrepr = f"skipped, and CI relies on it: {report.longrepr}"
    return report
