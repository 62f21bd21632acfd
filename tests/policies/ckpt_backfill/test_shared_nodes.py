"""Starts before their turn where the first of the queue needs a part of its nodes."""

from dataclasses import replace

from makeway.policies.ckpt_backfill.outlook import CkptBackfillConfig, WaitingJob, outlook
from makeway.policies.ckpt_backfill.policy import decide
from makeway.policies.gate.arbiter import arbitrate
from makeway.policies.model import CheckpointSpec, Cluster, Job, JobKind, JobState, Phase, Resources
from tests.policies.ckpt_backfill.test_policy import hold, operation, start
from tests.policies.sharing import NOW_S, amounts, part, shared

SAVES = CheckpointSpec(system_s=100.0, grace_s=50.0)
P20 = CkptBackfillConfig(p=0.2, hold_slack_s=600.0)


def queued(job_id: str, node_count: int, demand: Resources | None, *, ago_s: float) -> Job:
    return Job(
        job_id=job_id,
        kind=JobKind.RIGID,
        state=JobState.PENDING,
        node_count=node_count,
        demand=demand,
        walltime_s=10_000.0,
        submit_s=NOW_S - ago_s,
        user="alice",
        checkpoint=SAVES,
        preemptible=True,
    )


def test_the_shadow_time_is_that_of_enough_room() -> None:
    """a ends first, but only with b there is room for half a node; c never leaves enough."""
    cluster = shared(
        part("a", "n0", amounts(2), start_s=NOW_S - 1000.0, walltime_s=1500.0),
        part("b", "n0", amounts(3), start_s=NOW_S - 1000.0, walltime_s=2500.0),
        part("c", "n0", amounts(3), start_s=NOW_S - 1000.0, walltime_s=9000.0),
        part("d", "n1", amounts(5), start_s=NOW_S - 1000.0, walltime_s=8000.0),
        queued("h", 1, amounts(5), ago_s=10.0),
    )
    view = outlook(cluster, WaitingJob(job=cluster.jobs[-1]), P20)
    assert view.shadow_time_s == NOW_S + 1500.0
    assert (view.free, view.idle) == ((), ())
    assert view.ready_s == {"n0": NOW_S + 1500.0, "n1": NOW_S + 7000.0}


def test_a_part_of_a_node_is_free_for_the_first_but_is_not_idle() -> None:
    cluster = shared(part("d", "n1", amounts(3)), queued("h", 3, amounts(5), ago_s=10.0))
    view = outlook(cluster, WaitingJob(job=cluster.jobs[-1]), P20)
    assert (view.free, view.idle) == (("n0", "n1"), ("n0",))


def overdue(*others: Job) -> Cluster:
    """x and y were started early on n0, where other jobs run too; half of the node was promised to h."""
    early = [
        part(job_id, "n0", amounts(cpu), start_s=NOW_S - 2100.0, walltime_s=10_000.0, checkpoint=SAVES)
        for job_id, cpu in (("x", 2), ("y", 4))
    ]
    promise = operation(hold("h"), opened_s=NOW_S - 2100.0, deadline_s=NOW_S, phase=Phase.MAKING_ROOM)
    lent = [operation(start(x.job_id, "n0"), opened_s=NOW_S - 2100.0, deadline_s=NOW_S) for x in early]
    return shared(
        *early,
        *others,
        queued("h", 1, amounts(4), ago_s=5000.0),
        node_count=1,
        operations=(*lent, promise),
    )


def test_only_as_much_leaves_as_the_first_needs() -> None:
    cluster = overdue(part("neighbour", "n0", amounts(2), preemptible=False))
    decision = decide(cluster, P20)
    assert [action.job_id for action in decision.actions] == ["h", "y", "y"]
    assert decision.actions[0] == hold("h", "n0", duration_s=10_700.0)
    assert all(verdict.allowed for verdict in arbitrate(decision.actions, cluster))
    chosen = {one.job_ids[0]: one.chosen for one in decision.rationale[0].candidates}
    assert chosen == {"y": True, "x": False, "neighbour": False}


def test_on_held_nodes_neighbours_that_are_not_in_the_way_stay() -> None:
    cluster = overdue(part("neighbour", "n0", amounts(2), preemptible=False))
    kept = operation(
        hold("h", "n0"), opened_s=NOW_S - 3000.0, deadline_s=NOW_S - 500.0, phase=Phase.MAKING_ROOM
    )
    jobs = tuple(replace(job, reservation="mw_h") if job.job_id == "h" else job for job in cluster.jobs)
    held = replace(cluster, jobs=jobs, operations=(*cluster.operations[:2], kept))
    assert [action.job_id for action in decide(held, P20).actions] == ["y", "y"]
    protected = tuple(replace(job, preemptible=job.job_id != "y") for job in jobs)
    assert decide(replace(held, jobs=protected), P20).actions == ()
