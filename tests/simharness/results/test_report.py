"""The page: whole, self-contained, and true to the measures."""

import re
import sys
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from bokeh.models import ColumnDataSource, Range1d
from bokeh.models.renderers import GlyphRenderer
from bokeh.plotting import figure
from hypothesis import given, settings

from makeway.policies.model import JobKind, Resources
from makeway.simharness.cli.output import write_page
from makeway.simharness.engine.records import JobRecord, ReplayRecord, RunEnding, Segment
from makeway.simharness.results.figures.axes import TimeScale
from makeway.simharness.results.figures.curves import (
    BINS,
    bounded_slowdowns,
    line_styles,
    load_curve,
    share_curve,
    waits_s,
)
from makeway.simharness.results.figures.gantt import TimeWindow, choose_windows
from makeway.simharness.results.figures.pictures import gantt_figure, waits_figure
from makeway.simharness.results.figures.rectangles import node_runs
from makeway.simharness.results.measures import MeasureSettings, measure, numbers
from makeway.simharness.results.report import ReportUnavailable, report_html
from makeway.simharness.results.series import StepSeries, nodes_held
from makeway.simharness.results.tables import summarise
from makeway.simharness.workloads.job import SimJob
from tests.simharness.workloads.record_samples import empty, random_records, with_makeway, without_makeway

HOSTILE = "</script><img src=x onerror=alert(1)>'\"&lt;{{ 7 * 7 }}$$x$$"
LOADING = frozenset({"src", "href", "action", "data", "srcset", "poster", "xlink:href", "background"})


