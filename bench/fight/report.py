"""The report of a fight: tables as text, Markdown and JSON, and the targets. Pure."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

from bench.fight.arms import ARMS, START_WITHIN_S, Arm
from bench.fight.measure import Outcome
from bench.fight.workload import URGENT_KINDS

from makeway.simharness.papers.common.page import TextGrid


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What each arm cost with one seed."""

    seed: int
    outcomes: tuple[tuple[Arm, Outcome], ...]

    def of(self, arm: str) -> Outcome | None:
        """The outcome of an arm, by its name. None: it was not played."""
        return next((outcome for played, outcome in self.outcomes if played.name == arm), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What makeway should reach, and what it reached in each round."""

    says: str
    measured: tuple[str, ...]
    """By round."""
    met: tuple[bool, ...]

    @property
    def verdict(self) -> str:
        """Met in all rounds, or in how many."""
        return "met" if all(self.met) else f"missed: met in {sum(self.met)} of {len(self.met)} rounds"


_MEASURES: tuple[tuple[str, Callable[[Outcome], float]], ...] = (
    ("core-seconds taken", lambda outcome: outcome.total.core_s),
    ("- work lost", lambda outcome: outcome.lost.core_s),
    ("- checkpoints that were asked for", lambda outcome: outcome.requested.core_s),
    ("- setup after a restart", lambda outcome: outcome.restarts.core_s),
    ("GPU-seconds taken", lambda outcome: outcome.total.gpu_s),
    ("- work lost", lambda outcome: outcome.lost.gpu_s),
    ("- checkpoints that were asked for", lambda outcome: outcome.requested.gpu_s),
    ("- setup after a restart", lambda outcome: outcome.restarts.gpu_s),
    ("interruptions", lambda outcome: outcome.interruptions),
    ("jobs interrupted", lambda outcome: outcome.interrupted_jobs),
    ("start delay of urgent jobs, mean, s", lambda outcome: mean(outcome.delays_s())),
    ("start delay of urgent jobs, longest, s", lambda outcome: outcome.delays_s()[-1]),
    (f"urgent jobs on time (within {START_WITHIN_S} s)", lambda outcome: outcome.on_time),
    ("urgent jobs", lambda outcome: len(outcome.urgent)),
    ("turnaround of the other jobs, mean, s", lambda outcome: outcome.batch_turnaround_s),
    ("makespan, s", lambda outcome: outcome.makespan_s),
    ("unfinished jobs", lambda outcome: outcome.unfinished),
)
_CHECKS: tuple[tuple[str, Callable[[Outcome], float]], ...] = (
    ("interruptions, by the jobs' files", lambda outcome: outcome.interruptions),
    ("interruptions, by sacct -D", lambda outcome: outcome.sacct_interruptions),
    ("core-seconds of interrupted runs, by the jobs' files", lambda outcome: outcome.files_core_s),
    ("core-seconds of interrupted runs, by sacct -D", lambda outcome: outcome.sacct_core_s),
)


def mean(values: Sequence[float]) -> float:
    """The mean; 0 of nothing."""
    return sum(values) / len(values) if values else 0.0


def grids(rounds: Sequence[Round]) -> tuple[TextGrid, ...]:
    """The tables, a column for each arm: the costs, the delays by kind, the check by accounting, and each
    round.
    """
    if len(rounds) > 1:
        heading = f"Means over {len(rounds)} rounds"
        each = tuple(_grid(f"Seed {one.seed}", _MEASURES, (one,)) for one in rounds)
    else:
        heading, each = f"Seed {rounds[0].seed}", ()
    kinds = tuple(
        (kind.value, lambda outcome, kind=kind: mean(outcome.delays_s(kind))) for kind in URGENT_KINDS
    )
    return (
        _grid(heading, _MEASURES, rounds),
        _grid("Mean delay of urgent jobs by what they ask for, s", kinds, rounds),
        _grid("Check by accounting (whole seconds, with prolog and epilog)", _CHECKS, rounds),
        *each,
    )


def _grid(
    heading: str, measures: Sequence[tuple[str, Callable[[Outcome], float]]], rounds: Sequence[Round]
) -> TextGrid:
    arms = [arm.name for arm in ARMS if any(one.of(arm.name) for one in rounds)]
    rows: list[tuple[str, ...]] = []
    for name, value in measures:
        cells = (mean([value(outcome) for one in rounds if (outcome := one.of(arm))]) for arm in arms)
        rows.append((name, *map(_number, cells)))
    return TextGrid(heading=heading, head=("", *arms), rows=tuple(rows))


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or float(value).is_integer() else f"{value:.1f}"


def targets(rounds: Sequence[Round]) -> tuple[Target, ...]:
    """The targets, for the rounds that have the arms they compare."""
    return tuple(
        target
        for target in (
            _share("core-seconds", "requeue", 1 / 5, rounds, lambda outcome: outcome.total.core_s),
            _share("core-seconds", "signals", 1 / 2, rounds, lambda outcome: outcome.total.core_s),
            _share("GPU-seconds", "requeue", 1.0, rounds, lambda outcome: outcome.total.gpu_s),
            _share("GPU-seconds", "signals", 1.0, rounds, lambda outcome: outcome.total.gpu_s),
            _delay("requeue", rounds),
        )
        if target.met
    )


def _pairs(arm: str, rounds: Sequence[Round]) -> Iterator[tuple[Outcome, Outcome]]:
    """The outcomes of makeway and of another arm with the same seed."""
    for one in rounds:
        makeway, other = one.of("makeway"), one.of(arm)
        if makeway is not None and other is not None:
            yield makeway, other


def _share(
    what: str, arm: str, most: float, rounds: Sequence[Round], value: Callable[[Outcome], float]
) -> Target:
    pairs = [(value(makeway), value(other)) for makeway, other in _pairs(arm, rounds)]
    return Target(
        says=f"{what} taken: at most {most:.2f} of arm {arm}",
        measured=tuple(
            f"{makeway:,.0f} of {other:,.0f}" + (f" = {makeway / other:.2f}" if other else "")
            for makeway, other in pairs
        ),
        met=tuple(makeway <= most * other for makeway, other in pairs),
    )


def _delay(arm: str, rounds: Sequence[Round]) -> Target:
    pairs = [(mean(makeway.delays_s()), mean(other.delays_s())) for makeway, other in _pairs(arm, rounds)]
    return Target(
        says=f"mean start delay of urgent jobs: at most 30 s more than arm {arm}",
        measured=tuple(f"{makeway:.1f} s, {makeway - other:+.1f} s" for makeway, other in pairs),
        met=tuple(makeway <= other + 30.0 for makeway, other in pairs),
    )


def markdown(rounds: Sequence[Round]) -> str:
    """The report in Markdown."""
    lines = ["# The fight", "", *(f"- **{arm.name}**: {arm.title}" for arm in ARMS), ""]
    for grid in grids(rounds):
        lines += [f"## {grid.heading}", "", _row(grid.head), _row(("---",) * len(grid.head))]
        lines += [*map(_row, grid.rows), ""]
    if found := targets(rounds):
        lines += ["## Targets", ""]
        lines += [f"- {one.says}: **{one.verdict}** ({'; '.join(one.measured)})" for one in found]
        lines.append("")
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def as_json(rounds: Sequence[Round]) -> str:
    """Every number of every round."""
    return json.dumps(
        {
            "rounds": [
                {
                    "seed": one.seed,
                    "arms": {
                        arm.name: {"total": asdict(outcome.total), **asdict(outcome)}
                        for arm, outcome in one.outcomes
                    },
                }
                for one in rounds
            ],
            "targets": [{"verdict": one.verdict, **asdict(one)} for one in targets(rounds)],
        },
        indent=1,
    )
