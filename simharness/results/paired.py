"""Two settings compared on the same workloads: means of paired differences and ratios, with 95% intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

import numpy as np
import numpy.typing as npt

from makeway.simharness.results.averages import student_t975

RESAMPLES = 2000
_LOW, _HIGH = 2.5, 97.5
_SEED = 0
"""Of the resamples: the same pairs give the same interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean over pairs and where it lies with 95% confidence."""

    mean: float
    """Of differences the arithmetic mean, of ratios the geometric one."""
    pairs: int
    t_low: float | None
    t_high: float | None
    """By Student's t (of the logarithms, for ratios). None: fewer than two pairs."""
    boot_low: float | None
    boot_high: float | None
    """By the percentiles of `RESAMPLES` resamples of the pairs. None: fewer than two pairs."""

    @property
    def decided(self) -> bool:
        """Whether 0 is outside both intervals of a difference."""
        return self._outside(0.0)

    @property
    def ratio_decided(self) -> bool:
        """Whether 1 is outside both intervals of a ratio."""
        return self._outside(1.0)

    def _outside(self, value: float) -> bool:
        bounds = (self.t_low, self.t_high, self.boot_low, self.boot_high)
        known = [bound for bound in bounds if bound is not None]
        return len(known) == 4 and (min(known) > value or max(known) < value)


def resampled(count: int) -> npt.NDArray[np.int64]:
    """Which pairs each resample takes, with repetition; of shape (RESAMPLES, count)."""
    return np.random.default_rng(_SEED).integers(0, count, (RESAMPLES, count))


def mean_difference(differences: Sequence[float]) -> Interval | None:
    """The mean of paired differences. None: there are none."""
    if not differences:
        return None
    values = np.asarray(differences, dtype=np.float64)
    mean = float(values.mean())
    if values.size < 2:
        return Interval(mean=mean, pairs=1, t_low=None, t_high=None, boot_low=None, boot_high=None)
    half = student_t975(values.size - 1) * float(values.std(ddof=1)) / float(np.sqrt(values.size))
    means = values[resampled(values.size)].mean(axis=1)
    low, high = np.percentile(means, (_LOW, _HIGH))
    return Interval(
        mean=mean,
        pairs=int(values.size),
        t_low=mean - half,
        t_high=mean + half,
        boot_low=float(low),
        boot_high=float(high),
    )


def mean_ratio(pairs: Sequence[tuple[float, float]]) -> Interval | None:
    """The geometric mean of first / second over the pairs in which both are above 0. None: there are none."""
    logs = [float(np.log(first / second)) for first, second in pairs if first > 0 and second > 0]
    found = mean_difference(logs)
    if found is None:
        return None
    return Interval(
        mean=exp(found.mean),
        pairs=found.pairs,
        t_low=_exp(found.t_low),
        t_high=_exp(found.t_high),
        boot_low=_exp(found.boot_low),
        boot_high=_exp(found.boot_high),
    )


def _exp(value: float | None) -> float | None:
    return None if value is None else exp(value)
