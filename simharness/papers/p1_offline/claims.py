"""What P1 claims on its formulation, and what is required of the one here and of policy least-price.

Reference:
    Nickolay et al., "Towards Accommodating Real-time Jobs on HPC Platforms" (arXiv 2021), sections 5.5 and
    7.3.
"""

from collections.abc import Callable, Sequence

from makeway.simharness.papers.common.claims import Claim, ClaimStatus, Finding
from makeway.simharness.papers.p1_offline.cases import OfflineResult, figure, mean_of, solved
from makeway.simharness.papers.p1_offline.logs import TABLE_2
from makeway.simharness.papers.p1_offline.optimum import RTJ_LIMIT

WANTED_S = 10.0
"""How long the largest row of table 2 may take."""
PAPER_BATCH, PAPER_URGENT = 1.50, 1.08
PAPER_WCJS = (2.54, 1.50)
MOST_ABOVE = 0.15
"""How far policy least-price may be above the optimum."""


def claims(cases: Sequence[OfflineResult]) -> list[Claim]:
    """The paper's claims on its formulation, and what was required of the one here and of least-price."""
    return [_proven(cases), _fast(cases), _urgent_first(cases), _behind(cases), _own_behind(cases)]


def _proven(cases: Sequence[OfflineResult]) -> Claim:
    parts: list[tuple[str, Finding]] = []
    for size in TABLE_2:
        mine = [case for case in cases if case.size == size]
        optimal = sum(case.proven for case in mine)
        standing = ClaimStatus.HOLDS if optimal == len(mine) else ClaimStatus.FAILS
        name = f"{size[0]}+{size[1]} on {size[2]}"
        parts.append((name, Finding(standing=standing, measured=f"{optimal} of {len(mine)} logs")))
    rows = [case for case in cases if case.size in TABLE_2]
    return Claim(
        key="table-2-proven",
        says="The nine sizes of table 2 are solved to optimality (section 5.5)",
        criterion="proven optimal in every log",
        measured=f"{sum(case.proven for case in rows)} of {len(rows)} logs",
        parts=tuple(parts),
        unit="size",
    )


def _fast(cases: Sequence[OfflineResult]) -> Claim:
    mine = [case for case in cases if case.size == TABLE_2[-1]]
    found = [(case.seed, Finding(standing=_within(case), measured=f"{case.wall_s:.2f} s")) for case in mine]
    return Claim(
        key="table-2-time",
        says="4 BJ and 3 RTJ on 16 blocks take 11 h 52 min on 32 cores (table 2)",
        criterion=f"proven within {WANTED_S:.0f} s",
        measured=f"{max(case.wall_s for case in mine):.2f} s at most",
        parts=tuple(found),
    )


def _within(case: OfflineResult) -> ClaimStatus:
    return ClaimStatus.HOLDS if case.proven and case.wall_s <= WANTED_S else ClaimStatus.FAILS


def _urgent_first(cases: Sequence[OfflineResult]) -> Claim:
    mine = solved(cases)
    parts: list[tuple[int, Finding]] = []
    for case in mine:
        assert case.batch_slowdown is not None
        assert case.urgent_slowdown is not None
        better = case.urgent_slowdown <= case.batch_slowdown
        text = f"RTJ {case.urgent_slowdown:.2f}, BJ {case.batch_slowdown:.2f}"
        parts.append(
            (case.seed, Finding(standing=ClaimStatus.HOLDS if better else ClaimStatus.FAILS, measured=text))
        )
    batch, urgent = mean_of(mine, "batch_slowdown"), mean_of(mine, "urgent_slowdown")
    holds = batch is not None and urgent is not None and urgent <= float(RTJ_LIMIT) <= batch
    return Claim(
        key="table-3",
        says=(
            f"At the optimum BJ have a slowdown of {PAPER_BATCH:.2f} and RTJ of {PAPER_URGENT:.2f} (table 3)"
        ),
        criterion="on average RTJ at most 1.2, and BJ above",
        measured=f"BJ {figure(batch)}, RTJ {figure(urgent)} over {len(mine)} logs",
        average=ClaimStatus.HOLDS if holds else ClaimStatus.FAILS,
        parts=tuple(parts),
        unit="log",
    )


def _behind(cases: Sequence[OfflineResult]) -> Claim:
    """How far WCJS is from the optimum."""
    mine = [case for case in solved(cases) if case.wcjs_batch_slowdown is not None]

    def distance(cases: Sequence[OfflineResult]) -> Finding:
        return _distance(cases, "wcjs", lambda batch, urgent: batch > 1.0 and urgent > 1.0)

    everything = distance(mine)
    return Claim(
        key="table-3-wcjs",
        says="WCJS is 69% worse than the optimum for BJ and 38% for RTJ (table 3)",
        criterion="worse for both on average",
        measured=f"{everything.measured} over {len(mine)} logs",
        average=everything.standing,
        parts=tuple((case.seed, distance([case])) for case in mine),
        unit="log",
    )


def _own_behind(cases: Sequence[OfflineResult]) -> Claim:
    """How far least-price is from the optimum."""
    mine = [case for case in solved(cases) if case.own_batch_slowdown is not None]
    found = _distance(mine, "own", lambda batch, urgent: max(batch, urgent) <= 1.0 + MOST_ABOVE)
    return Claim(
        key="table-3-least-price",
        says=f"least-price, which the paper does not have, is at most {MOST_ABOVE:.0%} above the optimum",
        criterion="for BJ and for RTJ, on average",
        measured=f"{found.measured} over {len(mine)} logs",
        average=found.standing,
        parts=(),
        unit="log",
    )


def _distance(cases: Sequence[OfflineResult], scheme: str, holds: Callable[[float, float], bool]) -> Finding:
    """How far a scheme is from the optimum.

    `holds`: whether the claim does, by the ratios to the optimum of batch and of urgent jobs.
    """
    batch, urgent = mean_of(cases, "batch_slowdown"), mean_of(cases, "urgent_slowdown")
    other_batch, other_urgent = (mean_of(cases, f"{scheme}_{kind}_slowdown") for kind in ("batch", "urgent"))
    if batch is None or urgent is None or other_batch is None or other_urgent is None:
        return Finding(standing=ClaimStatus.OPEN, measured="no log was solved")
    ratios = (other_batch / batch, other_urgent / urgent)
    text = (
        f"BJ {other_batch:.2f} to {batch:.2f} ({ratios[0] - 1:+.0%}), RTJ {other_urgent:.2f} to "
        f"{urgent:.2f} ({ratios[1] - 1:+.0%})"
    )
    return Finding(standing=ClaimStatus.HOLDS if holds(*ratios) else ClaimStatus.FAILS, measured=text)
