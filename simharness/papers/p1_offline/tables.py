"""P1's tables of its offline optimum, and how far schemes are above it that know no job in advance."""

from collections.abc import Sequence
from statistics import fmean

from makeway.simharness.papers.common.page import TextGrid
from makeway.simharness.papers.p1_offline.cases import (
    REPLAYED,
    OfflineResult,
    figure,
    mean_of,
    solved,
)
from makeway.simharness.papers.p1_offline.claims import PAPER_BATCH, PAPER_URGENT, PAPER_WCJS
from makeway.simharness.papers.p1_offline.logs import TABLE_2, TABLE_3
from makeway.simharness.papers.p1_offline.optimum import RTJ_LIMIT
from makeway.simharness.results.paired import mean_quotient

PAPER_TIMES = ("3 s", "4 s", "11 s", "7 s", "15 s", "1 min 20 s", "43 s", "11 min 14 s", "11 h 52 min")
_NAMES = {
    "base": "no precedence",
    "queue": "front of the queue",
    "wcjs": "WCJS, JIT-CKPT",
    "own": "least-price, JIT-CKPT",
}


def grids(cases: Sequence[OfflineResult]) -> tuple[TextGrid, ...]:
    """All tables."""
    return table_2(cases), table_3(cases), above_optimum(cases)


def table_2(cases: Sequence[OfflineResult]) -> TextGrid:
    """How long each row took, over its logs."""
    rows: list[tuple[str, ...]] = []
    for size, paper in zip(TABLE_2, PAPER_TIMES, strict=True):
        mine = [case for case in cases if case.size == size]
        batch, urgent, blocks = size
        rows.append(
            (
                f"{batch} BJ + {urgent} RTJ, {blocks} blocks",
                paper,
                f"{fmean(case.wall_s for case in mine):.2f} s",
                f"{max(case.wall_s for case in mine):.2f} s",
                f"{sum(case.proven for case in mine)} of {len(mine)}",
            )
        )
    head = ("size", "paper, 32 cores", "mean", "slowest", "proven optimal")
    return TextGrid(heading="Table 2: time to solve", head=head, rows=tuple(rows))


def table_3(cases: Sequence[OfflineResult]) -> TextGrid:
    """The optimum of each log, and the average."""
    mine = solved(cases)
    rows: list[tuple[str, ...]] = [
        (
            f"log {case.seed + 1}",
            figure(case.batch_slowdown),
            figure(case.urgent_slowdown),
            figure(case.urgent_limit),
            str(case.interrupted),
            "yes" if case.proven else "no",
            figure(case.wcjs_batch_slowdown),
            figure(case.wcjs_urgent_slowdown),
            figure(case.own_batch_slowdown),
            figure(case.own_urgent_slowdown),
        )
        for case in cases
        if case.size == TABLE_3
    ]
    replayed = [f"{who}_{kind}_slowdown" for who in ("wcjs", "own") for kind in ("batch", "urgent")]
    names = ("batch_slowdown", "urgent_slowdown", "", "", "", *replayed)
    rows.append(("mean", *(figure(mean_of(mine, name)) if name else "" for name in names)))
    paper = (f"{value:.2f}" for value in (PAPER_BATCH, PAPER_URGENT, float(RTJ_LIMIT)))
    rows.append(("paper", *paper, "", "", *(f"{value:.2f}" for value in PAPER_WCJS), "", ""))
    schemes = ("WCJS BJ", "WCJS RTJ", "least-price BJ", "least-price RTJ")
    head = ("log", "BJ slowdown", "RTJ slowdown", "RTJ limit", "interrupted", "proven", *schemes)
    return TextGrid(heading="Table 3: the optimum, WCJS and least-price", head=head, rows=tuple(rows))


def above_optimum(cases: Sequence[OfflineResult]) -> TextGrid:
    """The average slowdowns of table 3 as ratios to those of the optimum, with 95% intervals."""
    mine = solved(cases)
    rows: list[tuple[str, ...]] = [
        (
            "optimum",
            figure(mean_of(mine, "batch_slowdown")),
            "1",
            figure(mean_of(mine, "urgent_slowdown")),
            "1",
        )
    ]
    for key in REPLAYED:
        cells = [_NAMES[key]]
        for kind in ("batch", "urgent"):
            name = f"{kind}_slowdown"
            cells += [figure(mean_of(mine, f"{key}_{name}")), _to_optimum(mine, f"{key}_{name}", name)]
        rows.append(tuple(cells))
    head = ("scheme", "BJ slowdown", "to optimum", "RTJ slowdown", "to optimum")
    return TextGrid(heading=f"Averages of {len(mine)} logs", head=head, rows=tuple(rows))


def _to_optimum(cases: Sequence[OfflineResult], name: str, optimum: str) -> str:
    """The ratio of the averages, with its interval."""
    both = [(getattr(case, name), getattr(case, optimum)) for case in cases]
    found = mean_quotient([pair for pair in both if None not in pair])
    if found is None:
        return "none"
    if found.boot_low is None or found.boot_high is None:
        return f"{found.mean:.2f}"
    return f"{found.mean:.2f} [{found.boot_low:.2f}, {found.boot_high:.2f}]"
