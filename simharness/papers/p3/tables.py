"""P3's metrics in words, and the tables of its replays."""

from collections.abc import Callable
from dataclasses import dataclass

from makeway.simharness.papers.common.page import TextGrid
from makeway.simharness.papers.p3.cases import P, P3Result, P3Results
from makeway.simharness.papers.p3.claims import gain, percent


@dataclass(frozen=True, slots=True, kw_only=True)
class P3Metric:
    """One of the paper's metrics, and how it is written."""

    key: str
    name: str
    of: Callable[[P3Result], float]
    text: Callable[[float], str]


def _minutes(value_s: float) -> str:
    return f"{value_s / 60:.1f} min"


def _share(value: float) -> str:
    return f"{100 * value:.1f}%"


WAIT = P3Metric(key="wait", name="wait", of=lambda one: one.wait_s, text=_minutes)
SLOWDOWN = P3Metric(key="slowdown", name="slowdown", of=lambda one: one.slowdown, text=lambda v: f"{v:.2f}")
QUEUE = P3Metric(key="queue", name="queue length", of=lambda one: one.queue_length, text=lambda v: f"{v:.2f}")
BACKFILL = P3Metric(key="backfill", name="backfill ratio", of=lambda one: one.backfill_ratio, text=_share)
PREEMPTED = P3Metric(key="preempted", name="pRatio", of=lambda one: one.preempted_ratio, text=_share)
CHECKPOINTS = P3Metric(
    key="checkpoints", name="cNum", of=lambda one: one.checkpoints_per_node_day, text=lambda v: f"{v:.2f}"
)
WASTE = P3Metric(
    key="waste", name="wRatio", of=lambda one: one.wasted_ratio, text=lambda v: f"{100 * v:.2f}%"
)
COMPARED = (WAIT, SLOWDOWN, QUEUE, BACKFILL)
OVERHEADS = (PREEMPTED, CHECKPOINTS, WASTE)


def paper_grid(results: P3Results) -> TextGrid:
    """The paper's figures, next to those found."""

    def row(name: str, paper: str, text: Callable[[str], str]) -> tuple[str, ...]:
        return (name, paper, *(text(trace) for trace in results.traces))

    def gained(quantity: P3Metric, extend_s: float) -> Callable[[str], str]:
        return lambda trace: percent(
            gain(quantity.of(results.classical(trace)), quantity.of(results.early(trace, extend_s=extend_s)))
        )

    def written(quantity: P3Metric) -> Callable[[str], str]:
        return lambda trace: percent(
            gain(quantity.of(results.classical(trace)), quantity.of(results.literal(trace)))
        )

    def of(quantity: P3Metric) -> Callable[[str], str]:
        return lambda trace: quantity.text(quantity.of(results.early(trace, extend_s=430.0)))

    return TextGrid(
        heading=f"The paper and here, p = {P:g}, against the classical algorithm",
        head=("", "paper", *results.traces),
        rows=(
            row("wait, free checkpoints", "up to −40%", gained(WAIT, 0.0)),
            row("… its algorithms as written", "", written(WAIT)),
            row("slowdown, free checkpoints", "CTC, HPC2N: below −50%", gained(SLOWDOWN, 0.0)),
            row("… its algorithms as written", "", written(SLOWDOWN)),
            row("queue length, free checkpoints", "up to −40%", gained(QUEUE, 0.0)),
            row("… its algorithms as written", "", written(QUEUE)),
            row("wait, T_extend = 430 s", "up to −40% (Intrepid)", gained(WAIT, 430.0)),
            row("slowdown, T_extend = 430 s", "−20% (Intrepid)", gained(SLOWDOWN, 430.0)),
            row("pRatio, T_extend = 430 s", "4% (Intrepid)", of(PREEMPTED)),
            row("cNum, T_extend = 430 s", "0.4 (Intrepid)", of(CHECKPOINTS)),
            row("wRatio, T_extend = 430 s", "≤ 1.5% (Intrepid)", of(WASTE)),
        ),
    )


def trace_grid(results: P3Results, trace: str) -> TextGrid:
    """Every replay of a trace."""
    base = results.classical(trace)
    rows: list[tuple[str, ...]] = []
    for one in results:
        if one.setting.trace != trace:
            continue
        compared = [
            text
            for quantity in (WAIT, SLOWDOWN, QUEUE)
            for text in (
                quantity.text(quantity.of(one)),
                "" if one is base else percent(gain(quantity.of(base), quantity.of(one))),
            )
        ]
        others = [quantity.text(quantity.of(one)) for quantity in (BACKFILL, *OVERHEADS)]
        rows.append((_setting_name(one), *compared, *others, _share(one.utilisation)))
    return TextGrid(
        heading=f"{trace}: {base.jobs:,} jobs on {base.node_count} nodes",
        head=(
            "",
            "wait",
            "",
            "slowdown",
            "",
            "queue",
            "",
            "backfilled",
            "pRatio",
            "cNum",
            "wRatio",
            "utilisation",
        ),
        rows=tuple(rows),
    )


def _setting_name(one: P3Result) -> str:
    setting = one.setting
    name = "classical" if setting.p is None else f"p = {setting.p:g}"
    if setting.learned:
        name = "p learned"
    if setting.literal:
        name = f"as written, {name}"
    if setting.alpha != 1.0:
        name += f", α = {setting.alpha:g}"
    if setting.extend_s:
        name += f", T_extend = {setting.extend_s:.0f} s"
    return name
