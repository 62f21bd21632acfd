"""A time limit lasts longer on a busy machine."""

import os
from pathlib import Path

import pytest

from makeway.adapters.devcluster.load import TimeLimit, slowdown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.10 0.20 0.30 1/200 4711\n", 1.0),
        ("8.00 0.20 0.30 1/200 4711\n", 4.0),
        ("0.10 0.20 0.30 6/200 4711\n", 3.0),
    ],
    ids=["idle", "busy for a minute", "busy since a moment ago"],
)
def test_the_slowdown_is_what_wants_to_run_per_processor(
    text: str, expected: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    (tmp_path / "loadavg").write_text(text)
    assert slowdown(tmp_path / "loadavg") == expected


def test_without_a_load_average_a_machine_counts_as_idle(tmp_path: Path) -> None:
    assert slowdown(tmp_path / "loadavg") == 1.0
    assert slowdown() >= 1.0


def test_a_second_counts_less_while_the_machine_is_busy() -> None:
    now_s, busy = 100.0, 1.0
    limit = TimeLimit(10.0, now=lambda: now_s, slowdown=lambda: busy)
    now_s = 109.0
    assert not limit.passed()
    now_s, busy = 113.0, 5.0
    assert not limit.passed(), "four seconds at a fifth of the speed: 9.8 s in all"
    now_s = 114.0
    assert limit.passed()


def test_no_time_has_passed_at_once() -> None:
    assert TimeLimit(0.0, now=lambda: 1.0, slowdown=lambda: 1.0).passed()
