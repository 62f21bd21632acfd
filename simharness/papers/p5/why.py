"""Why some of P5's observations cannot show on a trace, derived from the replays.

Reference:
    Fan et al., "Hybrid Workload Scheduling on HPC Systems" (IPDPS 2022), section V.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from makeway.simharness.papers.p5.cases import BASE, MECHANISMS, P5Result
from makeway.simharness.papers.p5.means import TURNAROUND, UTILISATION, P5Means, P5Metric
from makeway.simharness.results.averages import student_t975

SAME_UTILISATION = 0.01
"""Utilisations that differ by less are the same: what is left is rounding at the two ends of the trace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismDifference:
    """One mechanism against another over the seeds: mean of the differences, and half of its 95% interval."""

    one: str
    other: str
    mean: float
    ci95: float

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out no difference at all."""
        return abs(self.mean) > self.ci95


def explanations(cases: Sequence[P5Result]) -> tuple[str, ...]:
    """Sentences to print below the observations, with their figures. Empty: there is nothing to explain."""
    return tuple(filter(None, (_utilisation(cases), _noise(cases))))


def differences(cases: Sequence[P5Result], metric: P5Metric) -> tuple[MechanismDifference, ...]:
    """Every two mechanisms, seed by seed. Empty with fewer than two seeds."""
    seeds = sorted({case.seed for case in cases})
    by_seed = [P5Means([case for case in cases if case.seed == seed]) for seed in seeds]
    if len(seeds) < 2:
        return ()
    found: list[MechanismDifference] = []
    for one, other in combinations(MECHANISMS, 2):
        pairs = [(means.mechanism(one, metric), means.mechanism(other, metric)) for means in by_seed]
        known = [a - b for a, b in pairs if a is not None and b is not None]
        if len(known) >= 2:
            half = student_t975(len(known) - 1) * statistics.stdev(known) / len(known) ** 0.5
            found.append(MechanismDifference(one=one, other=other, mean=statistics.fmean(known), ci95=half))
    return tuple(found)


def _utilisation(cases: Sequence[P5Result]) -> str:
    known = [value for case in cases if (value := UTILISATION.of(case)) is not None]
    with_base = any(case.policy == BASE for case in cases)
    if not known or not with_base or max(known) - min(known) >= SAME_UTILISATION:
        return ""
    return (
        f"Useful utilisation is {min(known):.2%} to {max(known):.2%} in every single replay, without "
        "mechanisms too: all the work of the trace is done within it, whichever job waits, so that "
        "utilisation tells its load. Observations 1, 2, 3, 5 and 13 cannot show in it here; what mechanisms "
        "cost shows in the turnaround and in the work that is lost."
    )


def _noise(cases: Sequence[P5Result]) -> str:
    found = differences(cases, TURNAROUND)
    if not found:
        return ""
    clear = [one for one in found if one.is_clear]
    parts = "; ".join(f"{one.one} {one.mean:+.2f} ± {one.ci95:.2f} h against {one.other}" for one in clear)
    return (
        "From seed to seed the turnaround of one mechanism against another varies: the 95% interval of the "
        f"mean difference is ± {statistics.median(one.ci95 for one in found):.2f} h for the middle one of "
        f"the {len(found)} pairs. Differences that are larger than their interval: {parts or 'none'}. The "
        "orders among mechanisms that the paper reads off its averages (observations 2, 4, 5, 7, 11, 12) "
        "are not told apart by less."
    )
