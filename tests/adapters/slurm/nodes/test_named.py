"""Urgent jobs that name some of their nodes: the others are chosen."""

from dataclasses import replace
from typing import Any

import pytest

from makeway.adapters.slurm.nodes.network import ONE_FOR_ALL, Network, Networks
from makeway.adapters.slurm.nodes.reach import Reach
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.parse_cluster import JobDefaults
from makeway.adapters.slurm.resources.details import MemoryPer
from makeway.adapters.slurm.resources.submission import submission
from makeway.adapters.slurm.resources.view import SnapshotResources
from makeway.policies.model import CPU, Resources
from tests.adapters.slurm.jobs.raw_jobs import PENDING
from tests.adapters.slurm.nodes.test_reach import SHARING
from tests.adapters.slurm.resources.test_whole import PARTITIONS, node, told

NODES = (node("fat", cpu_count=16, usable_cpu_count=16, core_count=16), *map(node, ("n1", "n2", "n3", "n4")))
"""One node of 16 cores, and four of 8."""
BUSY = frozenset({"n1", "n2", "n3", "n4", "fat"})
ANYWHERE = Reach()
PAIRS = (frozenset({"n1", "n2"}), frozenset({"n3", "n4"}))


def job(tasks: int, node_count: int, *required: str, **changes: Any) -> RawJob:
    """A waiting job of so many tasks of one CPU, which names some nodes."""
    return replace(
        PENDING,
        required_nodes=required,
        node_count=node_count,
        cpu_count=tasks,
        task_count=tasks,
        tres=f"cpu={tasks},node={node_count}",
        memory_mb=1.0,
        **changes,
    )


def resources(
    one: RawJob, reach: Reach, *, whole: bool, networks: Networks = ONE_FOR_ALL
) -> SnapshotResources:
    found = told(memory_per=MemoryPer.NODE, memory_mb=1.0, most_nodes=None, may_have_more=True)
    details = {one.job_id: replace(found, exclusive=whole, takes_all=whole)}
    known = SnapshotResources(NODES, PARTITIONS, counts=SHARING, details=details)
    return known.within(lambda: reach, networks)


def chosen(one: RawJob, reach: Reach = ANYWHERE, *, whole: bool = False) -> set[str] | str:
    """The nodes that are asked for; or what is not counted."""
    given = resources(one, reach, whole=whole).asked(one, urgent=True)
    assert given.uncounted or len(given.eligible_nodes or ()) == given.node_count == given.node_count_max
    return given.uncounted or set(given.eligible_nodes or ())


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    ("reach", "nodes"),
    [
        (Reach(busy=BUSY - {"n2"}), {"n3", "n2"}),  # it has no jobs
        (Reach(busy=BUSY, of_jobs=PAIRS), {"n3", "n4"}),  # their job has to leave n3 anyway
        (Reach(busy=BUSY, of_jobs=PAIRS, kept=frozenset({"n4", "fat"})), {"n3", "n1"}),
        (Reach(busy=BUSY, unusable=frozenset({"n1", "fat"})), {"n3", "n2"}),
        (Reach(unusable=frozenset({"n1", "fat"}), busy=frozenset({"n2"})), {"n3", "n4"}),
    ],
)
def test_the_best_of_the_other_nodes_are_asked_for(reach: Reach, nodes: set[str], whole: bool) -> None:
    assert chosen(job(2, 2, "n3"), reach, whole=whole) == nodes


@pytest.mark.parametrize("whole", [False, True])
def test_a_job_keeps_to_the_nodes_of_its_hold(whole: bool) -> None:
    own = frozenset({"n3", "n1"})
    held = Reach(busy=BUSY - {"n2"}, own={"7": own}, held=own)
    assert chosen(job(2, 2, "n3"), held, whole=whole) == {"n3", "n1"}


def test_what_jobs_that_stay_leave_of_a_shared_node_counts() -> None:
    kept = frozenset({"fat", "n1", "n2", "n4"})
    left = {"n2": Resources.of({CPU: 3}), "n4": Resources.of({CPU: 4})}
    reach = Reach(busy=BUSY, kept=kept, left=left)
    assert chosen(job(8, 2, "n3"), reach) == {"n3", "n4"}


def test_a_node_that_does_not_hold_the_job_alone_is_one_of_several() -> None:
    """Slurm shows one node of a job whose CPUs do not fit on the node that it names."""
    reach = Reach(busy=BUSY, of_jobs=PAIRS, kept=frozenset({"fat"}))
    assert chosen(job(12, 1, "n3"), reach) == {"n3", "n4"}


def test_all_named_nodes_are_asked_for() -> None:
    assert chosen(job(3, 3, "n3", "n1"), Reach(busy=BUSY - {"n2"})) == {"n1", "n2", "n3"}
    assert chosen(job(2, 2, "n3", "n1")) == {"n1", "n3"}


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("required", [("n9",), ("n3", "n9")])
def test_a_job_that_names_a_node_that_cannot_serve_it_has_no_choice(
    whole: bool, required: tuple[str, ...]
) -> None:
    why = "--nodelist with fewer nodes than the job gets"
    assert chosen(job(3, 3, *required), whole=whole) == why


def test_nodes_that_are_not_connected_are_not_chosen_together() -> None:
    apart = Networks(default=Network(parts=(frozenset({"n1", "n2"}), frozenset({"n3", "n4", "fat"}))))
    one = job(2, 2, "n3")
    given = resources(one, Reach(), whole=False, networks=apart).asked(one, urgent=True)
    assert given.uncounted == "--nodelist with fewer nodes than the job gets"


@pytest.mark.parametrize("options", [("-N2", "-w", "n3"), ("-N2", "-w", "n3", "--exclusive")])
def test_a_job_that_is_not_submitted_yet_asks_for_the_same(options: tuple[str, ...]) -> None:
    wanted = submission(options, PARTITIONS, JobDefaults())
    known = SnapshotResources(NODES, PARTITIONS, counts=SHARING)
    reach = Reach(busy=BUSY, of_jobs=PAIRS)
    given = known.within(lambda: reach).submitted(wanted)
    assert (given.eligible_nodes, given.node_count, given.blocked_by) == (frozenset({"n3", "n4"}), 2, "")
