"""The HTML page of a reproduced paper: its claims and what was found, its figures, and the numbers.

One file that loads nothing, in the style of the report of a replay.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from makeway.simharness.papers.common.claims import Claim
from makeway.simharness.results.figures.embedding import embedded
from makeway.simharness.results.page import BEHAVIOUR, HEAD, STYLE, ReportSwitch

if TYPE_CHECKING:
    from bokeh.model import Model
    from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class FigurePanels:
    """Pictures side by side: one figure of the paper."""

    heading: str
    figures: tuple[tuple[str, str], ...]
    """The caption and the key of each figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextGrid:
    """A table of texts. The first cell of a row is its name."""

    heading: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def grid_table(grid: TextGrid) -> "Table":
    """A table of the page, for the terminal."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(grid.heading), title_justify="left", show_edge=False)
    for heading in grid.head:
        table.add_column(Text(heading), justify="right")
    for row in grid.rows:
        table.add_row(*map(Text, row))
    return table


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSection:
    """A part of the page."""

    heading: str
    hint: str = ""
    switches: tuple[ReportSwitch, ...] = ()
    """The legend of its figures."""
    panels: tuple[FigurePanels, ...] = ()
    grids: tuple[TextGrid, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperPage:
    """The content of the page, as plain text: it is escaped when the page is made."""

    title: str
    facts: tuple[str, ...]
    claims: tuple[Claim, ...]
    """Empty: the page is not about a paper."""
    notes: tuple[str, ...]
    sections: tuple[PageSection, ...]


def page_html(page: PaperPage, figures: "Mapping[str, Model]") -> str:
    """The page as HTML, with the figures that its panels name.

    Args:
        page: the texts.
        figures: models of bokeh under the keys of the panels.
    """
    from bokeh.resources import Resources
    from jinja2 import Environment, StrictUndefined

    script, divs = embedded(figures)
    library: Sequence[str] = Resources(mode="inline", components=["bokeh"]).js_raw if figures else ()
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(HEAD + _TEMPLATE).render(
        page=page, divs=divs, script=script, library=library, style=STYLE + _CLAIMS_STYLE, behaviour=BEHAVIOUR
    )


_CLAIMS_STYLE = """
table.claims td, table.claims th { text-align: left; padding: 5px 14px 5px 2px; vertical-align: top;
  overflow-wrap: anywhere; }
table.claims th, table.claims td:first-child { overflow-wrap: normal; font-weight: 600; }
table.claims .wanted { color: var(--soft); font-size: 13px; }
.open { color: var(--open); }
.grid { overflow-x: auto; }
.grid table { font-size: 13px; }
.grid th, .grid td { padding-left: 8px; white-space: nowrap; }
.grid thead th { white-space: normal; overflow-wrap: normal; }
/* The name of a row stays in sight while the rest is moved, and breaks before it hides the rest. */
.grid th:first-child, .grid td:first-child { position: sticky; left: 0; background: var(--paper);
  white-space: normal; min-width: 8em; }
"""

_TEMPLATE = """\
{% if page.claims %}
<table class="claims">
<thead><tr><th>verdict</th><th>the paper</th><th>measured here</th></tr></thead>
<tbody>
{% for claim in page.claims %}
<tr data-key="{{ claim.key }}">\
<td class="{{ {"holds": "better", "open": "open", "partly": "open"}.get(claim.standing.value, "worse") }}">\
{{ claim.verdict }}</td><td>{{ claim.says }}</td>
<td>{{ claim.measured }} <span class="wanted">(wanted: {{ claim.criterion }})</span></td></tr>
{% endfor %}
</tbody>
</table>
{% endif %}
<ul class="notes">
{% for note in page.notes %}
<li>{{ note }}</li>
{% endfor %}
</ul>
{% for section in page.sections %}
<h2>{{ section.heading }}</h2>
{% if section.hint %}
<p class="hint">{{ section.hint }}</p>
{% endif %}
{% if section.switches %}
<div class="legend">
{% for switch in section.switches %}
<button type="button" aria-pressed="true" data-names="{{ switch.names }}" title="show or hide">\
{{ switch.symbol|safe }}{{ switch.label }}</button>
{% endfor %}
</div>
{% endif %}
{% for panels in section.panels %}
<h3>{{ panels.heading }}</h3>
<div class="panels">
{% for caption, key in panels.figures %}
<figure><figcaption>{{ caption }}</figcaption>{{ divs[key]|safe }}</figure>
{% endfor %}
</div>
{% endfor %}
{% for grid in section.grids %}
<h3>{{ grid.heading }}</h3>
<div class="grid">
<table>
<thead><tr>{% for cell in grid.head %}<th>{{ cell }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in grid.rows %}
<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}
</tbody>
</table>
</div>
{% endfor %}
{% endfor %}
</main>
{{ script|safe }}
<script>{{ behaviour|safe }}</script>
</body>
</html>
"""
