"""A cluster on which the tasks of one urgent array run one after another, as Slurm does it."""

from dataclasses import replace

from makeway.policies.model import (
    Action,
    Job,
    JobKind,
    JobState,
    Prioritise,
    Quota,
    Requeue,
    RestorePriority,
)
from tests.builders import cluster, node_names, pending, running
from tests.fakes import FakeAdapter

LENDER = running("v", node_names(2), start_s=500.0)
OTHERS_RUN = "other tasks of its array (JobArrayTaskLimit)"
TASKS = tuple(f"7_{number}" for number in range(3))


def task(job_id: str) -> Job:
    """A waiting task of the array 7, which needs the nodes of the lender."""
    found = pending(job_id, 2, kind=JobKind.ON_DEMAND, submit_s=990.0)
    return replace(found, array_job_id=job_id.split("_")[0])


class ArrayCluster(FakeAdapter):
    """Four nodes, two of which may be lent. At most `limit` tasks of an array run at once."""

    def __init__(self, *jobs: Job, tasks: tuple[str, ...] = TASKS, limit: int = 1) -> None:
        self.limit = limit
        other = running("w", ("n3", "n4"), start_s=500.0, preemptible=False)
        super().__init__(cluster(4, *(jobs or (LENDER, other)), *map(task, tasks)))
        self.settle(0.0)

    def apply(self, action: Action) -> None:
        super().apply(action)
        for job in self.view.jobs:
            if job.job_id == action.job_id and isinstance(action, Requeue):
                waits = pending(job.job_id, len(job.nodes), requeue_count=job.requeue_count + 1)
                self.put(replace(waits, preemptible=True))
            elif job.job_id == action.job_id and isinstance(action, Prioritise | RestorePriority):
                self.put(replace(job, prioritised=isinstance(action, Prioritise)))

    def put(self, job: Job) -> None:
        """Show the job as it is now."""
        jobs = tuple(job if one.job_id == job.job_id else one for one in self.view.jobs)
        self.view = replace(self.view, jobs=jobs)

    def job(self, job_id: str) -> Job:
        return self.view.jobs_by_id()[job_id]

    def runs(self, job_id: str) -> bool:
        found = self.view.jobs_by_id().get(job_id)
        return found is not None and found.state is JobState.RUNNING

    def end(self, job_id: str) -> None:
        """The job ends by itself, and is forgotten."""
        self.view = replace(self.view, jobs=tuple(one for one in self.view.jobs if one.job_id != job_id))
        self.settle(0.0)

    def settle(self, passed_s: float = 10.0) -> None:
        """Let time pass: whatever has its nodes starts, the jobs with a reservation first."""
        self.view = replace(self.view, now_s=self.view.now_s + passed_s)
        for job in sorted(self.view.jobs, key=lambda one: (one.reservation is None, not one.prioritised)):
            if job.state is JobState.PENDING:
                self._start(job)
        left = float(self.limit - sum(self.runs(one.job_id) for one in self.view.jobs if one.array_job_id))
        for job in self.view.jobs:
            if job.array_job_id and job.state is JobState.PENDING:
                at_once = Quota(name=f"tasks of array {job.array_job_id} at once", needs=1.0, left=left)
                lacks = job.blocked_by if job.blocked_by != OTHERS_RUN else ""
                self.put(replace(job, blocked_by=lacks or ("" if left else OTHERS_RUN), quotas=(at_once,)))

    def _start(self, job: Job) -> None:
        held = {one.name: one.nodes for one in self.view.reservations}
        others = {node for name, nodes in held.items() if name != job.reservation for node in nodes}
        free = [name for name in self.view.up_nodes() if name not in others | self.view.held_nodes()]
        if job.reservation is not None:
            free = [name for name in free if name in held.get(job.reservation, ())]
        if len(free) >= job.node_count and not job.blocked_by:
            nodes = tuple(free[: job.node_count])
            self.put(replace(job, state=JobState.RUNNING, nodes=nodes, start_s=self.view.now_s))
