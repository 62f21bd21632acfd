"""A journal with hostile names, and requests to the page without a network."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults

from makeway.daemon.config.mode import Mode
from makeway.daemon.page.application import Page
from makeway.policies.model import CheckpointSpec
from tests.builders import cluster, node_names, running, urgent
from tests.daemon.cli.program import decide
from tests.fakes import FakeAdapter

NOW_S = 1000.0
HOSTILE = '<img src=x onerror="document.title=1"></script><script>document.title=1</script>'


def decide_on_hostile(folder: Path) -> Path:
    """The journal of a daemon in act mode that has signalled a job for an urgent job."""
    adapter = FakeAdapter(
        cluster(
            8,
            urgent("u", 4, submit_s=990.0),
            running(HOSTILE, node_names(4), start_s=-36_000.0, checkpoint=CheckpointSpec(system_s=200.0)),
            running("young", node_names(4, 5), start_s=900.0),
        )
    )
    decide(adapter, folder / "j.sqlite", Mode.ACT)
    return folder / "j.sqlite"


@dataclass(frozen=True)
class Got:
    """An answer."""

    status: int
    headers: Mapping[str, str]
    body: str


def get(page: Page, path: str, *, query: str = "", method: str = "GET", host: str = "localhost:9790") -> Got:
    """What the page answers to a request."""
    environ: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "HTTP_HOST": host,
    }
    setup_testing_defaults(environ)
    started: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(status: str, headers: list[tuple[str, str]], _error: object = None) -> Any:
        started.append((status, headers))

    body = b"".join(page(environ, start_response))
    ((status, headers),) = started
    return Got(int(status.split()[0]), dict(headers), body.decode())
