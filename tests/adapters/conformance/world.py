"""What the conformance suite needs: a `World`, conditions to wait for, and the fixtures of every part."""

from collections.abc import Callable
from typing import Protocol

import pytest

from makeway.adapters.protocol import Adapter
from makeway.policies.model import Cluster, Job, JobKind, JobState
from tests import acts

LONG_S = 3600.0
needs = pytest.mark.needs
"""Which kinds of action a test needs; it is skipped where `capabilities.actions` lacks one."""


class World(Protocol):
    """A cluster that a test can fill with jobs and whose time it can let pass."""

    @property
    def adapter(self) -> Adapter:
        """What is tested."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of all nodes."""

    def submit(
        self,
        node_count: int,
        *,
        kind: JobKind = JobKind.RIGID,
        runtime_s: float = LONG_S,
        walltime_s: float = LONG_S,
        node_count_min: int | None = None,
        saves: bool = False,
    ) -> str:
        """Submit a job that lasts `runtime_s`, or until its time limit. Returns its id.

        `saves`: at a signal it checkpoints and acknowledges.
        """

    def wait(self, condition: Callable[[Cluster], bool], what: str) -> Cluster:
        """Let time pass until a snapshot fulfils the condition; return that one. Fails, naming `what`, if
        none does.
        """


def hold_of(world: World) -> str:
    """The name of the hold that the tests make."""
    return world.adapter.capabilities.reservation_prefix + "notice-conformance"


def job_of(cluster: Cluster, job_id: str) -> Job:
    """The job of that id, which must be there."""
    return cluster.jobs_by_id()[job_id]


def runs(job_id: str) -> Callable[[Cluster], bool]:
    """Condition: the job runs."""
    return lambda cluster: (
        job_id in cluster.jobs_by_id() and job_of(cluster, job_id).state is JobState.RUNNING
    )


def waits(job_id: str) -> Callable[[Cluster], bool]:
    """Condition: the job is pending."""
    return lambda cluster: (
        job_id in cluster.jobs_by_id() and job_of(cluster, job_id).state is JobState.PENDING
    )


def over(job_id: str) -> Callable[[Cluster], bool]:
    """Condition: the job is gone."""
    return lambda cluster: job_id not in cluster.jobs_by_id()


def running(world: World, job_id: str) -> Job:
    """The job, once it runs."""
    return job_of(world.wait(runs(job_id), f"job {job_id} runs"), job_id)


def waiting(world: World, job_id: str) -> Job:
    """The job, seen in the queue."""
    return job_of(world.wait(waits(job_id), f"job {job_id} waits"), job_id)


def way_made(world: World, *, runtime_s: float = LONG_S, walltime_s: float = LONG_S / 2) -> Job:
    """An urgent job of two nodes that runs in its reservation on a machine that was full."""
    victim = running(world, world.submit(2))
    running(world, world.submit(len(world.nodes) - 2))
    urgent = world.submit(2, kind=JobKind.ON_DEMAND, runtime_s=runtime_s, walltime_s=walltime_s)
    waiting(world, urgent)
    world.adapter.apply(acts.reserve(hold_of(world), nodes=victim.nodes, duration_s=LONG_S, job_id=urgent))
    world.adapter.apply(acts.cancel(victim.job_id))
    return running(world, urgent)


class ConformanceBase:
    """The fixtures of every part of the suite. Subclasses say what `world` is."""

    @pytest.fixture
    def world(self) -> World:
        """An empty cluster of six or more nodes."""
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _skip_what_this_cluster_cannot_do(self, request: pytest.FixtureRequest) -> None:
        marker = request.node.get_closest_marker("needs")
        if marker is None:
            return
        world: World = request.getfixturevalue("world")
        lacking = set(marker.args) - world.adapter.capabilities.actions
        if lacking:
            pytest.skip(f"{world.adapter.capabilities.name} does not support {', '.join(sorted(lacking))}")
