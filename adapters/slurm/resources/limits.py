"""What limits leave: those of QOS and associations, as slurmctld counts it (`scontrol show assoc_mgr`), and
those on the tasks of an array.

Slurm says of a job that it waits for a limit, but only once the limit is reached. Of the urgent jobs that
wait, makeway counts itself how many Slurm will admit.

Which limit holds (tried on 22.05 and 24.11): what the QOS of the partition limits comes before the same limit
of the job's QOS, or after it if the job's QOS has the flag OverPartQOS; and what a QOS limits comes before
the same limit of the association. The limits on a group of jobs (`Grp...`) of all accounts above the job's
hold besides. An association for the job's partition takes the place of the user's other one. The LimitFactor
of the first of these QOS that has one scales the `GrpTRES` of associations and accounts, rounded down; their
`GrpTRESRunMins`, `MaxTRESMins` and numbers of jobs, and the limits of the QOS itself, stay.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from types import MappingProxyType

from makeway.adapters.slurm.entitlement.assoc_mgr import Limited, Scope, for_partitions, limits, parents_of
from makeway.adapters.slurm.entitlement.charged import IN_ALL, OF_JOB, needs_of
from makeway.adapters.slurm.entitlement.qos import QosRules
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.parse_cluster import RawPartition
from makeway.adapters.slurm.resources.details import array_of
from makeway.policies.model import Quota

RULES_KNOWN_S = 60.0
"""How long the rules of QOS are used before they are read again, in seconds."""
NOTHING: Mapping[str, float] = MappingProxyType({})
_NAME = re.compile(r"[A-Za-z0-9_.@+-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLimits:
    """The limits that were read, and what says for which jobs they hold."""

    limited: tuple[Limited, ...] = ()
    parents: Mapping[str, str] = field(default_factory=dict[str, str])
    """By account: the one above it."""
    of_partitions: Mapping[str, str] = field(default_factory=dict[str, str])
    """The QOS of the partitions that have one."""
    rules: QosRules = field(default_factory=QosRules)
    for_partitions: frozenset[tuple[str, str, str]] = frozenset()
    """The associations that are for one partition: account, user's number, partition in lower case."""
    tasks_left: Mapping[str, float] = field(default_factory=dict[str, float])
    """By array: how many more of its tasks may run now. Arrays without a limit are absent."""

    def in_force(self, raw: RawJob) -> tuple[tuple[str | None, tuple[str, ...]], ...]:
        """Whose limits hold for a job, for each of its partitions and QOS: the one partition that its user's
        association is for (None: any), and the QOS, first the one whose limits come first.
        """
        found: dict[tuple[str | None, tuple[str, ...]], None] = {}
        for partition, qos in product(raw.partitions or ("",), raw.qos.split(",")):
            names = [name for name in (self.of_partitions.get(partition), qos) if name]
            ordered = reversed(names) if qos in self.rules.before_partitions else names
            own = (raw.account, raw.user_id, partition.lower()) in self.for_partitions
            found[partition.lower() if own else None, tuple(dict.fromkeys(ordered))] = None
        return tuple(found)


NO_LIMITS = KnownLimits()


