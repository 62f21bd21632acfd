"""What a run has worked on the sizes that it has had."""

import pytest

from makeway.policies.model import PastSize, worked_node_s

GROWN_BACK = (PastSize(node_count=8, until_s=100.0), PastSize(node_count=2, until_s=400.0))
"""Eight nodes until 100 s, two until 400 s."""


@pytest.mark.parametrize(
    ("since_s", "until_s", "expected"),
    [
        (0.0, 500.0, 800.0 + 600.0 + 800.0),
        (100.0, 500.0, 600.0 + 800.0),
        (50.0, 150.0, 400.0 + 100.0),
        (0.0, 50.0, 400.0),
        (150.0, 250.0, 200.0),
        (400.0, 500.0, 800.0),
        (450.0, 450.0, 0.0),
        (50.0, 0.0, 0.0),
    ],
)
def test_each_time_counts_with_the_size_of_then(since_s: float, until_s: float, expected: float) -> None:
    assert worked_node_s(GROWN_BACK, 8, since_s, until_s) == expected


def test_a_run_that_has_had_one_size() -> None:
    assert worked_node_s((), 3, 10.0, 20.0) == 30.0
