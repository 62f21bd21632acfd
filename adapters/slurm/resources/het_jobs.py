"""Heterogeneous jobs: which components belong together, and which of them room is made for. Pure functions.

Reference: 22.05 and 24.11 as tried. Slurm starts all components at once or none, by the backfill scheduler
    alone. Each is shown, bound to a reservation and unbound by an id of its own, such as `17+1`.
"""

from collections.abc import Iterable

from makeway.adapters.site.job_class import JobClass
from makeway.adapters.slurm.parse import RawJob
from makeway.policies.model import JobKind, JobState

TOGETHER = "its other components, with which it starts"
"""What a component lacks that is not urgent: it cannot start by itself."""


def het_job_id(raw: RawJob) -> str:
    """The id of the heterogeneous job that it is a component of. Empty: of none."""
    return raw.job_id.partition("+")[0] if raw.heterogeneous else ""


def refusals(components: Iterable[tuple[RawJob, JobClass | None, JobState]]) -> dict[str, str]:
    """Why no room is made for heterogeneous jobs that wait, by id: what the job waits for, in words.

    `components`: those of a snapshot, each with its class and state.
    """
    found: dict[str, str] = {}
    for raw, job_class, state in components:
        if job_class is None or job_class.kind is not JobKind.ON_DEMAND:
            found[het_job_id(raw)] = "its other components, not all of which are urgent"
        elif state is not JobState.PENDING:
            found.setdefault(het_job_id(raw), "its other components, which still have nodes")
    return found
