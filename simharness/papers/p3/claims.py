"""P3's claims, each with the criterion by which it holds, checked on each trace.

Reference:
    Niu et al., "Employing Checkpoint to Improve Job Scheduling in Large-Scale Systems" (JSSPP 2012), sections
    4 and 5.2.

Differs from the paper:
    It says what it found in words and draws the rest: the criteria put numbers to the words. Overhead was
    measured on Intrepid there, whose trace is not to be had; here on the three other traces.
"""

from collections.abc import Callable
from dataclasses import dataclass

from makeway.simharness.papers.common.claims import Claim, ClaimStatus, Finding
from makeway.simharness.papers.p3.cases import ALPHAS, EXTENDS_S, P_VALUES, P3Result, P3Results

FAVOURED = (0.1, 0.2)
"""The values of p that the paper recommends."""
UP_TO = 0.4
HALF = 0.5
INTREPID_EXTEND_S = 430.0
SLOWDOWN_GAIN = 0.2
FEW_JOBS = 0.04
FEW_CHECKPOINTS = 0.4
LITTLE_WASTE = 0.015
TWICE = 2.0
SAME = 0.02
"""Gains that differ by less are the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sentence:
    key: str
    says: str
    criterion: str
    finding: Callable[[P3Results, str], Finding]
    """What a trace says of it."""
    traces: tuple[str, ...] = ()
    """The traces of which the paper says it. Empty: all."""
    one_is_enough: bool = False
    """Whether the paper says so of the best of the traces."""


def claims(results: P3Results) -> tuple[Claim, ...]:
    """Every claim, checked on each of the traces of which the paper makes it."""
    return tuple(_claim(sentence, results) for sentence in _SENTENCES)


def _claim(sentence: _Sentence, results: P3Results) -> Claim:
    parts = [
        (trace, sentence.finding(results, trace))
        for trace in results.traces
        if not sentence.traces or trace in sentence.traces
    ]
    measured = "; ".join(f"{trace}: {finding.measured}" for trace, finding in parts)
    if sentence.one_is_enough:
        holds = any(finding.standing is ClaimStatus.HOLDS for _, finding in parts)
        whole = Finding(standing=ClaimStatus.HOLDS if holds else ClaimStatus.FAILS, measured=measured)
        parts = [("the best", whole)]
    return Claim(
        key=sentence.key,
        says=sentence.says,
        criterion=sentence.criterion,
        measured=measured,
        parts=tuple(parts),
        unit="trace",
    )


def gain(before: float, after: float) -> float:
    """By which share of what it was something has become less; below 0: more. 0 if there was nothing."""
    return 1 - after / before if before else 0.0


def percent(share: float) -> str:
    """A change as the tables write it: a gain of 0.18 is −18%."""
    rounded = round(100 * share)
    return f"{'−' if rounded > 0 else '+' if rounded < 0 else '±'}{abs(rounded)}%"


def _finding(holds: bool, measured: str) -> Finding:
    return Finding(standing=ClaimStatus.HOLDS if holds else ClaimStatus.FAILS, measured=measured)


def _gains(before: P3Result, after: P3Result) -> str:
    return (
        f"wait {percent(gain(before.wait_s, after.wait_s))}, slowdown "
        f"{percent(gain(before.slowdown, after.slowdown))}, queue "
        f"{percent(gain(before.queue_length, after.queue_length))}"
    )


def _better(results: P3Results, trace: str) -> Finding:
    return _beats(results.classical(trace), results.early(trace))


def _better_than_ideal(results: P3Results, trace: str) -> Finding:
    return _beats(results.classical(trace, alpha=0.0), results.early(trace))


def _beats(classical: P3Result, early: P3Result) -> Finding:
    """Whether jobs wait less and more of them pass others."""
    holds = early.wait_s < classical.wait_s and early.backfill_ratio > classical.backfill_ratio
    wait = percent(gain(classical.wait_s, early.wait_s))
    return _finding(
        holds,
        f"wait {wait}, backfilled {100 * classical.backfill_ratio:.0f}% → {100 * early.backfill_ratio:.0f}%",
    )


def _best_p(results: P3Results, trace: str) -> Finding:
    waits_s = {p: results.early(trace, p).wait_s for p in P_VALUES}
    best = min(waits_s, key=lambda p: (waits_s[p], p))
    texts = ", ".join(f"{p:g}: {wait_s / 60:.1f}" for p, wait_s in waits_s.items())
    return _finding(best in FAVOURED, f"{texts} min")


def _up_to(results: P3Results, trace: str) -> Finding:
    classical = results.classical(trace)
    best = min((results.early(trace, p) for p in FAVOURED), key=lambda one: one.wait_s)
    gains = (
        gain(classical.wait_s, best.wait_s),
        gain(classical.slowdown, best.slowdown),
        gain(classical.queue_length, best.queue_length),
    )
    return _finding(min(gains) >= UP_TO - SAME, _gains(classical, best))


def _slowdown_halved(results: P3Results, trace: str) -> Finding:
    classical = results.classical(trace).slowdown
    best = min(results.early(trace, p).slowdown for p in FAVOURED)
    return _finding(gain(classical, best) > HALF, f"{classical:.1f} → {best:.1f}")


def _ideal_slowdown(results: P3Results, trace: str) -> Finding:
    ideal, early = results.classical(trace, alpha=0.0).slowdown, results.early(trace).slowdown
    classical = results.classical(trace).slowdown
    text = f"{early:.1f}; classical {classical:.1f}, with the actual run times {ideal:.1f}"
    if trace == "HPC2N":
        return _finding(early <= ideal, text)
    return _finding(ideal < early < classical, text)


def _wait_is_queue(results: P3Results, trace: str) -> Finding:
    classical, early = results.classical(trace), results.early(trace)
    wait, queue = (
        gain(classical.wait_s, early.wait_s),
        gain(classical.queue_length, early.queue_length),
    )
    return _finding(abs(wait - queue) < SAME, f"wait {percent(wait)}, queue {percent(queue)}")


def _spread(outcomes: list[P3Result]) -> float:
    """By how many times the slowdown differs at most."""
    slowdowns = [one.slowdown for one in outcomes]
    return max(slowdowns) / min(slowdowns)


def _classical_suffers(results: P3Results, trace: str) -> Finding:
    right, wrong = (results.classical(trace, alpha=alpha).slowdown for alpha in (0.0, 1.0))
    return _finding(wrong > TWICE * right, f"{right:.1f} → {wrong:.1f}")


def _stable(results: P3Results, trace: str) -> Finding:
    classical = _spread([results.classical(trace, alpha=alpha) for alpha in ALPHAS])
    early = _spread([results.early(trace, alpha=alpha) for alpha in ALPHAS])
    return _finding(early < classical, f"{early:.2f} times, classical {classical:.2f} times")


def _overhead(results: P3Results, trace: str) -> Finding:
    classical = results.classical(trace)
    found = [results.early(trace, extend_s=extend_s) for extend_s in EXTENDS_S[1:]]
    holds = all(one.wait_s < classical.wait_s and one.slowdown < classical.slowdown for one in found)
    return _finding(holds, f"at worst ({EXTENDS_S[-1]:.0f} s) {_gains(classical, found[-1])}")


def _overhead_slowdown(results: P3Results, trace: str) -> Finding:
    classical = results.classical(trace).slowdown
    early = results.early(trace, extend_s=INTREPID_EXTEND_S).slowdown
    return _finding(gain(classical, early) >= SLOWDOWN_GAIN - SAME, percent(gain(classical, early)))


def _few(results: P3Results, trace: str) -> Finding:
    found = results.early(trace, extend_s=INTREPID_EXTEND_S)
    holds = (
        found.preempted_ratio <= 1.5 * FEW_JOBS and found.checkpoints_per_node_day <= 1.5 * FEW_CHECKPOINTS
    )
    return _finding(
        holds,
        (
            f"{100 * found.preempted_ratio:.1f}% of the jobs, {found.checkpoints_per_node_day:.2f} a node "
            "and day"
        ),
    )


def _waste(results: P3Results, trace: str) -> Finding:
    most = max(results.early(trace, extend_s=extend_s).wasted_ratio for extend_s in EXTENDS_S)
    return _finding(most <= LITTLE_WASTE, f"at most {100 * most:.2f}%")


_SENTENCES = (
    _Sentence(
        key="better",
        says=(
            "Checkpoint-based backfilling is better than the classical algorithm in wait and backfill "
            "ratio (4.1)."
        ),
        criterion="less wait and more jobs backfilled with p = 0.2",
        finding=_better,
    ),
    _Sentence(
        key="better_than_ideal",
        says=(
            "It is better than the classical algorithm with the actual run times in wait and backfill "
            "ratio (4.1)."
        ),
        criterion="less wait and more jobs backfilled with p = 0.2",
        finding=_better_than_ideal,
    ),
    _Sentence(
        key="best_p",
        says="p = 0.1 or 0.2 is best (4.1).",
        criterion="the shortest mean wait of the four values of p",
        finding=_best_p,
    ),
    _Sentence(
        key="up_to_40",
        says="Wait, slowdown and queue length are up to 40% better (abstract).",
        criterion="each of them by 40% (38% and more) on one trace, with the better of p = 0.1 and 0.2",
        finding=_up_to,
        one_is_enough=True,
    ),
    _Sentence(
        key="slowdown_halved",
        says="On CTC and HPC2N the slowdown is more than 50% better (4.1).",
        criterion="less than half with p = 0.1 or 0.2",
        finding=_slowdown_halved,
        traces=("CTC", "HPC2N"),
    ),
    _Sentence(
        key="ideal_slowdown",
        says="Except on HPC2N the slowdown lies between that of the classical algorithm with the actual run "
        "times and that with the users' limits (4.1).",
        criterion="between them with p = 0.2; on HPC2N below both",
        finding=_ideal_slowdown,
    ),
    _Sentence(
        key="wait_is_queue",
        says="Wait and queue length are equivalent (4).",
        criterion="gains that differ by less than 2 points",
        finding=_wait_is_queue,
    ),
    _Sentence(
        key="classical_suffers",
        says=(
            "On CTC and HPC2N the classical slowdown more than doubles when time limits are those of the "
            "users (4.2)."
        ),
        criterion="more than twice as much at α = 1 as at α = 0",
        finding=_classical_suffers,
        traces=("CTC", "HPC2N"),
    ),
    _Sentence(
        key="stable",
        says=(
            "Checkpoint-based backfilling depends less on how good time limits are, above all its slowdown "
            "(4.2)."
        ),
        criterion="the slowdowns at α = 0, 0.5, 1 differ by a smaller factor",
        finding=_stable,
    ),
    _Sentence(
        key="overhead",
        says="With what checkpoints cost it still outperforms the classical algorithm (5.2).",
        criterion="less wait and slowdown at every T_extend up to 3600 s",
        finding=_overhead,
    ),
    _Sentence(
        key="overhead_slowdown",
        says="With what checkpoints cost the slowdown is about 20% better (5.2, on Intrepid).",
        criterion="by 20% (18% and more) at T_extend = 430 s",
        finding=_overhead_slowdown,
    ),
    _Sentence(
        key="few",
        says="Only 4% of the jobs are checkpointed, each node about 0.4 times a day (5.2, on Intrepid).",
        criterion="at most 6% and 0.6 at T_extend = 430 s",
        finding=_few,
    ),
    _Sentence(
        key="waste",
        says="The waste is not more than 1.5% of the machine (5.2, on Intrepid).",
        criterion="at most 1.5% at every T_extend",
        finding=_waste,
    ),
)
