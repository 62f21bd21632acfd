"""The page around the pictures: its text, its style, and nothing that is loaded from elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass

from makeway.simharness.results.headline import Headline
from makeway.simharness.results.tables import ReplaySummary


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPicture:
    """The place of one picture: a `div` that bokeh fills."""

    caption: str
    """May be empty."""
    div: str
    """HTML made by bokeh."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPictures:
    """The node-by-time pictures of one replay."""

    name: str
    caption: str
    waits: str | None
    """The `div` of the urgent jobs' waits. None: there are no urgent jobs."""
    gantt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSwitch:
    """A part of the legend that shows and hides models of the pictures."""

    label: str
    names: str
    """Names of models, apart by blanks."""
    symbol: str
    """An SVG that makeway made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPage:
    """The content of the page, as plain text: it is escaped when the page is made."""

    title: str
    facts: tuple[str, ...]
    notes: tuple[str, ...]
    headlines: tuple[Headline, ...]
    summary: ReplaySummary
    window_note: str
    """What the node-by-time pictures leave out. Empty: nothing."""
    kinds: tuple[ReportSwitch, ...]
    replays: tuple[ReplayPictures, ...]
    load_switches: tuple[ReportSwitch, ...]
    load: tuple[ReportPicture, ...]
    load_note: str
    """What is simplified in the curves over time. Empty: nothing."""
    distribution_switches: tuple[ReportSwitch, ...]
    distributions: tuple[ReportPicture, ...]
    limit_note: str
    """Where on time ends. Empty: it differs from job to job."""
    settings: tuple[str, ...]
    script: str
    """The pictures as JavaScript, made by bokeh."""
    library: Sequence[str]
    """bokeh's own JavaScript."""


