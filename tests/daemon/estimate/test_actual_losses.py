"""What an eviction has cost: work since the last checkpoint, and overhead, by what the snapshots show."""

from dataclasses import replace

import pytest

from makeway.daemon.estimate.actual_losses import (
    NO_COST,
    Cost,
    HeldAmounts,
    LeavingRun,
    RunKey,
    RunLoss,
    held_amounts,
    loss_lesson,
)
from makeway.policies.model import (
    Acknowledgement,
    Action,
    Cancel,
    Checkpoint,
    CheckpointSpec,
    Cluster,
    Ending,
    Job,
    Method,
    Operation,
    OperationKind,
    PastSize,
    Progress,
    Reason,
    Requeue,
    Resources,
    Shrink,
    Task,
)
from tests.builders import cluster, node_names, pending, running

FOUR = node_names(4)
KEY = RunKey("1", "v", 0)
SPEC = CheckpointSpec(system_s=10.0, grace_s=300.0)
SIGNAL = Checkpoint(
    job_id="v",
    for_job_id="u",
    policy="test",
    reason=Reason.URGENT_ARRIVAL,
    signal="USR1",
    grace_s=300.0,
    walltime_s=1e5,
)


def requeue(method: Method = Method.KILL) -> Requeue:
    return Requeue(
        job_id="v",
        for_job_id="u",
        policy="test",
        reason=Reason.URGENT_ARRIVAL,
        method=method,
        not_after_s=1e6,
    )


def task(
    action: Action, *, issued_s: float | None = None, ending: Ending | None = None, ended_s: float = 1500.0
) -> Task:
    if ending is not None:
        return Task(
            action=action, progress=ending.progress, issued_s=issued_s, ending=ending, ended_s=ended_s
        )
    progress = Progress.PLANNED if issued_s is None else Progress.ACCEPTED
    return Task(action=action, progress=progress, issued_s=issued_s)


def operation(*tasks: Task) -> Operation:
    return Operation(
        operation_id="1",
        kind=OperationKind.MAKE_WAY,
        for_job_id="u",
        policy="test",
        reservation="mw_u",
        nodes=FOUR,
        opened_s=1000.0,
        deadline_s=2000.0,
        give_up_s=3000.0,
        tasks=tasks,
    )


def victim(spec: CheckpointSpec | None = SPEC) -> Job:
    return running("v", FOUR, start_s=400.0, checkpoint=spec)


WAITS = pending("v", 4, requeue_count=1)


class Watch:
    """Lessons one after another, as the journal keeps them."""

    def __init__(self) -> None:
        self.leaving: dict[RunKey, LeavingRun] = {}
        self.losses: list[RunLoss] = []

    def see(self, now_s: float, job: Job | None, *tasks: Task, view: Cluster | None = None) -> None:
        seen = cluster(4, *(() if job is None else (job,)), now_s=now_s) if view is None else view
        found = loss_lesson([operation(*tasks)], seen, self.leaving)
        if found is None:
            return
        self.leaving.update((*found.begun, *found.changed))
        for key, loss in found.measured:
            del self.leaving[key]
            self.losses.append(loss)
        for key in found.void:
            del self.leaving[key]

    def loss(self) -> RunLoss:
        assert self.leaving == {}
        (found,) = self.losses
        return found


def test_a_killed_run_loses_its_time_up_to_the_command() -> None:
    watch = Watch()
    watch.see(1000.0, victim(), task(requeue()))
    assert watch.leaving[KEY].expected == Cost(node_s=2400.0, core_s=None, gpu_s=None)
    watch.see(1030.0, victim(), task(requeue(), issued_s=1010.0))
    watch.see(1060.0, WAITS, task(requeue(), issued_s=1010.0, ending=Ending.SEEN, ended_s=1060.0))
    found = watch.loss()
    assert (found.left_s, found.lost_s, found.overhead_s, found.evicted) == (1010.0, 610.0, 0.0, True)
    assert found.lost == Cost(node_s=2440.0, core_s=None, gpu_s=None)
    assert found.overhead == NO_COST
    watch.see(1090.0, WAITS, task(requeue(), issued_s=1010.0, ending=Ending.SEEN, ended_s=1060.0))
    assert len(watch.losses) == 1


SHRUNK = replace(
    victim(), setup_s=50.0, node_count=2, nodes=FOUR[:2], past_sizes=(PastSize(node_count=4, until_s=900.0),)
)
"""On four nodes for 500 s, and on two since."""


