"""Jobs that still save their work, and need not leave for the urgent job that they were asked for: another
one may have their nodes, or the same one if it needs more again.
"""

from dataclasses import replace

import pytest

from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.journal.store import Journal
from makeway.policies.model import (
    Acknowledgement,
    Checkpoint,
    CheckpointSpec,
    JobState,
    Phase,
    Progress,
    Requeue,
    Task,
)
from tests.builders import running
from tests.daemon.control.arrays.resubmission import (
    FIRST,
    SECOND,
    SPEC,
    FourNodes,
    daemon,
    goes_on,
    signalled,
)

POLICIES = ("eviction", "least-price")


def test_a_job_that_requeues_itself_leaves_for_the_second_one_and_has_one_turn() -> None:
    """Its first operation is still open: it would have given the job its turn."""
    slurm, journal, loop = signalled()
    slurm.put(replace(slurm.job("v"), checkpoint=replace(SPEC, acknowledgement=Acknowledgement.REQUEUE)))
    slurm.cancel(FIRST)
    goes_on(slurm, loop, cycles=3)
    slurm.submit(SECOND)
    goes_on(slurm, loop)
    assert {one.for_job_id: leaving(one.tasks) for one in journal.open_operations()} == {SECOND: ["v"]}
    assert slurm.sent("checkpoint") == [("checkpoint", "v", FIRST)]
    slurm.put(replace(slurm.job("v"), state=JobState.PENDING, nodes=(), start_s=None, requeue_count=1))
    goes_on(slurm, loop)
    assert slurm.runs(SECOND)
    assert slurm.runs("w")
    slurm.end(SECOND)
    goes_on(slurm, loop)
    assert slurm.runs("v")
    assert slurm.sent("requeue", "prioritise") == [("prioritise", "v", SECOND)]
    assert journal.open_operations() == ()


def leaving(tasks: tuple[Task, ...]) -> list[str]:
    """The jobs that are still to leave by these tasks."""
    waits = Progress.PLANNED
    return [one.action.job_id for one in tasks if isinstance(one.action, Requeue) and one.progress is waits]


class FourJobs(FourNodes):
    """Four jobs of one node each."""

    def __init__(self, spec: CheckpointSpec = SPEC) -> None:
        super().__init__()
        jobs = (
            running(f"v{number}", (f"n{number}",), start_s=500.0 - number, checkpoint=spec)
            for number in range(1, 5)
        )
        self.view = replace(self.view, jobs=tuple(jobs))

    def wants(self, node_count: int) -> None:
        """The user changes the urgent job."""
        self.put(replace(self.job(FIRST), node_count=node_count))


SLOW = CheckpointSpec(system_s=70.0, grace_s=100.0)
"""Three such checkpoints are written in time, four are not: none may be counted twice."""


@pytest.mark.parametrize("spec", [SPEC, SLOW], ids=["quick", "slow"])
@pytest.mark.parametrize("policy", POLICIES)
def test_of_a_job_that_is_made_larger_again_those_that_save_leave_first(
    policy: str, spec: CheckpointSpec
) -> None:
    slurm, journal = FourJobs(spec), Journal(None)
    loop = daemon(slurm, journal, policy=policy)
    slurm.submit(FIRST, 2)
    goes_on(slurm, loop)
    asked = {one[1] for one in slurm.sent("checkpoint")}
    assert len(asked) == 2
    slurm.wants(1)
    goes_on(slurm, loop, cycles=2)
    (operation,) = journal.open_operations()
    assert len(leaving(operation.tasks)) == 1
    slurm.wants(3)
    goes_on(slurm, loop)
    (operation,) = journal.open_operations()
    assert operation.phase is Phase.MAKING_ROOM
    assert len(slurm.sent("checkpoint")) == 3
    assert slurm.sent("requeue") == []
    for job_id in asked | {one[1] for one in slurm.sent("checkpoint")}:
        slurm.saves(job_id)
    goes_on(slurm, loop)
    assert slurm.runs(FIRST)
    assert {one[1] for one in slurm.sent("requeue")} == {one[1] for one in slurm.sent("checkpoint")}
    assert len(slurm.sent("requeue")) == 3


def second_comes_while_one_more_saves(slurm: FourJobs, loop: Reconciler) -> set[str]:
    """Two jobs are asked to save for the first urgent job. Then it needs only one of them. Returns both."""
    slurm.submit(FIRST, 2)
    goes_on(slurm, loop)
    asked = {one[1] for one in slurm.sent("checkpoint")}
    slurm.wants(1)
    goes_on(slurm, loop, cycles=2)
    slurm.submit(SECOND, 1)
    return asked


def test_another_urgent_job_gets_the_one_that_the_first_job_needs_no_more() -> None:
    slurm, journal = FourJobs(), Journal(None)
    loop = daemon(slurm, journal)
    asked = second_comes_while_one_more_saves(slurm, loop)
    goes_on(slurm, loop)
    first, second = journal.open_operations()
    assert {*leaving(first.tasks), *leaving(second.tasks)} == asked
    for job_id in asked:
        slurm.saves(job_id)
    goes_on(slurm, loop)
    assert slurm.runs(FIRST)
    assert slurm.runs(SECOND)
    assert {one[1] for one in slurm.sent("checkpoint")} == asked
    assert len(slurm.sent("checkpoint")) == 2


def test_the_first_job_gets_it_back_if_the_other_one_is_cancelled() -> None:
    """It leaves once it has saved its work, not before."""
    slurm, journal = FourJobs(), Journal(None)
    loop = daemon(slurm, journal)
    asked = second_comes_while_one_more_saves(slurm, loop)
    goes_on(slurm, loop, cycles=2)
    slurm.cancel(SECOND)
    goes_on(slurm, loop, cycles=3)
    slurm.wants(2)
    goes_on(slurm, loop, cycles=3)
    (operation,) = journal.open_operations()
    assert set(leaving(operation.tasks)) == asked
    assert slurm.sent("requeue") == []
    for job_id in asked:
        slurm.saves(job_id)
    goes_on(slurm, loop)
    assert slurm.runs(FIRST)
    assert len(slurm.sent("checkpoint")) == 2


@pytest.mark.parametrize("step_s", [100.0, 400.0])
def test_a_signal_from_before_the_clock_was_set_back_counts_no_more(step_s: float) -> None:
    """Its grace would be over before the job has saved its work, or would last for too long."""
    slurm, journal, loop = signalled()
    slurm.cancel(FIRST)
    goes_on(slurm, loop, cycles=3)
    slurm.view = replace(slurm.view, now_s=slurm.view.now_s - step_s)
    goes_on(slurm, loop, cycles=2)
    slurm.submit(SECOND)
    goes_on(slurm, loop, cycles=8)
    assert slurm.sent("checkpoint", "requeue") == [("checkpoint", "v", FIRST), ("checkpoint", "v", SECOND)]
    (operation,) = journal.open_operations()
    assert [one.grace_s > 60.0 for one in checkpoints(operation.tasks)] == [True]
    slurm.saves("v")
    goes_on(slurm, loop)
    assert slurm.sent("requeue") == [("requeue", "v", SECOND)]


def checkpoints(tasks: tuple[Task, ...]) -> list[Checkpoint]:
    return [one.action for one in tasks if isinstance(one.action, Checkpoint)]
