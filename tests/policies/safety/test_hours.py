"""How hours are written for people."""

import pytest

from makeway.policies.safety.prices import HOUR_S, hours_text


@pytest.mark.parametrize(
    ("hours", "text"),
    [
        (0.0, "0"),
        (200.0, "200"),
        (16954.034, "16954.03"),
        (1234567.5, "1234567.50"),
        (0.5, "0.50"),
        (0.0999, "0.100"),
        (0.004234, "0.0042"),
        (0.00000123, "0.0000012"),
    ],
)
def test_hours_are_written_in_one_way(hours: float, text: str) -> None:
    assert hours_text(hours * HOUR_S) == text
