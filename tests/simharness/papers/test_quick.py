"""`makeway reproduce PAPER --quick` on the real traces: what has to hold on its pieces does, every time."""

import json
from pathlib import Path

import pytest

from makeway.daemon.cli.main import run_cli

HOLD = {
    "p1": {"urgent-gain", "batch-cost", "order-batch", "urgent-categories", "preemption"},
    "p3": {"wait_is_queue", "few", "waste"},
    "p4": {"late-not-worse", "late-proven", "tardiness-not-worse"},
    "p5": {"8-preemption", "9-instant"},
}
"""The claims of a paper by their keys: those that no change may lose, and that do not hang on a clock."""

LESS: dict[str, list[str]] = {
    "p3": ["--first", "250"],
    "p4": ["--work", "0.1", "--days", "1"],
    "p5": ["--days", "7"],
}
"""Options with which a paper takes less time: its claims hold on fewer jobs and days, and with less effort,
already.
"""


@pytest.mark.shared
@pytest.mark.parametrize("paper", HOLD)
def test_the_claims_that_have_to_hold(paper: str, shared_traces: Path, tmp_path: Path) -> None:
    values = tmp_path / "values.json"
    arguments = ["--quick", "--no-cache", "--traces", str(shared_traces), "--json", str(values)]
    assert run_cli(["reproduce", paper, *arguments, *LESS.get(paper, [])], factories={}) == 0
    found = json.loads(values.read_text())
    verdicts = {claim["key"]: claim["verdict"] for claim in found["claims"]}
    assert {key: verdicts[key] for key in HOLD[paper]} == dict.fromkeys(HOLD[paper], "holds")
    if paper == "p5":
        # The half of observation 3 that does not hang on how full the last days of the piece are.
        leave = {case["policy"]: case["malleable_preemption_ratio"] for case in found["cases"]}
        assert all(leave[f"{notice}-spaa"] < leave[f"{notice}-paa"] for notice in ("n", "cua", "cup"))
