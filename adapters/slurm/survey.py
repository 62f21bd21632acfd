"""What an administrator should know about Slurm before makeway runs on it: read once, and nothing is
changed.
"""

import os
import pwd
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from makeway.adapters.command import CompletedCommand, Runner
from makeway.adapters.protocol import Unreadable
from makeway.adapters.registry import ClusterNames
from makeway.adapters.site.checks import NO_NAMES, SettingNames
from makeway.adapters.site.job_class import JobClass
from makeway.adapters.slurm import build, parse, parse_cluster
from makeway.adapters.slurm.access import new_token, runner_of
from makeway.adapters.slurm.entitlement.known_names import (
    ASSOC_MGR_STATE,
    has_database,
    known_names,
    qos_names,
)
from makeway.adapters.slurm.entitlement.several_qos import with_counting_qos
from makeway.adapters.slurm.errors import refusal
from makeway.adapters.slurm.leaving.requeues import goes_back
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.parse_cluster import RawPartition
from makeway.adapters.slurm.partitions.accounts import with_accounts_below
from makeway.adapters.slurm.partitions.check import nodes_of_partitions
from makeway.adapters.slurm.partitions.preemption import partition_tiers, preempting_qos, spared_partitions
from makeway.adapters.slurm.partitions.rules import NO_RULES, PartitionRules
from makeway.adapters.slurm.reader.controllers import controllers
from makeway.adapters.slurm.settings import SlurmSettings
from makeway.adapters.slurm.translate import class_of, over, state
from makeway.policies.model import JobState

_PREEMPTING = ("sacctmgr", "--noheader", "--parsable2", "show", "qos", "format=name,preempt")
_NO_NUMBER = 2**32 - 2
"""What Slurm has for the number of a user whose name its machine does not know (NO_VAL)."""
_OPEN_TO_ALL = ("AllowGroups=ALL", "AllowAccounts=ALL", "AllowQos=ALL", "RootOnly=NO")


class Privilege(StrEnum):
    """What Slurm allows makeway's user. OPERATOR and above have all that makeway needs."""

    ROOT = "root"
    SLURM_USER = "SlurmUser"
    ADMINISTRATOR = "administrator"
    OPERATOR = "operator"
    NONE = "none"
    NO_USER = "no user of Slurm's accounting"
    OTHER_NUMBER = "a user with another number on the controller's machine"
    UNKNOWN = "unknown"

    @property
    def exempt(self) -> bool:
        """Whether Slurm's limit on requests does not apply."""
        return self in (Privilege.ROOT, Privilege.SLURM_USER)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassCount:
    """The jobs of one class that are in the queue now."""

    name: str | None
    """None: the jobs of no class."""
    pending: int = 0
    running: int = 0
    """All that are not pending."""
    unable: int = 0
    """Of all of them, those that would not run again after a requeue: see `goes_back`."""
    nodes: int = 0
    """Nodes held; one that jobs share counts for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Slurm's configuration, and makeway's privileges there."""

    settings: Mapping[str, str]
    """`scontrol show config`, without what has no value."""
    version: str
    release: tuple[int, int]
    """Its year and month."""
    user: str
    privilege: Privilege
    clock_ahead_s: float | None
    """By how much the controller's clock is certainly ahead of makeway's. None: unknown.
    """
    partitions: Mapping[str, bool]
    """By name: whether every user may submit to it."""
    layout: tuple[RawPartition, ...]
    """How each partition gives out its nodes."""
    partition_nodes: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """The nodes of each partition. Empty: unknown."""
    counts: tuple[ClassCount, ...]
    """Every class of the configuration in its order, then the jobs of no class."""
    qos: frozenset[str] | None = None
    """The names of every QOS. None: unknown, or nothing asks for a QOS."""
    accounts: frozenset[str] | None = None
    """The accounts of classes and settings that Slurm knows. None: unknown, or nothing asks for an account.
    """
    users: frozenset[str] | None = None
    """The users of classes and settings that this machine knows, by whose names Slurm's commands call the
    owners of jobs. None: unknown.
    """
    user_id: int = 0
    """The number of the user that makeway runs as."""
    number_there: int | None = None
    """The number of a user of that name on the controller's machine. None: it has none, or accounting does
    not know the name.
    """
    preempting: frozenset[str] | None = None
    """The QOS that preempt others in Slurm. None: unknown, or it does not preempt by QOS."""
    tiers: Mapping[str, int] = field(default_factory=dict[str, int])
    """The PriorityTier of each partition."""
    spared: frozenset[str] = frozenset()
    """The partitions in which Slurm preempts no job (PreemptMode=OFF)."""
    controllers: tuple[tuple[str, bool], ...] = ()
    """The machines of slurmctld, the primary one first, and whether each answers."""
    associated: frozenset[int] | None = None
    """Which of root and that user have an account on this cluster, by number. None: unknown."""

    @property
    def has_accounting(self) -> bool:
        """Whether Slurm has a database of users, accounts and QOS."""
        return has_database(self.settings)

    def parameters(self, name: str) -> Mapping[str, str]:
        """The parts of a setting such as SchedulerParameters, by their names; empty for one without a
        value.
        """
        return parameters(self.settings.get(name, ""))


