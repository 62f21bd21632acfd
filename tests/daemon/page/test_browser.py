"""The page in Chromium: light and dark, narrow and wide, with hostile names."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.contrast import contrast
from tests.daemon.page.browsing import HOSTILE, decide_on_hostile
from tests.daemon.page.test_page_command import serving
from tests.waiting import limit_s


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(decide_on_hostile(tmp_path_factory.mktemp("page")), "127.0.0.1:0") as (_, address):
        yield address


@pytest.fixture(params=[(420, "light"), (420, "dark"), (1400, "light"), (1400, "dark")], ids=str)
def shown(request: pytest.FixtureRequest, browser: Browser, address: str) -> Iterator[Page]:
    """The loaded page, in a window of that width and with that colour scheme. No error came up."""
    width, scheme = request.param
    problems: list[str] = []
    with closing(browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)) as page:
        page.set_default_timeout(1000 * limit_s())
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
        page.goto(address)
        page.wait_for_selector("body[data-loaded]")
        yield page
    assert problems == []


def test_everything_fits_and_nothing_hostile_runs(shown: Page) -> None:
    width = shown.viewport_size["width"] if shown.viewport_size else 0
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    for drawing in shown.locator("svg").all():
        box = drawing.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    assert shown.locator("svg").count() == 2
    assert HOSTILE in shown.locator("#operations").inner_text()
    assert shown.locator("img").count() == 0
    assert shown.title() == "makeway"


def test_text_is_readable_on_its_ground(shown: Page) -> None:
    """The contrast of text is at least 4.5, as WCAG 2 asks (level AA)."""
    faint = shown.evaluate(
        """() => ["--text", "--faint", "--bad", "--back"].map(
            (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim())"""
    )
    *texts, back = faint
    assert all(contrast(text, back) >= 4.5 for text in texts), faint


def test_a_decision_opens_with_its_explanation(shown: Page) -> None:
    shown.locator("summary").first.click()
    expect(shown.locator("pre")).to_contain_text("Decision 1 of policy eviction")


def test_words_are_those_of_the_commands(shown: Page) -> None:
    expect(shown.locator("#levels")).to_contain_text("(4 nodes, killed)")
    expect(shown.locator("#operations")).to_contain_text("make way")
    expect(shown.locator("#curve")).not_to_contain_text("node-hours")
    expect(shown.locator("summary").first).to_contain_text("job u: 4 more nodes are needed")


def test_the_slider_asks_for_other_node_counts(shown: Page) -> None:
    slider = shown.locator("#nodes")
    expect(shown.locator("#nodes-shown")).to_have_text("4 nodes")
    slider.press("ArrowRight")
    expect(shown.locator("#nodes-shown")).to_have_text("8 nodes")
    slider.press("Home")
    expect(shown.locator("#nodes-shown")).to_have_text("1 node")


LED = {
    "status": {
        "sentence": "act: 1 urgent waiting",
        "leader": "follows (term 3)",
        "lease": "mark 42, lasts 60 s",
        "leader_problem": HOSTILE,
        "paused": True,
        "breaker_open": False,
    },
    "problem": "",
    "operations": [
        {
            **dict.fromkeys(("id", "kind", "for_job", "phase"), HOSTILE),
            "observe": False,
            "nodes": 4,
            "opened_s": 10.0,
            "deadline_s": 20.0,
            "tasks": [],
            "loans": [
                {"lender": HOSTILE, "method": "kill", "nodes": 3, "since_s": 15.0, "returned": False},
                {"lender": "17", "method": "shrink", "nodes": 1, "since_s": 16.0, "returned": True},
            ],
        }
    ],
}


def test_who_leads_whether_it_is_paused_and_what_was_lent(shown: Page) -> None:
    shown.route("**/now.json", lambda route: route.fulfill(json=LED))
    shown.evaluate("refresh()")
    expect(shown.locator("#leader")).to_have_text(
        "Another daemon leads; this one only writes down what it decides; lease term 3: mark 42, lasts 60 s. "
        f"The lease was not written: {HOSTILE}. Paused: nothing is taken from jobs."
    )
    first, second = shown.locator("#loans tbody tr").all()
    assert first.locator("td").all_inner_texts() == [HOSTILE, HOSTILE, "3", "killed", "15 s", "not yet"]
    assert second.locator("td").all_inner_texts() == ["17", HOSTILE, "1", "shrunk", "16 s", "yes"]
    expect(shown.locator("#status")).to_have_text("breaker openno")
    width = shown.viewport_size["width"] if shown.viewport_size else 0
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    assert shown.title() == "makeway"