def render(page: ReportPage) -> str:
    """The page as HTML. Only bokeh's scripts and places, and the page's own symbols, go in unescaped."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(HEAD + _TEMPLATE).render(
        page=page, library=page.library, style=STYLE, behaviour=BEHAVIOUR
    )


STYLE = """
:root { color-scheme: light; --ink: #1b1f24; --soft: #59626e; --line: #dfe3e8; --paper: #fff;
  --shade: #f5f7f9; --better: #17635a; --worse: #a8330f; --open: #8a6100; --rest: #333b45; --rule: #eef0f3; }
/* Pictures and the buttons of their legends keep a light ground: their colours are made for it. */
@media screen and (prefers-color-scheme: dark) {
  :root { color-scheme: dark; --ink: #e6edf3; --soft: #9aa5b1; --line: #363e47; --paper: #0f1419;
    --shade: #1a2129; --better: #5fd0b8; --worse: #ff9d7a; --open: #e3b341; --rest: #c9d1d9;
    --rule: #242b33; }
  [data-root-id] > * { background: #fff; border-radius: 4px; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); overflow-wrap: break-word;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 28px 24px 48px; }
h1 { font-size: 26px; line-height: 1.25; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 19px; margin: 40px 0 8px; padding-top: 14px; border-top: 1px solid var(--line); }
h3 { font-size: 15px; margin: 22px 0 2px; overflow-wrap: anywhere; }
p { margin: 6px 0; max-width: 125ch; }
.facts, .hint, figcaption, .caption { color: var(--soft); }
.facts { margin: 0 0 18px; max-width: none; overflow-wrap: anywhere; }
.hint, figcaption, .caption { font-size: 13px; }
.caption { font-weight: 400; margin-left: 8px; }
.headline { border-left: 4px solid #5b2a86; background: var(--shade); padding: 10px 16px; margin: 10px 0; }
.headline p { overflow-wrap: anywhere; }
.headline .lead { font-size: 17px; font-weight: 600; margin-bottom: 2px; }
.headline .rest { color: var(--rest); margin-top: 0; }
.notes { margin: 12px 0; padding-left: 20px; color: var(--soft); }
.tables { columns: 2 540px; column-gap: 36px; overflow-x: auto; }
.tables.wide { columns: 1; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px; width: 100%;
  margin: 0 0 20px; break-inside: avoid; display: table; }
th, td { padding: 2px 0 2px 12px; text-align: right; vertical-align: baseline; }
th:first-child, td:first-child { text-align: left; padding-left: 2px; white-space: normal; }
.tables:not(.wide) table { table-layout: fixed; }
col.n { width: 5.8em; }
col.d { width: 4.7em; }
thead th { border-bottom: 2px solid var(--ink); vertical-align: bottom; overflow-wrap: anywhere;
  font-weight: 500; }
thead th:first-child { font-weight: 700; }
td { border-bottom: 1px solid var(--rule); }
td.number, td.delta { white-space: nowrap; }
tbody td.delta { padding-left: 6px; text-align: left; font-size: 12px; color: var(--soft); }
tbody td.better, .better { color: var(--better); }
tbody td.worse, .worse { color: var(--worse); font-weight: 600; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 6px; margin: 8px 0; position: sticky; top: 0; z-index: 5;
  background: var(--paper); padding: 4px 0; }
.legend button { display: inline-flex; align-items: center; gap: 7px; font: inherit;
  font-size: 13px; color: #1b1f24; background: #fff; border: 1px solid var(--line);
  border-radius: 4px; padding: 2px 9px; cursor: pointer; }
.legend button:hover { border-color: #8b93a0; }
.legend button[aria-pressed="false"] { opacity: 0.4; text-decoration: line-through; }
figure { margin: 8px 0 14px; min-width: 0; }
.panels { display: grid; gap: 6px 18px; grid-template-columns: repeat(auto-fit, minmax(330px, 1fr)); }
details { margin-top: 8px; }
summary { cursor: pointer; }
dl { display: grid; grid-template-columns: minmax(160px, max-content) 1fr; gap: 4px 18px; font-size: 14px; }
dt { font-weight: 600; }
dd { margin: 0; max-width: 80ch; }
@page { size: A4 landscape; margin: 10mm; }
@media print {
  main { max-width: none; padding: 0; width: 1240px; zoom: 0.84; }
  .legend { position: static; }
  .legend button { border: none; padding-left: 0; }
  .hint.interactive { display: none; }
  figure, .replay, .headline, tbody { break-inside: avoid; }
  h2, h3, .hint, .legend { break-after: avoid; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""

BEHAVIOUR = """
for (const button of document.querySelectorAll("button[data-names]")) {
  button.addEventListener("click", () => {
    const show = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(show));
    for (const drawing of Bokeh.documents)
      for (const name of button.dataset.names.split(" ")) {
        const model = drawing.get_model_by_name(name);
        if (model) model.visible = show;
      }
  });
}
window.addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});
"""

HEAD = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; \
script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ page.title }}</title>
<style>{{ style|safe }}</style>
{% for script in library %}
<script>{{ script|safe }}</script>
{% endfor %}
</head>
<body>
<main>
<h1>{{ page.title }}</h1>
<p class="facts">{{ page.facts|join(" · ") }}</p>
"""
"""The head of every page; it needs `page.title`, `page.facts`, `style` and `library` (its scripts)."""

_TEMPLATE = """\
{% macro legend(switches) %}
<div class="legend">
{% for switch in switches %}
<button type="button" aria-pressed="true" data-names="{{ switch.names }}" title="show or hide">\
{{ switch.symbol|safe }}{{ switch.label }}</button>
{% endfor %}
</div>
{% endmacro %}

{% for headline in page.headlines %}
<div class="headline">
<p class="lead">{{ headline.name }}: {{ headline.lead }}</p>
{% if headline.rest %}
<p class="rest">{{ headline.rest|join(" ") }}</p>
{% endif %}
</div>
{% endfor %}
{% if page.notes %}
<ul class="notes">
{% for note in page.notes %}
<li>{{ note }}</li>
{% endfor %}
</ul>
{% endif %}

<h2>The numbers</h2>
{% if page.summary.columns|length > 1 %}
<p class="hint">Changes are relative to the first column, {{ page.summary.columns[0] }};
<span class="better">green</span> is better, <span class="worse">bold red</span> is worse.</p>
{% endif %}
<div class="tables{{ " wide" if page.summary.columns|length > 3 }}" id="summary">
{% for section in page.summary.sections %}
<table>
<colgroup><col>{% for column in page.summary.columns %}{% if not loop.first %}<col class="n"><col class="d">\
{% else %}<col class="n">{% endif %}{% endfor %}</colgroup>
<thead><tr><th>{{ section.title }}</th>\
{% for column in page.summary.columns %}<th>{{ column }}</th>\
{% if not loop.first %}<th></th>{% endif %}{% endfor %}</tr>
</thead>
<tbody>
{% for line in section.lines %}
<tr data-key="{{ line.key }}"><td>{{ line.label }}</td>
{% for cell in line.cells %}
<td class="number">{{ cell.text }}</td>\
{% if not loop.first %}<td class="delta {{ cell.verdict.value }}">{{ cell.delta }}</td>{% endif %}

{% endfor %}
</tr>
{% endfor %}
</tbody>
</table>
{% endfor %}
</div>

{% if page.replays %}
<h2>Who ran where</h2>
{% if page.window_note %}
<p id="window-note">{{ page.window_note }}</p>
{% endif %}
<p class="hint interactive">Drag to move, Ctrl and the wheel to zoom, point at a job for its story.
The pictures of all replays move together; the legend shows and hides.</p>
{{ legend(page.kinds) }}
{% for replay in page.replays %}
<div class="replay">
<h3>{{ replay.name }}<span class="caption">{{ replay.caption }}</span></h3>
{% if replay.waits %}
<figure><figcaption>Urgent jobs, from submission to start: a filled diamond started late</figcaption>
{{ replay.waits|safe }}</figure>
{% endif %}
<figure>{{ replay.gantt|safe }}</figure>
</div>
{% endfor %}
{% endif %}

{% if page.load %}
<h2>Load over time</h2>
{% if page.load_note %}
<p id="load-note">{{ page.load_note }}</p>
{% endif %}
{{ legend(page.load_switches) }}
{% for picture in page.load %}
<figure><figcaption>{{ picture.caption }}</figcaption>{{ picture.div|safe }}</figure>
{% endfor %}
{% endif %}

{% if page.distributions %}
<h2>Waits and slowdowns</h2>
<p class="hint">Each curve gives the share of the jobs that waited, or were slowed down, at most so much:
higher and further left is better. Jobs that never started are missing at the top.{% if page.limit_note %} \
{{ page.limit_note }}{% endif %}</p>
{{ legend(page.distribution_switches) }}
<div class="panels">
{% for picture in page.distributions %}
<figure><figcaption>{{ picture.caption }}</figcaption>{{ picture.div|safe }}</figure>
{% endfor %}
</div>
{% endif %}

<h2>What the numbers mean</h2>
<details>
<summary>Definitions and settings</summary>
<dl>
<dt>wait</dt><dd>First start − submission.</dd>
<dt>on time</dt><dd>An urgent job that started within the time that it named, or the default below.</dd>
<dt>instant start rate</dt><dd>Share of the jobs that started within the limit below.</dd>
<dt>p95, p99</dt><dd>The value that 95%, or 99%, do not exceed.</dd>
<dt>turnaround</dt><dd>Completion − submission.</dd>
<dt>bounded slowdown</dt>
<dd>(wait + max(run, B)) / max(run, B), where run is the length of one undisturbed run.</dd>
<dt>slowdown to the end</dt>
<dd>The same with everything that came after the first start too: evictions, work done again,
time on fewer nodes.</dd>
<dt>jobs evicted, shrunk</dt><dd>Share of the jobs to which it happened at least once.</dd>
<dt>work lost</dt><dd>Node-hours of work that were done, lost by an eviction and done again.</dd>
<dt>overhead</dt><dd>Node-hours of checkpoints that makeway asked for, and of setups after the
first.</dd>
<dt>utilisation</dt>
<dd>Node-hours held by jobs / (nodes × time from the first submission to the last end).</dd>
<dt>dominant shares held</dt>
<dd>The same where jobs share nodes: a job counts by its largest share of a node's CPUs, memory or GPUs. Jobs
that need different resources most can add up to more than a node.</dd>
<dt>useful utilisation, useful dominant shares</dt><dd>The same without work lost and overhead.</dd>
<dt>makespan</dt><dd>Last end − first submission.</dd>
<dt>queue length</dt><dd>Jobs that wait, evicted ones included.</dd>
{% for setting in page.settings %}
<dt>setting</dt><dd>{{ setting }}</dd>
{% endfor %}
</dl>
</details>
</main>
{{ page.script|safe }}
<script>{{ behaviour|safe }}</script>
</body>
</html>
"""
