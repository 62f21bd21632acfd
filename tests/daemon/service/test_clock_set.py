"""The system clock is set while the daemon runs."""

from dataclasses import replace

import pytest

from makeway.policies.model import JobState
from tests.daemon.service.site import SELDOM, Site, busy, entries


def clock_sentences(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, float]]:
    return [
        (entry["event"].partition("; ")[2], entry["ahead_s"])
        for entry in entries(capsys)
        if "clock was set" in entry["event"]
    ]


def test_a_system_clock_that_was_set_is_followed_at_once(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else urgent jobs would seem late, or their time to start too long, for ten hours."""
    with site.up():
        site.listener.wait_for("STATUS=")
        site.clock_ahead_s = -3600.04
        for _ in range(3):
            site.cycle()
    assert clock_sentences(capsys) == [("makeway follows it", -3600.0)]
    assert site.clock_ahead_s == 0.0


def test_it_is_followed_slowly_while_an_operation_waits(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """No grace is over too soon. That is reported once. When the urgent job runs, nothing waits any more."""
    site.write(f"{SELDOM}mode: act\n")
    with site.up():
        site.listener.wait_for("STATUS=")
        site.adapter.view = busy()
        site.cycle()
        site.clock_ahead_s = 3600.04
        for _ in range(3):
            site.cycle()
        assert site.clock_ahead_s == 3600.04
        urgent_job, left = site.adapter.view.jobs
        (hold,) = site.adapter.view.reservations
        runs = replace(urgent_job, state=JobState.RUNNING, nodes=hold.nodes, start_s=1000.0)
        left = replace(left, state=JobState.PENDING, nodes=(), start_s=None, requeue_count=1)
        site.adapter.view = replace(site.adapter.view, jobs=(runs, left))
        for _ in range(2):
            site.cycle()
    told = [("makeway follows it slowly", 3600.0), ("makeway follows it", 3600.0)]
    assert clock_sentences(capsys) == told