class LimitsReader:
    """What to ask for the limits of waiting jobs, from one snapshot to the next.

    Args:
        read_rules: reads the rules of all QOS; None: they are not known now. Only asked where that makes a
            difference.
        clock: a monotonic clock, in seconds.
    """

    def __init__(
        self, read_rules: Callable[[], QosRules | None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read_rules = read_rules
        self._clock = clock
        self._rules = QosRules()
        self._rules_read_s: float | None = None
        self._parents: dict[str, str] = {}
        self._of_partitions: dict[str, str] = {}

    def to_ask(self, waiting: Sequence[RawJob]) -> str:
        """What `show assoc_mgr` is asked for. Empty: nothing.

        One job is enough: Slurm forgets its reason whenever the job is changed, also by makeway.
        """
        return chosen(waiting, self._parents, self._of_partitions)

    def learn(
        self,
        lines: Sequence[str],
        partitions: Iterable[RawPartition],
        waiting: Sequence[RawJob],
        *,
        safe: bool = False,
    ) -> KnownLimits:
        """The limits that were read for the waiting jobs, with the partitions of the same snapshot.

        `safe`: see `limits`.
        """
        self._of_partitions = {one.name: one.qos for one in partitions if one.qos}
        if not lines:
            return KnownLimits(parents=self._parents)
        self._parents.update(parents_of(lines))
        of_jobs = ({self._of_partitions.get(name, "") for name in job.partitions} for job in waiting)
        several = any(found - {"", job.qos} for job, found in zip(waiting, of_jobs, strict=True))
        limited = limits(lines, safe=safe)
        matters = several or any(one.scaled or any(map(_priced, one.left)) for one in limited)
        return KnownLimits(
            limited=limited,
            parents=self._parents,
            of_partitions=self._of_partitions,
            rules=self._known_rules() if matters else QosRules(),
            for_partitions=for_partitions(lines),
        )

    def _known_rules(self) -> QosRules:
        """The rules as they were last known. A database that hangs delays a snapshot: it is not asked for
        every one.
        """
        if self._rules_read_s is None or self._clock() - self._rules_read_s >= RULES_KNOWN_S:
            found = self._read_rules()
            self._rules = self._rules if found is None else found
            self._rules_read_s = self._clock()
        return self._rules


def accounts_above(account: str, parents: Mapping[str, str]) -> tuple[str, ...]:
    """The account and all that are above it, as far as they are known."""
    found = [account]
    while (parent := parents.get(found[-1])) and parent not in found:
        found.append(parent)
    return tuple(found)


def chosen(jobs: Iterable[RawJob], parents: Mapping[str, str], of_partitions: Mapping[str, str]) -> str:
    """What `show assoc_mgr` is asked for, so that it shows the limits of these jobs. Empty: nothing.

    Args:
        jobs: the jobs.
        parents: by account, the one above it, as far as it is known: all accounts are asked for where one is
            not.
        of_partitions: the QOS of the partitions that have one.
    """
    wanted = tuple(jobs)
    accounts = {name for job in wanted for name in accounts_above(job.account, parents)}
    names = [
        ("users", {job.user for job in wanted}),
        ("accounts", accounts),
        (
            "qos",
            {qos for job in wanted for qos in job.qos.split(",")}
            | {of_partitions.get(one, "") for job in wanted for one in job.partitions},
        ),
    ]
    words = {
        word: f"{word}={','.join(good)}"
        for word, found in names
        if (good := sorted(name for name in found if _NAME.fullmatch(name)))
    }
    if len(words) < len(names):
        return ""
    if not all(name in parents for name in accounts if _NAME.fullmatch(name)):
        del words["accounts"]
    return " ".join(["flags=assoc,qos", *words.values()])


def quotas(raw: RawJob, known: KnownLimits, least: Mapping[str, float] = NOTHING) -> tuple[Quota, ...]:
    """The limits that a waiting job draws on. With several partitions or QOS, it starts where Slurm admits it
    first: a limit counts if it holds in all of them.

    `least`: what it will get at least, by the names of trackable resources.
    """
    needs = needs_of(raw, least)
    first, *others = [_quotas(raw, needs, known, *in_force) for in_force in known.in_force(raw)]
    found = tuple(quota for quota in first if all(quota in one for one in others))
    array = array_of(raw)
    if array not in known.tasks_left:
        return found
    return (*found, Quota(name=f"tasks of array {array} at once", needs=1.0, left=known.tasks_left[array]))


def _quotas(
    raw: RawJob,
    needs: Mapping[str, float],
    known: KnownLimits,
    partition: str | None,
    order: tuple[str, ...],
) -> list[Quota]:
    """The limits that it draws on, by what it needs, where those of its user's association for the partition
    (None: for any), and those of the QOS in this order hold.
    """
    accounts = accounts_above(raw.account, known.parents)
    factor = next((known.rules.factors[qos] for qos in order if qos in known.rules.factors), None)
    charges_otherwise = not known.rules.other_prices.isdisjoint(order)
    found: list[Quota] = []
    said: dict[Scope, set[str]] = {scope: set() for scope in Scope}
    """What the QOS that come first limit."""
    for qos in (*order, None):
        said_before = {scope: frozenset(what) for scope, what in said.items()}
        for limited in known.limited:
            if not limited.holds_for(raw, qos, accounts, partition):
                continue
            before = _said_of(limited.scope, said_before)
            said[limited.scope].update(limited.left if qos is not None else ())
            # No other job draws on what each job may have.
            whose = f"job {raw.job_id}, {limited.name}" if limited.scope is Scope.JOB else limited.name
            found += [
                Quota(name=f"{what} of {whose}", needs=needs[what], left=left)
                for what, left in sorted(limited.left_with(factor).items())
                if needs.get(what) and what not in before and not (charges_otherwise and _priced(what))
            ]
    return found


def _priced(what: str) -> bool:
    """Whether it is minutes of which jobs may use more or fewer than they last."""
    return what.endswith((IN_ALL, OF_JOB))


def _said_of(scope: Scope, said: Mapping[Scope, frozenset[str]]) -> frozenset[str]:
    """What a limit of a QOS already says that comes before one of this scope."""
    match scope:
        case Scope.GROUP:
            return said[Scope.QOS]
        case Scope.OWN:
            return said[Scope.QOS_USER] | said[Scope.QOS_ACCOUNT]
        case Scope.QOS | Scope.QOS_ACCOUNT | Scope.QOS_USER | Scope.JOB:
            return said[scope]
