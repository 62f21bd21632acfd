"""Urgent jobs that may run on several numbers of nodes: those are asked for that could come free."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from makeway.adapters.slurm.holds import HoldNames
from makeway.adapters.slurm.nodes.reach import Reach, reach_for
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.parse_cluster import RawNode, RawPartition, RawReservation
from makeway.adapters.slurm.resources.counting import Counting
from makeway.adapters.slurm.resources.details import MemoryPer
from makeway.adapters.slurm.resources.holdings import Holdings
from makeway.adapters.slurm.resources.view import SnapshotResources
from makeway.policies.model import CPU, MEMORY, Resources
from tests.adapters.slurm.jobs.raw_jobs import NOW_S, PENDING, RUNNING
from tests.adapters.slurm.resources.test_details import COUNTS, JOB, printed
from tests.adapters.slurm.resources.test_whole import PARTITIONS, node, told

SHARING = Counting(shares=True, cpus=True)
FAT = {"cpu_count": 16, "usable_cpu_count": 16, "core_count": 16}
NODES = (node("fat", **FAT), node("n1"), node("n2"), node("n3"))
"""One node of 16 cores, and three of 8."""
SMALL = frozenset({"n1", "n2", "n3"})
FAT_ALONE = frozenset({"fat"})
Found = tuple[int, frozenset[str] | None]


def job(tasks: int, **changes: Any) -> RawJob:
    """A waiting job of so many tasks of one CPU."""
    plain: dict[str, Any] = {"node_count": 1, "tres": f"cpu={tasks},node=1", "memory_mb": 1.0}
    return replace(PENDING, cpu_count=tasks, task_count=tasks, **(plain | changes))


def asked(
    one: RawJob,
    reach: Reach,
    *,
    whole: bool = False,
    most_nodes: int | None = None,
    known: bool = True,
    may_have_more: bool = True,
    partitions: tuple[RawPartition, ...] = PARTITIONS,
) -> Found:
    """On how many nodes, and which, an urgent job asks to run. `whole`: of its own."""
    found = told(memory_per=MemoryPer.NODE, memory_mb=1.0, most_nodes=most_nodes)
    found = replace(found, exclusive=whole, takes_all=whole, may_have_more=may_have_more)
    details = {one.job_id: found} if known else {}
    resources = SnapshotResources(NODES, partitions, counts=SHARING, details=details)
    given = resources.within(lambda: reach).asked(one, urgent=True)
    return given.node_count, given.eligible_nodes


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    ("reach", "found"),
    [
        (Reach(), (1, frozenset({"fat"}))),
        (Reach(kept=frozenset({"n1"})), (1, frozenset({"fat"}))),
        (Reach(kept=frozenset({"fat"})), (2, SMALL)),
        (Reach(unusable=frozenset({"fat"})), (2, SMALL)),
        (Reach(kept=frozenset({"fat", "n1"})), (2, frozenset({"n2", "n3"}))),
        (Reach(kept=frozenset({"fat", "n1", "n2"})), (1, frozenset({"fat"}))),
    ],
)
def test_more_nodes_are_asked_for_where_the_fewest_could_not_come_free(
    reach: Reach, found: Found, whole: bool
) -> None:
    assert asked(job(12), reach, whole=whole) == found


def test_a_job_that_runs_on_one_node_alone_waits_for_it() -> None:
    kept = Reach(kept=frozenset({"fat"}))
    assert asked(job(12), kept, most_nodes=1) == (1, frozenset({"fat"}))
    assert asked(job(12, required_nodes=("fat",)), kept) == (1, frozenset({"fat"}))
    assert asked(job(12), kept, known=False) == (1, frozenset({"fat"}))


@pytest.mark.parametrize("whole", [False, True])
def test_a_job_that_may_be_one_of_one_node_alone_gets_no_more_nodes(whole: bool) -> None:
    """24.11 shows the same of `-N1 -n12`, which never runs on two nodes, as of `-n12`."""
    kept = Reach(kept=frozenset({"fat"}))
    assert asked(job(12), kept, whole=whole, may_have_more=False) == (1, frozenset({"fat"}))
    # As many nodes of other sizes it may have.
    pair = job(20, node_count=2, tres="cpu=20,node=2")
    assert asked(pair, Reach(kept=frozenset({"n1"})), whole=True, may_have_more=False) == (
        2,
        frozenset({"fat", "n2"}),
    )


def test_a_job_too_large_for_every_number_of_nodes_is_told_so() -> None:
    assert asked(job(64), Reach(kept=frozenset({"fat"})))[1] == frozenset()


@pytest.mark.parametrize(("cpus_left", "found"), [(12, (1, frozenset({"fat"}))), (11, (2, SMALL))])
def test_what_a_job_that_stays_leaves_of_a_shared_node_counts(cpus_left: int, found: Found) -> None:
    left = {"fat": Resources.of({CPU: cpus_left})}
    assert asked(job(12), Reach(kept=frozenset({"fat"}), left=left)) == found


@pytest.mark.parametrize(("whole", "found"), [(True, (2, SMALL)), (False, (1, frozenset({"fat"})))])
def test_a_whole_node_that_is_held_for_another_urgent_job_does_not_count(whole: bool, found: Found) -> None:
    """On a shared node the hold ends when the other job runs, and the rest serves this one."""
    assert asked(job(12), Reach(held=frozenset({"fat"})), whole=whole) == found


@pytest.mark.parametrize("whole", [False, True])
def test_a_job_keeps_to_the_number_of_nodes_of_its_hold(whole: bool) -> None:
    hold = frozenset({"n1", "n2"})
    assert asked(job(12), Reach(own={"7": hold}, held=hold), whole=whole) == (2, hold)
    assert asked(job(12), Reach(own={"7": FAT_ALONE}, held=FAT_ALONE), whole=whole) == (1, frozenset({"fat"}))


def test_a_hold_does_not_narrow_what_a_job_asks_for() -> None:
    assert asked(job(2), Reach(own={"7": frozenset({"n1"})})) == (1, None)


def test_a_partition_has_to_admit_the_larger_number_of_nodes() -> None:
    one_node = (replace(PARTITIONS[0], node_count_max=1),)
    kept = Reach(kept=frozenset({"fat"}))
    assert asked(job(12), kept, partitions=one_node) == (1, frozenset({"fat"}))


@pytest.mark.parametrize("one", [job(64), job(1), job(2, node_count=2, tres="cpu=2,node=2")])
def test_what_could_come_free_is_not_looked_for_where_there_is_no_choice(one: RawJob) -> None:
    def find_reach() -> Reach:
        pytest.fail("it was looked for")

    details = {one.job_id: told(memory_per=MemoryPer.NODE, memory_mb=1.0)}
    resources = SnapshotResources(NODES, PARTITIONS, counts=SHARING, details=details)
    resources.within(find_reach).asked(one, urgent=True)


def test_each_snapshot_has_a_reach_of_its_own() -> None:
    told_of = told(memory_per=MemoryPer.NODE, memory_mb=1.0, most_nodes=None, may_have_more=True)
    details = {"7": replace(told_of, exclusive=False)}
    resources = SnapshotResources(NODES, PARTITIONS, counts=SHARING, details=details)
    for kept, small in ("n1", {"n2", "n3"}), ("n2", {"n1", "n3"}):
        reach = Reach(kept=frozenset({"fat", kept}))
        resources = resources.within(partial(replace, reach))
        assert resources.asked(job(12), urgent=True).eligible_nodes == frozenset(small)


def test_whole_nodes_of_other_sizes_are_asked_for() -> None:
    """Any two nodes of a set have to do: the large one and one other. Without it three have 20 CPUs."""
    assert asked(job(20), Reach(), whole=True) == (2, frozenset({"fat", "n1"}))
    assert asked(job(20), Reach(kept=frozenset({"n1"})), whole=True) == (2, frozenset({"fat", "n2"}))
    assert asked(job(20), Reach(kept=frozenset({"fat"})), whole=True) == (3, SMALL)


TINY = node("tiny", cpu_count=4, usable_cpu_count=4, core_count=4)


@pytest.mark.parametrize(
    ("tasks", "changes", "kept", "found"),
    [
        # Two of the small ones, of which there are most: not one large one, nor three with the tiny one.
        (12, {}, "", (2, SMALL)),
        (9, {"task_count": 3, "cpus_per_task": 3}, "", (2, SMALL)),
        # Any of them but the tiny one holds a job of one node, and the tiny one would be one of several.
        (8, {}, "", (1, SMALL | {"fat"})),
        (4, {}, "", (1, None)),
        # Two of the small ones have 14 CPUs for tasks of 7, and the large one has as many.
        (14, {"task_count": 2, "cpus_per_task": 7}, "", (2, SMALL)),
        (12, {}, "n1 n2", (1, frozenset({"fat"}))),
        (12, {}, "n1 n2 fat", (2, frozenset({"n3", "tiny"}))),
        (13, {}, "n1 n2 fat", (2, SMALL)),
        (24, {}, "", (3, SMALL)),
        (24, {}, "n1", (2, frozenset({"fat", "n2"}))),
    ],
)
def test_whole_nodes_are_of_one_size_so_that_none_is_held_in_vain(
    tasks: int, changes: Mapping[str, Any], kept: str, found: Found
) -> None:
    assert asked_whole((*NODES, TINY), tasks, kept=kept, **changes) == found


def asked_whole(nodes: tuple[RawNode, ...], tasks: int, *, kept: str = "", **changes: Any) -> Found:
    """What an exclusive job asks. Slurm shows the number of nodes by the smallest one. A job runs on as few
    nodes of its hold as it can.
    """
    smallest = min(one.cpu_count for one in nodes)
    shown = {"node_count": -(-tasks // smallest), "tres": f"cpu={tasks},node=1"}
    details = told(memory_per=MemoryPer.NODE, memory_mb=1.0, most_nodes=None, may_have_more=True)
    resources = SnapshotResources(nodes, PARTITIONS, counts=SHARING, details={"7": details})
    reach = Reach(kept=frozenset(kept.split()))
    one = replace(job(tasks, **shown), **changes)
    given = resources.within(lambda: reach).asked(one, urgent=True)
    return given.node_count, given.eligible_nodes


def cores(number: int, *names: str) -> tuple[RawNode, ...]:
    return tuple(node(name, cpu_count=number, usable_cpu_count=number, core_count=number) for name in names)


def test_the_size_is_chosen_of_which_there_are_most_nodes() -> None:
    fat = frozenset({"a", "b"})
    assert asked_whole((*cores(16, *fat), *cores(8, "c", "d")), 12) == (1, fat)
    assert asked_whole((*cores(16, *fat), *cores(8, "c")), 12) == (1, fat)
    # Four nodes of 4 cores are not enough for 24.
    assert asked_whole((*cores(8, "a", "b", "c"), *cores(4, "d", "e", "f", "g")), 24) == (
        3,
        frozenset({"a", "b", "c"}),
    )


def test_a_task_is_on_one_node() -> None:
    """Two nodes of 5 cores hold two tasks of 3 CPUs, not three."""
    nodes = (*cores(16, "a"), *cores(5, "b", "c", "d"))
    assert asked_whole(nodes, 9, task_count=3, cpus_per_task=3) == (1, frozenset({"a"}))
    assert asked_whole(nodes, 9) == (2, frozenset({"b", "c", "d"}))


def test_tasks_that_share_a_cpu_are_on_any_node() -> None:
    assert asked_whole((*NODES, TINY), 1, task_count=12) == (1, None)


def test_which_nodes_could_come_free() -> None:
    def reservation(name: str, nodes: tuple[str, ...], start_s: float) -> RawReservation:
        return RawReservation(name=name, start_s=start_s, end_s=NOW_S + 100.0, nodes=nodes)

    waits = job(1, reservations=("mw_7",))
    stays = replace(RUNNING, job_id="9", nodes=("n1",))
    left: Mapping[str, Resources] = {"n1": Resources.of({CPU: 4})}
    found = reach_for(
        [waits, stays],
        [stays],
        [
            reservation("mw_7", ("fat",), NOW_S - 10.0),
            reservation("maintenance", ("n2",), NOW_S - 10.0),
            reservation("later", ("n4",), NOW_S + 10.0),
        ],
        HoldNames(prefix="mw_"),
        left=left,
        down=frozenset({"n3"}),
        now_s=NOW_S,
    )
    assert found == Reach(
        kept=frozenset({"n1"}),
        left=left,
        busy=frozenset({"n1"}),
        of_jobs=(frozenset({"n1"}),),
        own={"7": FAT_ALONE},
        held=FAT_ALONE,
        unusable=frozenset({"n2", "n3"}),
    )


def test_what_jobs_leave_of_their_nodes() -> None:
    """The job of the details has 1 and 3 CPUs; of the other ones nothing is known."""
    unknown = [replace(JOB, job_id=name, nodes=(name,)) for name in ("n1", "n3")]
    holdings = Holdings(COUNTS)
    holdings.learn([JOB], {JOB.job_id: printed(JOB, "")}, {})
    resources = SnapshotResources(NODES, PARTITIONS, counts=COUNTS, holdings=holdings)
    left = {
        name: Resources.of({CPU: cpus, MEMORY: mb})
        for name, cpus, mb in (("n1", 7, 15_900), ("n2", 5, 15_700))
    }
    assert resources.left_by([JOB]) == left
    assert resources.left_by([JOB, unknown[1]]) == left
    assert resources.left_by([JOB, unknown[0]]) == resources.left_by([unknown[0], JOB]) == {"n2": left["n2"]}
