"""Checks of Slurm's own configuration, as far as it matters to makeway. Pure functions of a `Survey`."""

from collections.abc import Mapping

from makeway.adapters.site.checks import Check, DoctorContext, ok, problem, unknown_names, warning
from makeway.adapters.site.job_class import JobClass
from makeway.adapters.site.text import counted, printable
from makeway.adapters.slurm.access import growth_ends_slurmctld
from makeway.adapters.slurm.build import RESIZES_CLEANLY
from makeway.adapters.slurm.entitlement.check import check_setting_names
from makeway.adapters.slurm.holds import hold_prefix
from makeway.adapters.slurm.lease.check import check_lease
from makeway.adapters.slurm.nodes.check import check_power_saving
from makeway.adapters.slurm.parse import exact_release
from makeway.adapters.slurm.partitions.check import check_meeting
from makeway.adapters.slurm.partitions.order import check_order
from makeway.adapters.slurm.partitions.preemption_check import check_gang, check_preemption, check_spared
from makeway.adapters.slurm.reader.controllers import check_controllers
from makeway.adapters.slurm.resources.check import check_sharing
from makeway.adapters.slurm.settings import SlurmAdapterSettings
from makeway.adapters.slurm.survey import ClassCount, Privilege, Survey, parameters
from makeway.policies.model import JobKind

TRIED = ((22, 5), (24, 11), (26, 5))
"""The releases of Slurm on which makeway's own tests run."""
RPCS_PER_SNAPSHOT = 7
"""Requests that one snapshot costs the controller, as its sdiag counts them."""
SKEW_S = 1.0
"""Clocks that differ by this much make a checkpoint seem older, or younger, than the signal that asked for
it.
"""


def check_slurm(survey: Survey, section: SlurmAdapterSettings, context: DoctorContext) -> tuple[Check, ...]:
    """Every check of Slurm's configuration."""
    classes = section.to_settings().classes
    checks = [
        check_release(survey),
        check_controllers(survey.controllers),
        check_privilege(survey, acts=context.acts),
        check_lease(survey, acts=context.acts),
        check_instance(survey, section.instance),
        check_clock(survey),
        *check_classes(survey, classes),
        *check_meeting(survey.partition_nodes, classes),
        *check_setting_names(survey, context.names),
        check_open_door(survey, classes),
        check_growth(survey, classes, can_expand=context.can_expand),
        *check_requeue(survey, classes),
        check_preemption(survey, classes),
        check_spared(survey, classes, context.names),
        check_gang(survey),
        check_kill_wait(survey, context.margin_s),
        check_complete_wait(survey, context.margin_s),
        check_power_saving(survey, section, context.start_within_s),
        check_rate(survey, context.poll_interval_s),
        check_priority(survey),
        check_order(survey.settings, survey.release),
        *check_sharing(survey, section.price),
    ]
    return tuple(check for check in checks if check is not None)


def check_release(survey: Survey) -> Check:
    """Whether makeway was tested on this release of Slurm."""
    tried = ", ".join(f"{year}.{month:02}" for year, month in TRIED)
    said = f"Slurm {printable(survey.version)}"
    if survey.release in TRIED:
        return ok("release", f"{said} is one of those that makeway is tested on ({tried})")
    if survey.release < TRIED[0]:
        return problem(
            "release", f"{said} is older than makeway supports: the oldest that was tested is {tried[:5]}"
        )
    return warning(
        "release", f"{said} was not tested ({tried} were): stay in observe mode until you have seen it work"
    )


