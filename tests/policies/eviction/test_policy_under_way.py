"""Policy "eviction" next to operations that are under way."""

from dataclasses import replace

from makeway.policies.model import (
    Action,
    Decision,
    Job,
    Method,
    Node,
    NodeState,
    Operation,
    OperationKind,
    Phase,
    Progress,
    Reason,
    Requeue,
    Reservation,
    Reserve,
    Task,
)
from tests.policies.arriving import NOW_S, Build, BuildCluster, decide, hold, requeue


def test_nodes_that_another_operation_frees_are_taken_before_any_eviction(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    first = (hold("u", "n0", 3000.0), requeue("a", "u", Method.APPLICATION, NOW_S + 400.0))
    under_way = operation(first, "n0")
    under_way = replace(
        under_way, tasks=tuple(replace(task, progress=Progress.PLANNED) for task in under_way.tasks)
    )
    jobs = (running("a", "n0 n1 n2"), running("b", "n2 n3"), waiting("u", 1), waiting("v", 1))
    cluster = cluster_of(4, *jobs, operations=(under_way,))
    decision = decide(cluster)
    assert decision.actions == (hold("v", "n1", 3000.0),)
    held = replace(operation(decision.actions, "n1"), for_job_id="v", reservation="mw_v")
    assert decide(replace(cluster, operations=(under_way, held))).actions == (), "and then v lacks nothing"
    given_up = replace(under_way, phase=Phase.RETURNING)
    again = decide(replace(cluster, operations=(given_up, held)))
    assert [action.reason for action in again.actions] == [Reason.SHORTFALL] * 2, (
        "no operation evicts a any more"
    )


def operation(actions: tuple[Action, ...], nodes: str) -> Operation:
    tasks = tuple(
        Task(action=action, progress=Progress.REFUSED if isinstance(action, Requeue) else Progress.DONE)
        for action in actions
    )
    return Operation(
        operation_id="u@1",
        kind=OperationKind.MAKE_WAY,
        for_job_id="u",
        policy="eviction",
        reservation="mw_u",
        nodes=tuple(nodes.split()),
        opened_s=NOW_S - 60.0,
        deadline_s=NOW_S + 540.0,
        give_up_s=NOW_S + 1140.0,
        tasks=tasks,
    )


def test_a_shortfall_is_made_up_under_the_same_hold(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """n1 has gone down, and the victim on n2 could not be requeued; n0 is kept."""
    first = (hold("u", "n0 n1 n2", 3000.0), requeue("stays", "u", Method.KILL, NOW_S))
    cluster = cluster_of(
        6,
        running("stays", "n2"),
        running("other", "n4 n5"),
        waiting("u", 3, submit_s=NOW_S - 60.0),
        operations=(operation(first, "n0 n1 n2"),),
        reservations=(Reservation(name="mw_u", nodes=("n0", "n1", "n2"), start_s=0.0, end_s=90_000.0),),
    )
    nodes = list(cluster.nodes)
    nodes[1] = Node(name="n1", state=NodeState.DOWN)
    decision = decide(replace(cluster, nodes=tuple(nodes)))
    assert decision.actions == (
        hold("u", "n0 n3 n4", 540.0 + 1800.0 + 600.0, Reason.SHORTFALL),
        requeue("other", "u", Method.KILL, NOW_S, Reason.SHORTFALL),
    )
    assert decision.rationale[0].deadline_s == NOW_S + 540.0


def test_a_job_that_wants_less_than_its_hold_keeps_enough_of_it(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """It was made smaller, and one of its nodes has gone down."""
    first = (hold("u", "n0 n1", 3000.0), requeue("a", "u", Method.KILL, NOW_S))
    cluster = cluster_of(
        3, running("a", "n0"), running("b", "n2"), waiting("u", 1), operations=(operation(first, "n0 n1"),)
    )
    leaving = Task(action=first[1], progress=Progress.PLANNED)
    (under_way,) = cluster.operations
    under_way = replace(under_way, tasks=(*under_way.tasks[:1], leaving))
    nodes = tuple(replace(one, state=NodeState.DOWN) if one.name == "n1" else one for one in cluster.nodes)
    decision = decide(replace(cluster, nodes=nodes, operations=(under_way,)))
    assert [action.verb for action in decision.actions] == ["reserve"]
    assert decision.rationale[0].summary == "What it keeps of its hold is enough: no other job has to leave."


def test_every_hold_says_which_reservation_its_job_was_submitted_with(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """The first hold reads it from the job, which may not show it while it is bound to the hold."""

    def held(job: Job, *operations: Operation) -> Reserve:
        found = decide(cluster_of(4, running("a", "n2"), job, operations=operations)).actions[0]
        assert isinstance(found, Reserve)
        return found

    first = held(waiting("u", 3, reservation="theirs"))
    assert first.own_reservation == "theirs"
    again = held(waiting("u", 3, reservation="mw_u"), operation((first,), "n0 n1 n2"))
    assert (again.reason, again.own_reservation) == (Reason.SHORTFALL, "theirs")


def test_an_operation_that_lacks_nothing_is_left_alone(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    first = (hold("u", "n0 n1", 3000.0),)
    cluster = cluster_of(4, running("a", "n2"), waiting("u", 2), operations=(operation(first, "n0 n1"),))
    assert decide(cluster) == Decision(policy="eviction")
