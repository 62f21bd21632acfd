"""What the results of a sweep say: settings compared pair by pair, the frontier, and which one is best."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from makeway.daemon.errors import printable
from makeway.simharness.results.paired import Interval, group_means, mean_difference, mean_ratio, resampled
from makeway.simharness.run.limits import ReplayLimits
from makeway.simharness.sweep.table import COSTS, Cell, ResultRow, ResultsError

CHOICE_KEYS = ("policy", "max_loss_node_hours", "limits")
"""What a site chooses; all other keys describe the case."""
DRAW_KEYS = ("trace", "seed")
"""Cases that have these in common share their jobs: they are not independent of each other."""
ON_TIME = "on_demand.on_time_rate"
COST = "cost_node_hours"
NEAR_BEST = 0.01
"""By how much the on-time share of the best choice may be below the largest one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepChoice:
    """One policy at one ceiling of loss, under the same limits, in every case."""

    name: str
    policy: str
    on_time: float
    """Mean share of urgent jobs on time, over the draws."""
    cost: float
    """Mean of lost work, repeated setups and checkpoints, in node-hours."""
    on_frontier: bool
    """Whether no other choice has at least its on-time share at a lower cost, or more at the same."""
    best_share: float | None
    """In which share of the resamples of the draws no other choice is better. None: there is one draw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One number of one choice, against the choice that all are compared with."""

    choice: str
    number: str
    difference: Interval | None
    ratio: Interval | None
    """None: no pair has a ratio."""
    without_ratio: int
    """Pairs in which one of the two is 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """All that is said about one file of results."""

    cases: int
    """Traces x workloads x seeds x settings in which every choice has a result."""
    draws: int
    """Traces x seeds of these cases: as many independent values there are."""
    left_out: int
    """Cases without urgent jobs, or in which a choice has no result."""
    against: str
    choices: tuple[SweepChoice, ...]
    """In the order of the file."""
    comparisons: tuple[Comparison, ...]

    @property
    def best(self) -> SweepChoice:
        """The cheapest of the choices near the largest on-time share (`NEAR_BEST`)."""
        return min(self.choices, key=lambda one: (not _near(one, self.choices), one.cost))

    @property
    def as_good(self) -> tuple[SweepChoice, ...]:
        """The other choices that have the share and the cost of the best one."""
        best = self.best
        return tuple(
            one
            for one in self.choices
            if one is not best and (one.on_time, one.cost) == (best.on_time, best.cost)
        )


NUMBERS = (
    ON_TIME,
    "on_demand.instant_start_rate",
    "on_demand.wait_mean_s",
    COST,
    "all.lost_node_hours",
    "all.overhead_node_hours",
    *(
        f"{group}.turnaround_mean_s"
        for group in ("all", "on_demand", "rigid", "malleable", "small", "medium", "large")
    ),
    "batch.turnaround_by_nodes_s",
    *(f"{group}.preemption_ratio" for group in ("rigid", "malleable", "small", "medium", "large")),
    "machine.useful_utilisation",
)
"""What is compared: of urgent jobs, the cost, the other jobs by kind and by size, and the machine."""


def compare(rows: Sequence[ResultRow], against: str | None = None) -> Compared:
    """Compare every choice with one of them.

    Args:
        rows: the results.
        against: the name of a choice. None: the first one.

    Raises:
        ResultsError: there is no such choice, a case has two rows of one choice, or no case has a result of
            every choice.
    """
    names = list(dict.fromkeys(choice_name(row.key) for row in rows))
    if against is not None and against not in names:
        raise ResultsError(f"--against {against}: accepted: {', '.join(names)}")
    by_case: dict[tuple[tuple[str, Cell], ...], dict[str, ResultRow]] = {}
    for row in rows:
        case, name = by_case.setdefault(_case(row.key), {}), choice_name(row.key)
        if name in case:
            raise ResultsError(
                f"{_told(row.key)}: two rows of {name}; accepted: one row of a choice in a case"
            )
        case[name] = row
    whole = [case for case in by_case.values() if len(case) == len(names) and _has_urgent(case.values())]
    if not whole:
        raise ResultsError(f"no case has urgent jobs and a result of each of {', '.join(names)}")
    base = against or names[0]
    return Compared(
        cases=len(whole),
        draws=len({_draw(case[base]) for case in whole}),
        left_out=len(by_case) - len(whole),
        against=base,
        choices=_choices(names, whole),
        comparisons=tuple(
            _comparison(name, number, [(case[name], case[base]) for case in whole])
            for name in names
            if name != base
            for number in NUMBERS
        ),
    )


def choice_name(key: Mapping[str, Cell]) -> str:
    """What a choice is called: the policy and, if it has them, its ceiling and its limits."""
    ceiling, limits = key["max_loss_node_hours"], key["limits"]
    name = printable(str(key["policy"]))
    if ceiling is not None:
        number = f"{ceiling:g}"
        name += f" ≤ {number if float(number) == ceiling else ceiling} node-h"
    return name if limits in (None, ReplayLimits.NONE) else f"{name}, {limits} limits"


def value_of(row: ResultRow, number: str) -> float | None:
    """A number of a row; the cost is lost work and overhead together. None: the row does not have it."""
    if number == COST:
        return sum(float(row.numbers[name] or 0) for name in COSTS)
    found = row.numbers.get(number)
    return None if found is None else float(found)


def _case(key: Mapping[str, Cell]) -> tuple[tuple[str, Cell], ...]:
    return tuple((name, value) for name, value in key.items() if name not in CHOICE_KEYS)


def _draw(row: ResultRow) -> tuple[Cell, ...]:
    return tuple(row.key[name] for name in DRAW_KEYS)


def _told(key: Mapping[str, Cell]) -> str:
    """A case in words: what is known of it."""
    return ", ".join(f"{name} {value}" for name, value in _case(key) if value is not None)


def _has_urgent(rows: Iterable[ResultRow]) -> bool:
    return all(value_of(row, ON_TIME) is not None for row in rows)


def _comparison(name: str, number: str, pairs: Sequence[tuple[ResultRow, ResultRow]]) -> Comparison:
    values = [(value_of(own, number), value_of(base, number)) for own, base in pairs]
    known = [
        ((own, base), _draw(row))
        for (own, base), (row, _) in zip(values, pairs, strict=True)
        if own is not None and base is not None
    ]
    both, draws = [one for one, _ in known], [draw for _, draw in known]
    return Comparison(
        choice=name,
        number=number,
        difference=mean_difference([own - base for own, base in both], draws),
        ratio=mean_ratio(both, draws),
        without_ratio=sum(1 for own, base in both if own <= 0 or base <= 0),
    )


def _choices(names: Sequence[str], cases: Sequence[Mapping[str, ResultRow]]) -> tuple[SweepChoice, ...]:
    draws = [_draw(case[names[0]]) for case in cases]
    on_time, cost = (
        group_means([[value_of(case[name], number) or 0.0 for name in names] for case in cases], draws)
        for number in (ON_TIME, COST)
    )
    picks = resampled(len(on_time))
    # Of shape (resamples, choices): the means of each resample.
    shares, costs = on_time[picks].mean(axis=1), cost[picks].mean(axis=1)
    near = shares >= shares.max(axis=1, keepdims=True) - NEAR_BEST
    priced = np.where(near, costs, np.inf)
    best = priced == priced.min(axis=1, keepdims=True)  # also of choices that do not differ
    means = [(float(on_time[:, place].mean()), float(cost[:, place].mean())) for place in range(len(names))]
    return tuple(
        SweepChoice(
            name=name,
            policy=str(cases[0][name].key["policy"]),
            on_time=means[place][0],
            cost=means[place][1],
            on_frontier=not any(_dominates(other, means[place]) for other in means),
            best_share=float(best[:, place].mean()) if len(on_time) > 1 else None,
        )
        for place, name in enumerate(names)
    )


def _dominates(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one != other and one[0] >= other[0] and one[1] <= other[1]


def _near(one: SweepChoice, choices: Sequence[SweepChoice]) -> bool:
    return one.on_time >= max(other.on_time for other in choices) - NEAR_BEST