def check_privilege(survey: Survey, *, acts: bool) -> Check:
    """Whether Slurm shows everything to makeway's user and, in act mode, accepts its commands."""
    user = printable(survey.user)
    hidden = sorted(
        parameters(survey.settings.get("PrivateData", "")).keys() & {"jobs", "nodes", "reservations"}
    )
    match survey.privilege:
        case Privilege.OTHER_NUMBER if acts or hidden:
            return problem("privilege", _other_number(survey))
        case Privilege.NO_USER if acts or hidden:
            return problem(
                "privilege",
                f"Slurm's accounting knows no user {user}: sacctmgr add user {user} account=root "
                "adminlevel=operator",
            )
        case Privilege.NONE if hidden:
            return problem(
                "privilege",
                f"PrivateData hides the {' and '.join(hidden)} of others from {user}: make it an operator",
            )
        case Privilege.NONE if acts:
            return problem(
                "privilege",
                f"{user} may not change other users' jobs: run makeway as SlurmUser, or make {user} an "
                f"operator (sacctmgr modify user {user} set adminlevel=operator)",
            )
        case Privilege.NONE | Privilege.NO_USER | Privilege.OTHER_NUMBER:
            return ok(
                "privilege",
                f"{user} may read the state, which is all that observe mode needs; "
                "act mode needs an operator",
            )
        case Privilege.UNKNOWN:
            return warning(
                "privilege",
                f"the privileges of {user} are unknown: see `sacctmgr show user {user} "
                "format=user,adminlevel`; observe mode needs none, act mode an operator",
            )
        case Privilege.OPERATOR as granted:
            return ok(
                "privilege",
                f"{user} may do all that both modes need ({granted}); what makeway takes from a job is "
                "written into the job's Comment, which its owner can change, because an operator may not "
                "write AdminComment",
            )
        case granted:
            return ok("privilege", f"{user} may do all that both modes need ({granted})")


def _other_number(survey: Survey) -> str:
    """Why the level that accounting has for makeway's user does not count, and what to do."""
    user, number = printable(survey.user), survey.user_id
    there = survey.number_there
    known = f"has no user {user}" if there is None else f"knows {user} as uid {there}"
    return (
        f"the controller's machine {known}, here it is uid {number}: Slurm goes by the number, so that the "
        f"level of {user} does not count: give {user} the same uid on both machines"
    )


def check_instance(survey: Survey, instance: str | None) -> Check:
    """What makeway's reservations are called, and that another makeway needs another name."""
    prefix = printable(hold_prefix(survey.settings.get("ClusterName", ""), instance))
    return ok(
        "instance",
        f"makeway's reservations are called {prefix}JOB; a second makeway on this cluster, as for tests, "
        "needs another adapter.instance",
    )


def check_clock(survey: Survey) -> Check | None:
    """Whether the controller's clock and makeway's agree: the times of checkpoints in jobs' comments are
    compared with makeway's.
    """
    ahead_s = survey.clock_ahead_s
    if ahead_s is None:
        return warning(
            "clock", "the controller's clock could not be read: make sure that both machines are synchronised"
        )
    if abs(ahead_s) < SKEW_S:
        return ok("clock", "the controller's clock agrees with makeway's")
    where = "ahead of" if ahead_s > 0 else "behind"
    return problem(
        "clock",
        f"the controller's clock is {abs(ahead_s):.1f} s {where} makeway's, so that makeway would misjudge "
        "acknowledged checkpoints: synchronise both machines",
    )


def check_classes(survey: Survey, classes: tuple[JobClass, ...]) -> list[Check]:
    """How many jobs of the present queue each class has, and whether the classes are plausible."""
    if not classes:
        return [
            problem(
                "classes", "adapter.classes is empty: no job is urgent and none may be evicted; add classes"
            )
        ]
    checks: list[Check] = []
    opted_in = {one.name for one in classes if one.preemptible}
    counts = "; ".join(_class_count(found, found.name in opted_in) for found in survey.counts)
    checks.append(ok("classes", counts))
    if not any(one.kind is JobKind.ON_DEMAND for one in classes):
        checks.append(warning("classes", "no class is of the kind on_demand: no job will ever be urgent"))
    if not opted_in:
        checks.append(warning("classes", "no class is preemptible: no job will ever be asked to make room"))
    missing = sorted(
        f"{one.name}: {name}" for one in classes for name in one.partitions if name not in survey.partitions
    )
    if missing:
        text = (
            f"there are no such partitions ({', '.join(missing)}): no job is ever in one of them; "
            f"correct the names"
        )
        checks.append(warning("classes", text))
    checks += unknown_names("user", survey.users, {one.name: one.users for one in classes})
    by_qos = sorted(one.name for one in classes if one.qos)
    if survey.has_accounting:
        checks += unknown_names("QOS", survey.qos, {one.name: one.qos for one in classes})
        checks += unknown_names("account", survey.accounts, {one.name: one.accounts for one in classes})
    elif by_qos:
        text = f"without accounting no job has a QOS, so that no job is ever of class {', '.join(by_qos)}"
        checks.append(warning("classes", f"{text}: use partitions, or set up slurmdbd"))
    return checks


