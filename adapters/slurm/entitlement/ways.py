"""In which ways a user may submit jobs: what Slurm prints of partitions, associations and QOS. Pure.

Of the limits of the same name, that of the partition's QOS comes before that of the job's QOS, or after it if
the job's QOS has the flag OverPartQOS. Both come before those of the association and of the accounts above
it, which all hold. An association for the job's partition takes the place of the user's other one. The
LimitFactor of the first of these QOS that has one scales the `GrpTRES` and `MaxTRES` of associations and
accounts, rounded down. A QOS with the flag Relative (24.05 and later) limits resources in percent of those of
the cluster, or of the partition whose QOS it is, rounded down.

Reference: 22.05, 24.11 as tried. `sacctmgr show associations` prints for a user also the limits that its
    association inherits, but not those on a group of jobs (`Grp...`), which accounts have for all their
    users together.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from makeway.adapters.site.entitlement import JOBS, NODES, SECONDS, SubmissionLimit, SubmissionWay
from makeway.adapters.site.text import printable
from makeway.adapters.slurm import parse
from makeway.adapters.slurm.entitlement.qos import limit_factor
from makeway.adapters.slurm.partitions.accounts import children_of, with_those_below
from makeway.adapters.slurm.partitions.admission import admits
from makeway.adapters.slurm.resources.limits import accounts_above

_GROUP_LIMITS = ("GrpTRES", "GrpJobs", "GrpSubmit")
_ASSOCIATION_LIMITS = ("MaxTRES", "MaxWall", "MaxJobs", "MaxSubmitJobs", *_GROUP_LIMITS)
_QOS_LIMITS = (
    *("MaxTRES", "MaxTRESPU", "MaxTRESPA", "MaxWall"),
    *("MaxJobsPU", "MaxJobsPA", "MaxSubmitPU", "MaxSubmitPA", *_GROUP_LIMITS),
)
ASSOCIATION_FIELDS = ("Account", "Partition", "QOS", *_ASSOCIATION_LIMITS)
ACCOUNT_FIELDS = ("Account", "ParentName", *_GROUP_LIMITS)
QOS_FIELDS = ("Name", "Flags", "LimitFactor", *_QOS_LIMITS)
_SCALED = frozenset({"GrpTRES", "MaxTRES"})
"""The limits of associations that the LimitFactor of a QOS scales."""
_RELATIVE = frozenset({"GrpTRES", "MaxTRES", "MaxTRESPU", "MaxTRESPA"})
"""The limits of a QOS with the flag Relative that are percentages."""
_COME_BEFORE = {"MaxJobs": ("MaxJobsPU", "MaxJobsPA"), "MaxSubmitJobs": ("MaxSubmitPU", "MaxSubmitPA")}
"""Which limits of a QOS come before one of an association that has another name."""
_WORD = re.compile(r"(?:^| )(?P<key>[A-Za-z]+)=(?P<text>\S*)")
_ALL = "ALL"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDoor:
    """Who may submit jobs to a partition, and how large they may be."""

    name: str
    words: Mapping[str, str]
    """By Slurm's keys."""

    def opens(self, groups: Collection[str]) -> bool:
        """Whether it is open to a user of these groups, by whatever account and QOS."""
        return self.words.get("RootOnly", "NO") == "NO" and admits(
            groups, self.words.get("AllowGroups", _ALL), "(null)"
        )

    def admits(self, account: str | None, qos: str | None) -> bool:
        """Whether it takes jobs of the account and the QOS. None: any will do."""
        words = self.words
        return (
            account is None
            or admits({account}, words.get("AllowAccounts", _ALL), words.get("DenyAccounts", "(null)"))
        ) and (qos is None or admits({qos}, words.get("AllowQos", _ALL), words.get("DenyQos", "(null)")))

    def own_qos(self, qos: "Mapping[str, QosLimits]") -> "QosLimits | None":
        """The limits of its QOS. None: it has none."""
        found = qos.get(self.words.get("QoS", ""))
        return None if found is None else found.of(self.words.get("TRES", ""))

    def limits(self) -> tuple[SubmissionLimit, ...]:
        """What its own settings admit. Raises ValueError for text that cannot be read."""
        whose = f"partition {printable(self.name)}"
        found = _limit(self.words.get("MaxTime", ""), SECONDS, whose)
        for key in ("MaxNodes", "TotalNodes"):
            found += _limit(self.words.get(key, ""), NODES, whose)
        return found


