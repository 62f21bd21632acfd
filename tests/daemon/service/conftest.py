"""The folder in which the service of a test runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.service.listener import Listener
from tests.daemon.service.site import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Listener(tmp_path / "notify") as listener:
        yield Site(tmp_path, listener)
