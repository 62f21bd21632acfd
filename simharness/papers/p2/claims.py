"""What P2 says of its experiment, each sentence with the criterion by which it holds here.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section IV-E.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from makeway.simharness.papers.common.claims import Claim, ClaimStatus, Finding, check
from makeway.simharness.papers.p2.cases import DEADLINES_S, P2Result

SLOWER = 1e5
"""Five orders of magnitude."""
FASTER = 30.0
WORSE_NODE_HOURS = 10.0
MILLISECONDS_S = 0.01
_LARGEST, _SMALLEST = 3, (1, 512)
_LATE_S = 13 * 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sentence:
    key: str
    says: str
    criterion: str
    finding: Callable[[Sequence[P2Result]], Finding]


def claims(cases: Sequence[P2Result]) -> tuple[Claim, ...]:
    """Every claim, checked on each seed. There must be a case of every scenario."""
    seeds = sorted({case.seed for case in cases})
    by_seed = [(seed, [case for case in cases if case.seed == seed]) for seed in seeds]
    return tuple(
        check(sentence.key, sentence.says, sentence.criterion, sentence.finding, by_seed)
        for sentence in _SENTENCES
    )


def format_response(duration_s: float) -> str:
    """A response time: 187 µs, 2.05 ms, 20.3 s, 1,240 s."""
    if duration_s >= 1.0:
        value, unit = duration_s, "s"
    else:
        value, unit = (duration_s * 1e3, "ms") if duration_s >= 1e-3 else (duration_s * 1e6, "µs")
    return f"{_three_digits(value)} {unit}"


def format_times(ratio: float) -> str:
    """A ratio: 5.71 times, 1,240 times."""
    return f"{_three_digits(ratio)} times"


def _same_optimum(cases: Sequence[P2Result]) -> Finding:
    pairs = [
        (run.plan, exact) for case in cases for run, exact in zip(case.backtracking, case.exact, strict=False)
    ]
    equal = sum(
        (mine.loss_node_s, mine.checkpoint_steps) == (exact.loss_node_s, exact.checkpoint_steps)
        for mine, exact in pairs
    )
    asked = len(cases) * len(DEADLINES_S)
    text = f"{equal} of {len(pairs)} the same, loss and checkpoint time"
    if len(pairs) < asked:
        text += f"; {asked - len(pairs)} of {asked} not finished within the budget"
    if not pairs:
        return Finding(standing=ClaimStatus.OPEN, measured=text)
    return Finding(standing=ClaimStatus.HOLDS if equal == len(pairs) else ClaimStatus.FAILS, measured=text)


def _slowdown(case: P2Result) -> float:
    """Backtracking's response time as a multiple of the exact programme's; a lower bound if it was
    stopped.
    """
    return case.backtracking_s / case.exact_s


def _backtracking_slower(cases: Sequence[P2Result]) -> Finding:
    largest = [case for case in cases if case.scenario == _LARGEST]
    worst = max(largest, key=_slowdown)
    stopped = any(case.stopped_s is not None for case in largest)
    text = f"{format_times(_slowdown(worst))} (K = {worst.wanted_nodes})"
    if worst.stopped_s is not None:
        text = f"at least {text}: stopped after {len(worst.backtracking)} of {len(DEADLINES_S)} deadlines"
    if _slowdown(worst) >= SLOWER:
        return Finding(standing=ClaimStatus.HOLDS, measured=text)
    return Finding(standing=ClaimStatus.OPEN if stopped else ClaimStatus.FAILS, measured=text)


def _backtracking_faster_if_small(cases: Sequence[P2Result]) -> Finding:
    small = [case for case in cases if (case.scenario, case.wanted_nodes) == _SMALLEST]
    text = f"{_span([_slowdown(case) for case in small])} times the time of the exact programme"
    faster = all(case.stopped_s is None and _slowdown(case) < 1 for case in small)
    return Finding(standing=ClaimStatus.HOLDS if faster else ClaimStatus.FAILS, measured=text)


def _greedy_faster(cases: Sequence[P2Result]) -> Finding:
    exact = [case.exact_s / case.greedy_s for case in cases]
    slow = [(case.backtracking_s / case.greedy_s, case.stopped_s is not None) for case in cases]
    text = f"{_span(exact)} times faster than exact, {_span([ratio for ratio, _ in slow])} than backtracking"
    below = [stopped for ratio, stopped in slow if ratio < FASTER]
    if min(exact) < FASTER or False in below:
        return Finding(standing=ClaimStatus.FAILS, measured=text)
    return Finding(standing=ClaimStatus.OPEN if below else ClaimStatus.HOLDS, measured=text)


def _greedy_worse(cases: Sequence[P2Result]) -> Finding:
    worst = [max(case.excess_node_hours) for case in cases]
    every = [hours for case in cases for hours in case.excess_node_hours]
    text = f"{_span(worst)} node-hours at the worst deadline; {sum(every) / len(every):.3g} on average"
    standing = ClaimStatus.HOLDS if min(worst) >= WORSE_NODE_HOURS else ClaimStatus.FAILS
    return Finding(standing=standing, measured=text)


def _excess_grows(cases: Sequence[P2Result]) -> Finding:
    growing = sum(_grows(case) for case in cases)
    standing = ClaimStatus.HOLDS if growing == len(cases) else ClaimStatus.FAILS
    return Finding(standing=standing, measured=f"in {growing} of {len(cases)} cases")


def _grows(case: P2Result) -> bool:
    """Whether it never falls, but for the last deadlines of the largest scenario."""
    excess = [
        hours
        for hours, deadline_s in zip(case.excess_node_hours, DEADLINES_S, strict=True)
        if case.scenario != _LARGEST or deadline_s <= _LATE_S
    ]
    return all(later >= earlier for earlier, later in pairwise(excess))


def _often_zero(cases: Sequence[P2Result]) -> Finding:
    first, last = (sum(case.exact[index].loss_node_s == 0 for case in cases) for index in (0, -1))
    text = f"{last} of {len(cases)} cases at 15 min, {first} at 0 min"
    return Finding(standing=ClaimStatus.HOLDS if 2 * last >= len(cases) else ClaimStatus.FAILS, measured=text)


def _milliseconds(cases: Sequence[P2Result]) -> Finding:
    times_s = [case.exact_s for case in cases]
    text = f"{_span([1000 * time_s for time_s in times_s])} ms"
    standing = ClaimStatus.HOLDS if max(times_s) < MILLISECONDS_S else ClaimStatus.FAILS
    return Finding(standing=standing, measured=text)


def _span(values: Sequence[float]) -> str:
    """The least and the greatest of some figures, to three digits; once if they are the same."""
    ends = (_three_digits(value) for value in (min(values), max(values)))
    return " to ".join(dict.fromkeys(ends))


def _three_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


_SENTENCES = (
    _Sentence(
        key="same_optimum",
        says="Exact programme and backtracking both produce the optimal solution.",
        criterion="the same in every case and at every deadline that backtracking finished",
        finding=_same_optimum,
    ),
    _Sentence(
        key="backtracking_slower",
        says="Backtracking is up to five orders of magnitude slower with 24 jobs.",
        criterion="100,000 times or more in the worst case of 24 jobs",
        finding=_backtracking_slower,
    ),
    _Sentence(
        key="backtracking_faster_if_small",
        says="With few jobs and a small K backtracking is faster than the exact programme.",
        criterion="less time for 12 jobs and K = 512",
        finding=_backtracking_faster_if_small,
    ),
    _Sentence(
        key="greedy_faster",
        says="Greedy is at least 30 times faster than both others, one run a deadline included.",
        criterion="30 times or more in every case",
        finding=_greedy_faster,
    ),
    _Sentence(
        key="greedy_worse",
        says="Greedy loses tens to hundreds of node-hours more than the least.",
        criterion="10 node-hours or more in every case, at its worst deadline",
        finding=_greedy_worse,
    ),
    _Sentence(
        key="excess_grows",
        says="What greedy loses in excess grows with the deadline, save beyond 13 min with 24 jobs.",
        criterion="never less at a later deadline, in every case",
        finding=_excess_grows,
    ),
    _Sentence(
        key="often_zero",
        says="The least loss is often 0, above all for long deadlines.",
        criterion="0 in half of the cases or more at 15 min",
        finding=_often_zero,
    ),
    _Sentence(
        key="milliseconds",
        says="The exact answer, for all deadlines, takes milliseconds in the worst case.",
        criterion="under 10 ms in every case",
        finding=_milliseconds,
    ),
)
