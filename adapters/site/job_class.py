"""Classes of jobs: which jobs a site means, and what is true of them."""

import re
from dataclasses import dataclass
from functools import lru_cache

from makeway.policies.model import CheckpointSpec, JobKind


@dataclass(frozen=True, slots=True, kw_only=True)
class JobClass:
    """What is true of the jobs that fulfil all conditions. An empty condition is fulfilled by every job."""

    name: str
    """What the log and `makeway doctor` call it."""
    partitions: frozenset[str] = frozenset()
    """The job may run in at least one of these partitions. An urgent one may run in no others."""
    qos: frozenset[str] = frozenset()
    """The job has one of these QOS."""
    accounts: frozenset[str] = frozenset()
    """The job is charged to one of these accounts."""
    users: frozenset[str] = frozenset()
    """The job belongs to one of these users."""
    features: frozenset[str] = frozenset()
    """The job asks for at least one of these node features."""
    words: frozenset[str] = frozenset()
    """The job's comment has at least one of these as `makeway:WORD`. Every user may write
    anything there.
    """
    kind: JobKind = JobKind.RIGID
    """Rigid jobs keep their size, malleable jobs may be shrunk, and jobs of the kind on_demand are urgent."""
    preemptible: bool = False
    """Whether makeway may touch these jobs. An urgent job is never touched."""
    node_count_min: int | None = None
    """Malleable jobs: the smallest size, unless the job says `makeway:min-nodes=N`. None: its full size."""
    checkpoint: CheckpointSpec | None = None
    """How these jobs checkpoint. None: they cannot."""
    setup_s: float = 0.0
    """The time from a start until useful work begins."""
    start_within_s: float | None = None
    """Urgent jobs: within what time a start is on time. None: the policy's default."""


@lru_cache(maxsize=1 << 12)
def first_class(
    classes: tuple[JobClass, ...],
    *,
    partitions: tuple[str, ...],
    qos: str,
    account: str,
    user: str,
    features: str,
    words: frozenset[str],
) -> JobClass | None:
    """The first class whose conditions a job fulfils. None: no class.

    Args:
        classes: the site's, in order.
        partitions: the partitions, or queues, that the job may run in.
        qos: its quality of service.
        account: what it is charged to.
        user: whose job it is.
        features: the expression of node features that it asks for.
        words: its `makeway:` words.
    """
    has = (
        frozenset(partitions),
        frozenset({qos}),
        frozenset({account}),
        frozenset({user}),
        frozenset(re.findall(r"[\w.\-]+", features)),
        words,
    )
    for one in classes:
        if all(not wants or wants & found for wants, found in zip(_conditions(one), has, strict=True)):
            return one
    return None


def never_met(classes: tuple[JobClass, ...]) -> tuple[tuple[JobClass, JobClass], ...]:
    """The classes that no job is ever of, each with the first class before it that takes all of its jobs."""
    found: list[tuple[JobClass, JobClass]] = []
    for number, one in enumerate(classes):
        before = next((earlier for earlier in classes[:number] if _takes_all(earlier, one)), None)
        if before is not None:
            found.append((one, before))
    return tuple(found)


def _takes_all(earlier: JobClass, one: JobClass) -> bool:
    """Whether each job that meets the conditions of `one` meets those of `earlier`."""
    pairs = zip(_conditions(earlier), _conditions(one), strict=True)
    return all(not wants or (has and has <= wants) for wants, has in pairs)


def _conditions(one: JobClass) -> tuple[frozenset[str], ...]:
    return one.partitions, one.qos, one.accounts, one.users, one.features, one.words
