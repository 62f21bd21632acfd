"""A journal with a decision about jobs whose names are hostile, and the page that shows it."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from makeway.daemon.journal.store import Journal
from makeway.daemon.page.application import Page
from tests.daemon.page.browsing import NOW_S, decide_on_hostile


@pytest.fixture
def decided(tmp_path: Path) -> Path:
    """The journal of a daemon in act mode that has signalled a job for an urgent job."""
    return decide_on_hostile(tmp_path)


@pytest.fixture
def journal(decided: Path) -> Iterator[Journal]:
    with closing(Journal(decided, read_only=True)) as opened:
        yield opened


@pytest.fixture
def page(decided: Path) -> Page:
    """No daemon answers on its socket."""
    return Page(decided, decided.with_name("s.sock"), clock=lambda: NOW_S)
