"""P4's claims on its plans, checked on those made here.

Reference:
    Schlagkamp et al., "Increasing Waiting Time Satisfaction in Parallel Job Scheduling via a Flexible MILP
    Approach" (HPCS 2016), section V-C, figures 4 and 5; the last two claims are what it leaves open (sections
    III and VI).
"""

from collections.abc import Callable, Sequence
from statistics import fmean, median

from makeway.policies.horizon.plan import AcceptanceCurve
from makeway.simharness.papers.common.claims import Claim, ClaimStatus, Finding, check
from makeway.simharness.papers.p4.cases import (
    HORIZON,
    LATE,
    PAPER_LIMIT_S,
    SCALE,
    TARDINESS,
    MonthResult,
    P4Result,
)

IMPROVEMENT = {AcceptanceCurve.MEDIAN: 0.206, AcceptanceCurve.UPPER: 0.322}
"""By how much the paper's plans are better in sum of T, on average."""
PAPER_EASY = "conservative backfilling, which the paper calls EASY"
"""The paper's baseline; EASY is the usual one here."""
PROVEN_SHARE = 0.8
SHORT_QUEUE = 16


def claims(cases: Sequence[P4Result], months: Sequence[MonthResult]) -> list[Claim]:
    """Every claim, checked."""
    found = [
        _claim(
            "late-not-worse",
            "Never more late jobs than under EASY (figure 4a)",
            f"no scenario with more than under {PAPER_EASY}, or under EASY",
            _not_worse,
            _of(cases, LATE),
        ),
        _claim(
            "late-proven",
            "80% of the scenarios with late jobs as objective are solved optimally in the limit (figure 4c)",
            f"at least {PROVEN_SHARE:.0%} proven",
            _proven,
            _of(cases, LATE),
            averaged=True,
        ),
        _claim(
            "tardiness-not-worse",
            "The sum of tardiness is never more than under EASY (section V-C: but for three scenarios)",
            f"no scenario with more than under {PAPER_EASY}, or under EASY",
            _not_worse,
            _of(cases, TARDINESS),
        ),
    ]
    found += [_improvement(cases, curve, share) for curve, share in IMPROVEMENT.items()]
    found.append(
        _claim(
            "makespan",
            f"C_max is smaller for all queues of up to about {SHORT_QUEUE} jobs (figure 5b)",
            f"never larger than under {PAPER_EASY}, with up to {SHORT_QUEUE} jobs",
            _makespan,
            [case for case in _of(cases, TARDINESS) if case.jobs <= SHORT_QUEUE],
        )
    )
    found.append(_scale([case for case in cases if case.scale]))
    found.append(_months(months))
    return found


def _improvement(cases: Sequence[P4Result], curve: str, share: float) -> Claim:
    """How much tardiness falls on KTH under one curve of what users accept."""
    return _claim(
        f"tardiness-{curve}",
        f"On KTH the sum of tardiness improves by {share:.1%} on average under the {curve} curve "
        f"(section V-C)",
        f"at least {share:.1%} against {PAPER_EASY}",
        _improves(share),
        [case for case in _of(cases, TARDINESS) if case.curve == curve and case.trace == "KTH"],
        averaged=True,
    )


def _of(cases: Sequence[P4Result], objective: str) -> list[P4Result]:
    return [case for case in cases if case.objective == objective and not case.scale]


def _claim(
    key: str,
    says: str,
    criterion: str,
    finding: Callable[[Sequence[P4Result]], Finding],
    cases: Sequence[P4Result],
    *,
    averaged: bool = False,
) -> Claim:
    """A claim on scenarios, seed by seed."""
    seeds = sorted({case.seed for case in cases})
    by_seed = [(seed, [case for case in cases if case.seed == seed]) for seed in seeds]
    return check(key, says, criterion, finding, by_seed, averaged=averaged)


def _standing(holds: bool) -> ClaimStatus:
    return ClaimStatus.HOLDS if holds else ClaimStatus.FAILS


def _not_worse(cases: Sequence[P4Result]) -> Finding:
    worse = sum(
        case.value(case.ours) > min(case.value(case.easy), case.value(case.conservative)) for case in cases
    )
    better = sum(
        case.value(case.ours) < min(case.value(case.easy), case.value(case.conservative)) for case in cases
    )
    text = f"{worse} of {len(cases)} scenarios worse, {better} better"
    return Finding(standing=_standing(worse == 0), measured=text)


