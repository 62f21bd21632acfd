"""Two settings compared on the same workloads: means of paired differences and ratios, with 95% intervals.

Pairs of one group are not independent of each other. A group counts by its mean, as one value.
"""

from collections.abc import Hashable, Sequence
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
    """Of differences the arithmetic mean, of ratios the geometric one; or the quotient of two means."""
    pairs: int
    groups: int
    """Of pairs: as many independent values the interval has."""
    t_low: float | None
    t_high: float | None
    """By Student's t (of the logarithms, for ratios). None: fewer than two groups, or a quotient of means."""
    boot_low: float | None
    boot_high: float | None
    """By the percentiles of `RESAMPLES` resamples of the groups. None: fewer than two groups."""

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
    """Which of `count` values each resample takes, with repetition; of shape (RESAMPLES, count)."""
    return np.random.default_rng(_SEED).integers(0, count, (RESAMPLES, count))


def group_means(
    values: Sequence[Sequence[float]] | Sequence[float], groups: Sequence[Hashable]
) -> npt.NDArray[np.float64]:
    """The mean of each group's values, in the order of the groups' first values.

    Args:
        values: one entry, or a row of entries, for each pair.
        groups: the group of each.
    """
    places: dict[Hashable, list[int]] = {}
    for place, group in enumerate(groups):
        places.setdefault(group, []).append(place)
    found = np.asarray(values, dtype=np.float64)
    return np.array([found[own].mean(axis=0) for own in places.values()], dtype=np.float64)


def mean_difference(
    differences: Sequence[float], groups: Sequence[Hashable] | None = None
) -> Interval | None:
    """The mean of paired differences. None: there are none.

    `groups`: of each pair. None: every pair is a group of its own.
    """
    if not differences:
        return None
    values = group_means(differences, range(len(differences)) if groups is None else groups)
    mean, pairs = float(values.mean()), len(differences)
    if values.size < 2:
        return Interval(
            mean=mean, pairs=pairs, groups=1, t_low=None, t_high=None, boot_low=None, boot_high=None
        )
    half = student_t975(values.size - 1) * float(values.std(ddof=1)) / float(np.sqrt(values.size))
    means = values[resampled(values.size)].mean(axis=1)
    low, high = np.percentile(means, (_LOW, _HIGH))
    return Interval(
        mean=mean,
        pairs=pairs,
        groups=int(values.size),
        t_low=mean - half,
        t_high=mean + half,
        boot_low=float(low),
        boot_high=float(high),
    )


def mean_ratio(
    pairs: Sequence[tuple[float, float]], groups: Sequence[Hashable] | None = None
) -> Interval | None:
    """The geometric mean of first / second over the pairs in which both are above 0. None: there are none.

    `groups`: of each pair. None: every pair is a group of its own.
    """
    logs = {
        place: float(np.log(first / second))
        for place, (first, second) in enumerate(pairs)
        if first > 0 and second > 0
    }
    own = list(logs) if groups is None else [groups[place] for place in logs]
    found = mean_difference(list(logs.values()), own)
    if found is None:
        return None
    return Interval(
        mean=exp(found.mean),
        pairs=found.pairs,
        groups=found.groups,
        t_low=_exp(found.t_low),
        t_high=_exp(found.t_high),
        boot_low=_exp(found.boot_low),
        boot_high=_exp(found.boot_high),
    )


def mean_quotient(pairs: Sequence[tuple[float, float]]) -> Interval | None:
    """The mean of the firsts / the mean of the seconds, with an interval by resamples of the pairs alone.

    None: there are no pairs, or their seconds sum to 0.
    """
    firsts, seconds = np.asarray(pairs, dtype=np.float64).reshape(-1, 2).T
    if not seconds.sum():
        return None
    low: float | None = None
    high: float | None = None
    if len(pairs) > 1:
        places = resampled(len(pairs))
        found = firsts[places].sum(axis=1) / seconds[places].sum(axis=1)
        low, high = (float(bound) for bound in np.percentile(found, (_LOW, _HIGH)))
    return Interval(
        mean=float(firsts.sum() / seconds.sum()),
        pairs=len(pairs),
        groups=len(pairs),
        t_low=None,
        t_high=None,
        boot_low=low,
        boot_high=high,
    )


def _exp(value: float | None) -> float | None:
    return None if value is None else exp(value)
