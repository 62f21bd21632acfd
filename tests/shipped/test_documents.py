"""The documents name files that exist."""

import re
from pathlib import Path

import pytest

from tests.paths import ROOT

PAGES = sorted(
    path.relative_to(ROOT)
    for pattern in ("*.md", "deploy/*.md", "docs/*.md", "docs/reference/*.md", "docs/decisions/*.md")
    for path in ROOT.glob(pattern)
)
TOP = "policies|adapters|daemon|simharness|tests|docs|deploy|bench"
PATH = re.compile(rf"`((?:{TOP})/[A-Za-z0-9_./-]+)`|\]\(((?:{TOP})[A-Za-z0-9_./-]*|[A-Z]+\.md)\)")


def named(text: str) -> set[str]:
    """The files and folders that a page names, in backticks or as links."""
    return {first or second for first, second in PATH.findall(text)}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_file_that_a_document_names_exists(page: Path) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [name for name in sorted(named(text)) if not (ROOT / name).exists()] == []


def test_some_files_are_named() -> None:
    pages = [(ROOT / page).read_text(encoding="utf-8") for page in PAGES]
    assert len(set.union(*map(named, pages))) > 20
