"""Whether Slurm starts an urgent job before others that came first. Pure functions of settings."""

from collections.abc import Mapping

from makeway.adapters.site.checks import Check, warning

SORTS_ALWAYS = (24, 11)
"""The first release that was seen to start a job in its reservation under sched/builtin and priority/basic
although another one waits (24.11, 26.05). 22.05 does not, also where the two are in different partitions.
"""


def check_order(settings: Mapping[str, str], release: tuple[int, int]) -> Check | None:
    """Whether a job that waits for nodes keeps an urgent job from the nodes that are held for it."""
    strict = settings.get("SchedulerType") == "sched/builtin"
    by_arrival = settings.get("PriorityType") == "priority/basic"
    if release >= SORTS_ALWAYS or not (strict and by_arrival):
        return None
    return warning(
        "scheduler",
        "with sched/builtin and priority/basic Slurm starts jobs in the order of their submission: while an "
        "earlier job waits for nodes, no urgent job starts, and jobs leave for it in vain: set "
        "SchedulerType=sched/backfill or PriorityType=priority/multifactor",
    )
