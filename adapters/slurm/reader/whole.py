"""Whether a list of jobs is whole, by the nodes that slurmctld has given to jobs.

A list has no end that one could look for. It lacks jobs without an error where PrivateData hides them from a
makeway that is no operator, or no longer, and where a site's own script around squeue loses some.
"""

from collections.abc import Callable, Iterable

from makeway.adapters.protocol import Unreadable
from makeway.adapters.slurm import build
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.parse_cluster import RawNode

_GIVEN = frozenset({"ALLOCATED", "MIXED"})
_LEAVING = "COMPLETING"
_MOST_NAMES = 1000


def check_listed(
    nodes: Iterable[RawNode], jobs: Iterable[RawJob], listed: Callable[[tuple[str, ...]], Iterable[RawJob]]
) -> None:
    """Raise `Unreadable` if nodes are given to jobs of which none is listed.

    Args:
        nodes: the nodes, as they were read after the jobs.
        jobs: those that were listed.
        listed: what a squeue lists. It is asked again for jobs on these nodes, those that are over included:
            one may have come, started and even ended meanwhile.
    """
    given = {one.name for one in nodes if not one.states.isdisjoint(_GIVEN) and _LEAVING not in one.states}
    given = _without_job(given, jobs)
    if given:
        given = _without_job(given, listed(_again(given)))
    if not given:
        return
    message = (
        f"Slurm lists no job for {len(given)} nodes that jobs have, such as {min(given)}: the list is not "
        "whole (where PrivateData has `jobs`, makeway has to run as an operator)"
    )
    raise Unreadable(message, command=build.squeue(), text="")


def _again(names: set[str]) -> tuple[str, ...]:
    """The command that lists the jobs on these nodes, or all jobs if the command would be too long."""
    command = build.squeue(ended=True)
    return (*command, f"--nodelist={build.node_list(tuple(names))}") if len(names) <= _MOST_NAMES else command


def _without_job(names: set[str], jobs: Iterable[RawJob]) -> set[str]:
    """Those nodes that none of the jobs has."""
    return names.difference(*(job.nodes for job in jobs if job.nodes))
