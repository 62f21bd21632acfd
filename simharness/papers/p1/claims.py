"""P1's claims, each with the criterion by which it holds, checked on each week.

Reference:
    Nickolay et al., "Towards Accommodating Real-time Jobs on HPC Platforms" (arXiv 2021), the summary of
    section 4, and section 7.2.

Differs from the paper:
    Its figures are of one week, Mira's wk1, which decides here too; the other weeks are reported with it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from makeway.policies.model import JobKind
from makeway.simharness.papers.common.claims import Claim, ClaimStatus, Finding
from makeway.simharness.papers.p1.cases import CATEGORIES
from makeway.simharness.papers.p1.means import KIND_LABELS, P1Combination, P1Means
from makeway.simharness.workloads.mira import APP_5, APP_10, BASELINE, JIT

URGENT, BATCH = JobKind.ON_DEMAND, JobKind.RIGID
DECIDES = "wk1"
GAIN = 0.35
COST = 0.10
NEAR_ONE = 1.2
NARROW_LONG_MEDIAN = 1.10
LEVEL = 0.25
"""Slowdowns of urgent jobs that differ by less from share to share show no clear difference."""
OPEN = Finding(standing=ClaimStatus.OPEN, measured="not replayed")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sentence:
    key: str
    says: str
    criterion: str
    finding: Callable[[P1Means, str], Finding]


def claims(means: P1Means) -> tuple[Claim, ...]:
    """Every claim, checked on each week that was replayed; the paper's own decides."""
    return tuple(_claim(sentence, means) for sentence in _SENTENCES)


def _claim(sentence: _Sentence, means: P1Means) -> Claim:
    every = [(week, sentence.finding(means, week)) for week in means.weeks]
    parts = tuple((week, finding) for week, finding in every if finding is not OPEN) or ((DECIDES, OPEN),)
    decided = dict(parts).get(DECIDES, OPEN)
    return Claim(
        key=sentence.key,
        says=sentence.says,
        criterion=sentence.criterion,
        measured="; ".join(f"{week}: {finding.measured}" for week, finding in parts),
        parts=parts,
        unit="trace",
        average=decided.standing,
    )


def _finding(holds: bool, measured: str) -> Finding:
    return Finding(standing=ClaimStatus.HOLDS if holds else ClaimStatus.FAILS, measured=measured)


def _pair(means: P1Means, week: str, kind: JobKind, category: str = "all") -> tuple[float, float] | None:
    """The mean slowdown under the baseline and under WCJS with JIT-CKPT."""
    before = means.slowdown(P1Combination(week=week, scheme=BASELINE.name), kind, category)
    after = means.slowdown(P1Combination(week=week, scheme=JIT.name), kind, category)
    return None if before is None or after is None else (before, after)


def _measured(pair: tuple[float, float]) -> str:
    before, after = pair
    return f"{before:.2f} → {after:.2f} ({after / before - 1:+.0%})"


def _urgent_gain(means: P1Means, week: str) -> Finding:
    pair = _pair(means, week, URGENT)
    return OPEN if pair is None else _finding(pair[1] <= (1 - GAIN) * pair[0], _measured(pair))


def _batch_cost(means: P1Means, week: str) -> Finding:
    pair = _pair(means, week, BATCH)
    return OPEN if pair is None else _finding(pair[1] <= (1 + COST) * pair[0], _measured(pair))


def _every_category_gains(means: P1Means, week: str) -> Finding:
    return _categories(means, week, URGENT, lambda before, after: after < before, allowed=0)


def _batch_categories(means: P1Means, week: str) -> Finding:
    return _categories(means, week, BATCH, lambda before, after: after <= (1 + COST) * before, allowed=1)


def _categories(
    means: P1Means, week: str, kind: JobKind, good: Callable[[float, float], bool], *, allowed: int
) -> Finding:
    pairs = [(category, _pair(means, week, kind, category)) for category in CATEGORIES[1:]]
    known = [(category, pair) for category, pair in pairs if pair is not None]
    if not known:
        return OPEN
    bad = sum(1 for _, pair in known if not good(*pair))
    return _finding(bad <= allowed, ", ".join(f"{category} {_measured(pair)}" for category, pair in known))


