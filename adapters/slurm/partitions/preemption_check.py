"""What `makeway doctor` says of jobs that Slurm itself evicts or suspends."""

from makeway.adapters.site.checks import Check, ok, warning
from makeway.adapters.site.job_class import JobClass
from makeway.adapters.site.text import printable
from makeway.adapters.slurm.partitions.preemption import preempt_for_urgent
from makeway.adapters.slurm.survey import Survey

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