def survey(
    settings: SlurmSettings,
    *,
    names: SettingNames = NO_NAMES,
    runner: Runner | None = None,
    now: Callable[[], float] = time.time,
    user_id: int | None = None,
) -> Survey:
    """Look at the Slurm that the settings describe, by four to six commands.

    Args:
        settings: where it is, and the classes of its jobs.
        names: what other settings name: their accounts and QOS are looked up, too.
        runner: what runs the commands. None: one that follows the settings.
        now: makeway's clock.
        user_id: the user that makeway runs as. None: the user of this process.

    Raises:
        AdapterError: it does not answer, or nothing that can be understood.
    """
    runner, user_id = runner or runner_of(settings), os.geteuid() if user_id is None else user_id
    began_s, config, ended_s = now(), _run(runner, settings, build.show_config()), now()
    told = parse.config(config.stdout)
    release, user = _release(told, config), _user_name(user_id)
    users, known = _users(runner, settings, user), known_names(runner, settings, names)
    partitions = _run(runner, settings, ("scontrol", "--all", "--oneliner", "show", "partitions"))
    lines = partitions.stdout.splitlines()
    layout = parse_cluster.partitions(lines, command=partitions.argv)
    return Survey(
        settings=told,
        version=told["SLURM_VERSION"],
        release=release,
        user=user,
        privilege=privilege(user_id, user, told, users),
        clock_ahead_s=clock_ahead_s(config.stdout, began_s, ended_s),
        partitions=open_partitions(partitions.stdout),
        layout=layout,
        partition_nodes=nodes_of_partitions(lines),
        counts=count(_jobs(runner, settings, release), settings.classes, _rules(layout, release)),
        qos=known.qos,
        accounts=known.accounts,
        users=known.users,
        user_id=user_id,
        number_there=number_of(user, users),
        associated=associated(users),
        preempting=_preempting(runner, settings, told),
        tiers=partition_tiers(lines),
        spared=spared_partitions(lines),
        controllers=controllers(config.stdout),
    )


def cluster_names(settings: SlurmSettings, *, runner: Runner | None = None) -> ClusterNames:
    """The partitions, and each QOS that the user may see. Raises `AdapterError` if Slurm does not answer."""
    runner = runner_of(settings) if runner is None else runner
    partitions = _run(runner, settings, ("scontrol", "--all", "--oneliner", "show", "partitions"))
    shown = runner.run(("scontrol", "show", "assoc_mgr", "flags=qos"), timeout_s=settings.timeout_s)
    return ClusterNames(
        partitions=tuple(sorted(open_partitions(partitions.stdout))),
        qos=tuple(sorted(qos_names(shown.stdout))) if shown.returncode == 0 else (),
    )


def parameters(text: str) -> Mapping[str, str]:
    """The parts of `one=1,two`, by their names; a part without a value has an empty one. `(null)` has no
    parts.
    """
    parts = (part.partition("=") for part in text.split(",") if part.strip() and text != "(null)")
    return {name.strip().lower(): value.strip() for name, _, value in parts}


def privilege(user_id: int, user: str, settings: Mapping[str, str], users: str) -> Privilege:
    """What Slurm lets a user do.

    Args:
        user_id: the number of the user.
        user: the name.
        settings: those of slurm.conf.
        users: what `scontrol show assoc_mgr` prints of the users; empty if it prints nothing.
    """
    if user_id == 0:
        return Privilege.ROOT
    if settings.get("SlurmUser", "").endswith(f"({user_id})"):
        return Privilege.SLURM_USER
    if not has_database(settings):
        return Privilege.NONE  # levels are a matter of accounting
    # slurmctld looks the level up by the number, which its own machine has for the name.
    level = rf"^UserName=.*\({user_id}\) DefAccount=.*\bAdminLevel=(\w+)"
    found = re.search(level, users, re.MULTILINE)
    match found.group(1).lower() if found else "":
        case "administrator" | "admin":
            return Privilege.ADMINISTRATOR
        case "operator":
            return Privilege.OPERATOR
        case "none" | "not":
            return Privilege.NONE
        case _ if found is None and _named(user, users) is not None:
            return Privilege.OTHER_NUMBER
        case _:
            return Privilege.NO_USER if users.startswith(ASSOC_MGR_STATE) else Privilege.UNKNOWN


def number_of(user: str, users: str) -> int | None:
    """The number that the controller's machine has for a name. None: accounting does not know the name, or
    the machine does not.

    `users`: see `privilege`.
    """
    found = _named(user, users)
    return None if found is None or int(found) == _NO_NUMBER else int(found)


