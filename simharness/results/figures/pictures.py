"""The pictures of a report, as bokeh models. bokeh is loaded when the first one is drawn.

Models that the page can show and hide are named `<what>-<replay>`; `toggle_names` gives the names of one
switch. Names of jobs and users only ever become hover texts, which bokeh escapes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from makeway.daemon.errors import counted
from makeway.policies.model import JobKind
from makeway.simharness.engine.records import MarkKind, ReplayRecord, RunEnding, Segment
from makeway.simharness.results.figures.axes import INK, TimeScale, add_tools, base_figure, style_time
from makeway.simharness.results.figures.gantt import (
    VIEW_COST,
    GanttWindows,
    UrgentWait,
    marks_in,
    segments_in,
    urgent_waits,
)
from makeway.simharness.results.figures.rectangles import (
    Rectangles,
    evicted_edges,
    node_runs,
    rectangles,
)
from makeway.simharness.results.formats import format_duration
from makeway.simharness.workloads.nodeset import NodeNames

if TYPE_CHECKING:
    from bokeh.models import ColumnDataSource, Range1d
    from bokeh.models.renderers import DataRenderer
    from bokeh.plotting import figure

# Chosen to stay apart for colour-blind readers and in grey: light, middle, dark. Neighbouring jobs get
# different tints.
KIND_COLOURS = {
    JobKind.ON_DEMAND: ("#B0300F", "#BF4020", "#9E270A"),
    JobKind.RIGID: ("#A9C8E8", "#BDD6EF", "#95BAE0"),
    JobKind.MALLEABLE: ("#3AA694", "#50B6A5", "#2B9785"),
}
EDGE = "#541603"
"""Around urgent jobs, so that even the thinnest is seen."""

KIND_WORDS = {JobKind.ON_DEMAND: "urgent", JobKind.RIGID: "rigid", JobKind.MALLEABLE: "malleable"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkStyle:
    """How one kind of mark is drawn."""

    symbol: str
    size: int
    fill: str
    line_width: float
    label: str


MARK_STYLES = {
    MarkKind.CHECKPOINTED: MarkStyle(
        symbol="circle", size=9, fill="#FFFFFF", line_width=1.5, label="checkpoint complete"
    ),
    MarkKind.EVICTED: MarkStyle(symbol="x", size=9, fill=INK, line_width=2.5, label="evicted"),
    MarkKind.SHRUNK: MarkStyle(
        symbol="inverted_triangle", size=10, fill="#F5C518", line_width=1.2, label="shrunk"
    ),
    MarkKind.RETURNED: MarkStyle(
        symbol="triangle", size=10, fill="#FFFFFF", line_width=1.2, label="runs again, or has grown back"
    ),
    MarkKind.NODE_DOWN: MarkStyle(symbol="square", size=7, fill=INK, line_width=1.0, label="node failed"),
}

_ENDINGS = {
    RunEnding.COMPLETED: "completed",
    RunEnding.REQUEUED: "evicted and requeued",
    RunEnding.CANCELLED: "cancelled",
    RunEnding.RESIZED: "went on with other nodes",
    RunEnding.NODE_FAILED: "a node failed",
    RunEnding.CUT: "the replay stopped",
}
_NAMED_RUNS = 3


def toggle_names(what: str, replays: int) -> str:
    """The names, separated by blanks, of the models of all replays that one switch of the page controls."""
    return " ".join(f"{what}-{index}" for index in range(replays))


def gantt_figure(
    record: ReplayRecord, index: int, windows: GanttWindows, scale: TimeScale, x_range: "Range1d"
) -> "figure":
    """Nodes by time, one rectangle for each run of neighbouring nodes that a job held. Jobs that share a node
    lie one above the other in its row.

    Args:
        record: the replay.
        index: its number on the page.
        windows: what to draw.
        scale: the page's time axis.
        x_range: shared by the pictures that move together.
    """
    from bokeh.models import Range1d

    nodes = record.node_count
    shared = record.capacities is not None
    drawn = base_figure(
        height=int(np.clip(120 + (24 if shared else 5) * nodes, 220, 440)),
        x_range=x_range,
        y_range=Range1d(start=0.5, end=nodes + 0.5, bounds=(0.5, nodes + 0.5)),
    )
    add_tools(drawn, dimensions="both")
    style_time(drawn, scale)
    drawn.yaxis.axis_label = "node"
    drawn.grid.grid_line_color = None
    segments = segments_in(record, windows.loaded)
    details = _segment_details(record, segments, scale)
    shown = rectangles(segments, shared=shared)
    _add_rectangles(drawn, record, index, segments, shown, scale, details)
    _add_evicted_edges(drawn, index, segments, shown, scale)
    _add_marks(drawn, record, index, windows, scale)
    return drawn


def _segment_details(
    record: ReplayRecord, segments: Sequence[Segment], scale: TimeScale
) -> "ColumnDataSource":
    """What the hover says of each segment, once for all its rectangles."""
    from bokeh.models import ColumnDataSource

    names = NodeNames(record.node_count).names
    columns: dict[str, list[str]] = {key: [] for key, _ in _SEGMENT_TIPS}
    for segment in segments:
        job = record.jobs[segment.job].job
        size = segment.nodes.bit_count()
        asked = "" if size == job.node_count else f" of {job.node_count} asked for"
        columns["job"].append(job.job_id)
        columns["user"].append(job.user or "-")
        columns["kind"].append(KIND_WORDS[job.kind])
        part = "" if segment.share == 1.0 else f", {segment.share:.0%} of them"
        columns["nodes"].append(f"{size}{asked} ({_places(segment.nodes, names)}){part}")
        columns["submitted"].append(scale.text(job.submit_s))
        columns["ran"].append(f"{scale.text(segment.start_s)} to {scale.text(segment.end_s)}")
        columns["length"].append(format_duration(segment.end_s - segment.start_s))
        columns["ended"].append(_ENDINGS[segment.ending])
    return ColumnDataSource(data=columns)


_SEGMENT_TIPS = (
    ("job", "job"),
    ("user", "user"),
    ("kind", "kind"),
    ("nodes", "nodes"),
    ("submitted", "submitted"),
    ("ran", "ran"),
    ("length", "for"),
    ("ended", "ended"),
)


def _places(nodes: int, names: Sequence[str]) -> str:
    runs = node_runs(nodes)
    parts = [
        names[first] if stop == first + 1 else f"{names[first]}–{names[stop - 1]}"
        for first, stop in runs[:_NAMED_RUNS]
    ]
    more = len(runs) - len(parts)
    return ", ".join(parts) + (f" and {more} more" if more > 0 else "")


def _add_rectangles(
    drawn: "figure",
    record: ReplayRecord,
    index: int,
    segments: Sequence[Segment],
    shown: Rectangles,
    scale: TimeScale,
    details: "ColumnDataSource",
) -> None:
    from bokeh.models import ColumnDataSource

    left = np.array([segment.start_s - scale.zero_s for segment in segments], dtype=np.float64)
    right = np.array([segment.end_s - scale.zero_s for segment in segments], dtype=np.float64)
    tints = np.array([segment.job % 3 for segment in segments], dtype=np.int8)
    kinds = [record.jobs[segment.job].job.kind for segment in segments]
    # Between many thin rectangles the lines would be all that is seen.
    separator = "#FFFFFF" if shown.segment.size <= VIEW_COST else None
    renderers: list[DataRenderer] = []
    for kind, colours in KIND_COLOURS.items():
        of_kind = np.array([one is kind for one in kinds], dtype=np.bool_)
        chosen = np.flatnonzero(of_kind[shown.segment]) if segments else np.zeros(0, dtype=np.int64)
        segment = shown.segment[chosen]
        source = ColumnDataSource(
            data={
                "left": left[segment],
                "right": right[segment],
                "bottom": np.float32(0.5) + shown.low[chosen].astype(np.float32),
                "top": np.float32(0.5) + shown.high[chosen].astype(np.float32),
                "segment": segment,
                "colour": np.array(colours)[tints[segment]].tolist(),
            }
        )
        urgent = kind is JobKind.ON_DEMAND
        renderers.append(
            drawn.quad(
                left="left",
                right="right",
                bottom="bottom",
                top="top",
                source=source,
                name=f"{kind.value}-{index}",
                fill_color="colour",
                line_color=EDGE if urgent else separator,
                line_width=1.0 if urgent else 0.5,
                hover_line_color=INK,
                hover_fill_color="colour",
            )
        )
    _explain_segments(drawn, renderers, details)


def _explain_segments(drawn: "figure", renderers: "list[DataRenderer]", details: "ColumnDataSource") -> None:
    """Show the details of a segment at the pointer."""
    from bokeh.models import CustomJSHover, HoverTool

    look_up = CustomJSHover(args={"details": details}, code="return details.data[format][value]")
    drawn.add_tools(
        HoverTool(
            renderers=renderers,
            tooltips=[(label, f"@segment{{{key}}}") for key, label in _SEGMENT_TIPS],
            formatters={"@segment": look_up},
            point_policy="follow_mouse",
            attachment="horizontal",
        )
    )


def _add_evicted_edges(
    drawn: "figure", index: int, segments: Sequence[Segment], shown: Rectangles, scale: TimeScale
) -> None:
    from bokeh.models import ColumnDataSource

    ends = evicted_edges(segments, shown)
    right = np.array([segment.end_s - scale.zero_s for segment in segments], dtype=np.float64)
    source = ColumnDataSource(
        data={
            "x": right[shown.segment[ends]],
            "bottom": np.float32(0.5) + shown.low[ends].astype(np.float32),
            "top": np.float32(0.5) + shown.high[ends].astype(np.float32),
        }
    )
    drawn.segment(
        x0="x",
        x1="x",
        y0="bottom",
        y1="top",
        source=source,
        name=f"evicted_edge-{index}",
        line_color=INK,
        line_width=1.5,
    )


def _add_marks(
    drawn: "figure", record: ReplayRecord, index: int, windows: GanttWindows, scale: TimeScale
) -> None:
    from bokeh.models import ColumnDataSource, HoverTool

    names = NodeNames(record.node_count).names
    renderers: list[DataRenderer] = []
    for kind, style in MARK_STYLES.items():
        columns: dict[str, list[object]] = {"x": [], "y": [], "what": [], "who": [], "where": [], "at": []}
        for mark in marks_in(record, windows.loaded):
            if mark.kind is not kind or not mark.nodes:
                continue
            first, stop = max(node_runs(mark.nodes), key=lambda run: (run[1] - run[0], -run[0]))
            entry = None if mark.job is None else record.jobs[mark.job].job
            columns["x"].append(mark.at_s - scale.zero_s)
            columns["y"].append((first + stop + 1) / 2)
            columns["what"].append(style.label)
            columns["who"].append("-" if entry is None else f"{entry.job_id}, {entry.user or 'no user'}")
            columns["where"].append(f"{mark.nodes.bit_count()} ({_places(mark.nodes, names)})")
            columns["at"].append(scale.text(mark.at_s))
        renderers.append(
            drawn.scatter(
                x="x",
                y="y",
                source=ColumnDataSource(data=columns),
                marker=style.symbol,
                size=style.size,
                fill_color=style.fill,
                line_color=INK,
                line_width=style.line_width,
                name=f"{kind.value}-{index}",
            )
        )
    tips = [("", "@what"), ("job", "@who"), ("nodes", "@where"), ("at", "@at")]
    drawn.add_tools(HoverTool(renderers=renderers, tooltips=tips))


def waits_figure(
    record: ReplayRecord,
    index: int,
    windows: GanttWindows,
    scale: TimeScale,
    x_range: "Range1d",
    *,
    start_within_s: float,
) -> "figure":
    """One bar for each urgent job, from its submission to its start.

    The symbol at its left end shows whether it started on time.
    """
    from bokeh.models import HoverTool, Range1d

    waits = urgent_waits(record, windows.loaded, start_within_s=start_within_s)
    lanes = max((wait.lane for wait in waits), default=0) + 1
    drawn = base_figure(
        height=int(np.clip(26 + 12 * lanes, 44, 150)),
        x_range=x_range,
        y_range=Range1d(start=lanes - 0.3, end=-0.7),
    )
    style_time(drawn, scale, label=False)
    drawn.xaxis.visible = drawn.yaxis.visible = False
    drawn.ygrid.grid_line_color = None
    drawn.background_fill_color = "#FAF7F5"
    source = _wait_columns(record, waits, scale)
    bars = drawn.segment(
        x0="submit",
        x1="start",
        y0="lane",
        y1="lane",
        source=source,
        name=f"waits-{index}",
        line_width=5,
        line_color="#E0916F",
    )
    ends = drawn.scatter(
        x="submit",
        y="lane",
        source=source,
        marker="diamond",
        size=11,
        fill_color="colour",
        line_color=EDGE,
        line_width=1.3,
    )
    tips = [("urgent job", "@job"), ("submitted", "@from"), ("waited", "@waited"), ("start", "@verdict")]
    drawn.add_tools(HoverTool(renderers=[bars, ends], tooltips=tips))
    return drawn


def _wait_columns(record: ReplayRecord, waits: Sequence[UrgentWait], scale: TimeScale) -> "ColumnDataSource":
    """What the picture shows of each urgent job."""
    from bokeh.models import ColumnDataSource

    late = [not wait.on_time for wait in waits]
    jobs = [record.jobs[wait.job].job for wait in waits]
    return ColumnDataSource(
        data={
            "submit": [wait.submit_s - scale.zero_s for wait in waits],
            "start": [wait.start_s - scale.zero_s for wait in waits],
            "lane": [wait.lane for wait in waits],
            "job": [
                f"{job.job_id}, {job.user or 'no user'}, {counted(job.node_count, 'node')}" for job in jobs
            ],
            "from": [scale.text(wait.submit_s) for wait in waits],
            "waited": [
                format_duration(wait.start_s - wait.submit_s) + ("" if wait.started else ", never started")
                for wait in waits
            ],
            "verdict": ["late" if is_late else "on time" for is_late in late],
            "colour": [KIND_COLOURS[JobKind.ON_DEMAND][0] if is_late else "#FFFFFF" for is_late in late],
        }
    )
