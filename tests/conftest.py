"""Fixtures that every folder of tests shares."""

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parent.parent.parent / "shared"


@pytest.fixture(scope="session")
def shared_traces() -> Path:
    """The folder of real traces beside the checkout; skips where there is none."""
    traces = SHARED / "traces"
    if not traces.is_dir():
        pytest.skip("no ../shared/traces beside this checkout: tests on real traces are left out")
    return traces
