"""The sweep that the defaults of policy "wcjs" come from: one setting after another, on Mira's third trace.

Each stage tries its options with what the stages before have chosen, and keeps the best. An option is the
better, the lower the slowdowns of real-time and of batch jobs are against the baseline, both alike: the mean
of the two quotients.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from makeway.policies.model import JobKind
from makeway.simharness.papers.p1.cases import P1Result
from makeway.simharness.papers.p1.means import USUAL_SHARE, P1Combination, P1Means
from makeway.simharness.workloads.mira import APP_5, BASELINE, JIT

WEEK = "wk3"
SEEDS = 2
_SIZES = ("narrow_short", "narrow_long", "wide_short", "wide_long")
_BATCH = {"narrow_short": 3.0, "narrow_long": 1.3, "wide_short": 10.0, "wide_long": 2.0}
"""Those of the authors' public simulator."""
Settings = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepStage:
    """One thing that is varied."""

    name: str
    scheme: str
    """The scheme under which it is tried."""
    options: tuple[tuple[str, Settings], ...]
    """Each with its name."""


def _each(name: str, values: Sequence[float]) -> tuple[tuple[str, Settings], ...]:
    return tuple((f"{value:g}", ((name, value),)) for value in values)


def _all(kind: str, values: Mapping[str, Mapping[str, float]]) -> tuple[tuple[str, Settings], ...]:
    return tuple(
        (name, tuple((f"{kind}_{size}", by_size[size]) for size in _SIZES))
        for name, by_size in values.items()
    )


STAGES = (
    SweepStage(
        name="thresholds of urgent jobs",
        scheme=JIT.name,
        options=_all(
            "urgent", {f"{value:g}": dict.fromkeys(_SIZES, value) for value in (1.0, 1.05, 1.1, 1.2, 1.3)}
        ),
    ),
    SweepStage(
        name="thresholds of batch jobs, as far above 1 as the authors'",
        scheme=JIT.name,
        options=_all(
            "batch",
            {
                f"times {scale:g}": {
                    size: round(1.0 + scale * (value - 1.0), 2) for size, value in _BATCH.items()
                }
                for scale in (0.5, 1.0, 2.0, 4.0, 8.0)
            },
        ),
    ),
    SweepStage(
        name="slowdown_weight", scheme=JIT.name, options=_each("slowdown_weight", (0.0, 0.5, 1.0, 2.0))
    ),
    SweepStage(
        name="remaining_weight", scheme=JIT.name, options=_each("remaining_weight", (0.0, 0.5, 1.0, 2.0))
    ),
    SweepStage(
        name="checkpoint_weight", scheme=APP_5.name, options=_each("checkpoint_weight", (0.0, 0.5, 1.0, 2.0))
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """What became of one option."""

    stage: str
    option: str
    urgent: float
    """Mean slowdown of real-time jobs."""
    batch: float
    score: float
    """The lower the better; 1 is the baseline."""
    best: bool


Replays = Callable[[str, Settings], list[P1Result]]
"""Replays a scheme with settings, once for each seed."""


def sweep(
    replays: Replays, stages: Sequence[SweepStage] = STAGES
) -> tuple[list[SweepResult], dict[str, float]]:
    """Every option that was tried, and the settings that are left."""
    chosen: dict[str, float] = {}
    tried: list[SweepResult] = []
    before = _slowdowns(replays(BASELINE.name, ()), BASELINE.name)
    for stage in stages:
        found: list[tuple[float, str, tuple[tuple[str, float], ...], tuple[float, float]]] = []
        for name, settings in stage.options:
            merged = tuple(sorted({**chosen, **dict(settings)}.items()))
            after = _slowdowns(replays(stage.scheme, merged), stage.scheme)
            score = fmean(now / then for now, then in zip(after, before, strict=True))
            found.append((score, name, settings, after))
        best = min(range(len(found)), key=lambda place: found[place][0])
        chosen |= dict(found[best][2])
        tried += [
            SweepResult(
                stage=stage.name,
                option=name,
                urgent=after[0],
                batch=after[1],
                score=score,
                best=place == best,
            )
            for place, (score, name, _, after) in enumerate(found)
        ]
    return tried, chosen


def _slowdowns(cases: Sequence[P1Result], scheme: str) -> tuple[float, float]:
    """The mean slowdowns of real-time and of batch jobs."""
    means = P1Means(cases)
    place = P1Combination(week=cases[0].week, scheme=scheme, share=USUAL_SHARE)
    found = [means.slowdown(place, kind) for kind in (JobKind.ON_DEMAND, JobKind.RIGID)]
    urgent, batch = (1.0 if value is None else value for value in found)
    return urgent, batch
