"""The reports in Chromium: narrow and wide, light and dark."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from makeway.simharness.papers.common.claims import Claim, ClaimStatus, Finding
from makeway.simharness.papers.common.page import PageSection, PaperPage, TextGrid, page_html
from makeway.simharness.papers.p3 import report as p3
from makeway.simharness.papers.p3.cases import TRACES, P3Results, settings
from makeway.simharness.papers.p5 import report as p5
from makeway.simharness.results.report import report_html
from tests.contrast import contrast
from tests.simharness.papers.p3_results import made
from tests.simharness.papers.p5_results import alike
from tests.simharness.workloads.record_samples import with_makeway, without_makeway
from tests.waiting import limit_s

TEXTS = """() => {
  const ground = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const found = getComputedStyle(one).backgroundColor;
      if (!/, 0\\)$/.test(found)) return found;
    }
    return "none";
  };
  const said = {};
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].filter((node) => node.nodeType === 3 && node.data.trim());
    if (!own.length || !element.getClientRects().length) continue;
    said[`${getComputedStyle(element).color} on ${ground(element)}`] = own[0].data.trim();
  }
  return said;
}"""
"""By text colour and ground, as Chromium has computed them: an example of a text."""


DRAWN = "[...document.querySelectorAll('[data-root-id]')].every((place) => place.children.length)"
"""Whether bokeh has put a picture into each place."""


def paper_page() -> str:
    """A page about a paper: claims of each standing, long words, and a wide table."""
    claims = tuple(
        Claim(
            key=standing.name,
            says="On average over every log, urgent jobs wait for less than a minute (section 5.2).",
            criterion="mean_wait_of_urgent_jobs_below_60_seconds_on_every_log_of_the_experiment",
            measured="12.3 s on KTH-SP2, 45.6 s on SDSC-BLUE, 78.9 s on HPC2N and 101.1 s on CTC",
            parts=(("KTH", Finding(standing=standing, measured="1")),),
        )
        for standing in ClaimStatus
    )
    wide = TextGrid(heading="Wide", head=("case", *map(str, range(30))), rows=(("a", *["12345.6"] * 30),))
    return page_html(
        PaperPage(
            title="A paper",
            facts=("facts",),
            claims=claims,
            notes=("A note.",),
            sections=(PageSection(heading="Numbers", hint="A hint.", grids=(wide,)),),
        ),
        {},
    )


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Has the pages."""
    folder = tmp_path_factory.mktemp("reports")
    notes = ["A note with_one_word_that_is_much_too_long_for_a_narrow_window_but_may_be_broken_anywhere."]
    replays = report_html([without_makeway(), with_makeway()], title="By hand", notes=notes)
    (folder / "replays.html").write_text(replays)
    (folder / "paper.html").write_text(paper_page())
    found = P3Results(made(setting) for trace in TRACES for setting in settings(trace))
    (folder / "p3.html").write_text(p3.report_html(found, (), "P3", (), ()))
    (folder / "p5.html").write_text(p5.report_html(alike(), (), "P5", ()))
    return folder


@pytest.fixture(
    params=[(420, "light"), (420, "dark"), (1400, "light"), (1400, "dark")],
    ids=lambda found: f"{found[0]}-{found[1]}",
)
def window(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    """An empty window of that width and with that colour scheme."""
    width, scheme = request.param
    with closing(browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)) as page:
        page.set_default_timeout(1000 * limit_s())
        yield page


@pytest.mark.parametrize("name", ["replays", "paper"])
def test_a_report_fits_and_its_text_can_be_read(window: Page, folder: Path, name: str) -> None:
    window.goto((folder / f"{name}.html").as_uri())
    if name == "replays":
        window.wait_for_function(DRAWN)
    width = window.viewport_size["width"] if window.viewport_size else 0
    assert window.evaluate("document.documentElement.scrollWidth") <= width
    found: dict[str, str] = window.evaluate(TEXTS)
    assert len(found) > 4
    for colours, text in found.items():
        colour, ground = map(hexadecimal, colours.split(" on "))
        assert contrast(colour, ground) >= 4.5, f"{text}: {colours}"


