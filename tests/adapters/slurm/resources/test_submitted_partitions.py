"""Options of sbatch with several partitions, or with one that does not take every job."""

from dataclasses import replace
from typing import Any

import pytest

from makeway.adapters.slurm.nodes.reach import Reach
from makeway.adapters.slurm.parse_cluster import NO_JOB_DEFAULTS, RawPartition
from makeway.adapters.slurm.partitions.admission import TakenJobs
from makeway.adapters.slurm.resources.counting import WHOLE_NODES
from makeway.adapters.slurm.resources.submission import submission
from makeway.adapters.slurm.resources.view import SnapshotResources
from tests.adapters.slurm.jobs.raw_jobs import NODES
from tests.adapters.slurm.resources.test_partitions import (
    CHOICE,
    LARGE,
    LEFT,
    PLACED,
    RIGHT,
    SMALL,
    eligible,
)


@pytest.mark.parametrize(
    ("options", "node_count", "nodes", "admitted"),
    [
        ("-p small -n1", 2, SMALL, True),
        ("-p small -N1-3", 2, SMALL, True),
        ("-p small -N3", 3, SMALL, True),
        ("-p small -N1", 1, SMALL, False),
        ("-p small,large -n1", 1, LARGE, True),
        ("-p small,large -N2", 2, LARGE, True),
    ],
)
def test_options_in_a_partition_that_wants_more_nodes(
    options: str, node_count: int, nodes: frozenset[str], admitted: bool
) -> None:
    """Slurm raises the number of a job in one partition, if it may have more (22.05, 24.11 and 26.05)."""
    small = RawPartition(name="small", state="UP", admission=TakenJobs(node_count_min=2))
    choice = (small, RawPartition(name="large", state="UP"))
    wanted = submission(f"{options} --exclusive".split(), choice, NO_JOB_DEFAULTS)
    found = SnapshotResources(PLACED, choice).within(Reach).submitted(wanted)
    assert (found.node_count, found.eligible_nodes, found.admitted) == (node_count, nodes, admitted)


@pytest.mark.parametrize(
    ("options", "kept", "nodes"),
    [
        ("-p small,large -N1", SMALL, None),
        ("-p small,large -N2", SMALL, LARGE),
        ("-p small,large -N2", frozenset(("n4", "n5", "n6")), SMALL),
        ("-p large -N1 -C [left|right]", RIGHT, LARGE),
        ("-p large -N2 -C [left|right]", RIGHT, LEFT & LARGE),
        ("-p large -N2 -C [left|right]", LEFT, RIGHT),
    ],
)
def test_options_with_a_choice_ask_for_what_the_job_would(
    options: str, kept: frozenset[str], nodes: frozenset[str] | None
) -> None:
    choice = (RawPartition(name="small", state="UP"), RawPartition(name="large", state="UP"))
    reach = Reach(kept=kept, busy=kept)
    wanted = submission(f"{options} --exclusive".split(), choice, NO_JOB_DEFAULTS)
    found = SnapshotResources(PLACED, choice).within(lambda: reach).submitted(wanted)
    assert found.eligible_nodes == nodes
    one = wanted.request
    given: dict[str, Any] = {"partitions": one.partitions, "features": one.features, "kept": kept}
    assert eligible(one.node_count, counts=WHOLE_NODES, **given) == nodes


@pytest.mark.parametrize(
    ("options", "admitted"),
    [
        ("-p one -N1", True),
        ("-p one -N2", False),
        ("-p brief -t 10", True),
        ("-p brief -t 11", False),
        ("-p one,brief -N2 -t 11", False),
        ("-p one,brief -N2 -t 10", True),
    ],
)
def test_options_that_the_partition_does_not_admit(options: str, admitted: bool) -> None:
    all_nodes = tuple(replace(one, partitions=frozenset({"one", "brief"})) for one in NODES)
    wanted = submission(options.split(), CHOICE, NO_JOB_DEFAULTS)
    assert SnapshotResources(all_nodes, CHOICE).submitted(wanted).admitted is admitted
