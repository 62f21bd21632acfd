"""The life of an operation for an urgent job that needs a part of a node: its hold is brief."""

from dataclasses import replace

from makeway.daemon.operation.due import wakeup_s
from makeway.daemon.operation.transitions import advance
from makeway.daemon.operation.validation import validate
from makeway.policies.model import (
    CPU,
    Cluster,
    Job,
    Node,
    Operation,
    OperationKind,
    OperationOutcome,
    Phase,
    Prioritise,
    Release,
    Resources,
)
from tests.builders import cluster, held, pending, running, urgent
from tests.daemon.acting import PATIENCE, begun, due, issue_all, requeue, reserve

NODE = ("n1",)
HALF = Resources.of({CPU: 4})


def with_cpus(job: Job, held: Resources) -> Job:
    return replace(job, allocation=(held,), node_equivalents=held.amount(CPU) / 8)


def on_half(job: Job) -> Job:
    return with_cpus(job, HALF)


def view(*jobs: Job, now_s: float, reserved: bool = True) -> Cluster:
    """One node of 8 CPUs, on which the neighbour always runs."""
    seen = cluster(
        1,
        on_half(running("neighbour", NODE)),
        *jobs,
        now_s=now_s,
        reservations=(held("u", NODE),) if reserved else (),
    )
    return replace(seen, nodes=(Node(name="n1", capacity=Resources.of({CPU: 8})),))


def started() -> tuple[Operation, Cluster]:
    """The urgent job runs since 1020 s, and its operation has seen that."""
    waits = replace(urgent("u", 1), demand=HALF)
    before = view(waits, on_half(running("v", NODE)), now_s=1000.0, reserved=False)
    hold = replace(reserve(NODE), kind=OperationKind.MAKE_WAY_SHARED)
    operation, _ = issue_all(begun(before, hold, requeue("v")), before)
    bound = view(replace(waits, reservation="mw_u"), on_half(running("v", NODE)), now_s=1010.0)
    operation, issued = issue_all(advance(operation, bound, PATIENCE), bound)
    assert issued == [requeue("v")]
    # Slurm lets the lender start some seconds later only.
    lender = replace(pending("v", 1, requeue_count=1), eligible_s=1130.0)
    runs = view(lender, on_half(running("u", NODE, start_s=1020.0)), now_s=1021.0)
    return advance(operation, runs, PATIENCE), runs


def test_the_hold_ends_at_once_when_the_urgent_job_runs() -> None:
    operation, runs = started()
    validate(operation)
    assert operation.phase is Phase.RETURNING
    assert operation.started_s == 1020.0
    assert [type(action) for action in due(operation, runs)] == [Prioritise, Release]


def test_it_is_over_when_the_hold_is_gone_and_the_lender_is_in_front() -> None:
    operation, runs = started()
    operation, _ = issue_all(operation, runs)
    front = replace(pending("v", 1, requeue_count=1), prioritised=True)
    alone = view(front, on_half(running("u", NODE, start_s=1020.0)), now_s=1030.0, reserved=False)
    operation = advance(operation, alone, PATIENCE)
    assert operation.phase is Phase.RETURNING, "the lender waits still"
    again = view(
        on_half(running("v", NODE, start_s=1140.0, requeue_count=1)),
        on_half(running("u", NODE, start_s=1020.0)),
        now_s=1141.0,
        reserved=False,
    )
    operation = advance(operation, again, PATIENCE)
    validate(operation)
    assert (operation.phase, operation.outcome) == (Phase.CLOSED, OperationOutcome.STARTED)


def test_the_lender_lets_urgent_jobs_pass_that_fit_into_the_rest_of_the_node() -> None:
    """On Slurm it would be ahead of them, at the same priority, and would not fit."""
    operation, runs = started()
    quarter = Resources.of({CPU: 2})
    runs = replace(runs, jobs=tuple(with_cpus(job, quarter) if job.nodes else job for job in runs.jobs))
    next_one = replace(urgent("w", 1, submit_s=1000.0), demand=HALF, prioritised=True)
    for job in (replace(next_one, prioritised=False), replace(next_one, demand=Resources.of({CPU: 5}))):
        other = replace(runs, jobs=(*runs.jobs, job))
        assert [type(action) for action in due(operation, other)] == [Prioritise, Release]
    crowded = replace(runs, jobs=(*runs.jobs, next_one))
    assert [type(action) for action in due(operation, crowded)] == [Release]
    operation, _ = issue_all(operation, crowded)
    gone = replace(crowded, now_s=crowded.now_s + 10.0, reservations=())
    operation = advance(operation, gone, PATIENCE)
    assert due(operation, gone) == []
    later_s = crowded.now_s + PATIENCE.settle_s
    assert wakeup_s(operation, gone.now_s, PATIENCE) == later_s
    later = replace(gone, now_s=later_s)
    assert [type(action) for action in due(advance(operation, later, PATIENCE), later)] == [Prioritise]
