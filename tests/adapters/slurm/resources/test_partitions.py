"""Urgent jobs in several partitions: which of them is looked at."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from makeway.adapters.slurm.parse_cluster import RawPartition
from makeway.adapters.slurm.resources.counting import WHOLE_NODES, Counting
from makeway.adapters.slurm.resources.view import SnapshotResources
from makeway.adapters.slurm.translate import kept_nodes
from tests.adapters.slurm.jobs.raw_jobs import ANY, NODES, PENDING, RUNNING

SMALL, LARGE = frozenset({"n1", "n2", "n3"}), frozenset({"n4", "n5", "n6", "n7", "n8"})
SHARING = Counting(shares=True, cpus=True)


def eligible(
    node_count: int,
    *,
    counts: Counting = WHOLE_NODES,
    partitions: tuple[str, ...] = ("small", "large"),
    kept: Iterable[str] = (),
    held: tuple[str, ...] = (),
) -> frozenset[str] | None:
    """The nodes for a job of one CPU on each of so many nodes."""
    nodes = tuple(
        replace(one, partitions=frozenset({"small" if one.name in SMALL else "large"})) for one in NODES
    )
    changes: dict[str, Any] = {
        "node_count": node_count,
        "cpu_count": node_count,
        "task_count": node_count,
        "memory_mb": 0.0 if counts is WHOLE_NODES else 100.0,
        "tres": f"cpu={node_count},node={node_count}",
        "partitions": partitions,
    }
    job = replace(PENDING, **changes)
    resources = SnapshotResources(
        nodes,
        (RawPartition(name="small", state="UP"), RawPartition(name="large", state="UP")),
        counts=counts,
    )
    resources = resources.among_partitions(frozenset(kept), {job.job_id: held})
    return resources.asked(job, urgent=True).eligible_nodes


@pytest.fixture(params=[WHOLE_NODES, SHARING], ids=["whole", "shared"])
def counts(request: pytest.FixtureRequest) -> Counting:
    found: Counting = request.param
    return found


def test_several_nodes_are_those_of_the_partition_where_most_could_come_free(counts: Counting) -> None:
    assert eligible(2, counts=counts) == LARGE
    assert eligible(2, counts=counts, kept=("n4", "n5", "n6")) == SMALL
    assert eligible(2, counts=counts, kept=("n4", "n5")) == LARGE, "of equal ones the larger one"


def test_a_job_stays_in_the_partition_of_its_hold(counts: Counting) -> None:
    """Jobs that end elsewhere meanwhile do not make it change."""
    assert eligible(2, counts=counts, held=("n1", "n3")) == SMALL
    assert eligible(2, counts=counts, kept=("n4", "n5", "n6"), held=("n7", "n8")) == LARGE


def test_one_node_may_be_in_any_of_the_partitions(counts: Counting) -> None:
    assert eligible(1, counts=counts) is None
    assert eligible(1, counts=counts, partitions=("small",)) == SMALL


def test_more_nodes_than_one_of_the_partitions_has_are_those_of_the_other(counts: Counting) -> None:
    assert eligible(4, counts=counts, kept=LARGE) == LARGE


def test_the_nodes_of_jobs_that_may_not_leave_are_known() -> None:
    stays = replace(RUNNING, job_id="1", nodes=("n1", "n2"), requeueable=False)
    leaves = replace(RUNNING, job_id="2", nodes=("n3",), requeueable=True)
    completing = replace(stays, job_id="3", nodes=("n4",), state="COMPLETING")
    part = replace(leaves, job_id="4+0", nodes=("n5",), heterogeneous=True)
    assert kept_nodes((stays, leaves, completing, part), (ANY,)) == {"n1", "n2", "n5"}
