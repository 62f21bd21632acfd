"""What `makeway doctor` says of jobs that Slurm itself evicts or suspends."""

from collections.abc import Sequence

from makeway.adapters.site.checks import Check, SettingNames, ok, warning
from makeway.adapters.site.job_class import JobClass
from makeway.adapters.site.text import printable
from makeway.adapters.slurm.partitions.preemption import preempt_for_urgent
from makeway.adapters.slurm.survey import Survey
from makeway.policies.model import JobKind

_PROTECTED = "limits.protected_partitions"
_BY_PARTITION = "preempt/partition_prio"
_NO_PREEMPTION = frozenset({"(null)", "preempt/none"})


def check_preemption(survey: Survey, classes: tuple[JobClass, ...]) -> Check:
    """Whether Slurm itself evicts jobs too, and for urgent ones."""
    kind = survey.settings.get("PreemptType", "(null)")
    if kind in _NO_PREEMPTION:
        return ok("preemption", "Slurm itself preempts no job")
    said = (
        f"Slurm itself preempts ({printable(kind)}, {printable(survey.settings.get('PreemptMode', 'OFF'))})"
    )
    able = preempt_for_urgent(kind, classes, survey.preempting, survey.tiers)
    if able == ():
        return ok("preemption", f"{said}, but not for urgent jobs")
    named = f": {printable(', '.join(able))}" if able else ""
    return warning(
        "preemption",
        f"{said} and does so before makeway can choose: configure the QOS and partitions of urgent jobs to "
        f"preempt no job (Preempt=, PriorityTier=){named}",
    )


def check_gang(survey: Survey) -> Check | None:
    """Whether Slurm suspends jobs: by turns on CPUs that they share, or for jobs that preempt them."""
    modes = survey.settings.get("PreemptMode", "OFF")
    if "GANG" not in modes.split(","):
        return None
    preempts = survey.settings.get("PreemptType", "(null)") not in _NO_PREEMPTION
    by_turns = sorted(one.name for one in survey.layout if one.oversubscribed and not one.exclusive)
    if not preempts and not by_turns:
        return None
    named = f", in partition {', '.join(by_turns)} also by turns (OverSubscribe)" if by_turns else ""
    return warning(
        "gang scheduling",
        f"Slurm may suspend jobs (PreemptMode={printable(modes)}){named}: a suspended job keeps its nodes, "
        "and makeway leaves it alone, so that urgent jobs wait for nodes with such jobs: use "
        "PreemptMode=REQUEUE instead of SUSPEND, and OverSubscribe=NO where jobs may be asked to leave",
    )


def check_spared(survey: Survey, classes: Sequence[JobClass], names: SettingNames) -> Check | None:
    """Whether makeway may take jobs from partitions that the site protects from Slurm's own preemption.

    Where QOS preempt each other, Slurm does not look at the mode of a partition (tried on 22.05 and 24.11).
    A QOS protects none: sacctmgr accepts `PreemptMode=OFF` for it, prints it as `cluster`, and Slurm preempts
    its jobs as its configuration says (22.05, 24.11 and 26.05 as tried).
    """
    spares_all = survey.spared == frozenset(survey.tiers)
    if spares_all or survey.settings.get("PreemptType", "(null)") != _BY_PARTITION:
        return None  # then it protects them from nothing
    protected = names.partitions.get(_PROTECTED, frozenset[str]())
    found = {name: _who_may_leave(name, classes) for name in sorted(survey.spared - protected)}
    named = [f"{printable(name)} (class {printable(one)})" for name, one in found.items() if one is not None]
    if not named:
        return None
    return warning(
        "preemption",
        f"Slurm preempts no job in partition {', '.join(named)}: PreemptMode=OFF; makeway may make jobs "
        f"leave there: name the partition in {_PROTECTED}, unless that is what you want",
    )


def _who_may_leave(partition: str, classes: Sequence[JobClass]) -> str | None:
    """The first class by which jobs of a partition may be asked to leave. None: there is none."""
    for one in classes:
        if one.partitions and partition not in one.partitions:
            continue
        if one.preemptible and one.kind is not JobKind.ON_DEMAND:
            return one.name
        if not (one.qos or one.accounts or one.users or one.features or one.words):
            return None  # it has all jobs of the partition
    return None
