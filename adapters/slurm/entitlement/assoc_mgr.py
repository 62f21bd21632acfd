"""The limits of QOS and associations that `scontrol show assoc_mgr` prints, and what is left of each. Pure.

The lines of 22.05 and of later releases differ in the names of users: `0={...}` and `root(0)={...}`.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from makeway.adapters.site.text import printable
from makeway.adapters.slurm.entitlement.charged import (
    IN_ALL,
    JOBS,
    OF_JOB,
    PER_NODE,
    RUN_MINUTES,
    WALL_MINUTES,
)
from makeway.adapters.slurm.parse import RawJob

_QOS = re.compile(
    r"QOS=(?P<qos>.*?)\(\d+\) (?P<group>.*) Account Limits=(?P<accounts>.*) User Limits=(?P<users>.*)"
)
_PART = re.compile(r" ?(?P<name>[^={}]+)=\{(?P<limits>[^}]*)\}")
_USER = re.compile(r"(?:.*\()?(?P<id>\d+)\)?")
_ASSOCIATION = re.compile(
    r"ClusterName=.*? Account=(?P<account>.*?) UserName=(?P<user>.*?) Partition=(?P<partition>\S*) "
)
_PARENT = re.compile(r" ParentAccount=(?! )(?P<parent>.*?)\(\d+\) ")
_LIMIT = re.compile(r"(?P<limit>\d+)\((?P<used>\d+)\)")
_USED = re.compile(r"\w+\((?P<used>\d+)\)")


class Scope(StrEnum):
    """Whose jobs a limit counts together."""

    QOS = "all jobs of a QOS"
    QOS_ACCOUNT = "those of an account"
    QOS_USER = "those of a user"
    GROUP = "all jobs of an account and the accounts below it, or of a user's association"
    OWN = "the jobs of a user's association, which may be so many"
    JOB = "each job of a QOS or of a user's association alone"


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


def limits(lines: Iterable[str], *, safe: bool = False) -> tuple[Limited, ...]:
    """The limits in those lines, each with what is left. What is unlimited is left out.

    `safe`: whether Slurm starts a job only if the job cannot use more minutes than are left (GrpTRESMins),
    as with `safe` in AccountingStorageEnforce.
    """
    found: list[Limited] = []
    for line in lines:
        if qos := _QOS.fullmatch(line):
            found += _of_qos(qos, safe=safe)
        elif association := _ASSOCIATION.match(line):
            found += _of_association(association, line, safe=safe)
    return tuple(one for one in found if one.left)


def _of_qos(found: re.Match[str], *, safe: bool) -> list[Limited]:
    qos, group = found["qos"], found["group"]
    limited = [
        Limited(scope=Scope.QOS, qos=qos, left=_of_group(group, safe=safe)),
        Limited(scope=Scope.JOB, qos=qos, left=_of_each_job(group)),
    ]
    for part in _PART.finditer(found["accounts"]):
        left = _left(part["limits"], "MaxJobsPA", "MaxTRESPA", "MaxTRESRunMinsPA")
        limited.append(Limited(scope=Scope.QOS_ACCOUNT, qos=qos, account=part["name"], left=left))
    for part in _PART.finditer(found["users"]):
        left = _left(part["limits"], "MaxJobsPU", "MaxTRESPU", "MaxTRESRunMinsPU")
        if user := _USER.fullmatch(part["name"]):
            limited.append(Limited(scope=Scope.QOS_USER, qos=qos, user_id=user["id"], left=left))
    return limited


def _of_association(found: re.Match[str], line: str, *, safe: bool) -> list[Limited]:
    user, account = _USER.fullmatch(found["user"]), found["account"]
    if found["user"] and user is None:
        return []
    user_id, partition = user["id"] if user else None, found["partition"] or None
    left, scaled = _of_group(line, safe=safe), _counted(line, "", "GrpTRES", "")
    where = Limited(scope=Scope.GROUP, account=account, user_id=user_id, partition=partition, left=left)
    group = replace(where, scaled=scaled)
    if user is None:
        return [group]
    # What an account says of the jobs of each user is only what its users' associations inherit.
    at_once = {what: (most, 0.0) for what, most in _each_may_have(line).items()}
    return [
        group,
        replace(group, scope=Scope.OWN, left=_left(line, "MaxJobs", "", ""), scaled={}),
        replace(group, scope=Scope.JOB, left=_of_each_job(line), scaled=at_once),
    ]


def _of_group(text: str, *, safe: bool) -> dict[str, float]:
    """What is left to all jobs of a QOS or an association together."""
    left = _left(text, "GrpJobs", "GrpTRES", "GrpTRESRunMins")
    if not safe:
        return left
    pairs = _pairs(text)
    for what, amount in _amounts(pairs.get("GrpTRESMins", "")):
        limit, running = _LIMIT.fullmatch(amount), dict(_amounts(pairs.get("GrpTRESRunMins", "")))
        still = _USED.fullmatch(running.get(what, ""))
        if limit is not None:
            used = float(limit["used"]) + (float(still["used"]) if still else 0.0)
            left[f"{what}{IN_ALL}"] = max(0.0, float(limit["limit"]) - used)
    return left


def _of_each_job(text: str) -> dict[str, float]:
    """How much each job may have, also of a node, and use in its time limit, and how long this may be."""
    of_job = _each_may_have(text) | _each_may_have(text, "MaxTRESPN", PER_NODE)
    minutes = _pairs(text).get("MaxWallPJ", "")
    wall = {WALL_MINUTES: float(minutes)} if minutes.isdecimal() else {}
    return of_job | _each_may_have(text, "MaxTRESMinsPJ", OF_JOB) | wall


def _each_may_have(text: str, key: str = "MaxTRESPJ", unit: str = "") -> dict[str, float]:
    """How much each job may have, such as of `MaxTRESPJ=cpu=8,node=2`."""
    amounts = _amounts(_pairs(text).get(key, ""))
    return {f"{what}{unit}": float(amount) for what, amount in amounts if amount.isdecimal()}


def _left(text: str, jobs: str, resources: str, run_minutes: str) -> dict[str, float]:
    """What is left by what is limited. `jobs`, `resources`, `run_minutes`: the keys of these limits."""
    counted = _counted(text, jobs, resources, run_minutes)
    return {what: max(0.0, limit - used) for what, (limit, used) in counted.items()}


def _counted(text: str, jobs: str, resources: str, run_minutes: str) -> dict[str, tuple[float, float]]:
    """The same limits, each with what is used of it."""
    pairs = _pairs(text)
    limited = {JOBS: pairs.get(jobs, "")}
    for key, unit in ((resources, ""), (run_minutes, RUN_MINUTES)):
        limited |= {f"{what}{unit}": amount for what, amount in _amounts(pairs.get(key, ""))}
    return {
        what: (float(number["limit"]), float(number["used"]))
        for what, text in limited.items()
        if (number := _LIMIT.fullmatch(text))
    }


def _pairs(text: str) -> dict[str, str]:
    """The values by their keys."""
    parts = (word.partition("=") for word in text.split(" "))
    return {key: value for key, _, value in parts}


def _amounts(text: str) -> Iterator[tuple[str, str]]:
    """The parts of `cpu=8(2),mem=N(0),gres/gpu=2(1)`."""
    for part in text.split(","):
        what, divided, amount = part.rpartition("=")
        if divided:
            yield what, amount
