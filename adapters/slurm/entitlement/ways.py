"""In which ways a user may submit jobs: what Slurm prints of partitions, associations and QOS. Pure.

Reference: 22.05, 24.11 as tried. `sacctmgr show associations` prints for a user also the limits that its
    association inherits, but not those on a group of jobs (`Grp...`), which accounts have for all their
    users together.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from makeway.adapters.site.entitlement import NODES, SECONDS, SubmissionLimit, SubmissionWay
from makeway.adapters.site.text import printable
from makeway.adapters.slurm import parse

ASSOCIATION_FIELDS = (
    "Account",
    "Partition",
    "QOS",
    "MaxTRES",
    "GrpTRES",
    "MaxWall",
    "MaxJobs",
    "MaxSubmitJobs",
)
QOS_FIELDS = (
    *("Name", "MaxTRES", "MaxTRESPU", "MaxTRESPA", "GrpTRES", "MaxWall"),
    *("MaxJobsPU", "MaxSubmitPU"),
)
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
        return self.words.get("RootOnly", "NO") == "NO" and _admits(
            groups, self.words.get("AllowGroups", _ALL), "(null)"
        )

    def admits(self, account: str | None, qos: str | None) -> bool:
        """Whether it takes jobs of the account and the QOS. None: any will do."""
        words = self.words
        return (
            account is None
            or _admits({account}, words.get("AllowAccounts", _ALL), words.get("DenyAccounts", "(null)"))
        ) and (qos is None or _admits({qos}, words.get("AllowQos", _ALL), words.get("DenyQos", "(null)")))

    def limits(self) -> tuple[SubmissionLimit, ...]:
        """What its own settings admit. Raises ValueError for text that cannot be read."""
        whose = f"partition {printable(self.name)}"
        found = _limit(self.words.get("MaxTime", ""), SECONDS, whose)
        for key in ("MaxNodes", "TotalNodes"):
            found += _limit(self.words.get(key, ""), NODES, whose)
        return found


def _admits(names: Collection[str], allowed: str, denied: str) -> bool:
    """Whether one of the names is allowed and not denied, in Slurm's words."""
    given = allowed.split(",")
    if _ALL not in given:
        return any(name in given for name in names)
    refused = denied.split(",")
    return not any(name in refused for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Association:
    """A user's association: the account, and what its jobs may be."""

    account: str
    partition: str
    """Empty: any."""
    qos: frozenset[str]
    limits: tuple[SubmissionLimit, ...]


def partitions(lines: Iterable[str]) -> tuple[PartitionDoor, ...]:
    """The partitions that `scontrol --oneliner show partition` has printed."""
    found = [dict(reversed(_WORD.findall(line))) for line in lines]
    return tuple(
        PartitionDoor(name=words["PartitionName"], words=words)
        for words in found
        if words.get("PartitionName")
    )


def associations(lines: Iterable[str], user: str) -> tuple[Association, ...]:
    """The associations that sacctmgr has printed, by `ASSOCIATION_FIELDS`. Raises ValueError for text that
    cannot be read.
    """
    found: list[Association] = []
    for row in _rows(lines, ASSOCIATION_FIELDS):
        whose = f"the association of {printable(user)} with account {printable(row['Account'])}"
        limits = _limits(row, ("MaxTRES", "GrpTRES"), ("MaxJobs", "MaxSubmitJobs"), whose)
        found.append(
            Association(
                account=row["Account"],
                partition=row["Partition"],
                qos=frozenset(name for name in row["QOS"].split(",") if name),
                limits=limits,
            )
        )
    return tuple(found)


def qos_limits(lines: Iterable[str]) -> Mapping[str, tuple[SubmissionLimit, ...]]:
    """The limits of each QOS that sacctmgr has printed, by `QOS_FIELDS`. Raises ValueError for text that
    cannot be read.
    """
    resources, jobs = ("MaxTRES", "MaxTRESPU", "MaxTRESPA", "GrpTRES"), ("MaxJobsPU", "MaxSubmitPU")
    return {
        row["Name"]: _limits(row, resources, jobs, f"QOS {printable(row['Name'])}")
        for row in _rows(lines, QOS_FIELDS)
    }


def _rows(lines: Iterable[str], fields: Sequence[str]) -> list[dict[str, str]]:
    return [dict(zip(fields, line.split("|"), strict=True)) for line in lines if line]


def _limits(
    row: Mapping[str, str], resources: Sequence[str], jobs: Sequence[str], whose: str
) -> tuple[SubmissionLimit, ...]:
    found = _limit(row["MaxWall"], SECONDS, whose)
    for key in resources:
        for part in row[key].split(","):
            what, _, text = part.rpartition("=")
            found += _limit(text, NODES if what == "node" else what, whose)
    if any(row[key] == "0" for key in jobs):
        found = (SubmissionLimit(what=NODES, most=0.0, whose=whose), *found)
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
    qos: Mapping[str, tuple[SubmissionLimit, ...]],
    *,
    enforced: frozenset[str],
) -> tuple[SubmissionWay, ...]:
    """The ways of a user, by the partitions that are open to the user.

    Args:
        doors: these partitions.
        known: the user's associations.
        qos: the limits of each QOS.
        enforced: the words of AccountingStorageEnforce: without `associations` every user may submit, without
            `qos` by every QOS, and limits count with `limits` alone.
    """
    by = list(known)
    if not by and "associations" not in enforced:
        by = [Association(account="", partition="", qos=frozenset(), limits=())]
    found: list[SubmissionWay] = []
    for door in doors:
        for one in by:
            if one.partition not in {"", door.name}:
                continue
            names: Sequence[str | None] = sorted(one.qos) if "qos" in enforced else [*sorted(qos), None]
            for name in names:
                account = one.account or None
                if door.admits(account, name):
                    limits = door.limits()
                    if "limits" in enforced:
                        more = (qos.get(which, ()) for which in (name or "", door.words.get("QoS", "")))
                        limits += one.limits + tuple(limit for each in more for limit in each)
                    found.append(SubmissionWay(partition=door.name, qos=name, account=account, limits=limits))
    return tuple(found)