def _ordered(kind: JobKind) -> Callable[[P1Means, str], Finding]:
    """JIT better than APP-5%, and that better than APP-10%, over all shares."""

    def finding(means: P1Means, week: str) -> Finding:
        found: list[float] = []
        for scheme in (JIT, APP_5, APP_10):
            places = [
                P1Combination(week=week, scheme=scheme.name, share=share) for share in means.shares(week)
            ]
            values = [means.slowdown(place, kind) for place in places]
            known = [value for value in values if value is not None]
            if not known:
                return OPEN
            found.append(sum(known) / len(known))
        return _finding(
            all(one < next_one for one, next_one in pairwise(found)),
            " < ".join(f"{value:.2f}" for value in found)
            if found == sorted(found)
            else ", ".join(f"{value:.2f}" for value in found),
        )

    return finding


def _narrow_long(means: P1Means, week: str) -> Finding:
    spread = means.spread(P1Combination(week=week, scheme=JIT.name), URGENT, "narrow-long")
    if spread is None:
        return OPEN
    return _finding(spread.slowdown[2] <= NARROW_LONG_MEDIAN, f"{spread.slowdown[2]:.2f}")


def _urgent_below_batch(means: P1Means, week: str) -> Finding:
    found = [
        (urgent, batch)
        for share in means.shares(week)
        for scheme in (BASELINE, JIT, APP_5, APP_10)
        for place in [P1Combination(week=week, scheme=scheme.name, share=share)]
        if (urgent := means.slowdown(place, URGENT)) is not None
        and (batch := means.slowdown(place, BATCH)) is not None
    ]
    if not found:
        return OPEN
    below = sum(1 for urgent, batch in found if urgent < batch)
    return _finding(below == len(found), f"in {below} of {len(found)} cases")


def _by_share(means: P1Means, week: str, kind: JobKind) -> list[float]:
    values = [
        means.slowdown(P1Combination(week=week, scheme=JIT.name, share=share), kind)
        for share in means.shares(week)
    ]
    return [value for value in values if value is not None]


def _more_urgent_jobs_cost(means: P1Means, week: str) -> Finding:
    found = _by_share(means, week, BATCH)
    if len(found) < 2:
        return OPEN
    return _finding(found[-1] > found[0], ", ".join(f"{value:.2f}" for value in found))


def _urgent_stay(means: P1Means, week: str) -> Finding:
    found = _by_share(means, week, URGENT)
    if len(found) < 2:
        return OPEN
    spread = max(found) - min(found)
    return _finding(spread <= LEVEL * min(found), ", ".join(f"{value:.2f}" for value in found))


def _wide_short(means: P1Means, week: str) -> Finding:
    parts: list[str] = []
    holds = True
    for scheme in (BASELINE, JIT):
        for kind in (URGENT, BATCH):
            place = P1Combination(week=week, scheme=scheme.name)
            found = {category: means.slowdown(place, kind, category) for category in CATEGORIES[1:]}
            known = {category: value for category, value in found.items() if value is not None}
            if "wide-short" not in known:
                return OPEN
            holds = holds and max(known, key=lambda category: known[category]) == "wide-short"
            parts.append(f"{scheme.label} {KIND_LABELS[kind]} {known['wide-short']:.1f}")
    return _finding(holds, ", ".join(parts))


def _high_priority(means: P1Means, week: str) -> Finding:
    before = means.slowdown(P1Combination(week=week, scheme=BASELINE.name), URGENT)
    after = means.slowdown(P1Combination(week=week, scheme="high-priority"), URGENT)
    if before is None or after is None:
        return OPEN
    return _finding(after * 4 <= before, _measured((before, after)))


def _preemption(means: P1Means, week: str) -> Finding:
    found = {
        name: means.slowdown(P1Combination(week=week, scheme=name), URGENT)
        for name in ("high-priority", "preemptive-no", "preemptive-jit")
    }
    if any(value is None for value in found.values()):
        return OPEN
    values = {name: value for name, value in found.items() if value is not None}
    holds = values["high-priority"] > NEAR_ONE >= max(values["preemptive-no"], values["preemptive-jit"])
    return _finding(holds, ", ".join(f"{name} {value:.2f}" for name, value in values.items()))


