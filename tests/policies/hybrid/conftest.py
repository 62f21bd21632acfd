"""A pending job that saves."""

from typing import Any

import pytest

from makeway.policies.model import (
    Job,
    JobKind,
)
from tests.policies.hybrid.held import NOW_S, SAVES, Build


@pytest.fixture
def queued(waiting: Build) -> Build:
    """`queued("w", 2, **changes)`: a malleable job of the queue that would save itself."""

    def build(job_id: str, node_count: int, **changes: Any) -> Job:
        usual = {
            "kind": JobKind.MALLEABLE,
            "user": "alice",
            "walltime_s": 9000.0,
            "submit_s": NOW_S - 500.0,
            "checkpoint": SAVES,
            "preemptible": True,
        }
        return waiting(job_id, node_count, **(usual | changes))

    return build
