"""What the limits of QOS and associations leave, as slurmctld counts it: `scontrol show assoc_mgr`.

Slurm says of a job that it waits for a limit, but only once the limit is reached. Of several urgent jobs that
wait, makeway counts itself how many Slurm will admit. The limits of a partition's own QOS and of accounts
above the job's are not read: there, Slurm's reason has to do.

Tried on 22.05 and 24.11, whose lines differ in the names of users: `0={...}` and `root(0)={...}`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from makeway.adapters.site.text import printable
from makeway.adapters.slurm.parse import RawJob, count, memory_mb
from makeway.policies.model import Quota

JOBS = "jobs"
"""What a limit on the number of jobs is called here; the others have the names of trackable resources."""
_RUN_MINUTES = " run minutes"
"""What follows these names in a limit on what jobs still hold, times the minutes of their time limits."""
_NAME = re.compile(r"[A-Za-z0-9_.@+-]+")
_QOS = re.compile(
    r"QOS=(?P<qos>.*?)\(\d+\) (?P<group>.*) Account Limits=(?P<accounts>.*) User Limits=(?P<users>.*)"
)
_PART = re.compile(r" ?(?P<name>[^={}]+)=\{(?P<limits>[^}]*)\}")
_USER = re.compile(r"(?:.*\()?(?P<id>\d+)\)?")
_ASSOCIATION = re.compile(
    r"ClusterName=.*? Account=(?P<account>.*?) UserName=(?P<user>.*?) Partition=(?P<partition>\S*) "
)
_LIMIT = re.compile(r"(?P<limit>\d+)\((?P<used>\d+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limited:
    """What is left to the jobs of a QOS, an account or a user together. None: they may be of any."""

    qos: str | None = None
    account: str | None = None
    user_id: str | None = None
    left: Mapping[str, float]
    """By what is limited; never below 0."""

    def holds_for(self, raw: RawJob) -> bool:
        """Whether a job is under these limits."""
        return (
            self.qos in (None, raw.qos)
            and self.account in (None, raw.account)
            and self.user_id in (None, raw.user_id)
        )

    @property
    def name(self) -> str:
        """Whose limits they are."""
        parts = (("QOS", self.qos), ("account", self.account), ("user", self.user_id))
        return printable(", ".join(f"{what} {name}" for what, name in parts if name is not None))


def chosen(jobs: Iterable[RawJob]) -> str:
    """What `show assoc_mgr` is asked for, so that it shows the limits of these jobs. Empty: nothing."""
    wanted = tuple(jobs)
    names = (
        ("users", {job.user for job in wanted}),
        ("accounts", {job.account for job in wanted}),
        ("qos", {job.qos for job in wanted}),
    )
    words = [
        f"{word}={','.join(good)}"
        for word, found in names
        if (good := sorted(name for name in found if _NAME.fullmatch(name)))
    ]
    return " ".join(["flags=assoc,qos", *words]) if len(words) == len(names) else ""


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


def quotas(raw: RawJob, known: Iterable[Limited]) -> tuple[Quota, ...]:
    """The limits that a waiting job draws on."""
    needs = _needs(raw)
    return tuple(
        Quota(name=f"{what} of {limited.name}", needs=needs[what], left=left)
        for limited in known
        if limited.holds_for(raw)
        for what, left in sorted(limited.left.items())
        if needs.get(what)
    )


def _of_qos(found: re.Match[str]) -> list[Limited]:
    qos = found["qos"]
    limited = [Limited(qos=qos, left=_left(found["group"], "GrpJobs", "GrpTRES", "GrpTRESRunMins"))]
    for part in _PART.finditer(found["accounts"]):
        left = _left(part["limits"], "MaxJobsPA", "MaxTRESPA", "MaxTRESRunMinsPA")
        limited.append(Limited(qos=qos, account=part["name"], left=left))
    for part in _PART.finditer(found["users"]):
        left = _left(part["limits"], "MaxJobsPU", "MaxTRESPU", "MaxTRESRunMinsPU")
        if user := _USER.fullmatch(part["name"]):
            limited.append(Limited(qos=qos, user_id=user["id"], left=left))
    return limited


def _of_association(found: re.Match[str], line: str) -> list[Limited]:
    user = _USER.fullmatch(found["user"])
    if found["partition"] or (found["user"] and user is None):
        return []
    left = _left(line, "GrpJobs", "GrpTRES", "GrpTRESRunMins")
    jobs = _left(line, "MaxJobs", "", "")
    if JOBS in jobs:
        left[JOBS] = min(jobs[JOBS], left.get(JOBS, jobs[JOBS]))
    return [Limited(account=found["account"], user_id=user["id"] if user else None, left=left)]


def _pair(parts: tuple[str, str, str]) -> tuple[str, str]:
    """A key and its value, without what divides them."""
    return parts[0], parts[2]


def _left(text: str, jobs: str, resources: str, run_minutes: str) -> dict[str, float]:
    """What is left by what is limited. `jobs`, `resources`, `run_minutes`: the keys of these limits."""
    pairs = dict(_pair(word.partition("=")) for word in text.split(" "))
    limited = {JOBS: pairs.get(jobs, "")}
    for key, unit in ((resources, ""), (run_minutes, _RUN_MINUTES)):
        # Such as cpu=8(2),mem=N(0),gres/gpu=2(1).
        for part in pairs.get(key, "").split(","):
            what, divided, amount = part.rpartition("=")
            if divided:
                limited[f"{what}{unit}"] = amount
    return {
        what: max(0.0, float(number["limit"]) - float(number["used"]))
        for what, text in limited.items()
        if (number := _LIMIT.fullmatch(text))
    }


def _needs(raw: RawJob) -> dict[str, float]:
    """What a waiting job will count as, as far as it is known before its start."""
    needs = {JOBS: 1.0}
    for part in raw.tres.split(","):
        what, _, number = part.rpartition("=")
        try:
            needs[what] = memory_mb(number) if what == "mem" else float(count(number))
        except ValueError:
            continue
        if raw.limit_s is not None:
            needs[f"{what}{_RUN_MINUTES}"] = needs[what] * raw.limit_s / 60.0
    return needs
