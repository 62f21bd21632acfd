"""The measures of one policy averaged over seeds: mean, spread, and the confidence interval of the mean."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from makeway.simharness.results.measures import Measures, Number, numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """One number over several replays of the same policy with different seeds."""

    key: str
    """As in `numbers`."""
    mean: float | None
    """None: no replay has this number."""
    std: float | None
    """Sample standard deviation (n - 1). None: fewer than two replays have this number."""
    ci95: float | None
    """Half the width of the 95% confidence interval of the mean (Student's t). None: fewer than two."""
    count: int
    """How many replays have this number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """The measures of several replays of one policy."""

    policy: str
    backfill: str
    workload: str
    replays: int
    shared: bool
    """Whether jobs share nodes."""
    estimates: tuple[Estimate, ...]
    """In the order of `numbers`."""

    def estimate(self, key: str) -> Estimate:
        """The estimate of one number. Raises `KeyError` if there is no such key."""
        for estimate in self.estimates:
            if estimate.key == key:
                return estimate
        raise KeyError(f"no number {key!r}; the first keys are {[known.key for known in self.estimates[:3]]}")


def aggregate(measured: Sequence[Measures]) -> Aggregate:
    """Mean, spread and confidence interval of every number over replays of one policy that differ by seed.

    Raises `ValueError` if there are none, or if they are not of one policy and one base scheduler.
    """
    if not measured:
        raise ValueError("nothing to aggregate: no measures were given")
    names = sorted({(one.policy, one.backfill) for one in measured})
    if len(names) > 1:
        raise ValueError(
            f"cannot aggregate over different policies: {', '.join('/'.join(name) for name in names)}"
        )
    rows = [numbers(one) for one in measured]
    keys = {key: None for row in rows for key in row}
    return Aggregate(
        policy=measured[0].policy,
        backfill=measured[0].backfill,
        workload=measured[0].workload,
        replays=len(measured),
        shared=any(one.shared for one in measured),
        estimates=tuple(_estimate(key, [row.get(key) for row in rows]) for key in keys),
    )


def _estimate(key: str, values: Sequence[Number]) -> Estimate:
    known = np.array([value for value in values if value is not None], dtype=np.float64)
    several = known.size >= 2
    std = float(known.std(ddof=1)) if several else None
    return Estimate(
        key=key,
        mean=float(known.mean()) if known.size else None,
        std=std,
        ci95=None if std is None else student_t975(known.size - 1) * std / float(np.sqrt(known.size)),
        count=known.size,
    )


# Two-sided 95% points of Student's t for 1 to 12 degrees of freedom (any statistical table).
_T975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179)


def student_t975(freedom: int) -> float:
    """The 97.5% point of Student's t with `freedom` degrees of freedom (1 or more), to three decimals."""
    if freedom <= len(_T975):
        return _T975[freedom - 1]
    z = 1.959964
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3
