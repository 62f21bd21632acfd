"""The one rule of the circuit breaker: how many failures, and how old one may be."""

import pytest

from makeway.policies.gate.breaker import breaker_tripped
from makeway.policies.model import Limits

LIMITS = Limits(breaker_failures=2, breaker_window_s=100.0)


@pytest.mark.parametrize(
    ("failures_s", "tripped"),
    [
        ((), False),
        ((999.0,), False),
        ((998.0, 999.0), True),
        ((997.0, 998.0, 999.0), True),
        ((900.5, 999.0), True),
        ((900.0, 999.0), False),  # exactly as old as the window: it counts no more
        ((899.0, 999.0), False),
        ((999.0, 1000.5), False),  # the clock was wrong when it failed
        ((999.0, 1000.0), True),
    ],
)
def test_failures_count_while_they_are_younger_than_the_window(
    failures_s: tuple[float, ...], tripped: bool
) -> None:
    assert breaker_tripped(failures_s, LIMITS, 1000.0) is tripped


def test_without_a_limit_it_never_trips() -> None:
    assert not breaker_tripped([999.0] * 99, Limits(breaker_failures=None), 1000.0)
