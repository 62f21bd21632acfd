"""The daemon of the page "Try it", and the folder in which the commands of the pages run."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from makeway.daemon.errors import UserError
from makeway.daemon.journal.store import Journal
from makeway.daemon.service.socket_api import request
from tests.docs.pages import blocks
from tests.paths import ROOT
from tests.waiting import await_that, limit_s


class PageSite:
    """A folder with the configuration of the page "Try it", whose daemon runs.

    Args:
        folder: has `try.yaml` and what it names.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "try.yaml"
        self.socket = folder / "try.sock"
        self.journal = folder / "try.sqlite"
        self.trace = folder / "TRACE.swf"

    @property
    def has_decided(self) -> bool:
        """Whether the daemon answers and has stored a decision."""
        try:
            request(self.socket, {"command": "status"})
        except UserError:
            return False
        journal = Journal(self.journal, read_only=True)
        try:
            return bool(journal.decisions(1))
        finally:
            journal.close()


def page_file(page: str, title: str) -> str:
    """The text of the file that a page tells its reader to save."""
    (text,) = (block.text for block in blocks(Path(page)) if block.title == title)
    return text


@pytest.fixture(scope="module")
def page_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageSite]:
    """The daemon of the page "Try it", once it has decided something."""
    site = PageSite(tmp_path_factory.mktemp("try"))
    site.config.write_text(page_file("docs/try.md", "try.yaml"))
    site.trace.write_text(trace())
    for name in ("docs", "deploy", ".venv"):
        (site.folder / name).symlink_to(ROOT / name)
    command = [sys.executable, "-m", "makeway.daemon.cli.main", "run", "--config", "try.yaml"]
    log = site.folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=site.folder, stdout=output, stderr=output, env={**os.environ})
        try:
            await_that("the daemon decides", lambda: site.has_decided, log.read_text)
            yield site
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(limit_s()) == 0, log.read_text()


def trace() -> str:
    """A trace of 60 jobs that keep four nodes busy, as an SWF file."""
    lines = ["; MaxNodes: 4", "; MaxProcs: 4"]
    for number in range(1, 61):
        submit_s, run_s, size = 300 * number, 600 + 60 * (number % 7), 1 + number % 3
        lines.append(
            f"{number} {submit_s} -1 {run_s} {size} -1 -1 {size} {2 * run_s} -1 1 {1 + number % 5} "
            "1 -1 1 1 -1 -1"
        )
    return "\n".join([*lines, ""])