def test_pictures_keep_their_light_ground_in_the_dark(browser: Browser, folder: Path) -> None:
    with closing(browser.new_page(color_scheme="dark")) as page:
        page.goto((folder / "replays.html").as_uri())
        page.wait_for_function(DRAWN)
        grounds = page.evaluate(
            """[...document.querySelectorAll("[data-root-id] > *")].map(
                (one) => getComputedStyle(one).backgroundColor)"""
        )
    assert grounds
    assert set(grounds) == {"rgb(255, 255, 255)"}


def test_dark_is_dark(browser: Browser, folder: Path) -> None:
    with closing(browser.new_page(color_scheme="dark")) as page:
        page.goto((folder / "paper.html").as_uri())
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert contrast(hexadecimal(ground), "#ffffff") > 10


INK_BELOW = """([name, groups]) => {
  const plot = Bokeh.documents.flatMap((one) => one.roots()).find(
    (root) => root.renderers.some((one) => one.name === name));
  const inside = (root) => [...root.querySelectorAll("*")].flatMap(
    (one) => [one, ...(one.shadowRoot ? inside(one.shadowRoot) : [])]);
  const place = document.querySelector(`[data-root-id="${plot.id}"]`);
  const canvas = inside(place).find((one) => one.tagName === "CANVAS");
  const left = plot.outer_width - plot.inner_width - plot.min_border_right;
  const top = plot.min_border_top + plot.inner_height + 8;
  const step = plot.inner_width / groups;
  const scale = canvas.width / plot.outer_width;
  return [...Array(groups).keys()].map((group) => {
    const box = [left + group * step + 6, top, step - 12, plot.outer_height - top].map((one) => one * scale);
    const dots = canvas.getContext("2d").getImageData(...box).data;
    return dots.filter((one, index) => index % 4 === 3 && one > 128 && dots[index - 3] < 128).length;
  });
}"""
"""How many dark dots there are below each group of bars, where its label belongs."""


@pytest.fixture(params=[420, 1400])
def light(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    """An empty window of that width."""
    with closing(browser.new_page(viewport={"width": request.param, "height": 900})) as page:
        page.set_default_timeout(1000 * limit_s())
        yield page


@pytest.mark.parametrize(
    ("name", "bars", "groups"), [("p3", "share-CTC-0", 4), ("p5", "notices-turnaround-0", 5)]
)
def test_every_group_of_bars_has_its_label(
    light: Page, folder: Path, name: str, bars: str, groups: int
) -> None:
    light.goto((folder / f"{name}.html").as_uri())
    light.wait_for_function(DRAWN)
    light.wait_for_function(f"(found) => ({INK_BELOW})(found).some((dots) => dots)", arg=[bars, groups])
    ink: list[int] = light.evaluate(INK_BELOW, [bars, groups])
    assert len(ink) == groups
    assert min(ink) > 10, ink
    assert light.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_table_ii_is_seen_as_a_whole(light: Page, folder: Path) -> None:
    light.goto((folder / "p5.html").as_uri())
    table_ii, by_kind, table_iii = light.evaluate(
        """() => [...document.querySelectorAll(".grid")].slice(0, 3).map(
            (one) => one.scrollWidth - one.clientWidth)"""
    )
    assert (table_ii, table_iii) == (0, 0)
    if light.evaluate("innerWidth") == 1400:
        assert by_kind == 0


def test_the_name_of_a_row_stays_in_sight_while_its_table_is_moved(light: Page, folder: Path) -> None:
    light.goto((folder / "paper.html").as_uri())
    moved, from_left = light.evaluate(
        """() => {
          const grid = document.querySelector(".grid");
          grid.scrollLeft = 300;
          const left = (one) => one.getBoundingClientRect().left;
          return [grid.scrollLeft, left(grid.querySelector("tbody td")) - left(grid)];
        }"""
    )
    assert (moved, from_left) == (300, 0)


def hexadecimal(colour: str) -> str:
    """A colour of CSS as it is computed, `rgb(1, 2, 3)`, as `#010203`."""
    return "#" + "".join(f"{int(part):02x}" for part in re.findall(r"\d+", colour)[:3])