LimitsByName = Mapping[str, tuple[SubmissionLimit, ...]]
"""What Slurm's limits admit, by their names such as GrpTRES."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Association:
    """A user's association: the account, and what its jobs may be."""

    account: str
    partition: str
    """In lower case. Empty: any."""
    qos: frozenset[str]
    limits: LimitsByName


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountLimits:
    """An account of the cluster, and what all jobs below it may be together."""

    parent: str
    """The account above it. Empty: there is none."""
    limits: LimitsByName


@dataclass(frozen=True, slots=True, kw_only=True)
class QosLimits:
    """What the jobs of a QOS may be."""

    before_partition: bool
    """Whether its limits come before those of a partition's QOS (OverPartQOS)."""
    limits: LimitsByName
    factor: float | None = None
    """Its LimitFactor. None: it has none."""
    relative: bool = False
    """Whether its limits on resources are percentages."""

    def of(self, tres: str) -> "QosLimits":
        """The same with amounts for percentages: `tres` is what there is, such as `cpu=16,node=8`."""
        if not self.relative:
            return self
        there = {limit.what: limit.most for limit in _limits({"TRES": tres}, ("TRES",), "")["TRES"]}
        limits = {
            name: tuple(_share(one, there) for one in found) if name in _RELATIVE else found
            for name, found in self.limits.items()
        }
        return replace(self, limits=limits, relative=False)


def _share(percentage: SubmissionLimit, there: Mapping[str, float]) -> SubmissionLimit:
    return replace(percentage, most=math.floor(there.get(percentage.what, 0.0) * percentage.most / 100.0))


def partitions(lines: Iterable[str]) -> tuple[PartitionDoor, ...]:
    """The partitions that `scontrol --oneliner show partition` has printed."""
    found = [dict(reversed(_WORD.findall(line))) for line in lines]
    return tuple(
        PartitionDoor(name=words["PartitionName"], words=words)
        for words in found
        if words.get("PartitionName")
    )


def standing_for_those_below(
    doors: Iterable[PartitionDoor], accounts: Mapping[str, AccountLimits], release: tuple[int, int]
) -> list[PartitionDoor]:
    """The partitions. What one says of an account it says of those below, from some release on."""
    children = children_of({name: one.parent for name, one in accounts.items()}, release)
    found: list[PartitionDoor] = []
    for door in doors:
        said = [(key, door.words[key]) for key in ("AllowAccounts", "DenyAccounts") if key in door.words]
        wider = {key: with_those_below(names, children) for key, names in said}
        found.append(replace(door, words={**door.words, **wider}))
    return found


def associations(lines: Iterable[str], user: str) -> tuple[Association, ...]:
    """The associations that sacctmgr has printed, by `ASSOCIATION_FIELDS`. Raises ValueError for text that
    cannot be read.
    """
    found: list[Association] = []
    for row in _rows(lines, ASSOCIATION_FIELDS):
        whose = f"the association of {printable(user)} with account {printable(row['Account'])}"
        found.append(
            Association(
                account=row["Account"],
                partition=row["Partition"],
                qos=frozenset(name for name in row["QOS"].split(",") if name),
                limits=_limits(row, _ASSOCIATION_LIMITS, whose),
            )
        )
    return tuple(found)


def account_limits(lines: Iterable[str]) -> Mapping[str, AccountLimits]:
    """The accounts that sacctmgr has printed, by `ACCOUNT_FIELDS`. Raises ValueError for text that cannot be
    read.
    """
    return {
        row["Account"]: AccountLimits(
            parent=row["ParentName"],
            limits=_limits(row, _GROUP_LIMITS, f"account {printable(row['Account'])}"),
        )
        for row in _rows(lines, ACCOUNT_FIELDS)
    }


def qos_limits(lines: Iterable[str]) -> Mapping[str, QosLimits]:
    """The limits of each QOS that sacctmgr has printed, by `QOS_FIELDS`. Raises ValueError for text that
    cannot be read.
    """
    return {
        row["Name"]: QosLimits(
            before_partition="OverPartQOS" in row["Flags"].split(","),
            limits=_limits(row, _QOS_LIMITS, f"QOS {printable(row['Name'])}"),
            factor=limit_factor(row["LimitFactor"]),
            relative="Relative" in row["Flags"].split(","),
        )
        for row in _rows(lines, QOS_FIELDS)
    }


def _rows(lines: Iterable[str], fields: Sequence[str]) -> list[dict[str, str]]:
    """What sacctmgr has printed. A row with a name that has a `|` cannot be read, and opens nothing."""
    rows = (line.split("|") for line in lines if line)
    return [dict(zip(fields, row, strict=True)) for row in rows if len(row) <= len(fields)]


