"""What mkdocs calls while it builds the site; named in `mkdocs.yml`."""

from pathlib import Path
from typing import Any

from docs.generate.pages import with_generated

DECISIONS = "decisions"
"""The entry of the navigation that means every page of that folder."""


def on_config(config: Any) -> Any:
    """The navigation, with every decision record in its order."""
    folder = Path(config["docs_dir"]) / DECISIONS
    pages = [f"{DECISIONS}/{path.name}" for path in sorted(folder.glob("*.md"))]
    for entry in config["nav"]:
        if isinstance(entry, dict):
            for title, below in entry.items():
                if below == [DECISIONS]:
                    entry[title] = pages
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The text of a page with its generated parts."""
    return with_generated(markdown)