def _class_count(found: ClassCount, opted_in: bool) -> str:
    name = "of no class" if found.name is None else found.name
    unable = f", {found.unable} that cannot be requeued" if opted_in and found.unable else ""
    return (
        f"{name}: {found.running} running on {counted(found.nodes, 'node')} and {found.pending} "
        f"pending{unable}"
    )


def check_open_door(survey: Survey, classes: tuple[JobClass, ...]) -> Check | None:
    """Whether every user can make a job urgent."""
    urgent = [one for one in classes if one.kind is JobKind.ON_DEMAND]
    if not urgent:
        return None
    enforced = parameters(survey.settings.get("AccountingStorageEnforce", ""))
    doors = sorted(one.name for one in urgent if not _closed(one, survey.partitions, enforced))
    if not doors:
        return ok("urgent", "only users chosen by the site can make a job urgent")
    return warning(
        "urgent",
        f"every user can make a job urgent by class {', '.join(doors)}: require a user, a partition "
        "with AllowGroups, AllowAccounts or AllowQos, or let accounting enforce QOS and accounts "
        "(AccountingStorageEnforce)",
    )


def _closed(one: JobClass, partitions: Mapping[str, bool], enforced: Mapping[str, str]) -> bool:
    """Whether a class has a condition that not every user can fulfil."""
    by_partition = bool(one.partitions) and not any(partitions.get(name, False) for name in one.partitions)
    by_qos = bool(one.qos) and "qos" in enforced
    by_account = bool(one.accounts) and "associations" in enforced
    return bool(one.users) or by_partition or by_qos or by_account


def check_growth(survey: Survey, classes: tuple[JobClass, ...], *, can_expand: bool) -> Check | None:
    """Whether shrunk jobs grow back."""
    shrinkable = sorted(one.name for one in classes if one.kind is JobKind.MALLEABLE and one.preemptible)
    permitted = "permit_job_expansion" in survey.parameters("SchedulerParameters")
    if growth_ends_slurmctld(exact_release(survey.version)) and (shrinkable or permitted):
        return warning(
            "growth",
            "no job grows back after a shrink: on Slurm 25.11.0 to 26.05.4 slurmctld ends when a job grows "
            "(seen on 25.11.7 on 2026-11-22)"
            + (", also by its user's command: remove permit_job_expansion, and" if permitted else ":")
            + " upgrade to 26.05.5 or later",
        )
    if not shrinkable:
        return None
    if can_expand:
        return ok("growth", "a job that was shrunk grows back when the urgent job ends")
    if survey.release < RESIZES_CLEANLY:
        return warning(
            "growth",
            f"jobs of class {', '.join(shrinkable)} do not grow back after a shrink, and are not shrunk at "
            "all if they are exclusive: this release loses the nodes; upgrade to 24.11 or later",
        )
    if not permitted:
        return warning(
            "growth",
            f"jobs of class {', '.join(shrinkable)} do not grow back after a shrink: add "
            "permit_job_expansion to SchedulerParameters",
        )
    return warning(
        "growth",
        f"jobs of class {', '.join(shrinkable)} do not grow back after a shrink: a job grows by a command "
        "of its own user, so makeway has to run as root",
    )


