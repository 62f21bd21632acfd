"""`makeway reproduce p1-offline`: the offline optimum, P1's table 2 (its time) and table 3 (its value).

Reference:
    Nickolay et al., "Towards Accommodating Real-time Jobs on HPC Platforms" (arXiv 2021), sections 5.5 and
    7.3.

Differs from the paper:
    Its logs are not published, so they are drawn at random here (see `logs`), and the solver is CP-SAT, not
    CPLEX.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

import click

from makeway.policies.horizon.cp_sat import Proof, cp_sat
from makeway.simharness.papers.common.claims import Claim, ClaimStatus, Finding, claims_table
from makeway.simharness.papers.common.page import PageSection, PaperPage, TextGrid, grid_table, page_html
from makeway.simharness.papers.p1.cases import replayed_under
from makeway.simharness.papers.p1_offline.logs import (
    RUNTIME_MIN,
    SUBMIT_WITHIN_MIN,
    TABLE_2,
    TABLE_3,
    TABLE_3_LOGS,
    as_partitions,
    as_workload,
    random_log,
)
from makeway.simharness.papers.p1_offline.optimum import RTJ_LIMIT, NoSchedule, OfflineProblem, solve_offline
from makeway.simharness.papers.reproduce import ReproduceOptions, deliver, paper_options, run_all
from makeway.simharness.workloads.mira import JIT, LEAST_PRICE, Scheme

if TYPE_CHECKING:
    from rich.console import RenderableType

TITLE = "P1: the offline optimum"
SEEDS = 5
QUICK_LOGS = 5
TIME_LIMIT_S = 600.0
WANTED_S = 10.0
"""How long the largest row of table 2 may take."""
PAPER_TIMES = ("3 s", "4 s", "11 s", "7 s", "15 s", "1 min 20 s", "43 s", "11 min 14 s", "11 h 52 min")
PAPER_BATCH, PAPER_URGENT = 1.50, 1.08
PAPER_WCJS = (2.54, 1.50)
MOST_ABOVE = 0.15
"""How far policy least-price may be above the optimum."""
NOTES = (
    (
        f"Random logs: runtimes {RUNTIME_MIN[0]} to {RUNTIME_MIN[1]} minutes, all submitted within "
        f"{SUBMIT_WITHIN_MIN} minutes; the paper does not tell its own, so levels do not compare."
    ),
    "Optimal means proven by the solver; what is not proven is called feasible.",
    (
        "A limit that no schedule keeps is loosened by steps of 0.1; that the step is the tightest is proven "
        "too."
    ),
    "Times are wall-clock times of one thread on the machine that solved them; kept results keep theirs.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineTrial:
    """One log to solve."""

    batch: int
    urgent: int
    blocks: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineResult:
    """What the optimum of one log came to. None: there was no schedule in the time given."""

    batch: int
    urgent: int
    blocks: int
    seed: int
    proven: bool
    """Whether the optimum is proven, and that its limit is the tightest step."""
    batch_slowdown: float | None
    urgent_slowdown: float | None
    urgent_limit: float | None
    gap: float | None
    """(slowdown - bound) / slowdown."""
    interrupted: int
    wall_s: float
    wcjs_batch_slowdown: float | None = None
    """The same log under WCJS with JIT-CKPT, which knows no job in advance. None: not replayed (table 2)."""
    wcjs_urgent_slowdown: float | None = None
    own_batch_slowdown: float | None = None
    """The same under policy least-price."""
    own_urgent_slowdown: float | None = None

    @property
    def size(self) -> tuple[int, int, int]:
        """The row of the table."""
        return (self.batch, self.urgent, self.blocks)


def trials(seeds: Sequence[int], logs: int) -> list[OfflineTrial]:
    """Every row of table 2 under each seed, then the given number of logs of table 3."""
    sizes = [(size, seed) for size in TABLE_2 for seed in seeds]
    sizes += [(TABLE_3, seed) for seed in range(logs)]
    return [OfflineTrial(batch=size[0], urgent=size[1], blocks=size[2], seed=seed) for size, seed in sizes]


def compute(trial: OfflineTrial) -> OfflineResult:
    """Solve one log; one of table 3 is replayed under WCJS and least-price, too."""
    problem = random_log(trial.batch, trial.urgent, trial.blocks, trial.seed)
    replays = (trial.batch, trial.urgent, trial.blocks) == TABLE_3
    wcjs, own = [_slowdowns(problem, one) if replays else (None, None) for one in (JIT, LEAST_PRICE)]
    try:
        found = solve_offline(problem, time_limit_s=TIME_LIMIT_S)
    except NoSchedule:
        return OfflineResult(
            **asdict(trial),
            proven=False,
            batch_slowdown=None,
            urgent_slowdown=None,
            urgent_limit=None,
            gap=None,
            interrupted=0,
            wall_s=TIME_LIMIT_S,
            wcjs_batch_slowdown=wcjs[0],
            wcjs_urgent_slowdown=wcjs[1],
            own_batch_slowdown=own[0],
            own_urgent_slowdown=own[1],
        )
    return OfflineResult(
        **asdict(trial),
        proven=found.proof is Proof.OPTIMAL and found.limit_proof is Proof.OPTIMAL,
        batch_slowdown=found.batch_slowdown,
        urgent_slowdown=found.urgent_slowdown,
        urgent_limit=found.urgent_limit,
        gap=max(0.0, found.batch_slowdown - found.bound) / found.batch_slowdown,
        interrupted=sum(len(place.parts) == 2 for place in found.placed),
        wall_s=found.wall_s,
        wcjs_batch_slowdown=wcjs[0],
        wcjs_urgent_slowdown=wcjs[1],
        own_batch_slowdown=own[0],
        own_urgent_slowdown=own[1],
    )


def _slowdowns(problem: OfflineProblem, scheme: Scheme) -> tuple[float, float]:
    """The average slowdowns of batch and of urgent jobs under a scheme (section 7.3)."""
    record = replayed_under(scheme, as_workload(problem), as_partitions(problem), {})
    slowdowns: dict[bool, list[float]] = {True: [], False: []}
    for job, found in zip(problem.jobs, record.jobs, strict=True):
        assert found.end_s is not None
        slowdowns[job.urgent].append((found.end_s - job.submit_s) / job.runtime_s)
    return fmean(slowdowns[False]), fmean(slowdowns[True])


@click.command("p1-offline")
@paper_options
def command(**shared: Any) -> None:
    """The offline optimum of real-time and batch jobs (Nickolay et al., 2021, section 5; tables 2 and 3)."""
    options = ReproduceOptions(**shared)
    cp_sat()
    options.require_outputs()
    logs = QUICK_LOGS if options.quick else TABLE_3_LOGS
    asked = trials(options.seed_range(SEEDS), logs)
    cases = run_all(compute, asked, workers=options.jobs, label="logs", cache=options.results_cache())
    checked = options.checked(claims(cases))
    deliver(
        options,
        tables=list(tables(cases, checked)),
        values={
            "paper": "P1",
            "title": TITLE,
            "notes": list(NOTES),
            "claims": [claim.values() for claim in checked],
            "cases": [asdict(case) for case in cases],
        },
        html=lambda: page_html(page(cases, checked), {}),
    )


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
            _figure(case.batch_slowdown),
            _figure(case.urgent_slowdown),
            _figure(case.urgent_limit),
            str(case.interrupted),
            "yes" if case.proven else "no",
            _figure(case.wcjs_batch_slowdown),
            _figure(case.wcjs_urgent_slowdown),
            _figure(case.own_batch_slowdown),
            _figure(case.own_urgent_slowdown),
        )
        for case in cases
        if case.size == TABLE_3
    ]
    replayed = [f"{who}_{kind}_slowdown" for who in ("wcjs", "own") for kind in ("batch", "urgent")]
    names = ("batch_slowdown", "urgent_slowdown", "", "", "", *replayed)
    rows.append(("mean", *(_figure(_mean(mine, name)) if name else "" for name in names)))
    paper = (f"{value:.2f}" for value in (PAPER_BATCH, PAPER_URGENT, float(RTJ_LIMIT)))
    rows.append(("paper", *paper, "", "", *(f"{value:.2f}" for value in PAPER_WCJS), "", ""))
    schemes = ("WCJS BJ", "WCJS RTJ", "least-price BJ", "least-price RTJ")
    head = ("log", "BJ slowdown", "RTJ slowdown", "RTJ limit", "interrupted", "proven", *schemes)
    return TextGrid(heading="Table 3: the optimum, WCJS and least-price", head=head, rows=tuple(rows))


def solved(cases: Sequence[OfflineResult]) -> list[OfflineResult]:
    """The logs of table 3 that have a schedule."""
    return [case for case in cases if case.size == TABLE_3 and case.batch_slowdown is not None]


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
    batch, urgent = _mean(mine, "batch_slowdown"), _mean(mine, "urgent_slowdown")
    holds = batch is not None and urgent is not None and urgent <= float(RTJ_LIMIT) <= batch
    return Claim(
        key="table-3",
        says=(
            f"At the optimum BJ have a slowdown of {PAPER_BATCH:.2f} and RTJ of {PAPER_URGENT:.2f} (table 3)"
        ),
        criterion="on average RTJ at most 1.2, and BJ above",
        measured=f"BJ {_figure(batch)}, RTJ {_figure(urgent)} over {len(mine)} logs",
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
    batch, urgent = _mean(cases, "batch_slowdown"), _mean(cases, "urgent_slowdown")
    other_batch, other_urgent = (_mean(cases, f"{scheme}_{kind}_slowdown") for kind in ("batch", "urgent"))
    if batch is None or urgent is None or other_batch is None or other_urgent is None:
        return Finding(standing=ClaimStatus.OPEN, measured="no log was solved")
    ratios = (other_batch / batch, other_urgent / urgent)
    text = (
        f"BJ {other_batch:.2f} to {batch:.2f} ({ratios[0] - 1:+.0%}), RTJ {other_urgent:.2f} to "
        f"{urgent:.2f} ({ratios[1] - 1:+.0%})"
    )
    return Finding(standing=ClaimStatus.HOLDS if holds(*ratios) else ClaimStatus.FAILS, measured=text)


def tables(cases: Sequence[OfflineResult], checked: Sequence[Claim]) -> "Iterator[RenderableType]":
    """What the terminal shows."""
    from rich.text import Text

    for grid in (table_2(cases), table_3(cases)):
        yield grid_table(grid)
        yield ""
    yield claims_table(checked)
    yield ""
    for note in NOTES:
        yield Text(note, style="dim")


def page(cases: Sequence[OfflineResult], checked: Sequence[Claim]) -> PaperPage:
    """The report."""
    return PaperPage(
        title=TITLE,
        facts=(f"{len(cases)} logs", "CP-SAT, one thread"),
        claims=tuple(checked),
        notes=NOTES,
        sections=(PageSection(heading="Tables", grids=(table_2(cases), table_3(cases))),),
    )


def _mean(cases: Sequence[OfflineResult], name: str) -> float | None:
    found = [value for case in cases if (value := getattr(case, name)) is not None]
    return fmean(found) if found else None


def _figure(value: float | None) -> str:
    return "none" if value is None else f"{value:.2f}"
