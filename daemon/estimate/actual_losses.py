"""What evictions really cost: measured for every run that an operation makes leave its nodes.

A run loses the time from its last known checkpoint, or from its start, to the command that stopped it. Time
at another size counts in proportion: seconds of work are those at the last known size of the run. The time of
a checkpoint that makeway requested counts apart, as overhead, and so does a setup that has to be repeated
although the work is saved. All of it is measured by what the snapshots show: a checkpoint that no snapshot
shows counts as not taken.

Some runs are not measured: those that end by themselves first, and those of jobs that do not report their
checkpoints, once one was requested. Where a run may have ended by itself, nothing is guessed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Final, NamedTuple

from makeway.daemon.operation.signal_deaths import put_back_of
from makeway.daemon.operation.tasks import ENDED, evictions, open_evictions
from makeway.policies.model import (
    CPU,
    Acknowledgement,
    Cancel,
    Checkpoint,
    CheckpointSpec,
    Cluster,
    Ending,
    Job,
    Method,
    Operation,
    PastSize,
    Progress,
    Requeue,
    Resources,
    Task,
    gpu_equivalents,
    total,
    worked_node_s,
)
from makeway.policies.safety.prices import node_equivalents, payer_of, unsaved_work_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Time that was lost or spent, multiplied by what the job held."""

    node_s: float
    core_s: float | None
    """CPU-seconds, with CPUs as the cluster counts them. None: unknown."""
    gpu_s: float | None
    """None: unknown."""

    def plus(self, other: "Cost") -> "Cost":
        """The sum. What is unknown of one part is unknown of the sum."""
        return Cost(
            node_s=self.node_s + other.node_s,
            core_s=None if self.core_s is None or other.core_s is None else self.core_s + other.core_s,
            gpu_s=None if self.gpu_s is None or other.gpu_s is None else self.gpu_s + other.gpu_s,
        )


