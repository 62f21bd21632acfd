"""The time of the cycles, which a step of the system clock does not change."""

import time

import pytest

from makeway.adapters.site.clock import SteadyClock


class Clocks:
    """A system clock that can be set, and one that cannot."""

    def __init__(self) -> None:
        self.system_s = 1_795_250_000.0
        self.steady_s = 77.0

    def passes(self, seconds: float) -> None:
        self.system_s += seconds
        self.steady_s += seconds

    def clock(self) -> SteadyClock:
        return SteadyClock(lambda: self.system_s, lambda: self.steady_s)


def test_it_is_the_time_of_the_system_clock_while_that_is_not_set() -> None:
    clocks = Clocks()
    clock = clocks.clock()
    for seconds in (0.0, 0.5, 30.0, 86_400.0):
        clocks.passes(seconds)
        assert clock() == pytest.approx(clocks.system_s, abs=1e-6)
        assert clock.ahead_s() == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("step_s", [3600.0, -3600.0])
def test_a_grace_lasts_as_long_as_it_should_although_the_clock_is_set(step_s: float) -> None:
    clocks = Clocks()
    clock = clocks.clock()
    signalled_s = clock()
    clocks.passes(10.0)
    clocks.system_s += step_s
    assert clock() - signalled_s == pytest.approx(10.0, rel=0.11)
    clocks.passes(240.0)
    assert clock() - signalled_s == pytest.approx(250.0, rel=0.11)
    assert clock.ahead_s() == pytest.approx(step_s, abs=26.0)


@pytest.mark.parametrize("step_s", [30.0, -30.0])
def test_it_follows_a_clock_that_was_set_and_never_goes_back(step_s: float) -> None:
    clocks = Clocks()
    clock = clocks.clock()
    clocks.system_s += step_s
    before_s = clock()
    for _ in range(310):
        clocks.passes(1.0)
        now_s = clock()
        assert now_s > before_s
        before_s = now_s
    assert now_s == pytest.approx(clocks.system_s, abs=1e-6)


@pytest.mark.parametrize("step_s", [3600.0, -3600.0])
def test_it_follows_at_once_if_it_is_told_to(step_s: float) -> None:
    clocks = Clocks()
    clock = clocks.clock()
    clocks.passes(10.0)
    clocks.system_s += step_s
    clock.follow()
    clocks.passes(10.0)
    assert clock() == pytest.approx(clocks.system_s, abs=1e-6)


def test_a_suspended_machine_has_slept_as_long_as_it_has() -> None:
    clocks = Clocks()
    clock = clocks.clock()
    clocks.passes(7200.0)
    assert clock() == pytest.approx(clocks.system_s, abs=1e-6)


def test_by_default_it_is_the_time() -> None:
    clock = SteadyClock()
    assert abs(clock() - time.time()) < 60.0
