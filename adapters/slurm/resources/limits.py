"""What limits leave: those of QOS and associations, as slurmctld counts it (`scontrol show assoc_mgr`), and
those on the tasks of an array.

Slurm says of a job that it waits for a limit, but only once the limit is reached. Of the urgent jobs that
wait, makeway counts itself how many Slurm will admit.

Which limit holds (tried on 22.05 and 24.11): what the QOS of the partition limits comes before the same limit
of the job's QOS, or after it if the job's QOS has the flag OverPartQOS; and what a QOS limits comes before
the same limit of the association. The limits on a group of jobs (`Grp...`) of all accounts above the job's
hold besides. An association for the job's partition takes the place of the user's other one. The LimitFactor
of the first of these QOS that has one scales the `GrpTRES` of associations and accounts, rounded down; their
`GrpTRESRunMins` and numbers of jobs, and the limits of the QOS itself, stay.

The lines of the two releases differ in the names of users: `0={...}` and `root(0)={...}`.
"""

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from makeway.adapters.site.text import printable
from makeway.adapters.slurm.entitlement.charged import JOBS, RUN_MINUTES, needs_of
from makeway.adapters.slurm.entitlement.qos import QosRules
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.parse_cluster import RawPartition
from makeway.adapters.slurm.resources.details import array_of
from makeway.policies.model import Quota

RULES_KNOWN_S = 60.0
"""How long the rules of QOS are used before they are read again, in seconds."""
NOTHING: Mapping[str, float] = MappingProxyType({})
_NAME = re.compile(r"[A-Za-z0-9_.@+-]+")
_QOS = re.compile(
    r"QOS=(?P<qos>.*?)\(\d+\) (?P<group>.*) Account Limits=(?P<accounts>.*) User Limits=(?P<users>.*)"
)
_PART = re.compile(r" ?(?P<name>[^={}]+)=\{(?P<limits>[^}]*)\}")
_USER = re.compile(r"(?:.*\()?(?P<id>\d+)\)?")
_ASSOCIATION = re.compile(
    r"ClusterName=.*? Account=(?P<account>.*?) UserName=(?P<user>.*?) Partition=(?P<partition>\S*) "
)
_PARENT = re.compile(r" ParentAccount=(?P<parent>\S*?)\(\d+\)")
_LIMIT = re.compile(r"(?P<limit>\d+)\((?P<used>\d+)\)")


class Scope(StrEnum):
    """Whose jobs a limit counts together."""

    QOS = "all jobs of a QOS"
    QOS_ACCOUNT = "those of an account"
    QOS_USER = "those of a user"
    GROUP = "all jobs of an account and the accounts below it, or of a user's association"
    OWN = "the jobs of a user's association, which may be so many"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limited:
    """What is left to the jobs of a QOS, an account or a user together. None: they may be of any."""

    scope: Scope
    qos: str | None = None
    account: str | None = None
    user_id: str | None = None
    partition: str | None = None
    """Of a user's association: the one partition that it is for, in lower case. None: any."""
    left: Mapping[str, float]
    """By what is limited; never below 0."""
    scaled: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """What the LimitFactor of a QOS scales: the limit, and what is used of it."""

    def left_with(self, factor: float | None) -> Mapping[str, float]:
        """The same as `left`, under a QOS with this LimitFactor. None: it has none."""
        if factor is None:
            return self.left
        scaled = {
            what: max(0.0, math.floor(most * factor) - used) for what, (most, used) in self.scaled.items()
        }
        return {**self.left, **scaled}

    def holds_for(
        self, raw: RawJob, qos: str | None, accounts: tuple[str, ...], partition: str | None
    ) -> bool:
        """Whether a job is under these limits.

        Args:
            raw: the job.
            qos: the QOS whose limits are meant. None: those of associations.
            accounts: its account, and those above it.
            partition: the one that its user's association is for. None: any.
        """
        above = self.scope is Scope.GROUP and self.user_id is None
        of_user = self.qos is None and self.user_id is not None
        return (
            self.qos == qos
            and (not of_user or self.partition == partition)
            and (self.account is None or self.account in (accounts if above else accounts[:1]))
            and self.user_id in (None, raw.user_id)
        )

    @property
    def name(self) -> str:
        """Whose limits they are."""
        parts = (
            ("QOS", self.qos),
            ("account", self.account),
            ("user", self.user_id),
            ("partition", self.partition),
        )
        return printable(", ".join(f"{what} {name}" for what, name in parts if name is not None))


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
        """Whose limits hold for a job, for each of its partitions: the one partition that its user's
        association is for (None: any), and the QOS, first the one whose limits come first.
        """
        found: dict[tuple[str | None, tuple[str, ...]], None] = {}
        for partition in raw.partitions or ("",):
            names = [name for name in (self.of_partitions.get(partition), raw.qos) if name]
            ordered = reversed(names) if raw.qos in self.rules.before_partitions else names
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
        self, lines: Sequence[str], partitions: Iterable[RawPartition], waiting: Sequence[RawJob]
    ) -> KnownLimits:
        """The limits that were read for the waiting jobs, with the partitions of the same snapshot."""
        self._of_partitions = {one.name: one.qos for one in partitions if one.qos}
        if not lines:
            return NO_LIMITS
        self._parents.update(parents_of(lines))
        of_jobs = ({self._of_partitions.get(name, "") for name in job.partitions} for job in waiting)
        several = any(found - {"", job.qos} for job, found in zip(waiting, of_jobs, strict=True))
        limited = limits(lines)
        matters = several or any(one.scaled for one in limited)
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
            {job.qos for job in wanted}
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