def test_the_time_before_a_shrink_counts_with_all_nodes() -> None:
    watch = Watch()
    watch.see(1000.0, SHRUNK, task(requeue()))
    assert watch.leaving[KEY].expected.node_s == 4 * 500.0 + 2 * 100.0
    watch.see(1030.0, SHRUNK, task(requeue(), issued_s=1010.0))
    watch.see(1060.0, WAITS, task(requeue(), issued_s=1010.0, ending=Ending.SEEN, ended_s=1060.0))
    assert (watch.loss().lost.node_s, watch.loss().overhead.node_s) == (4 * 500.0 + 2 * 110.0, 0.0)


def test_a_setup_before_a_shrink_counts_with_all_nodes() -> None:
    watch = Watch()
    saved = replace(SHRUNK, last_checkpoint_s=950.0)
    watch.see(1000.0, saved, task(requeue()))
    watch.see(1060.0, WAITS, task(requeue(), issued_s=1010.0, ending=Ending.SEEN, ended_s=1060.0))
    assert (watch.loss().lost.node_s, watch.loss().overhead.node_s) == (2 * 60.0, 4 * 50.0)


def test_a_run_may_be_shrunk_after_it_was_decided_on() -> None:
    watch = Watch()
    watch.see(890.0, victim(), task(requeue()))
    watch.see(1000.0, SHRUNK, task(requeue()))
    watch.see(1060.0, WAITS, task(requeue(), issued_s=1010.0, ending=Ending.SEEN, ended_s=1060.0))
    assert watch.loss().lost.node_s == 4 * 500.0 + 2 * 110.0


def test_a_cancelled_run_is_measured_alike() -> None:
    requeued = requeue()
    cancel = Cancel(
        job_id="v",
        for_job_id="u",
        policy="test",
        reason=Reason.URGENT_ARRIVAL,
        method=Method.KILL,
        not_after_s=requeued.not_after_s,
    )
    watch = Watch()
    watch.see(1000.0, victim(), task(cancel))
    watch.see(1060.0, None, task(cancel, issued_s=1010.0, ending=Ending.SEEN))
    assert watch.loss().lost_s == 610.0


def test_a_checkpoint_that_was_seen_saves_the_work_before_it() -> None:
    """It may be seen while the run is ending: a job may checkpoint when it is told to stop."""
    watch = Watch()
    watch.see(1000.0, victim(), task(requeue()))
    watch.see(1030.0, replace(victim(), last_checkpoint_s=900.0), task(requeue()))
    watch.see(1060.0, WAITS, task(requeue(), issued_s=1040.0, ending=Ending.SEEN))
    assert watch.loss().lost_s == 140.0

    late = Watch()
    late.see(1000.0, victim(), task(requeue()))
    late.see(1050.0, replace(victim(), last_checkpoint_s=1045.0), task(requeue(), issued_s=1040.0))
    late.see(1060.0, WAITS, task(requeue(), issued_s=1040.0, ending=Ending.SEEN))
    assert late.loss().lost_s == 0.0


def test_a_requested_checkpoint_is_overhead_and_so_is_the_setup_that_is_repeated() -> None:
    asked, leave = task(SIGNAL, issued_s=1000.0), task(requeue(Method.SYSTEM))
    job = replace(victim(), setup_s=30.0)
    watch = Watch()
    watch.see(1000.0, job, task(SIGNAL), leave)
    watch.see(1010.0, replace(job, checkpointing_since_s=1002.0), asked, leave)
    done = task(SIGNAL, issued_s=1000.0, ending=Ending.ACKNOWLEDGED)
    watch.see(1030.0, replace(job, last_checkpoint_s=1025.0), done, leave)
    watch.see(1060.0, WAITS, done, task(requeue(Method.SYSTEM), issued_s=1031.0, ending=Ending.SEEN))
    found = watch.loss()
    assert (found.lost_s, found.overhead_s) == (6.0, 25.0 + 30.0)
    assert found.run.expected == NO_COST


def test_a_checkpoint_that_was_not_complete_is_overhead_from_its_report_on() -> None:
    asked = task(SIGNAL, issued_s=1000.0)
    watch = Watch()
    watch.see(1000.0, victim(), task(SIGNAL), task(requeue(Method.SYSTEM)))
    watch.see(1010.0, replace(victim(), checkpointing_since_s=1002.0), asked, task(requeue(Method.SYSTEM)))
    over = task(SIGNAL, issued_s=1000.0, ending=Ending.UNACKNOWLEDGED)
    watch.see(1400.0, WAITS, over, task(requeue(Method.SYSTEM), issued_s=1300.0, ending=Ending.SEEN))
    assert (watch.loss().lost_s, watch.loss().overhead_s) == (602.0, 298.0)


