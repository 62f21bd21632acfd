"""The site builds without a warning, needs no other host, and its references are complete."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from docs.generate import configuration, measures, metrics
from docs.generate.attributes import field_docstrings
from docs.generate.pages import MARKER, PARTS, with_generated
from makeway.daemon.config.schema import Settings
from makeway.policies.registry import POLICIES
from makeway.simharness.results.measures import measure, numbers
from makeway.simharness.sweep.cell import BATCH, LARGE, MEDIUM, SMALL
from makeway.simharness.sweep.table import KEYS
from tests.docs.pages import PAGES
from tests.paths import ROOT
from tests.simharness.workloads.record_samples import with_makeway

GROUPS = ("on_demand", "rigid", "malleable", "all", BATCH, SMALL, MEDIUM, LARGE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site that was built. A warning of mkdocs, as of a broken link or anchor, fails."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Resources(HTMLParser):
    """What a browser loads for a page by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = dict(attrs)
        if tag in {"script", "img", "iframe", "source"} and said.get("src"):
            self.found.append(str(said["src"]))
        if tag == "link" and said.get("rel") != "canonical" and said.get("href"):
            self.found.append(str(said["href"]))
        # Material loads the program for such pictures from another host.
        assert "mermaid" not in (said.get("class") or "").split()


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        resources = Resources()
        resources.feed(page.read_text(encoding="utf-8"))
        assert resources.found, page
        for name in resources.found:
            assert not re.match(r"(?:[a-z]+:)?//", name), f"{page}: {name}"
            assert (page.parent / name.partition("?")[0]).exists() or page.name == "404.html", (page, name)
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", sheet.read_text(encoding="utf-8"))


def test_no_generated_part_is_left_open_and_each_is_used(site: Path) -> None:
    texts = [(ROOT / page).read_text(encoding="utf-8") for page in PAGES]
    assert {name for text in texts for name in MARKER.findall(text)} == set(PARTS)
    assert all("<!-- generated" not in page.read_text(encoding="utf-8") for page in site.rglob("*.html"))


def test_the_tutorial_shows_its_example(site: Path) -> None:
    # Material puts each token into an element of its own.
    text = re.sub(r"<[^>]+>", "", (site / "own-policy.html").read_text(encoding="utf-8"))
    assert "def decide(cluster: Cluster" in text


def test_an_unknown_part_is_an_error() -> None:
    with pytest.raises(KeyError, match="metrics-of-others"):
        with_generated("# Page\n\n<!-- generated: metrics-of-others -->\n")


def test_every_setting_has_a_meaning() -> None:
    """It is the docstring below the field, of the section or of the record that the section checks."""
    parts = (*configuration.sections(), *configuration.adapters(), *configuration.job_classes())
    settings = [one for _, _, found in parts for one in found]
    settings += [one for _, found in configuration.policies() for one in found]
    assert [one.path for one in settings if not one.meaning] == []
    assert all(one.accepted and one.default for one in settings)
    assert {one.path for one in settings} >= {*Settings.model_fields, "limits.max_nodes", "kills"}


def test_every_policy_is_in_the_reference() -> None:
    named = [policy.name for found, _ in configuration.policies() for policy in found]
    assert sorted(named) == sorted(POLICIES)
    text = PARTS["policies"]()
    assert all(f"- `{name}`: " in text for name in POLICIES)


def test_what_a_policy_accepts() -> None:
    found = {one.path: one for policies, settings in configuration.policies() for one in settings}
    assert found["kills"].accepted == "`late` or `at_once`"
    assert found["p"].accepted == "a number or `learned`"
    assert found["margin_s"].accepted == "seconds from 0 to 2592000"
    assert found["node_gb_s"].accepted == "GB per second from 0 to 1000000"
    assert found["p_by_user"].accepted == "a mapping from names to: a number"
    assert (found["shrink"].accepted, found["shrink"].default) == ("true or false", "`true`")
    assert (found["vital_qos"].accepted, found["vital_qos"].default) == ("a list of names", "`[]`")


def test_every_metric_has_a_panel_and_its_labels() -> None:
    found = {one.name: one for one in metrics.exported()}
    assert len(found) > 30
    assert all(
        one.panels for one in found.values() if one.name.startswith("makeway_") and "info" not in one.name
    )
    assert found["makeway_actions_total"].labels == ("verb", "reason", "outcome")
    assert found["makeway_breaker_open"].alerts == ("MakewayBreakerOpen",)
    assert found["makeway_mode"].labels == ("mode",)
    assert "Delay of urgent starts" in found["makeway_urgent_start_delay_seconds"].panels


def test_the_runbook_says_what_to_do_at_each_alert() -> None:
    known = {alert.name for alert in metrics.alerts()}
    assert known == set(re.findall(r"`(Makeway\w+)`", (ROOT / "docs/runbook.md").read_text()))


def test_every_number_of_a_replay_is_in_the_reference() -> None:
    groups = [*measures.group_measures()]
    found = {one.key for one in measures.machine_measures()}
    for group in ("rigid", "malleable", "on_demand", "all"):
        found |= {one.key.replace(measures.GROUP, group) for one in groups}
    assert found == set(numbers(measure(with_makeway())))
    every = [*measures.machine_measures(), *groups, *measures.measure_settings()]
    assert [one.key for one in every if not one.meaning] == []
    assert [one.key for one in every if one.optional != ("`null`" in one.meaning)] == []
    page = (ROOT / "docs/reference/measures.md").read_text(encoding="utf-8")
    assert all(f"`{key}`" in page for key in (*KEYS, *GROUPS))


def test_the_docstrings_of_fields_are_those_below_them() -> None:
    told = field_docstrings(Settings)
    assert told["poll_interval_s"].startswith("The cluster is read this often.")
    assert "model_config" not in told
