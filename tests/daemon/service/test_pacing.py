"""When the next cycle is due."""

from hypothesis import given
from hypothesis import strategies as st

from makeway.daemon.service.pacing import REPEAT_LIMIT, Pace

PACE = Pace(poll_interval_s=30.0, poke_gap_s=1.0, backoff_max_s=300.0)


def delay_s(
    *,
    failures: int = 0,
    again: bool = False,
    repeats: int = 0,
    poked: bool = False,
    due_in_s: float | None = None,
) -> float:
    return PACE.delay_s(failures=failures, again=again, repeats=repeats, poked=poked, due_in_s=due_in_s)


def test_a_quiet_cluster_is_polled() -> None:
    assert delay_s() == 30.0


def test_a_poke_during_a_cycle_is_not_lost() -> None:
    assert delay_s(poked=True) == 1.0


def test_an_accepted_command_is_looked_at_soon_but_not_for_ever() -> None:
    assert delay_s(again=True, repeats=1) == 1.0
    assert delay_s(again=True, repeats=REPEAT_LIMIT) == 30.0


def test_a_deadline_is_met() -> None:
    assert delay_s(due_in_s=12.0) == 12.0
    assert delay_s(due_in_s=-5.0) == 1.0
    assert delay_s(due_in_s=500.0) == 30.0


def test_failures_back_off_up_to_the_maximum() -> None:
    assert [delay_s(failures=count) for count in (1, 2, 3, 4, 5, 6, 1000)] == [
        30,
        60,
        120,
        240,
        300,
        300,
        300,
    ]


def test_pokes_do_not_hammer_a_cluster_that_does_not_answer() -> None:
    assert delay_s(failures=6, poked=True) == 30.0


@given(
    poll_s=st.floats(0.1, 3600),
    gap_s=st.floats(0, 60),
    max_s=st.floats(1, 3600),
    failures=st.integers(0, 10_000),
    again=st.booleans(),
    repeats=st.integers(0, 100),
    poked=st.booleans(),
    due_in_s=st.none() | st.floats(-1e9, 1e9),
)
def test_it_is_never_longer_than_the_slowest_and_a_failure_never_hastens(
    poll_s: float,
    gap_s: float,
    max_s: float,
    failures: int,
    again: bool,
    repeats: int,
    poked: bool,
    due_in_s: float | None,
) -> None:
    pace = Pace(poll_interval_s=poll_s, poke_gap_s=gap_s, backoff_max_s=max_s)
    delay = pace.delay_s(failures=failures, again=again, repeats=repeats, poked=poked, due_in_s=due_in_s)
    assert 0 <= delay <= max(poll_s, max_s, gap_s)
    if failures:
        assert delay >= poll_s
    else:
        assert delay <= poll_s