def _batch_benefits(means: P1Means, week: str) -> Finding:
    before = means.slowdown(P1Combination(week=week, scheme=BASELINE.name), BATCH)
    parts: list[str] = []
    holds = True
    for name in ("high-priority", "preemptive-jit"):
        after = means.slowdown(P1Combination(week=week, scheme=name), BATCH)
        if before is None or after is None:
            return OPEN
        holds = holds and after < before
        parts.append(f"{name} {_measured((before, after))}")
    return _finding(holds, ", ".join(parts))


_SENTENCES = (
    _Sentence(
        key="urgent-gain",
        says=(
            "With 10% real-time jobs, JIT-CKPT and WCJS improve their slowdown by 35%, from 1.94 to 1.25 "
            "(7.2)."
        ),
        criterion=f"at least {GAIN:.0%} less",
        finding=_urgent_gain,
    ),
    _Sentence(
        key="batch-cost",
        says="The slowdown of batch jobs rises by no more than 10%, from 2.26 to 2.51 (7.2).",
        criterion=f"at most {COST:.0%} more",
        finding=_batch_cost,
    ),
    _Sentence(
        key="order-batch",
        says="For batch jobs JIT-CKPT is better than APP-CKPT-5%, and that better than APP-CKPT-10% (7.2).",
        criterion="in this order, over all shares",
        finding=_ordered(BATCH),
    ),
    _Sentence(
        key="order-urgent",
        says=(
            "For real-time jobs JIT-CKPT is better than APP-CKPT-5%, and that better than APP-CKPT-10% (7.2)."
        ),
        criterion="in this order, over all shares",
        finding=_ordered(URGENT),
    ),
    _Sentence(
        key="urgent-categories",
        says="Real-time jobs of all four categories improve, by 20% to 80% (7.2).",
        criterion="all that have jobs",
        finding=_every_category_gains,
    ),
    _Sentence(
        key="batch-categories",
        says=(
            "In three of the categories batch jobs lose less than 10%; only narrow-short ones lose more "
            "(7.2)."
        ),
        criterion="at most one category loses more",
        finding=_batch_categories,
    ),
    _Sentence(
        key="narrow-long",
        says="Narrow-long real-time jobs have a median of 1.08 (7.2).",
        criterion=f"at most {NARROW_LONG_MEDIAN:.2f}",
        finding=_narrow_long,
    ),
    _Sentence(
        key="urgent-below-batch",
        says="Real-time jobs have lower slowdowns than batch jobs in all figures (7.2).",
        criterion="means, every share and heuristic",
        finding=_urgent_below_batch,
    ),
    _Sentence(
        key="more-urgent-jobs",
        says="With more real-time jobs the performance of batch jobs decreases (7.2).",
        criterion="more at the largest share than at the smallest",
        finding=_more_urgent_jobs_cost,
    ),
    _Sentence(
        key="urgent-stay",
        says="The share of real-time jobs makes no clear difference to themselves (7.2).",
        criterion=f"within {LEVEL:.0%}",
        finding=_urgent_stay,
    ),
    _Sentence(
        key="wide-short",
        says="Wide-short jobs are the outliers, under the baseline and the heuristics alike (7.2).",
        criterion="the highest mean of the four categories",
        finding=_wide_short,
    ),
    _Sentence(
        key="high-priority",
        says="A high-priority queue reduces the slowdown of real-time jobs four times or more (4).",
        criterion="a quarter or less",
        finding=_high_priority,
    ),
    _Sentence(
        key="preemption",
        says="Preemption is required to bring the average slowdown of real-time jobs close to 1 (4).",
        criterion=f"at most {NEAR_ONE} with it, more with the queue alone",
        finding=_preemption,
    ),
    _Sentence(
        key="batch-benefits",
        says="The high-priority queue and the preemptive schemes benefit batch jobs too (4).",
        criterion="less than under the baseline",
        finding=_batch_benefits,
    ),
)