def associated(users: str) -> frozenset[int] | None:
    """The numbers of the users that have an account on this cluster. None: that is unknown.

    `users`: see `privilege`.
    """
    if not users.startswith(ASSOC_MGR_STATE):
        return None
    found = re.findall(r"^UserName=.*?\((\d+)\) DefAccount=(\S*) ", users, re.MULTILINE)
    return frozenset(int(number) for number, account in found if account not in {"", "(null)"})


def _named(user: str, users: str) -> str | None:
    """The number in the record of a name. None: there is no such record."""
    found = re.search(rf"^UserName={re.escape(user)}\((\d+)\) ", users, re.MULTILINE)
    return None if found is None else found.group(1)


def _users(runner: Runner, settings: SlurmSettings, user: str) -> str:
    """What accounting knows of root and a user; empty if Slurm does not say."""
    names = ",".join(sorted({"root", user}))
    command = ("scontrol", "show", "assoc_mgr", f"users={names}", "flags=users")
    done = runner.run(command, timeout_s=settings.timeout_s)
    return done.stdout if done.returncode == 0 else ""


def _preempting(runner: Runner, settings: SlurmSettings, told: Mapping[str, str]) -> frozenset[str] | None:
    """See `Survey.preempting`."""
    if told.get("PreemptType") != "preempt/qos":
        return None
    done = runner.run(_PREEMPTING, timeout_s=settings.timeout_s)
    return preempting_qos(done.stdout.splitlines()) if done.returncode == 0 else None


def clock_ahead_s(config: str, began_s: float, ended_s: float) -> float | None:
    """By how much the controller's clock is at least ahead of makeway's; 0 if they may agree, None if it
    is unknown.

    `config` is what `scontrol show config` printed between the two instants, with times in seconds: its first
    line has the controller's present second.
    """
    found = re.match(r"Configuration data as of (\d+)\n", config)
    if found is None:
        return None
    least_s, most_s = int(found.group(1)) - ended_s, int(found.group(1)) + 1 - began_s
    if least_s <= 0.0 <= most_s:
        return 0.0
    return least_s if least_s > 0.0 else most_s


def open_partitions(text: str) -> Mapping[str, bool]:
    """The partitions that `scontrol --oneliner show partitions` lists, and whether every user may submit
    to each.
    """
    found: dict[str, bool] = {}
    for line in text.splitlines():
        name = re.match(r"PartitionName=(\S+)", line)
        if name is not None:
            found[name.group(1)] = all(words in line.split() for words in _OPEN_TO_ALL)
    return found


def count(
    jobs: tuple[RawJob, ...], classes: tuple[JobClass, ...], rules: PartitionRules = NO_RULES
) -> tuple[ClassCount, ...]:
    """How many jobs are of which class, in the order of the classes; at the end those of no class."""
    members: dict[str | None, list[RawJob]] = {one.name: [] for one in classes}
    members[None] = []
    for job in jobs:
        found = class_of(with_counting_qos(job, classes), classes)
        members[None if found is None else found.name].append(job)
    return tuple(_counted(name, found, rules) for name, found in members.items())


def _counted(name: str | None, jobs: list[RawJob], rules: PartitionRules) -> ClassCount:
    pending = sum(1 for job in jobs if state(job) is JobState.PENDING)
    return ClassCount(
        name=name,
        pending=pending,
        running=len(jobs) - pending,
        unable=sum(1 for job in jobs if not goes_back(job, rules)),
        nodes=sum(len(job.nodes) for job in jobs),
    )


def _release(told: Mapping[str, str], config: CompletedCommand) -> tuple[int, int]:
    try:
        return parse.release(told["SLURM_VERSION"])
    except (KeyError, ValueError) as error:
        message = f"no version in the configuration ({error})"
        raise Unreadable(message, command=config.argv, text=config.stdout) from None


def _rules(layout: tuple[RawPartition, ...], release: tuple[int, int]) -> PartitionRules:
    return PartitionRules.of(with_accounts_below(layout, {}, release))


def _jobs(runner: Runner, settings: SlurmSettings, release: tuple[int, int]) -> tuple[RawJob, ...]:
    fields = build.job_fields(release)
    token = new_token()
    done = _run(runner, settings, build.squeue(), build.squeue_environment(fields, token))
    found = parse.jobs(done.stdout, fields=fields, token=token, command=done.argv)
    return tuple(job for job in found if not over(job))


def _run(
    runner: Runner,
    settings: SlurmSettings,
    argv: tuple[str, ...],
    environment: Mapping[str, str] | None = None,
) -> CompletedCommand:
    variables = {"SLURM_TIME_FORMAT": "%s"} if environment is None else environment
    done = runner.run(argv, timeout_s=settings.timeout_s, environment=variables)
    if done.returncode != 0:
        raise refusal(done)
    return done


def _user_name(user_id: int) -> str:
    """The name of a user; the number where there is none."""
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:
        return str(user_id)