class Page(HTMLParser):
    """What a browser would make of the page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.cells: dict[str, list[str]] = {}
        self.text: list[str] = []
        self.scripts: list[str] = []
        self._open = ""
        self._key: str | None = None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        if tag == "tr":
            self._key = found.get("data-key")
        self._open = f"{tag}.{found.get('class')}"
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open.startswith("script"):
            self.scripts[-1] += data
        elif not self._open.startswith("style"):
            self.text.append(data)
        if self._key is not None and self._open == "td.number":
            self.cells.setdefault(self._key, []).append(data)

    @property
    def words(self) -> str:
        """The text that a reader sees, blanks folded."""
        return " ".join(" ".join(self.text).split())

    def count(self, tag: str) -> int:
        """How often a tag occurs."""
        return sum(found == tag for found, _ in self.tags)


def _both() -> list[ReplayRecord]:
    return [without_makeway(), with_makeway()]


@pytest.fixture(scope="module")
def html() -> str:
    """The page of two replays."""
    return report_html(_both(), title="By hand", notes=["A note."])


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    """The same, parsed."""
    return Page(html)


def test_every_number_of_the_tables_is_measured(page: Page) -> None:
    measured = [measure(record) for record in _both()]
    expected = {
        line.key: [cell.text for cell in line.cells]
        for section in summarise(measured).sections
        for line in section.lines
    }
    assert page.cells == expected
    assert expected["rigid.turnaround_mean_s"] == ["1.71 min", "4.33 min"]
    assert set(expected) <= set(numbers(measured[0]))


def test_the_page_loads_nothing(html: str, page: Page) -> None:
    assert page.count("link") == page.count("img") == page.count("iframe") == 0
    for tag, attributes in page.tags:
        assert not LOADING & attributes.keys(), tag
        assert not [name for name in attributes if name.startswith("on")], tag
    policies = [found.get("content") for tag, found in page.tags if "http-equiv" in found]
    assert len(policies) == 1
    assert policies[0] is not None
    assert policies[0].startswith("default-src 'none';")
    assert "http" not in policies[0]
    style = html[html.index("<style>") : html.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    own = "".join(script for script in page.scripts if len(script) < 1_000_000)
    assert not re.search(r"https?://(?!bokeh\.org|docs\.bokeh\.org)", own), (
        "only bokeh's library names addresses"
    )


def test_the_page_says_what_happened(page: Page) -> None:
    assert "With eviction: 1 of 1 urgent job started on time (0 without makeway)." in page.words
    assert "A note." in page.words
    assert "by hand · 4 nodes · 4 jobs (1 urgent, 2 rigid, 1 malleable)" in page.words
    for heading in ("The numbers", "Who ran where", "Load over time", "Waits and slowdowns"):
        assert heading in page.words
    labels = ("urgent job", "evicted", "shrunk", "checkpoint complete", "runs again, or has grown back")
    assert all(label in page.words for label in labels)
    assert "{{" not in page.words


def test_every_picture_has_its_place(html: str, page: Page) -> None:
    roots = [found["id"] for tag, found in page.tags if tag == "div" and "data-root-id" in found]
    assert len(roots) == 2 * 2 + 2 + 2 * 3, (
        "waits and Gantt of two replays, load, distributions of three kinds"
    )
    assert len(set(roots)) == len(roots)
    assert len(html) < 2_500_000


def test_switches_name_models_that_exist(html: str, page: Page) -> None:
    names = {
        name for tag, found in page.tags if tag == "button" for name in (found["data-names"] or "").split()
    }
    drawn = set(re.findall(r'"name":"([a-z_]+-\d+)"', html))
    assert {"rigid-0", "on_demand-1", "evicted-1", "evicted_edge-1", "utilisation-0", "wait_rigid-1"} <= names
    assert names <= drawn


def test_hostile_text_is_only_ever_text() -> None:
    records = _both()
    for record in records:
        record.workload = HOSTILE
        for entry in record.jobs:
            entry.job.user = entry.job.account = HOSTILE
            entry.job.job_id = f"{entry.job.job_id}{HOSTILE}"
    records[1].policy = HOSTILE
    html = report_html(records, title=HOSTILE, notes=[HOSTILE])
    page, harmless = Page(html), Page(report_html(_both(), title="t", notes=["n"]))
    assert "<img" not in html
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in harmless.tags]
    assert page.words.count(HOSTILE) >= 4, "title, facts, note, columns"
    assert "{{ 7 * 7 }}" in page.words


def test_the_file_is_written(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    write_page(path, [with_makeway()], "Gänge", None)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "<title>Gänge</title>" in text
    assert text.rstrip().endswith("</html>")


@pytest.mark.parametrize(
    "record",
    [
        empty(),
        ReplayRecord("none", "easy", "never", 4, [JobRecord(SimJob("a", 5.0, 10.0, 10.0, 2))]),
        ReplayRecord(
            "eviction",
            "easy",
            "one",
            4,
            [JobRecord(SimJob("a", 5.0, 10.0, 10.0, 2), start_s=5.0, end_s=15.0)],
            [Segment(0, 5.0, 15.0, 0b11, RunEnding.COMPLETED)],
        ),
    ],
    ids=["no jobs", "no job ran", "no urgent jobs and no evictions"],
)
def test_thin_replays_have_a_page(record: ReplayRecord) -> None:
    page = Page(report_html([record], title="thin"))
    assert "The numbers" in page.words
    assert "urgent job" not in page.words.replace("urgent jobs", "").replace("An urgent job", "")
    assert all(len(cells) == 1 for cells in page.cells.values())


@given(random_records())
@settings(deadline=None, max_examples=5)
def test_any_replay_has_a_page(record: ReplayRecord) -> None:
    page = Page(report_html([record, with_makeway()], title="any"))
    assert page.count("table") >= 3
    assert "nan" not in page.words.lower().split()


def test_nothing_to_report_is_refused() -> None:
    with pytest.raises(ValueError, match="no replay was given"):
        report_html([], title="none")


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bokeh.embed", None)
    with pytest.raises(ReportUnavailable, match=r"pip install 'makeway\[report\]'"):
        report_html([with_makeway()], title="t")


def _sources(drawn: figure) -> dict[str, ColumnDataSource]:
    """The data of every named renderer, by the first part of its name."""
    found = {}
    for renderer in drawn.renderers:
        assert isinstance(renderer, GlyphRenderer)
        source = renderer.data_source
        assert isinstance(source, ColumnDataSource)
        if renderer.name is not None:
            found[renderer.name.rpartition("-")[0]] = source
    return found


def _gantt(record: ReplayRecord) -> dict[str, ColumnDataSource]:
    windows = choose_windows([record])
    assert windows is not None
    scale = TimeScale.spanning(windows.whole.from_s, windows.whole.to_s)
    return _sources(gantt_figure(record, 0, windows, scale, Range1d(start=0, end=1)))


def test_rectangles_are_the_merged_runs_of_nodes() -> None:
    record = with_makeway()
    sources = _gantt(record)
    drawn = {
        (left, right, bottom, top)
        for kind in JobKind
        for left, right, bottom, top in zip(
            *(sources[kind].data[name] for name in ("left", "right", "bottom", "top")), strict=True
        )
    }
    expected = {
        (segment.start_s, segment.end_s, first + 0.5, stop + 0.5)
        for segment in record.segments
        for first, stop in node_runs(segment.nodes)
    }
    assert drawn == expected
    assert len(expected) == 7, "the urgent job has two runs"
    assert [len(sources[kind].data["left"]) for kind in JobKind] == [2, 3, 2]


def test_marks_and_the_edges_of_evictions_are_drawn_where_they_happened() -> None:
    sources = _gantt(with_makeway())
    edge = sources["evicted_edge"].data
    assert [list(edge[name]) for name in ("x", "bottom", "top")] == [[60.0], [0.5], [2.5]]
    assert sources["evicted"].data["x"] == [60.0]
    assert sources["evicted"].data["y"] == [1.5]
    assert sources["evicted"].data["who"] == ["a, ann"]
    assert sources["shrunk"].data["where"] == ["1 (n4)"]
    assert sources["returned"].data["at"] == ["0:02:40", "0:02:40"]
    assert sources["node_down"].data["who"] == ["-"]


def test_jobs_that_share_a_node_lie_one_above_the_other() -> None:
    """`a` and `m` share node 2, in the picture from 1.5 to 2.5; the hover says what part they have."""
    record = without_makeway()
    record.capacities = (Resources.of({"cpu": 4}),) * record.node_count
    record.segments[1].nodes = 0b0110
    record.segments[1].share = 0.5
    rows = {kind: _gantt(record)[kind].data for kind in JobKind}
    rigid, malleable = rows[JobKind.RIGID], rows[JobKind.MALLEABLE]
    assert list(zip(rigid["bottom"], rigid["top"], strict=True))[:2] == [(0.5, 1.5), (1.5, 2.0)]
    assert list(zip(malleable["bottom"], malleable["top"], strict=True)) == [(2.0, 2.5), (2.5, 3.5)]


@given(random_records())
@settings(deadline=None, max_examples=25)
def test_no_rectangle_is_lost(record: ReplayRecord) -> None:
    if not record.jobs:
        return
    lasting = [segment for segment in record.segments if segment.end_s > segment.start_s]
    sources = _gantt(record)
    for kind in JobKind:
        expected = sum(
            len(node_runs(segment.nodes)) for segment in lasting if record.jobs[segment.job].job.kind is kind
        )
        assert len(sources[kind].data["left"]) == expected


def test_late_urgent_jobs_are_filled() -> None:
    for record, verdict in ((without_makeway(), "late"), (with_makeway(), "on time")):
        windows = choose_windows([record])
        assert windows is not None
        scale = TimeScale.spanning(windows.whole.from_s, windows.whole.to_s)
        drawn = waits_figure(record, 0, windows, scale, Range1d(start=0, end=1), start_within_s=600.0)
        source = _sources(drawn)["waits"]
        assert source.data["verdict"] == [verdict]
        assert source.data["job"] == ["u, ute, 3 nodes"]


def test_curves_are_exact_until_they_have_too_many_steps() -> None:
    record, whole = with_makeway(), TimeWindow(from_s=0.0, to_s=260.0)
    scale = TimeScale.spanning(whole.from_s, whole.to_s)
    exact = load_curve("x", nodes_held(record), whole, scale, factor=25.0)
    assert exact.binned_s is None
    assert exact.y.max() == 100.0
    instants = np.arange(5000.0)
    busy = StepSeries(times_s=instants, values=instants % 2)
    binned = load_curve("x", busy, TimeWindow(from_s=0.0, to_s=5000.0), scale, factor=1.0)
    assert binned.binned_s == pytest.approx(5000 / BINS)
    assert len(binned.x) == BINS + 1
    assert binned.y[:-1].mean() == pytest.approx(0.5)


def test_distributions_count_jobs_that_never_started() -> None:
    record = with_makeway()
    curve = share_curve("x", waits_s(record, JobKind.RIGID), 2)
    assert (list(curve.x), list(curve.y)) == ([0.0, 0.0], [0.0, 50.0])
    many = share_curve("x", np.arange(100_000.0), 100_000)
    assert len(many.x) < 1000
    assert many.y[-1] == 100.0
    assert np.interp(25_000.0, many.x, many.y) == pytest.approx(25.0, abs=0.2)
    assert share_curve("x", np.zeros(0), 3).x.size == 0


def test_slowdowns_are_those_of_the_measures() -> None:
    record, measure_settings = without_makeway(), MeasureSettings()
    for kind in JobKind:
        mean = measure(record, measure_settings).group(kind).bounded_slowdown_mean
        assert bounded_slowdowns(record, kind, measure_settings).mean() == pytest.approx(mean)


def test_replays_without_makeway_are_grey() -> None:
    styles = line_styles([with_makeway(), without_makeway(), without_makeway(), with_makeway()])
    assert styles[1].colour == styles[2].colour == "#9AA1AB"
    assert len({(style.colour, style.dash) for style in styles}) == 4


@pytest.mark.parametrize(
    ("at_s", "in_hours", "text"),
    [
        (1000.0, True, "0:00"),
        (1000.0 + 36.25 * 3600, True, "36:15"),
        (1001.0, True, "0:00:01"),
        (1000.0 + 100 * 3600, True, "100:00"),
        (1000.0 + 12.25 * 86400, False, "12 d 06:00"),
        (1000.0 + 86399.6, False, "1 d 00:00"),
        (940.0, True, "−0:01"),
    ],
)
def test_instants_are_written_from_the_first_submission(at_s: float, in_hours: bool, text: str) -> None:
    assert TimeScale(zero_s=1000.0, in_hours=in_hours).text(at_s) == text


def test_long_replays_are_told_in_days_and_say_what_is_left_out() -> None:
    day_s = 86400.0
    jobs = [
        JobRecord(
            SimJob(str(index), index * 600.0, 600.0, 600.0, 1),
            start_s=index * 600.0,
            end_s=index * 600.0 + 600,
        )
        for index in range(20_000)
    ]
    segments = [
        Segment(index, entry.job.submit_s, entry.job.submit_s + 600.0, 1, RunEnding.COMPLETED)
        for index, entry in enumerate(jobs)
    ]
    html = report_html([ReplayRecord("none", "easy", "long", 2, jobs, segments)], title="long")
    page = Page(html)
    assert "is left out of them to keep this file small" in page.words
    assert f"Each step of a curve is the mean over {20_000 * 600 / BINS / 3600:.2f} h." in page.words
    assert "139 d" in page.words
    assert 20_000 * 600 / day_s == pytest.approx(138.9, abs=0.1)
    assert len(html) < 5_000_000