NO_COST: Final = Cost(node_s=0.0, core_s=0.0, gpu_s=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldAmounts:
    """How much of the cluster a job holds."""

    nodes: float
    """Whole nodes, or the share of its nodes that a job on shared nodes counts as."""
    cpus: int | None
    """None: unknown, because the cluster does not say what its nodes have."""
    gpus: int | None
    """Rounded up, if it holds parts of GPUs. None: unknown."""

    def cost(self, duration_s: float) -> Cost:
        """What it costs to hold this for a time. No time costs nothing, whatever is held."""
        if not duration_s:
            return NO_COST
        return Cost(
            node_s=duration_s * self.nodes,
            core_s=None if self.cpus is None else duration_s * self.cpus,
            gpu_s=None if self.gpus is None else duration_s * self.gpus,
        )


def held_amounts(job: Job, capacities: Mapping[str, Resources]) -> HeldAmounts:
    """What a running job holds. A job on whole nodes holds all that they have, if that is known."""
    nodes = float(node_equivalents(job))
    parts = job.allocation
    if parts is None and job.nodes and all(name in capacities for name in job.nodes):
        parts = tuple(capacities[name] for name in job.nodes)
    if parts is None:
        return HeldAmounts(nodes=nodes, cpus=None, gpus=None)
    held = total(parts)
    return HeldAmounts(nodes=nodes, cpus=held.amount(CPU), gpus=ceil(gpu_equivalents(dict(held.amounts))))


class RunKey(NamedTuple):
    """One run of a job that one operation makes leave."""

    operation_id: str
    job_id: str
    requeue_count: int
    """Which run of the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingRun:
    """What is known of a run that is to leave its nodes, from its last snapshot."""

    for_job_id: str
    decided_s: float
    """When the decision was taken."""
    method: Method
    acknowledgement: Acknowledgement
    """How the job reports that a requested checkpoint is complete."""
    held: HeldAmounts
    expected_s: float
    """How much work, in seconds of the run at its size, the decision expected to lose."""
    start_s: float
    setup_s: float
    saved_s: float | None = None
    """When the last known checkpoint was complete. None: there was none in this run."""
    requested_s: float | None = None
    """When the operation last requested a checkpoint. None: it did not."""
    reported_s: float | None = None
    """When the job reported the start of a requested checkpoint. None: it did not."""
    completed_s: float | None = None
    """When the requested checkpoint was complete. None: it is not, or none was requested."""
    for_user: str = ""
    """The user of the urgent job, who pays for the loss. Empty: unknown."""
    for_account: str = ""
    """The account of the urgent job. Empty: unknown."""
    node_count: int = 1
    """The size of the run. Used with `past_sizes` only."""
    past_sizes: tuple[PastSize, ...] = ()
    """The sizes that the run had before. They are not stored: each snapshot of the run shows them again."""

    @property
    def expected(self) -> Cost:
        """The loss of work that the decision expected."""
        return self.held.cost(self.expected_s)

    def holding(self, job: Job, held: HeldAmounts) -> "LeavingRun":
        """The run with what its job holds by now. The same value if that has not changed."""
        if (held, job.past_sizes) == (self.held, self.past_sizes):
            return self
        return replace(self, held=held, node_count=job.node_count, past_sizes=job.past_sizes)

    def work_s(self, since_s: float, until_s: float) -> float:
        """The time between two instants of the run, in seconds at its size. 0 if the second is not later."""
        if not self.past_sizes:
            return max(0.0, until_s - since_s)
        return worked_node_s(self.past_sizes, self.node_count, since_s, until_s) / max(1, self.node_count)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLoss:
    """What it cost a run that an operation wanted its nodes."""

    run: LeavingRun
    left_s: float
    """When the run was stopped, or was seen to need not leave."""
    lost_s: float
    """Seconds of work that are lost."""
    overhead_s: float
    """Seconds of the requested checkpoint, and of a setup that has to be repeated."""
    evicted: bool
    """Whether it left. False: it only took a checkpoint in vain."""

    @property
    def missed_checkpoint(self) -> bool:
        """Whether it should have left after a regular checkpoint, and left without one. A run that would not
        report it has missed none.
        """
        run = self.run
        late = run.saved_s is None or run.saved_s <= run.decided_s
        reports = run.acknowledgement is Acknowledgement.COMMENT or run.saved_s is not None
        return self.evicted and run.method is Method.APPLICATION and late and reports

    @property
    def lost(self) -> Cost:
        """The lost work."""
        return self.run.held.cost(self.lost_s)

    @property
    def overhead(self) -> Cost:
        """The overhead."""
        return self.run.held.cost(self.overhead_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class LossLesson:
    """What one cycle has observed of the runs that are to leave."""

    begun: tuple[tuple[RunKey, LeavingRun], ...]
    """Runs that are to leave now."""
    changed: tuple[tuple[RunKey, LeavingRun], ...]
    """Runs of earlier cycles that have another checkpoint, or hold something else, since."""
    measured: tuple[tuple[RunKey, RunLoss], ...]
    void: tuple[RunKey, ...]
    """Runs that are not measured: they stay, or have ended in another way."""


def loss_lesson(
    operations: Iterable[Operation], seen: Cluster, leaving: Mapping[RunKey, LeavingRun]
) -> LossLesson | None:
    """What the operations show of runs that are to leave, after an update from a snapshot. None: nothing new.

    Args:
        operations: the open operations, and those that this cycle has closed.
        seen: the snapshot.
        leaving: the runs that are known from earlier cycles.
    """
    known_operations = tuple(operations)
    if not leaving and not any(map(open_evictions, known_operations)):
        return None
    begun: list[tuple[RunKey, LeavingRun]] = []
    measured: list[tuple[RunKey, RunLoss]] = []
    now = dict(leaving)
    awaited: set[RunKey] = set()
    measuring = {key.operation_id for key in leaving}
    for operation in known_operations:
        known_runs = operation.operation_id in measuring
        # What has ended concerns only a run that is known.
        for task in evictions(operation) if known_runs else open_evictions(operation):
            action, over = task.action, task.progress in ENDED
            if operation.observe or not isinstance(action, Requeue | Cancel):
                continue
            key = RunKey(operation.operation_id, action.job_id, task.requeue_count)
            known = leaving.get(key)
            if not over:
                awaited.add(key)
            elif known is not None and (loss := _measure(operation, task, known, seen.now_s)):
                awaited.add(key)
                measured.append((key, loss))
                continue
            run = None if over and known is None else _observe(operation, task, action, known, seen)
            if run is not None and known is None:
                begun.append((key, run))
            elif run is not None:
                now[key] = run
    void: list[RunKey] = []
    for key in sorted(now.keys() - awaited):
        if loss := _in_vain(key, now[key], seen):
            measured.append((key, loss))
        elif not _checkpoints_on(key, now[key], seen):
            void.append(key)
    changed = tuple((key, run) for key, run in now.items() if run is not leaving[key])
    if not (begun or changed or measured or void):
        return None
    return LossLesson(begun=tuple(begun), changed=changed, measured=tuple(measured), void=tuple(void))


def _observe(
    operation: Operation, task: Task, action: Requeue | Cancel, known: LeavingRun | None, seen: Cluster
) -> LeavingRun | None:
    """The run as this snapshot shows it. None: it does not show the run."""
    job = seen.jobs_by_id().get(action.job_id)
    if job is None or job.start_s is None or job.requeue_count != task.requeue_count:
        return None
    if known is None:
        spec = CheckpointSpec() if job.checkpoint is None else job.checkpoint
        payer = payer_of(seen, action.for_job_id)
        known = LeavingRun(
            for_job_id=action.for_job_id,
            decided_s=operation.opened_s if task.planned_s is None else task.planned_s,
            method=action.method,
            acknowledgement=spec.acknowledgement,
            held=held_amounts(job, seen.capacities()),
            expected_s=unsaved_work_s(job, seen.now_s) if action.method is Method.KILL else 0.0,
            start_s=job.start_s,
            setup_s=job.setup_s,
            for_user=payer.user,
            for_account=payer.account,
        )
    saved_s = job.last_checkpoint_s
    requested_s = _requested_s(operation, action.job_id)
    completed_s, reported_s = known.completed_s, known.reported_s
    if requested_s is not None:
        if completed_s is None and saved_s is not None and saved_s >= requested_s:
            completed_s = saved_s
        if job.checkpointing_since_s is not None and job.checkpointing_since_s >= requested_s:
            reported_s = job.checkpointing_since_s
    if job.nodes:
        known = known.holding(job, held_amounts(job, seen.capacities()))
    saved_s = known.saved_s if saved_s is None else max(saved_s, job.start_s)
    shown = (saved_s, requested_s, reported_s, completed_s)
    if shown == (known.saved_s, known.requested_s, known.reported_s, known.completed_s):
        return known
    return replace(
        known,
        saved_s=saved_s,
        requested_s=requested_s,
        reported_s=reported_s,
        completed_s=completed_s,
    )


def _in_vain(key: RunKey, run: LeavingRun, seen: Cluster) -> RunLoss | None:
    """What a run that goes on has cost by a requested checkpoint. None: it is not complete, or there was
    none.
    """
    completed_s = run.completed_s
    job = seen.jobs_by_id().get(key.job_id)
    if completed_s is None and job is not None and job.requeue_count == key.requeue_count:
        completed_s = job.last_checkpoint_s
    if run.requested_s is None or completed_s is None or completed_s < run.requested_s:
        return None
    overhead_s = completed_s - run.requested_s
    return RunLoss(run=run, left_s=seen.now_s, lost_s=0.0, overhead_s=overhead_s, evicted=False)


def _checkpoints_on(key: RunKey, run: LeavingRun, seen: Cluster) -> bool:
    """Whether a run that need not leave any more still takes the requested checkpoint."""
    job = seen.jobs_by_id().get(key.job_id)
    if run.requested_s is None or job is None or job.requeue_count != key.requeue_count:
        return False
    return job.checkpointing_since_s is not None and job.checkpointing_since_s >= run.requested_s


def _measure(operation: Operation, task: Task, run: LeavingRun, now_s: float) -> RunLoss | None:
    """What a run has cost that has left its nodes. None: it has not, or that is not known."""
    requested_s = _requested_s(operation, task.action.job_id)
    if task.progress is Progress.DONE and task.issued_s is not None:
        if requested_s is not None and run.acknowledgement is Acknowledgement.NONE:
            return None
        return _stopped(run, requested_s, min(task.issued_s, now_s))
    if requested_s is not None and _left_on_request(operation, task, run):
        # The job chose the moment: it leaves when its work is saved.
        saving_s = max(0.0, (run.completed_s or now_s) - requested_s)
        overhead_s = saving_s + _setup_s(run, requested_s)
        return RunLoss(run=run, left_s=now_s, lost_s=0.0, overhead_s=overhead_s, evicted=True)
    return None


def _stopped(run: LeavingRun, requested_s: float | None, left_s: float) -> RunLoss:
    """What a run has cost that a command stopped."""
    since_s = run.start_s if run.saved_s is None else run.saved_s
    unsaved = max(0.0, left_s - since_s)
    unfinished_s = saving_s = 0.0
    if requested_s is not None and run.completed_s is not None:
        saving_s = run.completed_s - requested_s
    elif run.reported_s is not None:
        unfinished_s = min(unsaved, max(0.0, left_s - run.reported_s))
    overhead_s = saving_s + unfinished_s
    if run.saved_s is not None:  # else the setup is part of what is lost
        overhead_s += _setup_s(run, left_s - overhead_s)
    lost_s = run.work_s(since_s, left_s - unfinished_s)
    return RunLoss(run=run, left_s=left_s, lost_s=lost_s, overhead_s=overhead_s, evicted=True)


def _setup_s(run: LeavingRun, until_s: float) -> float:
    """How much of its setup the run had done by then, and has to repeat."""
    return run.work_s(run.start_s, min(run.start_s + run.setup_s, until_s))


def _requested_s(operation: Operation, job_id: str) -> float | None:
    """When the operation last requested a checkpoint from the job. None: it did not."""
    requests = [
        task.issued_s
        for task in operation.tasks
        if isinstance(task.action, Checkpoint) and task.action.job_id == job_id and task.issued_s is not None
    ]
    return max(requests, default=None)


def _left_on_request(operation: Operation, task: Task, run: LeavingRun) -> bool:
    """Whether the job left its nodes in answer to the request for a checkpoint, before a command stopped
    it.
    """
    endings = {
        other.ending
        for other in operation.tasks
        if isinstance(other.action, Checkpoint) and other.action.job_id == task.action.job_id
    }
    if task.progress is Progress.DONE:
        return not endings.isdisjoint({Ending.REQUEUED_ITSELF, Ending.ACKNOWLEDGED})
    by_its_end = run.acknowledgement is Acknowledgement.EXIT
    put_back = put_back_of(operation, task.action.job_id)
    if task is put_back or (put_back is not None and put_back.progress is not Progress.GONE):
        return False  # the signal has ended it, or may have
    return by_its_end and task.progress is Progress.GONE and Ending.ENDED_ITSELF in endings
