"""What is to be said of a workload before it is replayed: how it was read, and what was left out."""

from collections.abc import Sequence

from makeway.daemon.errors import counted
from makeway.simharness.run.experiment import Workload

_SHOWN_IMPOSSIBLE = 5
_LEAST_USERS = 3
"""Of fewer users none is urgent: P5's other two kinds of jobs come first."""


def workload_remarks(workload: Workload) -> list[str]:
    """How the trace was read, and which jobs were left out, in one sentence each."""
    found = [workload.reading] if workload.reading else []
    if workload.bad:
        found.append(f"{counted(workload.bad, 'damaged line')} skipped")
    if workload.dropped:
        found.append(f"{counted(workload.dropped, 'job')} without a run time or a size left out")
    if workload.parts:
        lines = counted(workload.parts, "partial execution")
        found.append(f"{lines} left out, because the job has a line of its own")
    unit = "processor" if workload.unit == "processor" else "node"
    larger = [(job, size) for job, size in workload.impossible if size > workload.node_count]
    if larger:
        shown = _first([f"{job} ({size} {unit}s)" for job, size in larger])
        machine = f"the machine of {counted(workload.node_count, unit)}"
        found.append(f"{counted(len(larger), 'job')} larger than {machine} left out: {shown}")
    wider = [job for job, size in workload.impossible if size <= workload.node_count]
    if wider:
        found.append(f"{counted(len(wider), 'job')} larger than a node left out: {_first(wider)}")
    return found


def none_urgent(workload: Workload, synthesis: str | None) -> str | None:
    """Why P5's kinds of jobs make no job of a workload urgent. None: some are, or the kinds are others.

    `synthesis`: P5's workload, W1 to W5, or None.
    """
    if synthesis is None or workload.urgent:
        return None
    users = len({job.user or f"job {job.job_id}" for job in workload.jobs})
    if users < _LEAST_USERS:
        why = f"it needs jobs of {_LEAST_USERS} users, and there {'is' if users == 1 else 'are'} {users}"
    else:
        why = "no job of the users that it draws has at most half of the nodes"
    return f"workload {synthesis} makes no job urgent, because {why}"


def _first(names: Sequence[str]) -> str:
    rest = len(names) - _SHOWN_IMPOSSIBLE
    return ", ".join(names[:_SHOWN_IMPOSSIBLE]) + (f" and {rest} more" if rest > 0 else "")
