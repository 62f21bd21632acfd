"""P1's replays put together: the jobs of all seeds by kind and category, as the paper averages its trials."""

from collections.abc import Sequence
from dataclasses import dataclass

from makeway.policies.model import JobKind
from makeway.simharness.papers.p1.cases import P1Result, Spread
from makeway.simharness.workloads.mira import BASELINE, JIT

USUAL_SHARE = 0.1
"""What the paper's numbers are of."""
KIND_LABELS = {JobKind.ON_DEMAND: "RTJ", JobKind.RIGID: "BJ"}


@dataclass(frozen=True, slots=True, kw_only=True)
class P1Combination:
    """The replays of one combination, over all seeds."""

    week: str
    scheme: str
    share: float = USUAL_SHARE
    short_only: bool = False


class P1Means:
    """Spreads over all seeds.

    Means are over all jobs; quantiles are averages over the seeds, weighted by their numbers of jobs.
    """

    def __init__(self, cases: Sequence[P1Result]) -> None:
        self._cases: dict[P1Combination, list[P1Result]] = {}
        for case in cases:
            place = P1Combination(
                week=case.week, scheme=case.scheme, share=case.share, short_only=case.short_only
            )
            self._cases.setdefault(place, []).append(case)

    @property
    def weeks(self) -> tuple[str, ...]:
        """The weeks that there are, in the order of the cases."""
        return tuple(dict.fromkeys(place.week for place in self._cases))

    def shares(self, week: str) -> tuple[float, ...]:
        """The shares of urgent jobs of which the week has the paper's four heuristics, in ascending order."""
        found = {
            place.share
            for place in self._cases
            if place.week == week and place.scheme == BASELINE.name and not place.short_only
        }
        return tuple(sorted(found))

    def cases(self, place: P1Combination) -> Sequence[P1Result]:
        """The replays of a place; none if there were none."""
        return self._cases.get(place, ())

    def spread(self, place: P1Combination, kind: JobKind, category: str = "all") -> Spread | None:
        """The jobs of one kind and category. None: there are none."""
        spreads = [
            group.spread
            for case in self.cases(place)
            for group in case.groups
            if group.kind is kind and group.category == category
        ]
        if not spreads:
            return None
        jobs = sum(spread.jobs for spread in spreads)

        def mean(values: Sequence[float]) -> float:
            weighted = zip(values, spreads, strict=True)
            return sum(value * spread.jobs for value, spread in weighted) / jobs

        return Spread(
            jobs=jobs,
            slowdown_mean=mean([spread.slowdown_mean for spread in spreads]),
            slowdown=tuple(map(mean, zip(*[spread.slowdown for spread in spreads], strict=True))),
            turnaround_mean_h=mean([spread.turnaround_mean_h for spread in spreads]),
            turnaround_h=tuple(map(mean, zip(*[spread.turnaround_h for spread in spreads], strict=True))),
            plain_slowdown_mean=mean([spread.plain_slowdown_mean for spread in spreads]),
        )

    def levels(self, week: str) -> str:
        """A sentence on how much the few wide-short real-time jobs weigh in the means. Empty: there
        are none.
        """
        parts: list[tuple[float, float, float, float]] = []
        for scheme in (BASELINE, JIT):
            place = P1Combination(week=week, scheme=scheme.name)
            every, few = (self.spread(place, JobKind.ON_DEMAND, name) for name in ("all", "wide-short"))
            if every is None or few is None or every.jobs == few.jobs:
                return ""
            total, part = every.jobs * every.slowdown_mean, few.jobs * few.slowdown_mean
            without = (total - part) / (every.jobs - few.jobs)
            parts.append((few.jobs / every.jobs, part / total, every.slowdown_mean, without))
        (share, of_sum, before, plain_before), (_, _, after, plain_after) = parts
        return (
            f"{week}: {share:.1%} of the real-time jobs are wide-short and make {of_sum:.0%} of the sum of "
            f"their slowdowns under the baseline; with them the mean goes from {before:.2f} to {after:.2f}, "
            f"without them from {plain_before:.2f} to {plain_after:.2f}."
        )

    def slowdown(self, place: P1Combination, kind: JobKind, category: str = "all") -> float | None:
        """The mean bounded slowdown. None: there are no such jobs."""
        spread = self.spread(place, kind, category)
        return None if spread is None else spread.slowdown_mean
