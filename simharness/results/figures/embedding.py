"""Figures of bokeh as parts of a page."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bokeh.model import Model


def embedded(figures: "Mapping[str, Model]") -> tuple[str, dict[str, str]]:
    """The script that draws the figures, and the HTML element of each under its key. Both are empty without
    figures.
    """
    from bokeh.document import Document
    from bokeh.embed import components

    if not figures:
        return "", {}
    document = Document()
    # Added one by one, each would make bokeh look through all that were added before.
    with document.models.freeze():
        for figure in figures.values():
            document.add_root(figure)
    script: str
    divs: dict[str, str]
    script, divs = components(dict(figures))
    return script, divs
