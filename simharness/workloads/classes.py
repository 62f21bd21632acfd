"""Which jobs of a trace are urgent and which may be evicted, by queue, partition, user or group."""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from makeway.policies.model import JobKind
from makeway.simharness.workloads.job import SimJob, WorkloadError

_FIELDS: Mapping[str, Callable[[SimJob], str]] = MappingProxyType(
    {
        "queue": lambda job: job.queue,
        "partition": lambda job: job.partition,
        "user": lambda job: job.user,
        "group": lambda job: job.account,
    }
)
_SHOWN = 10


class ClassName(StrEnum):
    """What a class of jobs is for makeway."""

    URGENT = "urgent"  # it makes way for them
    EVICTABLE = "evictable"  # they may be evicted, and no others


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassRule:
    """The jobs whose field has one of these values belong to the class."""

    name: ClassName
    field: str
    values: frozenset[str]

    def matches(self, job: SimJob) -> bool:
        """Whether the job belongs to the class by this rule."""
        return _FIELDS[self.field](job) in self.values


def parse_class(text: str) -> ClassRule:
    """The rule that a text such as `urgent:queue=1` or `evictable:user=7,9` describes.

    Raises:
        WorkloadError: it has another form. The message names the text and what is accepted.
    """
    name, colon, rest = text.partition(":")
    field, equals, values = rest.partition("=")
    names = [one.value for one in ClassName]
    wanted = frozenset(value for value in values.split(",") if value)
    if not colon or not equals or name not in names or field not in _FIELDS or not wanted:
        raise WorkloadError(
            f"--class {text}: accepted: CLASS:FIELD=VALUE[,VALUE...], CLASS being {' or '.join(names)}, "
            f"FIELD one of {', '.join(_FIELDS)}"
        )
    return ClassRule(name=ClassName(name), field=field, values=wanted)


def classify(
    jobs: Sequence[SimJob], rules: Sequence[ClassRule], *, hidden: Container[str] = ()
) -> list[SimJob]:
    """The jobs with the classes that the rules give them; an urgent job is not evictable.

    With a rule for urgent jobs no other job is urgent; without one, those are that were before. With a rule
    for evictable jobs no other job may be evicted; without one, every job that is not urgent may.

    `hidden`: the fields whose values the message of an error does not list.

    Raises:
        WorkloadError: a rule names a value that no job has.
    """
    for rule in rules:
        _require_known(jobs, rule, hidden)
    urgent = [rule for rule in rules if rule.name is ClassName.URGENT]
    evictable = [rule for rule in rules if rule.name is ClassName.EVICTABLE]
    found: list[SimJob] = []
    for job in jobs:
        classed = _with_urgency(job, urgent=any(rule.matches(job) for rule in urgent)) if urgent else job
        preemptible = not evictable or any(rule.matches(job) for rule in evictable)
        changed = preemptible is not classed.preemptible
        found.append(replace(classed, preemptible=preemptible) if changed else classed)
    return found


def _with_urgency(job: SimJob, *, urgent: bool) -> SimJob:
    """The job itself if nothing changes; else with nothing of its old kind."""
    if urgent is (job.kind is JobKind.ON_DEMAND):
        return job
    return replace(job.plain(), kind=JobKind.ON_DEMAND) if urgent else job.plain()


def _require_known(jobs: Sequence[SimJob], rule: ClassRule, hidden: Container[str]) -> None:
    known = {_FIELDS[rule.field](job) for job in jobs}
    missing = sorted(rule.values - known)
    if missing:
        problem = f"--class {rule.name}:{rule.field}={missing[0]}: no job has this {rule.field}"
        if rule.field in hidden:
            raise WorkloadError(f"{problem}; accepted: one that a job has")
        listed = sorted(value for value in known if value)
        shown = ", ".join(listed[:_SHOWN]) + (
            f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
        )
        raise WorkloadError(f"{problem}; the workload has {shown or 'none'}")
