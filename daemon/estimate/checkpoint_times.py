"""How long checkpoints really take: measured at every request, and used by the next decision.

A checkpoint is measured from its command to its acknowledgement: the instant that the job reports, its
requeue, or its end if that is how it acknowledges. The longest of the latest durations of similar jobs
replaces the duration that a class or a job declares. Similar jobs have the same user, account and partition,
and about as many nodes.

A checkpoint without an acknowledgement in the grace period counts with twice that period: until a better
measurement exists, the next plan gives it more time, or does not rely on it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, NamedTuple

from makeway.daemon.operation.signal_deaths import put_back_of
from makeway.daemon.operation.tasks import ENDED, signals
from makeway.policies.model import (
    Acknowledgement,
    Cluster,
    Ending,
    Job,
    Operation,
    Progress,
    Task,
    memoise_each,
    memoise_last,
)

LATEST: Final = 8
"""This many measured durations of each likeness count."""


class Likeness(NamedTuple):
    """What similar jobs have in common: their checkpoints are expected to take equally long."""

    user: str
    account: str
    partition: str
    size: int
    """The number of binary digits of the node count: 1, 2 to 3, 4 to 7, and so on are similar."""


class CheckpointRequest(NamedTuple):
    """One checkpoint that makeway requested from a job."""

    operation_id: str
    job_id: str
    issued_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """How long one checkpoint took."""

    duration_s: float
    """Seconds from the command to the acknowledgement, or to the end of the wait if there was none."""
    acknowledged: bool

    @property
    def counted_s(self) -> float:
        """The duration in seconds that the next checkpoint is expected to take."""
        return self.duration_s if self.acknowledged else 2.0 * self.duration_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is known of a job whose checkpoint is under way."""

    likeness: Likeness
    ends: bool
    """Whether the job acknowledges by its end."""


Learned = Mapping[Likeness, tuple[float, ...]]
"""The latest durations of each likeness in seconds, the newest last."""


class CheckpointTimes:
    """The checkpoints that are under way and the durations of earlier ones, kept in memory for every
    cycle.
    """

    def __init__(self) -> None:
        self.under_way: dict[CheckpointRequest, Subject] = {}
        self.learned: Learned = MappingProxyType({})
        """Another object whenever it changes."""

    def add(self, likeness: Likeness, measurement: Measurement) -> None:
        """Add the newest duration."""
        latest = (*self.learned.get(likeness, ()), measurement.counted_s)[-LATEST:]
        self.learned = MappingProxyType({**self.learned, likeness: latest})

    def learn(self, lesson: "Lesson") -> None:
        """Add what one cycle has observed."""
        self.under_way.update(lesson.begun)
        for request, measurement in lesson.measured:
            self.add(self.under_way.pop(request).likeness, measurement)
        for request in lesson.void:
            del self.under_way[request]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What one cycle has observed of the checkpoints."""

    begun: tuple[tuple[CheckpointRequest, Subject], ...]
    measured: tuple[tuple[CheckpointRequest, Measurement], ...]
    void: tuple[CheckpointRequest, ...]
    """Requests that can no longer be measured."""


def likeness(job: Job) -> Likeness:
    """What the job has in common with similar jobs."""
    return Likeness(job.user, job.account, job.partition, job.node_count.bit_length())


@memoise_last
def with_learned(jobs: tuple[Job, ...], learned: Learned) -> tuple[Job, ...]:
    """The jobs, with measured durations of checkpoints in place of the declared ones where there are any.

    A duration is never above the job's grace period, which limits the wait. A job without a declared
    checkpoint gets none.
    """
    if not learned:
        return jobs
    return tuple(_with_measured(job, learned) for job in jobs)


def lesson(
    operations: Iterable[Operation], seen: Cluster, under_way: Mapping[CheckpointRequest, Subject]
) -> Lesson | None:
    """What the operations show of checkpoints after an update from a snapshot. None: nothing new.

    Args:
        operations: the open operations, and those that this cycle has closed.
        seen: the snapshot.
        under_way: the requests that are known from earlier cycles.
    """
    requests = [one for operation in operations for one in _requests(operation)]
    if not under_way and not requests:
        return None
    jobs = seen.jobs_by_id()
    begun: list[tuple[CheckpointRequest, Subject]] = []
    measured: list[tuple[CheckpointRequest, Measurement]] = []
    awaited: set[CheckpointRequest] = set()
    for request, task, over in requests:
        job = jobs.get(request.job_id)
        subject = under_way.get(request)
        if over:
            if subject is not None and (found := _measure(task, request.issued_s, job, subject)):
                measured.append((request, found))
            continue
        awaited.add(request)
        if subject is None and job is not None and (subject := _subject(job)):
            begun.append((request, subject))
    void = tuple(sorted(under_way.keys() - awaited - {request for request, _ in measured}))
    if not (begun or measured or void):
        return None
    return Lesson(begun=tuple(begun), measured=tuple(measured), void=void)


@memoise_each
def _requests(operation: Operation) -> tuple[tuple[CheckpointRequest, Task, bool], ...]:
    """The signals that it has sent, each with its task, and whether it is over. One that has ended its job is
    left out.
    """
    found: list[tuple[CheckpointRequest, Task, bool]] = []
    for task in signals(operation):
        if task.issued_s is None:
            continue
        request = CheckpointRequest(operation.operation_id, task.action.job_id, task.issued_s)
        put_back = put_back_of(operation, request.job_id)
        if put_back is not None and put_back.progress in ENDED - {Progress.GONE}:
            continue  # the signal has ended the job
        # Else it has left by itself, or whether it has is not known yet.
        over = task.progress in ENDED and (put_back is None or put_back.progress in ENDED)
        found.append((request, task, over))
    return tuple(found)


def _subject(job: Job) -> Subject | None:
    """What a request's measurement needs. None: the job does not show when its checkpoint is complete."""
    if job.checkpoint is None or job.checkpoint.acknowledgement is Acknowledgement.NONE:
        return None
    return Subject(likeness=likeness(job), ends=job.checkpoint.acknowledgement is Acknowledgement.EXIT)


def _measure(task: Task, issued_s: float, job: Job | None, subject: Subject) -> Measurement | None:
    """How long a finished checkpoint took. None: its end was not observed."""
    if task.ended_s is None:
        return None
    lasted_s = max(0.0, task.ended_s - issued_s)
    if task.progress is Progress.GONE:
        return Measurement(duration_s=lasted_s, acknowledged=True) if subject.ends else None
    if task.progress is not Progress.DONE:
        return None
    if task.ending is Ending.UNACKNOWLEDGED:
        return Measurement(duration_s=lasted_s, acknowledged=False)
    reported_s = None if job is None else job.last_checkpoint_s
    if reported_s is not None and reported_s >= issued_s:
        lasted_s = reported_s - issued_s  # the snapshot that shows it may be much later
    return Measurement(duration_s=lasted_s, acknowledged=True)


def _with_measured(job: Job, learned: Learned) -> Job:
    spec = job.checkpoint
    if spec is None or spec.system_s is None or not job.nodes:
        return job
    durations_s = learned.get(likeness(job))
    if durations_s is None:
        return job
    system_s = min(max(durations_s), max(spec.grace_s, 0.0))
    return replace(job, checkpoint=replace(spec, system_s=system_s, measured_count=len(durations_s)))
