"""The short texts of a report: facts, captions, remarks on what is left out, and the legends."""

from collections.abc import Iterable, Sequence

from makeway.policies.model import JobKind
from makeway.simharness.engine.records import MarkKind, ReplayRecord
from makeway.simharness.results.figures.axes import INK, TimeScale
from makeway.simharness.results.figures.curves import LineStyle, ReplayCurve
from makeway.simharness.results.figures.gantt import GanttWindows, TimeWindow
from makeway.simharness.results.figures.pictures import (
    EDGE,
    KIND_COLOURS,
    KIND_WORDS,
    MARK_STYLES,
    toggle_names,
)
from makeway.simharness.results.formats import Unit, format_count, format_duration, format_number
from makeway.simharness.results.measures import ALL, Measures, MeasureSettings
from makeway.simharness.results.page import ReportSwitch

_SHAPES = {
    "circle": '<circle cx="7" cy="7" r="4.5"/>',
    "x": '<path d="M3 3L11 11M11 3L3 11"/>',
    "inverted_triangle": '<path d="M2 3H12L7 12Z"/>',
    "triangle": '<path d="M2 11H12L7 2Z"/>',
    "square": '<path d="M3 3H11V11H3Z"/>',
}


def facts(records: Sequence[ReplayRecord], measured: Sequence[Measures]) -> tuple[str, ...]:
    """What was replayed, in a few words each; where the replays differ, each value once."""
    first = measured[0]
    kinds = [(first.group(kind).jobs, word) for kind, word in KIND_WORDS.items()]
    split = ", ".join(f"{count:,} {word}" for count, word in kinds if count)
    found = [
        _distinct(record.workload for record in records),
        f"{_distinct(f'{record.node_count:,}' for record in records)} nodes",
        f"{first.group(ALL).jobs:,} jobs ({split})" if split else "no jobs",
        f"backfill of the base scheduler: {_distinct(record.backfill for record in records)}",
    ]
    if first.makespan_s is not None:
        found.append(f"{format_duration(first.makespan_s)} of cluster time")
    if any(one.excluded for one in measured):
        excluded = _distinct(f"{one.excluded:,}" for one in measured)
        found.append(f"left out because this machine could never run them: {excluded} jobs")
    return tuple(found)


def caption(measures: Measures) -> str:
    """One replay in a line, above its pictures."""
    urgent, total = measures.group(JobKind.ON_DEMAND), measures.group(ALL)
    parts = [f"{urgent.on_time:,} of {urgent.jobs:,} urgent jobs on time"] if urgent.jobs else []
    parts += [format_count(total.evictions, "eviction")] if total.evictions else []
    parts += [format_count(total.shrinks, "shrink")] if total.shrinks else []
    if measures.utilisation is not None:
        name = "dominant shares held" if measures.shared else "utilisation"
        parts.append(f"{name} {format_number(measures.utilisation, Unit.SHARE)}")
    return ", ".join(parts)


def window_note(windows: GanttWindows | None) -> str:
    """What the node-by-time pictures leave out. Empty: nothing."""
    if windows is None or windows.view == windows.whole:
        return ""
    whole = windows.whole
    scale = TimeScale.spanning(whole.from_s, whole.to_s)

    def between(window: TimeWindow) -> str:
        return f"{scale.text(window.from_s)} to {scale.text(window.to_s)}"

    seen = f"These pictures open on {between(windows.view)}, the busiest stretch"
    if windows.complete:
        return f"{seen}; zoom out for the whole replay."
    return (
        f"{seen}, and can be moved from {between(windows.loaded)}. The rest of the "
        f"{format_duration(whole.to_s - whole.from_s)} is left out of them to keep this file small; "
        "everything else on this page is of the whole replay."
    )


def load_note(curves: Sequence[ReplayCurve], windows: GanttWindows | None) -> str:
    """What is simplified in the curves over time. Empty: nothing."""
    notes: list[str] = []
    if windows is not None and not windows.complete:
        notes.append("The shaded stretch is the one of the pictures above.")
    binned_s = max((curve.binned_s for curve in curves if curve.binned_s is not None), default=None)
    if binned_s is not None:
        notes.append(f"Each step of a curve is the mean over {format_duration(binned_s)}.")
    return " ".join(notes)


def limit_note(limit_s: float | None) -> str:
    """Where on time ends, if that is the same for every urgent job."""
    return "" if limit_s is None else f"The dotted line is where on time ends: {format_duration(limit_s)}."


def settings_text(settings: MeasureSettings) -> tuple[str, ...]:
    """The settings of the measures, one sentence each."""
    texts = [
        f"Runtimes below B = {format_duration(settings.bound_s)} count as B in the slowdowns.",
        f"A start is instant up to {format_duration(settings.instant_s)} after submission.",
        (
            f"Urgent jobs that name no time are on time up to {format_duration(settings.start_within_s)} "
            "from then."
        ),
    ]
    if settings.from_s is not None:
        texts.append(f"Jobs submitted before {settings.from_s:,.0f} s of the trace do not count.")
    if settings.to_s is not None:
        texts.append(f"Jobs submitted at {settings.to_s:,.0f} s of the trace or later do not count.")
    return tuple(texts)


def kind_switches(records: Sequence[ReplayRecord]) -> tuple[ReportSwitch, ...]:
    """The legend of the node-by-time pictures: the kinds of jobs and the marks that occur."""
    replays = len(records)
    kinds = {entry.job.kind for record in records for entry in record.jobs}
    marks = {mark.kind for record in records for mark in record.marks}
    switches = [
        ReportSwitch(
            label=f"{KIND_WORDS[kind]} job",
            names=toggle_names(kind, replays),
            symbol=_svg(
                '<path d="M1 2H13V12H1Z"/>', colours[0], EDGE if kind is JobKind.ON_DEMAND else "none", 1.0
            ),
        )
        for kind, colours in KIND_COLOURS.items()
        if kind in kinds
    ]
    for kind, style in MARK_STYLES.items():
        if kind in marks:
            names = toggle_names(kind, replays)
            if kind is MarkKind.EVICTED:
                names = f"{names} {toggle_names('evicted_edge', replays)}"
            shape = _svg(_SHAPES[style.symbol], style.fill, INK, style.line_width)
            switches.append(ReportSwitch(label=style.label, names=names, symbol=shape))
    return tuple(switches)


def line_switches(
    names: Sequence[str], styles: Sequence[LineStyle], pictures: Iterable[str]
) -> tuple[ReportSwitch, ...]:
    """The legend of the curves in `pictures`: one line a replay."""
    keys = tuple(pictures)
    return tuple(
        ReportSwitch(
            label=name,
            names=" ".join(f"{key}-{index}" for key in keys),
            symbol=(
                '<svg width="34" height="14" aria-hidden="true">'
                f'<path d="M1 7H33" fill="none" stroke="{style.colour}" stroke-width="{style.width + 0.5}" '
                f'stroke-dasharray="{style.dash}"/></svg>'
            ),
        )
        for index, (name, style) in enumerate(zip(names, styles, strict=True))
    )


def _svg(shape: str, fill: str, stroke: str, width: float) -> str:
    return (
        f'<svg width="14" height="14" aria-hidden="true" fill="{fill}" stroke="{stroke}" '
        f'stroke-width="{width}">{shape}</svg>'
    )


def _distinct(texts: Iterable[str]) -> str:
    return " / ".join(dict.fromkeys(texts))
