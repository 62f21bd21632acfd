"""Policy "eviction" where jobs share nodes: only jobs leave whose resources the urgent job needs."""

from dataclasses import replace

import pytest

from makeway.policies.model import (
    CheckpointSpec,
    Cluster,
    Decision,
    JobState,
    Method,
    Operation,
    OperationKind,
    Progress,
    Reservation,
    Reserve,
)
from tests.policies.arriving import NOW_S, Build, prioritise, victims
from tests.policies.arriving import decide as decide_by
from tests.policies.common.operations import operation
from tests.policies.sharing import amounts, part, shared


def decide(cluster: Cluster) -> Decision:
    return decide_by(cluster, kills="at_once")


def the_hold(cluster: Cluster) -> Reserve:
    (found,) = [action for action in decide(cluster).actions if isinstance(action, Reserve)]
    return found


def test_gpus_that_are_free_and_one_small_job_are_enough(waiting: Build) -> None:
    cluster = shared(
        *(part(f"a{index}", "n0", amounts(2, gpu=1)) for index in range(4)),
        part("b", "n1", amounts(2, gpu=1)),
        part("c", "n1", amounts(1)),
        part("d", "n1", amounts(4, gpu=2)),
        waiting("u", 1, demand=amounts(2, gpu=2)),
    )
    assert victims(decide(cluster)) == [("b", Method.KILL)]
    assert the_hold(cluster).nodes == ("n1",)
    assert the_hold(cluster).kind is OperationKind.MAKE_WAY_SHARED


def test_one_core_of_a_node_with_a_protected_job_is_found(waiting: Build) -> None:
    cluster = shared(
        part("p", "n0", amounts(5), preemptible=False),
        *(part(f"s{index}", "n0", amounts(1), start_s=NOW_S - 500.0 + 100.0 * index) for index in range(3)),
        waiting("u", 1, demand=amounts(1)),
        node_count=1,
    )
    decision = decide(cluster)
    assert victims(decision) == [("s2", Method.KILL)]
    notes = {candidate.job_ids[0]: candidate.note for candidate in decision.rationale[0].candidates}
    assert notes["p"] == "not_preemptible"


def test_each_way_of_each_job_is_told_and_the_chosen_one_is_marked(waiting: Build) -> None:
    """A job may be killed, or leave after a checkpoint. One that is protected has no way."""
    saves = CheckpointSpec(system_s=60.0, grace_s=120.0)
    cluster = shared(
        part("a", "n0", amounts(4), checkpoint=saves),
        part("p", "n0", amounts(4), preemptible=False),
        waiting("u", 1, demand=amounts(4)),
        node_count=1,
    )
    (why,) = decide(cluster).rationale
    told = [(one.job_ids[0], one.method, one.loss_node_s, one.delay_s, one.chosen) for one in why.candidates]
    assert told == [
        ("a", Method.KILL, 500, 0.0, False),
        ("a", Method.SYSTEM, 0, 60.0, True),
        ("p", None, 0, 0.0, False),
    ]


def test_memory_is_what_lacks(waiting: Build) -> None:
    cluster = shared(
        part("a", "n0", amounts(1, mem=12_000)),
        part("b", "n0", amounts(5, mem=1000)),
        waiting("u", 1, demand=amounts(1, mem=8000)),
        node_count=1,
    )
    assert victims(decide(cluster)) == [("a", Method.KILL)]


@pytest.mark.parametrize("shrink", [False, True])
def test_the_end_of_a_protected_job_leaves_no_node_free_that_another_job_is_on(
    waiting: Build, shrink: bool
) -> None:
    cluster = shared(
        part("far", "n0", amounts(8), preemptible=False),
        part("soon", "n1", amounts(2), preemptible=False, walltime_s=1100.0),
        part("b", "n1 n2", amounts(2), start_s=NOW_S - 100.0),
        waiting("u", 1),
        node_count=3,
    )
    decision = decide_by(cluster, shrink=shrink)
    late = decision.rationale[0].postponed
    leaving = [job_id for job_id, _ in victims(decision)]
    assert leaving + [one.job_id for one in (late.departures if late else ())] == ["b"]


def test_the_rest_of_a_node_is_room_enough(waiting: Build) -> None:
    cluster = shared(part("a", "n0", amounts(4)), waiting("u", 1, demand=amounts(4)), node_count=1)
    decision = decide(cluster)
    assert victims(decision) == []
    assert the_hold(cluster).nodes == ("n0",)


def test_each_job_leaves_in_its_own_way(waiting: Build) -> None:
    saves = CheckpointSpec(system_s=60.0)
    cluster = shared(
        part("a", "n0", amounts(4), checkpoint=saves),
        part("b", "n0", amounts(4), last_checkpoint_s=NOW_S - 1.0),
        waiting("u", 1, demand=amounts(8)),
        node_count=1,
    )
    decision = decide(cluster)
    assert sorted(victims(decision)) == [("a", Method.SYSTEM), ("b", Method.KILL)]
    assert decision.rationale[0].loss_node_s == 1, "half a node for a second, rounded up"


def test_a_whole_node_is_freed_of_the_jobs_that_lose_least(waiting: Build) -> None:
    cluster = shared(
        part("a", "n0", amounts(2)),
        part("b", "n0", amounts(2)),
        part("c", "n1", amounts(7)),
        waiting("u", 1),
    )
    decision = decide(cluster)
    assert sorted(victims(decision)) == [("a", Method.KILL), ("b", Method.KILL)]
    assert the_hold(cluster).kind is OperationKind.MAKE_WAY