def _limits(row: Mapping[str, str], names: Sequence[str], whose: str) -> LimitsByName:
    found: dict[str, tuple[SubmissionLimit, ...]] = {}
    for name in names:
        if name == "MaxWall":
            found[name] = _limit(row[name], SECONDS, whose)
        elif "TRES" in name:
            parts = (part.rpartition("=") for part in row[name].split(","))
            limits = (_limit(text, NODES if what == "node" else what, whose) for what, _, text in parts)
            found[name] = tuple(limit for each in limits for limit in each)
        else:
            found[name] = _limit(row[name], JOBS, whose)
    return found


def _limit(text: str, what: str, whose: str) -> tuple[SubmissionLimit, ...]:
    """One limit, if the text gives any."""
    if not text or text in {"UNLIMITED", "INFINITE"}:
        return ()
    if what == SECONDS:
        most = parse.duration_s(text)
        return () if most is None else (SubmissionLimit(what=what, most=most, whose=whose),)
    amount = parse.memory_mb(text) if what == "mem" else float(text)
    return (SubmissionLimit(what=what, most=amount, whose=whose),)


def ways(
    doors: Iterable[PartitionDoor],
    known: Sequence[Association],
    accounts: Mapping[str, AccountLimits],
    qos: Mapping[str, QosLimits],
    *,
    enforced: frozenset[str],
    tres: str = "",
) -> tuple[SubmissionWay, ...]:
    """The ways of a user, by the partitions that are open to the user.

    Args:
        doors: these partitions.
        known: the user's associations.
        accounts: all accounts of the cluster.
        qos: the limits of each QOS.
        enforced: the words of AccountingStorageEnforce: without `associations` every user may submit, without
            `qos` by every QOS, and limits count with `limits` alone.
        tres: what the cluster has, such as `cpu=16,node=8`. Only QOS with the flag Relative need it.
    """
    qos_of_jobs = {name: one.of(tres) for name, one in qos.items()}
    by = list(known)
    if not by and "associations" not in enforced:
        by = [Association(account="", partition="", qos=frozenset(), limits={})]
    parents = {name: one.parent for name, one in accounts.items()}
    found: list[SubmissionWay] = []
    for door in doors:
        own = {one.account for one in by if one.partition == door.name.lower()}
        """The accounts of which it has an association for the partition."""
        for one in by:
            if one.partition != (door.name.lower() if one.account in own else ""):
                continue
            above = [
                accounts[name].limits for name in accounts_above(one.account, parents) if name in accounts
            ]
            names: Sequence[str | None] = sorted(one.qos) if "qos" in enforced else [*sorted(qos), None]
            for name in names:
                account = one.account or None
                if door.admits(account, name):
                    limits = door.limits()
                    if "limits" in enforced:
                        order = _order(qos_of_jobs.get(name or ""), door.own_qos(qos))
                        limits += _in_force(order, [one.limits, *above])
                    found.append(SubmissionWay(partition=door.name, qos=name, account=account, limits=limits))
    return tuple(found)


def _order(of_job: QosLimits | None, of_partition: QosLimits | None) -> list[QosLimits]:
    """A job's QOS and its partition's, that one first whose limits come first."""
    found = [one for one in (of_partition, of_job) if one is not None]
    return found[::-1] if of_job is not None and of_job.before_partition else found


def _in_force(qos: Sequence[QosLimits], associations: Iterable[LimitsByName]) -> tuple[SubmissionLimit, ...]:
    """The limits that hold for a job: those of QOS, the first first, and those of associations.

    Reference: decision 25 has what was tried.
    """
    found: list[SubmissionLimit] = []
    said: set[tuple[str, str]] = set()
    """The limits that a QOS has: their names, and what they limit."""
    for one in qos:
        new = [(name, limit) for name, limits in one.limits.items() for limit in limits]
        found += [limit for name, limit in new if (name, limit.what) not in said]
        said |= {(name, limit.what) for name, limit in new}
    factor = next((one.factor for one in qos if one.factor is not None), None)
    for limits_by_name in associations:
        for name, limits in limits_by_name.items():
            before = _COME_BEFORE.get(name, (name,))
            held = [limit for limit in limits if not any((other, limit.what) in said for other in before)]
            if factor is not None and name in _SCALED:
                held = [replace(limit, most=math.floor(limit.most * factor)) for limit in held]
            found += held
    return tuple(found)