def parents_of(lines: Iterable[str]) -> dict[str, str]:
    """By account: the one above it; empty for the highest."""
    found: dict[str, str] = {}
    for line in lines:
        association = _ASSOCIATION.match(line)
        if association and not association["user"]:
            parent = _PARENT.search(line)
            found[association["account"]] = parent["parent"] if parent else ""
    return found


def for_partitions(lines: Iterable[str]) -> frozenset[tuple[str, str, str]]:
    """The associations that are for one partition: account, user's number, partition in lower case, as Slurm
    keeps it.
    """
    found = [one for line in lines if (one := _ASSOCIATION.match(line)) and one["partition"]]
    return frozenset(
        (one["account"], user["id"], one["partition"])
        for one in found
        if (user := _USER.fullmatch(one["user"]))
    )


def limits(lines: Iterable[str]) -> tuple[Limited, ...]:
    """The limits in those lines, each with what is left. What is unlimited is left out."""
    found: list[Limited] = []
    for line in lines:
        if qos := _QOS.fullmatch(line):
            found += _of_qos(qos)
        elif association := _ASSOCIATION.match(line):
            found += _of_association(association, line)
    return tuple(one for one in found if one.left)


def asked_licenses(text: str) -> Iterator[tuple[str, int]]:
    """The licenses of `fluent:2,matlab`; none where the job accepts one or the other."""
    for part in text.split(",") if text and "|" not in text else ():
        name, _, number = part.partition(":")
        yield name, int(number) if number.isascii() and number.isdigit() else 1


def quotas(raw: RawJob, known: KnownLimits, least: Mapping[str, float] = NOTHING) -> tuple[Quota, ...]:
    """The limits that a waiting job draws on. With several partitions, it starts where Slurm admits it first:
    a limit counts if it holds in all of them.

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
            found += [
                Quota(name=f"{what} of {limited.name}", needs=needs[what], left=left)
                for what, left in sorted(limited.left_with(factor).items())
                if needs.get(what) and what not in before
            ]
    return found


def _said_of(scope: Scope, said: Mapping[Scope, frozenset[str]]) -> frozenset[str]:
    """What a limit of a QOS already says that comes before one of this scope."""
    match scope:
        case Scope.GROUP:
            return said[Scope.QOS]
        case Scope.OWN:
            return said[Scope.QOS_USER] | said[Scope.QOS_ACCOUNT]
        case Scope.QOS | Scope.QOS_ACCOUNT | Scope.QOS_USER:
            return said[scope]


def _of_qos(found: re.Match[str]) -> list[Limited]:
    qos = found["qos"]
    left = _left(found["group"], "GrpJobs", "GrpTRES", "GrpTRESRunMins")
    limited = [Limited(scope=Scope.QOS, qos=qos, left=left)]
    for part in _PART.finditer(found["accounts"]):
        left = _left(part["limits"], "MaxJobsPA", "MaxTRESPA", "MaxTRESRunMinsPA")
        limited.append(Limited(scope=Scope.QOS_ACCOUNT, qos=qos, account=part["name"], left=left))
    for part in _PART.finditer(found["users"]):
        left = _left(part["limits"], "MaxJobsPU", "MaxTRESPU", "MaxTRESRunMinsPU")
        if user := _USER.fullmatch(part["name"]):
            limited.append(Limited(scope=Scope.QOS_USER, qos=qos, user_id=user["id"], left=left))
    return limited


def _of_association(found: re.Match[str], line: str) -> list[Limited]:
    user, account = _USER.fullmatch(found["user"]), found["account"]
    if found["user"] and user is None:
        return []
    user_id, partition = user["id"] if user else None, found["partition"] or None
    left = _left(line, "GrpJobs", "GrpTRES", "GrpTRESRunMins")
    scaled = _counted(line, "", "GrpTRES", "")
    where = Limited(scope=Scope.GROUP, account=account, user_id=user_id, partition=partition, left=left)
    group = replace(where, scaled=scaled)
    if user is None:
        return [group]
    # What an account says of the jobs of each user is only what its users' associations inherit.
    return [group, replace(group, scope=Scope.OWN, left=_left(line, "MaxJobs", "", ""), scaled={})]


def _pair(parts: tuple[str, str, str]) -> tuple[str, str]:
    """A key and its value, without what divides them."""
    return parts[0], parts[2]


def _left(text: str, jobs: str, resources: str, run_minutes: str) -> dict[str, float]:
    """What is left by what is limited. `jobs`, `resources`, `run_minutes`: the keys of these limits."""
    counted = _counted(text, jobs, resources, run_minutes)
    return {what: max(0.0, limit - used) for what, (limit, used) in counted.items()}


def _counted(text: str, jobs: str, resources: str, run_minutes: str) -> dict[str, tuple[float, float]]:
    """The same limits, each with what is used of it."""
    pairs = dict(_pair(word.partition("=")) for word in text.split(" "))
    limited = {JOBS: pairs.get(jobs, "")}
    for key, unit in ((resources, ""), (run_minutes, RUN_MINUTES)):
        # Such as cpu=8(2),mem=N(0),gres/gpu=2(1).
        for part in pairs.get(key, "").split(","):
            what, divided, amount = part.rpartition("=")
            if divided:
                limited[f"{what}{unit}"] = amount
    return {
        what: (float(number["limit"]), float(number["used"]))
        for what, text in limited.items()
        if (number := _LIMIT.fullmatch(text))
    }
