"""A real Slurm for every module that asks for one: of this machine, or of the chroot that MAKEWAY_SLURM_ROOT
names.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol
from zlib import crc32

import pytest

from makeway.adapters.devcluster.cluster import DevCluster, DevClusterError, dev_cluster, slurm_version
from makeway.adapters.devcluster.conf import DevSpec
from tests.slurm.support.daemon import POLL_S, DaemonProcess, Killing
from tests.slurm.support.story import Story
from tests.slurm.support.world import SlurmWorld, slurm_settings

_LONGEST = (
    *("special_jobs", "deaths_while_sharing", "controller_deaths", "gpu_parts", "placements", "het_jobs"),
    *("limits", "stories", "hidden_nodes", "history", "shared_nodes", "sweep", "least_price"),
    *("partitions_that_refuse", "deaths", "pyslurm", "het_limits", "in_vain", "job_helper"),
    *("deaths_at_the_signal", "leader", "sleeping", "completing", "left_alone", "sharing", "conformance"),
    *("limits_at_the_start", "swarm", "verbs", "daemon"),
)
"""The files that take longest, on any release, by name. They come first, so that no worker ends with one."""

_RELEASES = ("22.05", "24.11", "24.11")
"""Where `make test` runs a test that may run on any release: on 22.05 fewer, since it has more of its own."""

_MOST_SAID = 20_000
"""How many characters of a failure are printed, from its end."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests: those of the longest files come first. The order is kept otherwise. And say on which
    release each of those runs that need only one.
    """
    items.sort(key=_rank)
    for item in items:
        if item.get_closest_marker("any_release") and not item.get_closest_marker("one_release"):
            release = _RELEASES[crc32(item.name.encode()) % len(_RELEASES)]
            item.add_marker(pytest.mark.one_release(on=release))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say why each test failed that was run again: it has found a race, of Slurm or of makeway."""
    for report in terminalreporter.getreports("rerun"):
        terminalreporter.section(f"failed at first: {report.nodeid}")
        terminalreporter.write_line(report.longreprtext[-_MOST_SAID:])


def _rank(item: pytest.Item) -> int:
    name = item.path.name.removeprefix("test_").removesuffix("_slurm.py")
    mine = item.path.is_relative_to(Path(__file__).parent)
    return _LONGEST.index(name) if mine and name in _LONGEST else len(_LONGEST)


@pytest.fixture(scope="session")
def slurm_root() -> str | None:
    """The chroot with the Slurm to test. None: this machine's.

    Skips where no Slurm is installed, but fails in CI, where a skipped test would not be noticed.
    """
    root = os.environ.get("MAKEWAY_SLURM_ROOT") or None
    try:
        slurm_version(root)
    except DevClusterError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))
    return root


@pytest.fixture(autouse=True)
def _only_where_it_holds(request: pytest.FixtureRequest) -> None:  # pyright: ignore[reportUnusedFunction]
    """Skip what does not hold on other releases than the one that its mark names."""
    mark = request.node.get_closest_marker("one_release")
    if mark is not None and mark.kwargs.get("only"):
        year, month = slurm_version(request.getfixturevalue("slurm_root"))
        if f"{year}.{month:02}" != mark.kwargs["on"]:
            pytest.skip(f"{mark.kwargs['only']} on Slurm {mark.kwargs['on']} alone")


@pytest.fixture(scope="module")
def eight_nodes(slurm_root: str | None) -> Iterator[DevCluster]:
    """A cluster of eight nodes for each module, on which jobs can grow."""
    spec = DevSpec(node_count=8, expansion=True, root=slurm_root, settings=slurm_settings())
    with dev_cluster(spec) as cluster:
        yield cluster


@pytest.fixture
def slurm_world(eight_nodes: DevCluster) -> Iterator[SlurmWorld]:
    """The cluster of the module, empty before and after each test."""
    world = SlurmWorld(eight_nodes)
    world.clear()
    yield world
    world.clear()


@pytest.fixture
def story(slurm_world: SlurmWorld) -> Story:
    """No job of the story is there yet."""
    return Story(slurm_world)


class StartDaemon(Protocol):
    """Starts the daemon in a mode until the end of the test. `sees`: whether the cluster is up. The others
    are those of `DaemonProcess`.
    """

    def __call__(
        self,
        mode: str = "act",
        *,
        policy: str = "eviction",
        sees: bool = True,
        poll_interval_s: float = POLL_S,
        start_within_s: float | None = None,
        waited_s: float = 0.0,
        killing: Killing | None = None,
        lease_s: float | None = None,
        placements: str | None = None,
        linger_s: float = 0.0,
    ) -> DaemonProcess: ...


@pytest.fixture
def start_daemon(slurm_world: SlurmWorld, tmp_path: Path) -> Iterator[StartDaemon]:
    """Starts daemons on the cluster of the module."""
    started: list[DaemonProcess] = []

    def start(
        mode: str = "act",
        *,
        policy: str = "eviction",
        sees: bool = True,
        poll_interval_s: float = POLL_S,
        start_within_s: float | None = None,
        waited_s: float = 0.0,
        killing: Killing | None = None,
        lease_s: float | None = None,
        placements: str | None = None,
        linger_s: float = 0.0,
    ) -> DaemonProcess:
        daemon = DaemonProcess(
            slurm_world.cluster,
            tmp_path,
            mode,
            policy=policy,
            poll_interval_s=poll_interval_s,
            start_within_s=start_within_s,
            waited_s=waited_s,
            killing=killing,
            lease_s=lease_s,
            placements=placements,
            linger_s=linger_s,
        )
        started.append(daemon)
        guards.enter_context(daemon.guarded())
        daemon.start(sees=sees)
        return daemon

    with ExitStack() as guards:
        yield start
        for daemon in started:
            daemon.stop()