def test_without_any_report_the_whole_time_is_lost() -> None:
    watch = Watch()
    watch.see(1000.0, victim(), task(SIGNAL), task(requeue(Method.SYSTEM)))
    over = task(SIGNAL, issued_s=1000.0, ending=Ending.UNACKNOWLEDGED)
    watch.see(1400.0, WAITS, over, task(requeue(Method.SYSTEM), issued_s=1300.0, ending=Ending.SEEN))
    assert (watch.loss().lost_s, watch.loss().overhead_s) == (900.0, 0.0)


@pytest.mark.parametrize(
    ("acknowledgement", "asked", "left"),
    [
        (Acknowledgement.REQUEUE, Ending.REQUEUED_ITSELF, Ending.SEEN),
        (Acknowledgement.EXIT, Ending.ENDED_ITSELF, Ending.ENDED_ITSELF),
    ],
)
def test_a_job_that_leaves_on_request_loses_no_work(
    acknowledgement: Acknowledgement, asked: Ending, left: Ending
) -> None:
    job = victim(replace(SPEC, acknowledgement=acknowledgement))
    watch = Watch()
    watch.see(1000.0, job, task(SIGNAL), task(requeue(Method.SYSTEM)))
    after = WAITS if left is Ending.SEEN else None
    done = task(SIGNAL, issued_s=1000.0, ending=asked)
    watch.see(1045.0, after, done, task(requeue(Method.SYSTEM), ending=left))
    assert (watch.loss().lost_s, watch.loss().overhead_s, watch.loss().evicted) == (0.0, 45.0, True)


@pytest.mark.parametrize(
    ("spec", "asked", "left", "issued_s"),
    [
        (SPEC, Ending.ENDED_ITSELF, Ending.ENDED_ITSELF, None),  # it was finished
        (SPEC, None, Ending.SEEN, None),  # requeued by others
        (SPEC, None, Ending.NOT_NEEDED, None),
        (SPEC, None, Ending.REJECTED, 1010.0),
        (replace(SPEC, acknowledgement=Acknowledgement.NONE), Ending.UNACKNOWLEDGED, Ending.SEEN, 1300.0),
    ],
)
def test_what_is_not_known_or_no_eviction_is_not_measured(
    spec: CheckpointSpec, asked: Ending | None, left: Ending, issued_s: float | None
) -> None:
    signals = [] if asked is None else [task(SIGNAL, issued_s=1000.0, ending=asked)]
    watch = Watch()
    watch.see(1000.0, victim(spec), *signals, task(requeue()))
    assert watch.leaving.keys() == {KEY}
    watch.see(1400.0, WAITS, *signals, task(requeue(), ending=left, issued_s=issued_s))
    assert (watch.leaving, watch.losses) == ({}, [])


def test_a_checkpoint_in_vain_is_overhead_of_a_job_that_stays() -> None:
    watch = Watch()
    watch.see(1000.0, victim(), task(SIGNAL), task(requeue(Method.SYSTEM)))
    done = task(SIGNAL, issued_s=1000.0, ending=Ending.ACKNOWLEDGED)
    job = replace(victim(), last_checkpoint_s=1012.0)
    watch.see(1020.0, job, done, task(requeue(Method.SYSTEM)))
    watch.see(1030.0, job, done, task(requeue(Method.SYSTEM), ending=Ending.NOT_NEEDED))
    found = watch.loss()
    assert (found.lost_s, found.overhead_s, found.evicted) == (0.0, 12.0, False)


def test_a_checkpoint_in_vain_is_followed_to_its_end_without_its_operation() -> None:
    done = task(SIGNAL, issued_s=1000.0)
    dropped = task(requeue(Method.SYSTEM), ending=Ending.NOT_NEEDED)
    busy = replace(victim(), checkpointing_since_s=1000.0)
    saved = replace(victim(), last_checkpoint_s=1040.0)
    watch = Watch()
    watch.see(1000.0, victim(), task(SIGNAL), task(requeue(Method.SYSTEM)))
    watch.see(1010.0, busy, done, dropped)
    watch.see(1020.0, busy)
    assert watch.leaving.keys() == {KEY}
    gone = dict(watch.leaving)
    watch.see(1050.0, saved)
    assert (watch.loss().lost_s, watch.loss().overhead_s, watch.loss().evicted) == (0.0, 40.0, False)

    watch = Watch()
    watch.leaving = gone
    watch.see(1050.0, None)
    assert (watch.leaving, watch.losses) == ({}, []), "the job ended before its checkpoint was seen complete"