def test_what_leaves_anyway_counts_as_room(waiting: Build) -> None:
    leaving = operation("other", "n9", "a", progress=Progress.ACCEPTED)
    jobs = (part("a", "n0 n9", amounts(4)), part("b", "n0", amounts(4)))
    cluster = shared(*jobs, waiting("u", 1, demand=amounts(4)), node_count=1, operations=(leaving,))
    assert victims(decide(cluster)) == []
    assert the_hold(cluster).nodes == ("n0",)
    more = shared(*jobs, waiting("u", 1, demand=amounts(8)), node_count=1, operations=(leaving,))
    assert victims(decide(more)) == [("b", Method.KILL)]
    whole = shared(*jobs, waiting("u", 1), node_count=1, operations=(leaving,))
    assert victims(decide(whole)) == [("b", Method.KILL)]


def test_a_job_that_is_completing_is_no_loss_of_a_hold(waiting: Build) -> None:
    completing = part("a", "n0", amounts(5), state=JobState.COMPLETING)
    held = shared(
        completing,
        waiting("u", 1, demand=amounts(6), reservation="mw_u"),
        node_count=1,
        reservations=(Reservation(name="mw_u", nodes=("n0",), start_s=0.0, end_s=NOW_S + 999.0),),
        operations=(hold_of(progress=Progress.PLANNED),),
    )
    assert decide(held).actions == ()


def test_two_urgent_jobs_do_not_count_on_the_same_room(waiting: Build) -> None:
    jobs = (part("a", "n0", amounts(8)), part("b", "n1", amounts(8)))
    first = waiting("u", 1, demand=amounts(4))
    decision = decide(shared(*jobs, first, waiting("v", 1, demand=amounts(5))))
    assert sorted(victims(decision)) == [("a", Method.KILL), ("b", Method.KILL)]
    decision = decide(shared(*jobs, first, waiting("v", 1, demand=amounts(4))))
    assert sorted(victims(decision)) == [("a", Method.KILL)], "n0 has room for both"


def test_no_job_leaves_for_one_that_lacks_a_licence(waiting: Build) -> None:
    cluster = shared(
        part("a", "n0", amounts(8)), waiting("u", 1, demand=amounts(2), blocked_by="a licence"), node_count=1
    )
    decision = decide(cluster)
    assert decision.actions == ()
    assert decision.rationale[0].summary == "It waits for a licence: no job is evicted for it."
    assert decide(replace(cluster, jobs=cluster.jobs[:1])).rationale == ()


def test_without_room_the_job_goes_to_the_front(waiting: Build) -> None:
    cluster = shared(
        part("a", "n0", amounts(5), preemptible=False),
        part("b", "n0", amounts(3)),
        waiting("u", 1, demand=amounts(4)),
        node_count=1,
    )
    decision = decide(cluster)
    assert decision.actions == (prioritise("u"),)
    assert decision.rationale[0].summary == (
        "Room for cpu=4, mem=1000M on 1 more node is needed; "
        "no choice among 1 job on 1 node makes room within 570 s."
    )


def hold_of(*evicted: str, progress: Progress) -> Operation:
    """u's operation, with the hold on n0 and the evictions."""
    found = operation("u", "n0", *evicted, progress=progress)
    return replace(found, kind=OperationKind.MAKE_WAY_SHARED)


def test_a_neighbour_on_a_held_node_is_no_loss_of_the_hold(waiting: Build) -> None:
    cluster = shared(
        part("a", "n0", amounts(4)),
        part("b", "n0", amounts(4)),
        waiting("u", 1, demand=amounts(4), reservation="mw_u"),
        node_count=2,
        reservations=(Reservation(name="mw_u", nodes=("n0",), start_s=0.0, end_s=NOW_S + 999.0),),
        operations=(hold_of("b", progress=Progress.PLANNED),),
    )
    assert decide(cluster).actions == ()


def test_a_held_node_with_too_little_room_is_made_up_for(waiting: Build) -> None:
    """The victim ended by itself before it was evicted, and a job of another user took its place."""
    cluster = shared(
        part("a", "n0", amounts(4)),
        part("c", "n0", amounts(4), preemptible=False),
        waiting("u", 1, demand=amounts(6), reservation="mw_u"),
        node_count=2,
        reservations=(Reservation(name="mw_u", nodes=("n0",), start_s=0.0, end_s=NOW_S + 999.0),),
        operations=(hold_of("gone", progress=Progress.PLANNED),),
    )
    assert the_hold(cluster).nodes == ("n1",)


def test_a_refused_eviction_leaves_no_room(waiting: Build) -> None:
    found = hold_of("b", progress=Progress.PLANNED)
    refused = replace(found, tasks=tuple(replace(task, progress=Progress.REFUSED) for task in found.tasks))
    cluster = shared(
        part("a", "n0", amounts(4)),
        part("b", "n0", amounts(4)),
        waiting("u", 1, demand=amounts(4), reservation="mw_u"),
        node_count=1,
        reservations=(Reservation(name="mw_u", nodes=("n0",), start_s=0.0, end_s=NOW_S + 999.0),),
        operations=(refused,),
    )
    assert victims(decide(cluster)) == [("a", Method.KILL)]
