"""Who could submit an urgent job: the site's classes, and the ways in which a user may submit jobs."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from makeway.adapters.protocol import AnnouncedJob, Entitlement
from makeway.adapters.site.job_class import JobClass, first_class
from makeway.adapters.site.text import printable
from makeway.policies.model import JobKind

NODES = "nodes"
SECONDS = "seconds"
JOBS = "jobs"
"""What a limit on the size, on the time limit and on the number of jobs is called; others have the names of
trackable resources.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionLimit:
    """The most that one job may ask for."""

    what: str
    most: float
    whose: str
    """What sets the limit, such as `QOS urgent`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionWay:
    """One way in which a user may submit jobs. None: the cluster does not say, so that any value will do."""

    partition: str | None = None
    qos: str | None = None
    account: str | None = None
    limits: tuple[SubmissionLimit, ...] = ()

    def exceeded(self, job: AnnouncedJob) -> str | None:
        """What the job asks too much of, in words. None: nothing."""
        needs = {NODES: float(job.node_count), SECONDS: job.walltime_s, JOBS: 1.0}
        for name, amount in () if job.demand is None else job.demand.amounts:
            needs[name] = float(amount * job.node_count)
        for limit in self.limits:
            if needs.get(limit.what, 0.0) > limit.most:
                wanted = f"{needs[limit.what]:.12g} {limit.what}"
                return f"{wanted} are asked for, {limit.whose} admits {limit.most:.12g}"
        return None


def entitlement(
    classes: tuple[JobClass, ...], job: AnnouncedJob, ways: Iterable[SubmissionWay]
) -> Entitlement:
    """Whether one of the ways leads to a class of the kind on_demand.

    Every user may write any `makeway:` word and ask for any feature, so these conditions are met.

    Args:
        classes: the site's, in order.
        job: what is announced.
        ways: those of its user. Empty: the user may not submit any job.
    """
    user, known = printable(job.user), tuple(ways)
    urgent = [one for one in classes if one.kind is JobKind.ON_DEMAND]
    exceeded: str | None = None
    for way in known:
        if not any(_leads_to(classes, one, job.user, way) for one in urgent):
            continue
        too_much = way.exceeded(job)
        if too_much is None:
            return Entitlement(account=way.account or "")
        exceeded = exceeded or too_much
    if exceeded is not None:
        return Entitlement(refusal=f"user {user} may not submit such an urgent job: {exceeded}")
    if not urgent:
        return Entitlement(refusal="no class of jobs is urgent here")
    if not known:
        return Entitlement(refusal=f"user {user} may not submit jobs here")
    named = "; ".join(map(_described, urgent))
    return Entitlement(refusal=f"user {user} may not submit urgent jobs, which are: {named}")


def _leads_to(classes: tuple[JobClass, ...], wanted: JobClass, user: str, way: SubmissionWay) -> bool:
    """Whether a job that fulfils the conditions of an urgent class can be submitted in this way, and no
    earlier class that is not urgent takes it.
    """
    found = first_class(
        classes,
        partitions=(_value(way.partition, wanted.partitions),),
        qos=_value(way.qos, wanted.qos),
        account=_value(way.account, wanted.accounts),
        user=user,
        features=min(wanted.features, default=""),
        words=frozenset(sorted(wanted.words)[:1]),
    )
    return found is not None and found.kind is JobKind.ON_DEMAND


def _value(known: str | None, wanted: frozenset[str]) -> str:
    return min(wanted, default="") if known is None else known


def _described(one: JobClass) -> str:
    """The conditions of a class, in words."""
    return printable(f"class {one.name} ({', '.join(_conditions(one)) or 'no condition'})")


def _conditions(one: JobClass) -> Iterator[str]:
    groups: Sequence[tuple[str, frozenset[str]]] = (
        ("partition", one.partitions),
        ("QOS", one.qos),
        ("account", one.accounts),
        ("feature", one.features),
        ("word", one.words),
    )
    for what, names in groups:
        if names:
            yield f"{what} {' or '.join(sorted(names))}"
    if one.users:
        yield "certain users"


@dataclass(frozen=True, slots=True)
class ClassEntitlements:
    """`EntitlementReader` by the classes alone, for a cluster that does not say who may submit what."""

    classes: tuple[JobClass, ...]

    def entitlement(self, job: AnnouncedJob) -> Entitlement:
        """See `EntitlementReader`."""
        return entitlement(self.classes, job, (SubmissionWay(),))
