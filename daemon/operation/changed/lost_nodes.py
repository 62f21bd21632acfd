"""Which evictions are decided on again, because their hold has lost a node before any job was asked to leave.

A choice of jobs is one for all nodes. If other jobs only made up for the lost node, more could leave than
needed: two for a hold of two nodes, although another one alone would leave two nodes. Once a job was asked,
it saves its work for the hold, and the rest of the choice stays.
"""

from collections.abc import Collection

from makeway.daemon.operation.changed.hold_end import MAKES_WAY
from makeway.daemon.operation.changed.surplus import held_by_others
from makeway.daemon.operation.tasks import ENDED, freed_set, is_eviction, may_be_dropped
from makeway.policies.common.holds import eligible_set, shortfall_set
from makeway.policies.model import Cluster, Job, JobState, Operation


def decided_again(operation: Operation, cluster: Cluster, protected: Collection[str]) -> frozenset[str]:
    """The jobs that were to leave for a hold which has lost a node, by id. None was asked yet.

    They stay if they leave nodes that another operation holds too: that one counts on them.

    Args:
        operation: its urgent job waits. Others have none of these jobs.
        cluster: the snapshot.
        protected: the jobs that were to leave and may not be made to any more. Their nodes are lost.
    """
    urgent = cluster.jobs_by_id().get(operation.for_job_id)
    if operation.kind not in MAKES_WAY or urgent is None or urgent.state is not JobState.PENDING:
        return frozenset()
    evictions = [task for task in operation.tasks if is_eviction(task)]
    planned = [task for task in evictions if task.progress not in ENDED]
    if any(task.issued_s is not None for task in evictions) or not all(map(may_be_dropped, planned)):
        return frozenset()
    if not _has_too_few(operation, urgent, cluster, protected):
        return frozenset()
    jobs, sets, others = cluster.jobs_by_id(), cluster.node_sets(), held_by_others(operation, cluster)
    leaving = [(task, job) for task in planned if (job := jobs.get(task.action.job_id)) is not None]
    if any(others & freed_set(task, job, sets) for task, job in leaving):
        return frozenset()
    return frozenset(job.job_id for _, job in leaving)


def _has_too_few(operation: Operation, urgent: Job, cluster: Cluster, protected: Collection[str]) -> bool:
    """Whether the hold has lost a node, and too few are left. A node that its job leaves by itself, or that
    is silent, is not lost.
    """
    jobs, sets = cluster.jobs_by_id(), cluster.node_sets()
    held = sets.of(operation.nodes)
    kept_from_it = sets.union(jobs[job_id].nodes for job_id in protected if job_id in jobs)
    there = held & (sets.up | sets.silent) & eligible_set(urgent, cluster) & ~kept_from_it
    if there == held:
        return False
    known = next((one for one in cluster.operations if one.operation_id == operation.operation_id), operation)
    return (there & ~shortfall_set(known, cluster)).bit_count() < urgent.node_count