def check_requeue(survey: Survey, classes: tuple[JobClass, ...]) -> list[Check]:
    """Whether evicted jobs go back into the queue, and how soon they start again."""
    opted_in = {one.name for one in classes if one.preemptible}
    unable = sum(found.unable for found in survey.counts if found.name in opted_in)
    if survey.settings.get("JobRequeue") == "0":
        text = "JobRequeue=0: jobs without `sbatch --requeue` are left alone, whatever their class says"
        checks = [warning("requeue", f"{text}; set JobRequeue=1, or inform the users")]
    elif unable:
        text = (
            f"{counted(unable, 'job')} of preemptible classes left alone: after a requeue no job would run "
            "again that is not from sbatch, has --no-requeue or --deadline, is held while it runs, or is in "
            "a partition that is DOWN or INACTIVE"
        )
        checks = [warning("requeue", text)]
    else:
        checks = [ok("requeue", "jobs of preemptible classes go back into the queue when they are evicted")]
    delay_s = _requeue_delay_s(survey)
    checks.append(
        ok(
            "requeue delay",
            f"a requeued job waits {delay_s:g} s, which makeway lifts when it gives the nodes back",
        )
        if delay_s <= 600
        else warning(
            "requeue delay",
            f"a requeued job waits {delay_s:g} s; makeway lifts that, but if makeway dies first, jobs wait "
            "that long: lower requeue_delay (before 25.05: AuthInfo=cred_expire)",
        )
    )
    most = survey.settings.get("MaxBatchRequeue", "5")
    checks.append(
        warning("requeue limit", "MaxBatchRequeue=0: a job whose start fails once is held: allow a few")
        if most == "0"
        else ok(
            "requeue limit",
            f"MaxBatchRequeue is {printable(most)}: it counts failed starts, not makeway's requeues",
        )
    )
    return checks


def _requeue_delay_s(survey: Survey) -> float:
    """How long Slurm delays a requeued job: requeue_delay, else the lifetime of a credential."""
    said = survey.parameters("SchedulerParameters").get("requeue_delay", "")
    return _number(said or survey.parameters("AuthInfo").get("cred_expire"), 120.0)


def _number(said: str | None, default: float) -> float:
    """The value of a setting, if it is a number."""
    return float(said) if said is not None and said.isdecimal() else default


def check_kill_wait(survey: Survey, margin_s: float | None) -> Check | None:
    """Whether a job that ignores SIGTERM leaves its nodes within the policy's margin."""
    said = _seconds(survey, "KillWait")
    if margin_s is None or not said.isdecimal():
        return None
    if float(said) <= margin_s:
        return ok(
            "kill wait", f"a job that ignores SIGTERM is gone after {said} s, within margin_s ({margin_s:g})"
        )
    return warning(
        "kill wait",
        f"a job that ignores SIGTERM keeps its nodes for KillWait, {said} s, after its eviction: raise "
        f"policy.settings.margin_s ({margin_s:g}) beyond that, or urgent jobs may start late",
    )


def check_complete_wait(survey: Survey, margin_s: float | None) -> Check | None:
    """Whether Slurm starts a job within the policy's margin while any other one is completing."""
    said = _seconds(survey, "CompleteWait")
    if margin_s is None or not said.isdecimal() or float(said) <= margin_s:
        return None
    return warning(
        "complete wait",
        f"while any job is completing, such as in its epilog, Slurm starts no job for up to CompleteWait, "
        f"{said} s: raise policy.settings.margin_s ({margin_s:g}) beyond that, or urgent jobs may start late",
    )


def _seconds(survey: Survey, key: str) -> str:
    """The digits of a setting such as `30 sec`."""
    return survey.settings.get(key, "").removesuffix(" sec").strip()


def check_rate(survey: Survey, poll_interval_s: float) -> Check:
    """Whether Slurm's limit on requests leaves room for makeway's cycles."""
    said = survey.parameters("SlurmctldParameters")
    if "rl_enable" not in said or survey.privilege.exempt:
        return ok("request rate", "Slurm does not limit the requests of this user")
    period_s, rate = _number(said.get("rl_refill_period"), 1.0), _number(said.get("rl_refill_rate"), 2.0)
    least_s = RPCS_PER_SNAPSHOT * period_s / max(1.0, rate)
    if poll_interval_s >= 2 * least_s:
        return ok(
            "request rate", f"rl_enable allows a snapshot every {least_s:g} s, poll_interval_s asks for fewer"
        )
    return warning(
        "request rate",
        f"rl_enable allows this user a snapshot every {least_s:g} s and nothing else: set poll_interval_s to "
        f"{2 * least_s:g} or more, or run makeway as SlurmUser, which has no such limit",
    )


def check_priority(survey: Survey) -> Check:
    """How the priority that makeway gives a job lasts."""
    if survey.settings.get("PriorityType") == "priority/multifactor":
        text = (
            "priority/multifactor: a job that makeway moves to the front keeps that fixed priority until "
            "it ends"
        )
        return ok("priority", text)
    return ok("priority", "priority/basic: a job that makeway moves in the queue keeps that position")
