"""A real Slurm: what a cycle costs with 256 nodes and 10,000 jobs that wait, and how soon the daemon acts.

The unit of comparison is what a cycle cannot do without: one plain `squeue` and one plain `scontrol show
node` of the same cluster, in the same run. The ratio to it holds on other machines, the seconds do not.
"""

import cProfile
import io
import os
import pstats
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from makeway.adapters.devcluster.cluster import DevCluster, DevClusterError, dev_cluster, slurm_version
from makeway.adapters.devcluster.conf import DevSpec
from makeway.daemon.service.socket_api import request
from tests.slurm.support.crowd import (
    RUNNING,
    SLEEP,
    WAITING,
    WHOLE,
    CountingRunner,
    crowd_spec,
    daemon_on,
    fill,
)
from tests.slurm.support.daemon import DaemonProcess
from tests.slurm.support.story import Story
from tests.slurm.support.world import SlurmWorld
from tests.waiting import await_that

ASKED_CYCLE_S = 0.5
ASKED_POKED_S = 1.0
POLL_S = 5.0
ROUNDS = 15
ARRAY = 10
"""Tasks of an array of the jobs that wait."""


@pytest.fixture
def root() -> str | None:
    """The chroot with the Slurm to measure. None: this machine's. Skips where there is none."""
    found = os.environ.get("MAKEWAY_SLURM_ROOT") or None
    try:
        slurm_version(found)
    except DevClusterError as error:
        pytest.skip(str(error))
    return found


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def submit_many(cluster: DevCluster) -> None:
    """Jobs that wait, as tasks of many small arrays: a thousand of them are submitted in less than a
    minute.
    """
    for _ in range(WAITING // ARRAY):
        cluster.submit(
            SLEEP,
            "--nodes=2",
            f"--array=1-{ARRAY}",
            "--comment=makeway:ckpt-takes=20",
            "--account=batch",
            *WHOLE,
        )


@pytest.mark.benchmark(min_rounds=ROUNDS, max_time=1.0)
def test_a_cycle_of_a_large_cluster(benchmark: BenchmarkFixture, root: str | None, tmp_path: Path) -> None:
    with dev_cluster(crowd_spec(root)) as cluster:
        world = SlurmWorld(cluster)
        fill(cluster)
        world.wait(lambda seen: not seen.free_nodes(), "the cluster is full")
        submit_many(cluster)
        runner = CountingRunner(cluster.runner)
        daemon = daemon_on(runner, tmp_path / "journal.sqlite")
        assert daemon.reconcile().error is None
        assert len(world.adapter.snapshot().jobs) == RUNNING + WAITING
        plain_s = [
            seconds(
                lambda: (
                    cluster.run("squeue", "--noheader", "--all", "--array"),
                    cluster.run("scontrol", "--oneliner", "show", "node"),
                )
            )
            for _ in range(ROUNDS)
        ]
        runner.calls.clear()
        cycles_s: list[float] = []
        benchmark(lambda: cycles_s.append(seconds(daemon.reconcile)))
        assert len(runner.calls) == 2 * len(cycles_s)
        profile = cProfile.Profile()
        profile.runcall(daemon.reconcile)
    told = io.StringIO()
    pstats.Stats(profile, stream=told).sort_stats("tottime").print_stats(12)
    cycle_s, unit_s = statistics.median(cycles_s), statistics.median(plain_s)
    print(
        f"\na cycle with 256 nodes and {WAITING:,} waiting jobs: median {cycle_s:.3f} s, "
        f"best {min(cycles_s):.3f} s (asked for: {ASKED_CYCLE_S} s), 2 commands"
    )
    print(
        f"plain squeue and scontrol: median {unit_s:.3f} s; a cycle takes {cycle_s / unit_s:.1f} times "
        "as long"
    )
    print(told.getvalue())


@contextmanager
def played(root: str | None, folder: Path, poll_interval_s: float) -> Iterator[tuple[Story, DaemonProcess]]:
    """A full cluster of eight nodes and the daemon next to it."""
    with dev_cluster(DevSpec(node_count=8, root=root)) as cluster:
        story = Story(SlurmWorld(cluster))
        story.fill()
        daemon = DaemonProcess(cluster, folder, "act", poll_interval_s=poll_interval_s)
        daemon.start()
        try:
            yield story, daemon
        finally:
            daemon.stop()


def _given_back(daemon: DaemonProcess) -> bool:
    """Whether nothing is under way any more; asks for another look."""
    request(daemon.socket, {"command": "poke"})
    return daemon.operations() == ()


def delays_s(story: Story, daemon: DaemonProcess, poke: Callable[[], object], rounds: int) -> list[float]:
    """From before `sbatch` to the first command, for urgent jobs one after another."""
    found = []
    for _ in range(rounds):
        known = len(daemon.commands())
        began_s = time.time()
        urgent = story.urgent_comes()
        poke()
        await_that("there is a command", lambda: len(daemon.commands()) > known, story.explain(daemon))  # noqa: B023
        found.append(daemon.commands()[known].issued_s - began_s)
        await_that("it runs", lambda: story.runs(urgent), story.explain(daemon))  # noqa: B023
        story.ends(urgent)
        await_that("it is over", lambda: story.state(urgent) == "COMPLETED", story.explain(daemon))  # noqa: B023
        await_that("all is given back", lambda: _given_back(daemon), story.explain(daemon))
    return found


@pytest.mark.benchmark(min_rounds=1, max_time=0.1)
def test_latency_with_a_poke(benchmark: BenchmarkFixture, root: str | None, tmp_path: Path) -> None:
    with played(root, tmp_path, 600.0) as (story, daemon):
        submit_s = statistics.median(seconds(lambda: story.submit("exit", 2, "other")) for _ in range(5))
        hook = delays_s(story, daemon, lambda: request(daemon.socket, {"command": "poke"}), 5)
        program = delays_s(story, daemon, lambda: daemon.run("poke"), 5)
        benchmark(lambda: request(daemon.socket, {"command": "status"}))
    print(f"\nfrom before sbatch (which takes {submit_s:.3f} s) to the first command, 5 urgent jobs each:")
    for name, found in (("a hook writes to the socket", hook), ("`makeway poke`", program)):
        print(
            f"  {name}: median {statistics.median(found):.3f} s, worst {max(found):.3f} s (asked for: "
            f"{ASKED_POKED_S} s)"
        )


@pytest.mark.benchmark(min_rounds=1, max_time=0.1)
def test_latency_without_a_poke(benchmark: BenchmarkFixture, root: str | None, tmp_path: Path) -> None:
    with played(root, tmp_path, POLL_S) as (story, daemon):
        found = delays_s(story, daemon, lambda: None, 5)
        benchmark(lambda: request(daemon.socket, {"command": "status"}))
    print(
        f"\nwithout a poke, polled every {POLL_S:g} s, 5 urgent jobs: median {statistics.median(found):.3f} "
        f"s, "
        f"worst {max(found):.3f} s (asked for: {POLL_S + 1:g} s)"
    )
