"""How long checkpoints really take: measured whenever one is asked for, and used by the next decision.

A checkpoint is measured from its command to what shows that it is complete: the instant that the job tells, its requeue,
or its end where that is how it acknowledges. The duration that a class or a job declares gives way to the longest of the
latest measured ones of jobs like it: of the same user, account and partition, and of about as many nodes.

One that is not acknowledged in the time that it has counts as taking twice that time: as long as nothing better is known,
the next plan gives it more time, or does not count on it at all.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, NamedTuple

from makeway.daemon.operation.tasks import ENDED
from makeway.policies.model import (
    Acknowledgement,
    Checkpoint,
    Cluster,
    Ending,
    Job,
    Operation,
    Progress,
    Task,
    memoise_last,
)

LATEST: Final = 8
"""So many measured durations of a likeness count."""


class Likeness(NamedTuple):
    """What jobs have in common whose checkpoints are expected to take equally long."""

    user: str
    account: str
    partition: str
    size: int
    """Binary digits of the number of nodes: 1, 2 to 3, 4 to 7, and so on are alike."""


class CheckpointRequest(NamedTuple):
    """One checkpoint that a job was asked for."""

    operation_id: str
    job_id: str
    issued_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """How long one checkpoint took."""

    duration_s: float
    """Seconds from the command on; without an acknowledgement, those that were waited in vain."""
    acknowledged: bool

    @property
    def counted_s(self) -> float:
        """What it says of the next one."""
        return self.duration_s if self.acknowledged else 2.0 * self.duration_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Whose checkpoint was asked for."""

    likeness: Likeness
    ends: bool
    """Whether the job acknowledges by its end."""


Learned = Mapping[Likeness, tuple[float, ...]]
"""The latest durations of each likeness in seconds, the last at the end."""


class CheckpointTimes:
    """The checkpoints that are under way and the durations of earlier ones, at hand for every cycle."""

    def __init__(self) -> None:
        self.under_way: dict[CheckpointRequest, Subject] = {}
        self.learned: Learned = MappingProxyType({})
        """Another object whenever it changes."""

    def add(self, likeness: Likeness, measurement: Measurement) -> None:
        """Take note of the latest duration."""
        latest = (*self.learned.get(likeness, ()), measurement.counted_s)[-LATEST:]
        self.learned = MappingProxyType({**self.learned, likeness: latest})

    def learn(self, lesson: "Lesson") -> None:
        """Take note of what one cycle has seen."""
        self.under_way.update(lesson.begun)
        for request, measurement in lesson.measured:
            self.add(self.under_way.pop(request).likeness, measurement)
        for request in lesson.void:
            del self.under_way[request]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What one cycle has seen of the checkpoints."""

    begun: tuple[tuple[CheckpointRequest, Subject], ...]
    measured: tuple[tuple[CheckpointRequest, Measurement], ...]
    void: tuple[CheckpointRequest, ...]
    """Requests of which nothing can be learned any more."""


def likeness(job: Job) -> Likeness:
    """What the job has in common with others."""
    return Likeness(job.user, job.account, job.partition, job.node_count.bit_length())


@memoise_last
def with_learned(jobs: tuple[Job, ...], learned: Learned) -> tuple[Job, ...]:
    """The jobs, each with the duration that was measured of its like instead of the declared one.

    It is never above the job's grace, in which its checkpoint is awaited. A job for which no such checkpoint is declared
    gets none.
    """
    if not learned:
        return jobs
    return tuple(_taught(job, learned) for job in jobs)


def lesson(
    operations: Iterable[Operation], seen: Cluster, under_way: Mapping[CheckpointRequest, Subject]
) -> Lesson | None:
    """What the operations, as a snapshot has just brought them up to date, tell of checkpoints. None: nothing new.

    Args:
        operations: those that are open, and those that were closed just now.
        seen: the snapshot.
        under_way: the requests that are known already.
    """
    jobs = seen.jobs_by_id()
    begun: list[tuple[CheckpointRequest, Subject]] = []
    measured: list[tuple[CheckpointRequest, Measurement]] = []
    awaited: set[CheckpointRequest] = set()
    for operation in operations:
        for task in operation.tasks:
            if not isinstance(task.action, Checkpoint) or task.issued_s is None:
                continue
            request = CheckpointRequest(operation.operation_id, task.action.job_id, task.issued_s)
            job = jobs.get(request.job_id)
            subject = under_way.get(request)
            if task.progress in ENDED:
                if subject is not None and (found := _measure(task, task.issued_s, job, subject)):
                    measured.append((request, found))
                continue
            awaited.add(request)
            if subject is None and job is not None and (subject := _subject(job)):
                begun.append((request, subject))
    over = {request for request, _ in measured}
    void = tuple(sorted(request for request in under_way if request not in awaited | over))
    if not (begun or measured or void):
        return None
    return Lesson(begun=tuple(begun), measured=tuple(measured), void=void)


def _subject(job: Job) -> Subject | None:
    """None: the job does not show when its checkpoint is complete."""
    if job.checkpoint is None or job.checkpoint.acknowledgement is Acknowledgement.NONE:
        return None
    return Subject(likeness=likeness(job), ends=job.checkpoint.acknowledgement is Acknowledgement.EXIT)


def _measure(task: Task, issued_s: float, job: Job | None, subject: Subject) -> Measurement | None:
    """How long a checkpoint took that is over. None: it was not seen through."""
    if task.ended_s is None:
        return None
    lasted_s = max(0.0, task.ended_s - issued_s)
    if task.progress is Progress.GONE:
        return Measurement(duration_s=lasted_s, acknowledged=True) if subject.ends else None
    if task.progress is not Progress.DONE:
        return None
    if task.ending is Ending.UNACKNOWLEDGED:
        return Measurement(duration_s=lasted_s, acknowledged=False)
    told_s = None if job is None else job.last_checkpoint_s
    if told_s is not None and told_s >= issued_s:
        lasted_s = told_s - issued_s  # the snapshot that shows it may be much later
    return Measurement(duration_s=lasted_s, acknowledged=True)


def _taught(job: Job, learned: Learned) -> Job:
    spec = job.checkpoint
    if spec is None or spec.system_s is None or not job.nodes:
        return job
    durations_s = learned.get(likeness(job))
    if durations_s is None:
        return job
    system_s = min(max(durations_s), max(spec.grace_s, 0.0))
    return replace(job, checkpoint=replace(spec, system_s=system_s, measured_count=len(durations_s)))