def test_observed_operations_and_jobs_that_shrink_are_not_measured() -> None:
    shrink = Shrink(
        job_id="v",
        for_job_id="u",
        policy="test",
        reason=Reason.URGENT_ARRIVAL,
        keep_nodes=FOUR[:1],
        walltime_s=1e5,
    )
    seen = cluster(4, victim())
    assert loss_lesson([operation(task(shrink))], seen, {}) is None
    assert loss_lesson([replace(operation(task(requeue())), observe=True)], seen, {}) is None


def test_a_run_that_a_controller_forgot_to_stop_is_measured_at_its_second_end() -> None:
    watch = Watch()
    watch.see(1000.0, victim(), task(requeue()))
    watch.see(1020.0, WAITS, task(requeue(), issued_s=1010.0, ending=Ending.SEEN))
    watch.see(1040.0, victim(), task(requeue(), issued_s=1010.0))
    watch.see(1070.0, WAITS, task(requeue(), issued_s=1050.0, ending=Ending.SEEN))
    assert [loss.lost_s for loss in watch.losses] == [610.0, 650.0]


NODE = Resources.of({"cpu": 64, "mem": 1000, "gres/gpu": 4, "gres/gpu:a100": 4})


def test_a_job_on_a_part_of_its_nodes_holds_what_is_allocated() -> None:
    part = Resources.of({"cpu": 16, "mem": 10, "gres/gpu": 2, "gres/gpu:a100": 2})
    job = replace(victim(), allocation=(part,) * 4, node_equivalents=2.0)
    held = held_amounts(job, {})
    assert held == HeldAmounts(nodes=2.0, cpus=64, gpus=8)
    assert held.cost(10.0) == Cost(node_s=20.0, core_s=640.0, gpu_s=80.0)


def test_a_part_of_a_gpu_counts_as_one() -> None:
    part = Resources.of({"cpu": 2, "gres/shard#0/4": 1, "gres/shard#1/4": 4})
    job = replace(victim(), nodes=FOUR[:1], allocation=(part,), node_equivalents=0.5)
    assert held_amounts(job, {}) == HeldAmounts(nodes=0.5, cpus=2, gpus=2)


def test_a_job_on_whole_nodes_holds_all_of_them_if_that_is_known() -> None:
    capacities = dict.fromkeys(FOUR, NODE)
    assert held_amounts(victim(), capacities) == HeldAmounts(nodes=4.0, cpus=256, gpus=16)
    del capacities[FOUR[3]]
    assert held_amounts(victim(), capacities) == HeldAmounts(nodes=4.0, cpus=None, gpus=None)


def test_what_is_unknown_of_one_part_is_unknown_of_the_sum() -> None:
    known = Cost(node_s=1.0, core_s=2.0, gpu_s=3.0)
    assert known.plus(known) == Cost(node_s=2.0, core_s=4.0, gpu_s=6.0)
    assert known.plus(Cost(node_s=1.0, core_s=None, gpu_s=0.0)) == Cost(node_s=2.0, core_s=None, gpu_s=3.0)
    assert HeldAmounts(nodes=3.0, cpus=None, gpus=None).cost(0.0) == NO_COST


REGULAR = CheckpointSpec(interval_s=540.0, application_s=60.0)


@pytest.mark.parametrize(
    ("spec", "saved_s", "missed"),
    [
        (REGULAR, None, True),
        (REGULAR, 900.0, True),  # before the decision
        (REGULAR, 1100.0, False),
        (replace(REGULAR, acknowledgement=Acknowledgement.NONE), None, False),
        (replace(REGULAR, acknowledgement=Acknowledgement.NONE), 900.0, True),
    ],
)
def test_a_run_that_left_without_the_checkpoint_that_was_waited_for_has_missed_it(
    spec: CheckpointSpec, saved_s: float | None, missed: bool
) -> None:
    watch, leaves = Watch(), requeue(Method.APPLICATION)
    job = replace(victim(spec), last_checkpoint_s=None if saved_s is None or saved_s > 1000.0 else saved_s)
    watch.see(1000.0, job, task(leaves))
    watch.see(1200.0, replace(job, last_checkpoint_s=saved_s), task(leaves, issued_s=1200.0))
    watch.see(1260.0, WAITS, task(leaves, issued_s=1200.0, ending=Ending.SEEN, ended_s=1260.0))
    assert watch.loss().missed_checkpoint is missed


def test_a_run_that_is_killed_by_decision_has_missed_no_checkpoint() -> None:
    watch = Watch()
    watch.see(1000.0, victim(REGULAR), task(requeue()))
    watch.see(1060.0, WAITS, task(requeue(), issued_s=1010.0, ending=Ending.SEEN, ended_s=1060.0))
    assert watch.loss().missed_checkpoint is False
