"""The settings that `--set` gives a policy."""

import math
from dataclasses import dataclass

import pytest

from makeway.simharness.run.experiment import ExperimentError, policy_config


@dataclass(frozen=True, kw_only=True)
class Own:
    """Settings that check nothing themselves, as those of a policy in a file may."""

    start_within_s: float = 600.0
    ceiling: float | None = math.inf


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", math.inf, math.nan])
def test_a_time_is_finite(value: object) -> None:
    with pytest.raises(ExperimentError, match=r"--set start_within_s=.*: accepted: a finite number of s"):
        policy_config("own", Own, {"start_within_s": value})


def test_another_number_may_be_infinite() -> None:
    assert policy_config("own", Own, {"start_within_s": "5"}) == Own(start_within_s=5.0)
    assert policy_config("own", Own, {"ceiling": None}) == Own(ceiling=None)
    assert policy_config("own", Own, {"ceiling": "inf"}) == Own(ceiling=math.inf)
    with pytest.raises(ExperimentError, match="--set ceiling=nan: accepted: a number"):
        policy_config("own", Own, {"ceiling": "nan"})