def _proven(cases: Sequence[P4Result]) -> Finding:
    count = sum(case.proven for case in cases)
    standing = _standing(bool(cases) and count >= PROVEN_SHARE * len(cases))
    return Finding(standing=standing, measured=f"{count} of {len(cases)} proven")


def _improves(share: float) -> Callable[[Sequence[P4Result]], Finding]:
    def finding(cases: Sequence[P4Result]) -> Finding:
        found = _known([case.improvement(case.conservative) for case in cases])
        if not found:
            return Finding(
                standing=ClaimStatus.OPEN, measured="no job is late under conservative backfilling"
            )
        possible = fmean(_known([case.possible(case.conservative) for case in cases]))
        on_easy = _known([case.improvement(case.easy) for case in cases])
        text = (
            f"against conservative backfilling {fmean(found):.1%} on average, median {median(found):.1%}, "
            f"over {len(found)} scenarios; no plans reach more than {possible:.1%}; against EASY "
            f"{f'{fmean(on_easy):.1%} on average' if on_easy else 'no job is late'}"
        )
        return Finding(standing=_standing(fmean(found) >= share), measured=text)

    return finding


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _makespan(cases: Sequence[P4Result]) -> Finding:
    if not cases:
        return Finding(standing=ClaimStatus.OPEN, measured="no queue is so short")
    on_conservative = [case.ours.makespan_s - case.conservative.makespan_s for case in cases]
    on_easy = [case.ours.makespan_s - case.easy.makespan_s for case in cases]
    longer, shorter = (
        [sum(sign * change_s > 0 for change_s in changes_s) for changes_s in (on_conservative, on_easy)]
        for sign in (1, -1)
    )
    text = (
        f"of {len(cases)} scenarios {longer[0]} longer than under conservative backfilling, {shorter[0]} "
        f"shorter; {longer[1]} longer than under EASY, {shorter[1]} shorter"
    )
    return Finding(standing=_standing(longer[0] == 0), measured=text)


def _scale(cases: Sequence[P4Result]) -> Claim:
    parts: list[tuple[str, Finding]] = []
    for case in cases:
        limit_s = PAPER_LIMIT_S[case.objective]
        bases = [case.value(case.easy), case.value(case.conservative)]
        ours = case.value(case.ours)
        holds = case.wall_s <= limit_s and ours <= min(bases) and case.jobs == SCALE[case.objective]
        text = (
            f"EASY {bases[0]:,}, conservative {bases[1]:,}, ours {ours:,}, gap {case.gap:.1%}, "
            f"{case.wall_s:.0f} s"
        )
        parts.append((f"{case.objective}, {case.curve}", Finding(standing=_standing(holds), measured=text)))
    return Claim(
        key="scale",
        says="Queues of up to 350 jobs for late jobs and 30 for tardiness can be planned (section VI)",
        criterion=(
            f"{SCALE[LATE]:,} and {SCALE[TARDINESS]} jobs within the paper's time limits, not worse than "
            "conservative backfilling or EASY"
        ),
        measured="; ".join(f"{name}: {finding.measured}" for name, finding in parts),
        parts=tuple(parts),
        unit="queue",
    )


def _months(months: Sequence[MonthResult]) -> Claim:
    """Sections III and VI leave it open whether horizons one after another are worth it."""
    parts: list[tuple[str, Finding]] = []
    for mine in months:
        if mine.policy != HORIZON:
            continue
        (base,) = [
            one
            for one in months
            if one.policy != HORIZON and (one.curve, one.objective) == (mine.curve, mine.objective)
        ]
        if mine.objective == LATE:
            holds, text = mine.late <= base.late, f"{base.late} late jobs, with horizons {mine.late}"
        else:
            holds = mine.tardiness_mean_h <= base.tardiness_mean_h
            text = f"{base.tardiness_mean_h:.2f} h tardiness, with horizons {mine.tardiness_mean_h:.2f} h"
        parts.append((f"{mine.objective}, {mine.curve}", Finding(standing=_standing(holds), measured=text)))
    return Claim(
        key="months",
        says=(
            "Horizons one after another distribute waiting times better (sections III and VI; not "
            "evaluated there)"
        ),
        criterion="not more late jobs, or tardiness, than under EASY",
        measured="; ".join(f"{name}: {finding.measured}" for name, finding in parts),
        parts=tuple(parts),
        unit="replay",
    )
