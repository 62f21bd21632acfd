"""Builders of small clusters. Session-wide, because they are plain functions."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from makeway.policies.model import Cluster, Job, JobKind, JobState, Node

NOW_S = 10_000.0


@pytest.fixture(scope="session")
def running() -> Callable[..., Job]:
    """`running("a", "n0 n1", **changes)`: a preemptible rigid job on these nodes since 1000 s."""

    def build(job_id: str, nodes: str, **changes: Any) -> Job:
        held = tuple(nodes.split())
        job = Job(
            job_id=job_id,
            kind=JobKind.RIGID,
            state=JobState.RUNNING,
            node_count=len(held),
            walltime_s=20_000.0,
            submit_s=0.0,
            user="alice",
            nodes=held,
            start_s=NOW_S - 1000.0,
            preemptible=True,
        )
        return replace(job, **changes)

    return build


@pytest.fixture(scope="session")
def waiting() -> Callable[..., Job]:
    """`waiting("u", 3, **changes)`: an urgent job that was submitted now and wants 3 nodes."""

    def build(job_id: str, node_count: int, **changes: Any) -> Job:
        job = Job(
            job_id=job_id,
            kind=JobKind.ON_DEMAND,
            state=JobState.PENDING,
            node_count=node_count,
            walltime_s=1800.0,
            submit_s=NOW_S,
            user="urgent",
        )
        return replace(job, **changes)

    return build


@pytest.fixture(scope="session")
def cluster_of() -> Callable[..., Cluster]:
    """`cluster_of(8, job, job, **changes)`: nodes n0 to n7, all up, at 10,000 s."""

    def build(node_count: int, *jobs: Job, **changes: Any) -> Cluster:
        nodes = tuple(Node(name=f"n{index}") for index in range(node_count))
        return replace(Cluster(now_s=NOW_S, nodes=nodes, jobs=jobs), **changes)

    return build
