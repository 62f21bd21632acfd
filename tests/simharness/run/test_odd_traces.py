"""Traces with odd values: policies replay them to the end, the invariants hold, and no number is nonsense."""

import math
from pathlib import Path
from random import Random

import pytest

from makeway.policies.model import JobKind
from makeway.simharness.results.measures import measure, numbers
from makeway.simharness.run.experiment import Experiment, run
from makeway.simharness.run.loading import load_workload

POLICIES = ("eviction", "n-paa", "cua-spaa", "cup-spaa", "wcjs", "ckpt-backfill", "least-price")
SHARES = ("_rate", "_ratio", "utilisation")


@pytest.fixture(params=[0.0, 1_600_000_000.25], ids=["from second 0", "from an epoch"])
def trace(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Ninety jobs on 7 nodes: parts of seconds, gaps of months, limits below run times, missing fields."""
    draw, lines, at_s = Random(5), ["; MaxNodes: 7\n"], request.param
    for number in range(1, 91):
        at_s += draw.choice([0.0, 0.0, 0.25, 30.0, 900.0] if number % 30 else [8e6])
        run_s = draw.choice([0, 0.001, 0.5, 59.75, 3000, 90_000])
        size, limit_s = draw.choice([1, 1, 3, 7, 9]), draw.choice([-1, 0, 1, 3600, 86_400, 5e9])
        allocated, asked = draw.choice([(size, -1), (-1, size), (size, size)])
        user = draw.choice([-1, 1, 2, 3, 4, 5])
        lines.append(
            f"{number} {at_s} -1 {run_s} {allocated} -1 -1 {asked} {limit_s} -1 -1 {user}" + 6 * " -1" + "\n"
        )
    (path := tmp_path / "odd.swf").write_text("".join(lines))
    return path


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("synthesis", "urgent_share"), [("W5", None), (None, 0.3)], ids=["P5", "urgent"])
def test_an_odd_trace_is_replayed_to_the_end(
    trace: Path, policy: str, synthesis: str | None, urgent_share: float | None
) -> None:
    experiment = Experiment(
        trace=str(trace), synthesis=synthesis, urgent_share=urgent_share, policy=policy, check=True
    )
    workload = load_workload(experiment)
    assert workload.urgent
    record = run(experiment, workload)
    for entry in record.jobs:
        assert entry.start_s is not None
        assert entry.end_s is not None
        assert entry.start_s >= entry.job.submit_s
        assert entry.job.kind is not JobKind.ON_DEMAND or not entry.evictions
    found = {key: value for key, value in numbers(measure(record)).items() if value is not None}
    assert all(math.isfinite(value) and value >= 0.0 for value in found.values())
    assert all(value <= 1.0 for key, value in found.items() if key.endswith(SHARES))
