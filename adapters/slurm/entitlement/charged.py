"""What a waiting job will count as under the limits of QOS and associations once it runs.

Slurm checks a waiting job by what it asks for. By what it would get (all CPUs and GPUs of whole nodes, all
threads of its cores) it checks it only when nodes for it are free, and then first names the limit that the
job is over. With default scheduling, other jobs would have left for it in vain by then.

Reference: 22.05.8, 24.11.5 and 26.05.5, as tried on 2026-11-26.
"""

from collections.abc import Mapping, Sequence
from math import ceil

from makeway.adapters.slurm.parse import RawJob, count, memory_mb
from makeway.adapters.slurm.parse_cluster import RawNode
from makeway.adapters.slurm.resources.counting import Counting, cpus_per_core, gres_amounts
from makeway.adapters.slurm.resources.details import JobDetails, MemoryPer

JOBS = "jobs"
"""What a limit on the number of jobs is called here; the others have the names of trackable resources."""
RUN_MINUTES = " run minutes"
"""What follows these names in a limit on what jobs still hold, times the minutes of their time limits."""
IN_ALL = " minutes in all"
"""The same in a limit on what jobs have used and may still use (GrpTRESMins)."""
OF_JOB = " job minutes"
"""The same in a limit on what each job may use (MaxTRESMins)."""
PER_NODE = " per node"
"""The same in a limit on what each job may have of a node (MaxTRESPerNode): on average, rounded down."""
WALL_MINUTES = "minutes of the time limit"
"""What a limit on the time limit of each job is called (MaxWall)."""
_CPU, _NODE = "cpu", "node"


def needs_of(raw: RawJob, least: Mapping[str, float]) -> Mapping[str, float]:
    """What a waiting job will count as, as far as it is known before its start, by the names of limits.

    `least`: what it will get at least, by the names of trackable resources.
    """
    needs = dict(least)
    for part in raw.tres.split(","):
        what, _, number = part.rpartition("=")
        try:
            asked = memory_mb(number) if what == "mem" else float(count(number))
        except ValueError:
            continue
        needs[what] = max(asked, needs.get(what, 0.0))
    counted = {JOBS: 1.0, **needs}
    nodes = max(1.0, needs.get(_NODE, 1.0))
    counted |= {f"{what}{PER_NODE}": float(number // nodes) for what, number in needs.items()}
    minutes = 0.0 if raw.limit_s is None else raw.limit_s / 60.0
    for unit in (RUN_MINUTES, IN_ALL, OF_JOB) if minutes else ():
        counted |= {f"{what}{unit}": number * minutes for what, number in needs.items()}
    return {**counted, WALL_MINUTES: minutes}


def least_held(
    raw: RawJob, found: JobDetails | None, nodes: Sequence[RawNode], counts: Counting, *, whole: bool
) -> Mapping[str, float]:
    """What a job gets at least on some of these nodes, by the names of trackable resources.

    Args:
        raw: the job, which waits.
        found: what is known of it besides squeue's line.
        nodes: those that may serve it.
        counts: what this Slurm counts.
        whole: whether its partition gives it whole nodes.
    """
    if whole or not counts.shares or (found is not None and found.takes_all):
        least = _of_wholes(raw, nodes)
    else:
        least = {_CPU: _of_cores(raw, nodes, None if found is None else found.threads_per_core)}
    by_cpu = found is not None and found.memory_per is MemoryPer.CPU and found.threads_per_core is None
    if found is not None and by_cpu and counts.memory and counts.memory_by_unit:
        least["mem"] = found.memory_mb * least[_CPU]
    return least


def _of_wholes(raw: RawJob, nodes: Sequence[RawNode]) -> dict[str, float]:
    """What it gets at least of whole nodes."""
    cpus = sorted(one.usable_cpu_count for one in nodes)
    least = {_CPU: float(_smallest(cpus, raw))}
    if len(frozenset(cpus)) == 1 and cpus[0] > 0:
        least[_CPU] = max(least[_CPU], float(ceil(raw.cpu_count / cpus[0]) * cpus[0]))
    each = [gres_amounts(one.gres) for one in nodes]
    for name in frozenset[str]().union(*each):
        least[name] = float(_smallest(sorted(amounts.get(name, 0) for amounts in each), raw))
    return least


def _of_cores(raw: RawJob, nodes: Sequence[RawNode], threads: int | None) -> float:
    """How many CPUs it gets at least if it shares nodes with others: whole cores, and one of each node."""
    per_core = frozenset(cpus_per_core(one) for one in nodes)
    cpus = (
        max(ceil(raw.cpu_count / min(threads or each, each)), raw.requested_node_count) * each
        for each in per_core
    )
    return float(min(cpus, default=0))


def _smallest(amounts: Sequence[int], raw: RawJob) -> int:
    """The sum of as many of these as the job wants nodes at least; they are in order."""
    return sum(amounts[: max(1, raw.requested_node_count)])
