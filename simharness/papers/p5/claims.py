"""P5's thirteen observations, each with the criterion by which it holds, on the average over the seeds.

Reference:
    Fan et al., "Hybrid Workload Scheduling on HPC Systems" (IPDPS 2022), section V.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from makeway.simharness.papers.common.claims import Claim, ClaimStatus, Finding, check
from makeway.simharness.papers.p5.cases import INTERVALS, MECHANISMS, MIXES, P5Result
from makeway.simharness.papers.p5.means import (
    DECISION,
    INSTANT,
    MALLEABLE_PREEMPTION,
    MALLEABLE_TURNAROUND,
    RIGID_PREEMPTION,
    RIGID_TURNAROUND,
    TURNAROUND,
    UTILISATION,
    P5Means,
    P5Metric,
)

PAPER_TURNAROUND_RATIO = 22.0 / 15.6
"""What the paper calls a slight increase: from 15.6 to up to 22 hours."""
INSTANT_RATE = 0.98
INSTANT_SPREAD = 0.03
DECISION_MS = 10.0
PREPARING = ("cua-paa", "cua-spaa", "cup-paa", "cup-spaa")
_NOTICES = ("n", "cua", "cup")
_ARRIVALS = ("paa", "spaa")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Observation:
    key: str
    says: str
    criterion: str
    finding: Callable[[P5Means], Finding]


def claims(cases: Sequence[P5Result]) -> tuple[Claim, ...]:
    """Every observation, on the average of all seeds and on each seed."""
    seeds = sorted({case.seed for case in cases})
    by_seed = [(seed, [case for case in cases if case.seed == seed]) for seed in seeds]
    return tuple(
        check(one.key, one.says, one.criterion, _on_means(one.finding), by_seed, averaged=True)
        for one in _OBSERVATIONS
    )


def _on_means(finding: Callable[[P5Means], Finding]) -> Callable[[Sequence[P5Result]], Finding]:
    return lambda cases: finding(P5Means(cases))


def _judge(holds: Sequence[bool | None], measured: str) -> Finding:
    """It holds if all parts do. A part is None if there was nothing to compare."""
    if not holds or None in holds:
        return Finding(standing=ClaimStatus.OPEN, measured=measured)
    return Finding(standing=ClaimStatus.HOLDS if all(holds) else ClaimStatus.FAILS, measured=measured)


def _below(low: float | None, high: float | None) -> bool | None:
    """Whether one figure is below another. None: one of them is missing."""
    return None if low is None or high is None else low < high


def _at_most(low: float | None, high: float | None) -> bool | None:
    return None if low is None or high is None else low <= high


def _each(means: P5Means, metric: P5Metric, policies: Sequence[str] = MECHANISMS) -> dict[str, float | None]:
    return {policy: means.mechanism(policy, metric) for policy in policies}


def _measured(metric: P5Metric, values: dict[str, float | None]) -> str:
    return f"{metric.label}: " + ", ".join(f"{name} {metric.text(value)}" for name, value in values.items())


def _extreme(values: dict[str, float | None], *, highest: bool) -> str | None:
    """The name with the highest or lowest figure. None: one of them is missing."""
    known = {name: value for name, value in values.items() if value is not None}
    if len(known) < len(values):
        return None
    order = sorted(known, key=lambda name: (-known[name] if highest else known[name], name))
    return order[0]


def _is(name: str | None, wanted: str) -> bool | None:
    return None if name is None else name == wanted


def _boosts(means: P5Means) -> Finding:
    parts: list[bool | None] = []
    base = {metric.key: means.base(means.under, metric) for metric in (TURNAROUND, INSTANT, UTILISATION)}
    limit_h = base[TURNAROUND.key]
    for policy in MECHANISMS:
        parts.append(_below(base[INSTANT.key], means.mechanism(policy, INSTANT)))
        parts.append(_below(base[UTILISATION.key], means.mechanism(policy, UTILISATION)))
        most_h = None if limit_h is None else limit_h * PAPER_TURNAROUND_RATIO
        parts.append(_at_most(means.mechanism(policy, TURNAROUND), most_h))
    text = "; ".join(
        (
            f"{metric.label}: {means.under.label} {metric.text(base[metric.key])}, mechanisms "
            f"{_span(means, metric)}"
        )
        for metric in (INSTANT, UTILISATION, TURNAROUND)
    )
    return _judge(parts, text)


def _span(means: P5Means, metric: P5Metric) -> str:
    known = [value for value in _each(means, metric).values() if value is not None]
    return f"{metric.text(min(known))} to {metric.text(max(known))}" if known else "–"


def _n_paa_worst(means: P5Means) -> Finding:
    wanted = ((TURNAROUND, True), (UTILISATION, False), (MALLEABLE_PREEMPTION, True))
    parts: list[bool | None] = []
    texts: list[str] = []
    for metric, highest in wanted:
        values = _each(means, metric)
        worst = _extreme(values, highest=highest)
        parts.append(_is(worst, "n-paa"))
        value = None if worst is None else values[worst]
        texts.append(
            f"{metric.label}: worst is {worst} {metric.text(value)}, n-paa {metric.text(values['n-paa'])}"
        )
    return _judge(parts, "; ".join(texts))


def _pairs(
    means: P5Means, metrics: Sequence[tuple[P5Metric, bool]], pairs: Sequence[tuple[str, str]]
) -> Finding:
    """Whether the first of each pair has the lower figure (True), or the higher one (False)."""
    parts: list[bool | None] = []
    texts: list[str] = []
    for metric, lower in metrics:
        measured: list[str] = []
        for mine, other in pairs:
            a, b = means.mechanism(mine, metric), means.mechanism(other, metric)
            parts.append(_below(a, b) if lower else _below(b, a))
            measured.append(f"{mine} {metric.text(a)}, {other} {metric.text(b)}")
        texts.append(f"{metric.label}: {'; '.join(measured)}")
    return _judge(parts, ". ".join(texts))


def _spaa_saves(means: P5Means) -> Finding:
    pairs = [(f"{notice}-spaa", f"{notice}-paa") for notice in _NOTICES]
    return _pairs(means, [(UTILISATION, False), (MALLEABLE_PREEMPTION, True)], pairs)


def _paa_faster(means: P5Means) -> Finding:
    pairs = [(f"{notice}-paa", f"{notice}-spaa") for notice in ("cua", "cup")]
    return _pairs(means, [(TURNAROUND, True), (RIGID_PREEMPTION, True)], pairs)


def _cua_over_cup(means: P5Means) -> Finding:
    parts: list[bool | None] = []
    texts: list[str] = []
    for metric, lower in ((TURNAROUND, True), (UTILISATION, False)):
        won: list[bool | None] = []
        for mix, arrival in product(MIXES, _ARRIVALS):
            cua = means.mechanism(f"cua-{arrival}", metric, mix=mix)
            cup = means.mechanism(f"cup-{arrival}", metric, mix=mix)
            won.append(_at_most(cua, cup) if lower else _at_most(cup, cua))
        count = sum(1 for one in won if one)
        parts.append(None if None in won else count > len(won) / 2)
        texts.append(f"{metric.label}: CUA at least as good in {count} of {len(won)} cases")
    return _judge(parts, "; ".join(texts))


def _malleable_faster(means: P5Means) -> Finding:
    rigid, malleable = (
        _each(means, RIGID_TURNAROUND, PREPARING),
        _each(means, MALLEABLE_TURNAROUND, PREPARING),
    )
    parts = [_below(malleable[policy], rigid[policy]) for policy in PREPARING]
    return _judge(
        parts, f"{_measured(MALLEABLE_TURNAROUND, malleable)}; {_measured(RIGID_TURNAROUND, rigid)}"
    )


def _n_spaa_rigid(means: P5Means) -> Finding:
    values = _each(means, RIGID_TURNAROUND)
    return _judge([_is(_extreme(values, highest=False), "n-spaa")], _measured(RIGID_TURNAROUND, values))


def _malleable_preempted(means: P5Means) -> Finding:
    rigid, malleable = _each(means, RIGID_PREEMPTION), _each(means, MALLEABLE_PREEMPTION)
    parts = [_below(rigid[policy], malleable[policy]) for policy in MECHANISMS]
    return _judge(
        parts, f"{_measured(MALLEABLE_PREEMPTION, malleable)}; {_measured(RIGID_PREEMPTION, rigid)}"
    )


def _instant(means: P5Means) -> Finding:
    values = _each(means, INSTANT)
    known = [value for value in values.values() if value is not None]
    if len(known) < len(values):
        return _judge([None], _measured(INSTANT, values))
    mean = sum(known) / len(known)
    return _judge(
        [mean >= INSTANT_RATE - 0.005, max(known) - min(known) <= INSTANT_SPREAD], _measured(INSTANT, values)
    )


def _quick(means: P5Means) -> Finding:
    worst = {
        policy: max(
            (
                value
                for case in means.cases
                if case.policy == policy and (value := DECISION.of(case)) is not None
            ),
            default=None,
        )
        for policy in MECHANISMS
    }
    parts = [_at_most(value, DECISION_MS) for value in worst.values()]
    return _judge(parts, f"the slowest replay of each: {_measured(DECISION, worst)}")


def _best_mix(means: P5Means, notice: str, best: str) -> Finding:
    parts: list[bool | None] = []
    texts: list[str] = []
    for arrival in _ARRIVALS:
        policy = f"{notice}-{arrival}"
        values = {mix: means.mechanism(policy, TURNAROUND, mix=mix) for mix in MIXES}
        parts.append(_is(_extreme(values, highest=False), best))
        texts.append(f"{policy}, {_measured(TURNAROUND, values)}")
    return _judge(parts, "; ".join(texts))


def _often(means: P5Means) -> Finding:
    parts: list[bool | None] = []
    texts: list[str] = []
    often, seldom = min(INTERVALS), max(INTERVALS)
    for metric, lower in ((RIGID_TURNAROUND, True), (UTILISATION, False)):
        measured: list[str] = []
        for policy in MECHANISMS:
            a = means.mechanism(policy, metric, mix="W5", interval_share=often)
            b = means.mechanism(policy, metric, mix="W5", interval_share=seldom)
            parts.append(_below(a, b) if lower else _below(b, a))
            measured.append(f"{policy} {metric.text(a)}, {metric.text(b)}")
        texts.append(f"{metric.label} at {often:.0%} and {seldom:.0%} of the interval: {'; '.join(measured)}")
    return _judge(parts, ". ".join(texts))


_OBSERVATIONS = (
    _Observation(
        key="1-boost",
        says=(
            "1. Against FCFS/EASY the mechanisms raise utilisation and instant starts, and turnaround "
            "slightly."
        ),
        criterion=(
            "instant start and useful utilisation above those of the base scheduler alone with all six, "
            "turnaround at most 1.41 times (the paper: 15.6 to 22 h); malleable jobs start at the same sizes "
            "in both"
        ),
        finding=_boosts,
    ),
    _Observation(
        key="2-n-paa",
        says="2. N&PAA has the worst overall performance.",
        criterion=(
            "of all six the longest turnaround, the lowest utilisation and the most malleable jobs preempted"
        ),
        finding=_n_paa_worst,
    ),
    _Observation(
        key="3-spaa",
        says="3. SPAA brings higher utilisation and fewer preempted malleable jobs than PAA.",
        criterion="both, after each of N, CUA and CUP",
        finding=_spaa_saves,
    ),
    _Observation(
        key="4-paa",
        says="4. PAA brings shorter turnaround and fewer preempted rigid jobs than SPAA, except N&PAA.",
        criterion="both, after CUA and CUP",
        finding=_paa_faster,
    ),
    _Observation(
        key="5-cua",
        says=(
            "5. CUA is in most cases better than CUP: slightly shorter turnaround, slightly higher "
            "utilisation."
        ),
        criterion="each in more than half of the workloads and arrival strategies",
        finding=_cua_over_cup,
    ),
    _Observation(
        key="6-malleable",
        says="6. CUA and CUP reward malleable jobs: their turnaround is below that of rigid ones.",
        criterion="with all four",
        finding=_malleable_faster,
    ),
    _Observation(
        key="7-n-spaa",
        says="7. N&SPAA has the lowest turnaround of rigid jobs.",
        criterion="of all six",
        finding=_n_spaa_rigid,
    ),
    _Observation(
        key="8-preemption",
        says="8. Malleable jobs are preempted noticeably more often than rigid ones.",
        criterion="with all six",
        finding=_malleable_preempted,
    ),
    _Observation(
        key="9-instant",
        says=(
            "9. All mechanisms start nearly all on-demand jobs instantly, 98% on average, without much "
            "difference."
        ),
        criterion="98% on average (rounded), 3 points between the best and the worst at most",
        finding=_instant,
    ),
    _Observation(
        key="10-decision",
        says="10. A decision takes less than 10 ms.",
        criterion="p99 of every replay at most 10 ms, as timed in the run",
        finding=_quick,
    ),
    _Observation(
        key="11-cup-accuracy",
        says="11. CUP lives on accurate notices: it is best on W2.",
        criterion="turnaround lowest on W2, with PAA and with SPAA",
        finding=lambda means: _best_mix(means, "cup", "W2"),
    ),
    _Observation(
        key="12-cua-early",
        says="12. The earlier the notice, the better CUA: it is best on W4.",
        criterion="turnaround lowest on W4, with PAA and with SPAA",
        finding=lambda means: _best_mix(means, "cua", "W4"),
    ),
    _Observation(
        key="13-checkpoints",
        says=(
            "13. Checkpoints more often than Daly's optimum shorten rigid jobs' turnaround and raise "
            "utilisation."
        ),
        criterion="both better at 50% than at 200% of the interval, with all six",
        finding=_often,
    ),
)
