"""Jobs that pass the time on nodes which are held for an announced job, until it arrives. Pure functions.

Such a job was started by a hold of its own, which overlapped with the announced job's and was let go at its start
(`Reserve.out_of`). It is an ordinary running job then, and has to leave the nodes as soon as the announced job is here.

Reference:
    Fan et al., "Hybrid Workload Scheduling on HPC Systems" (IPDPS 2022), section III-B-1: backfilling reserved nodes.

Differs from the paper:
    Whoever the site does not let us evict any more does not count as lodging there.
"""

from collections.abc import Mapping

from makeway.policies.model import Cluster, Job, Phase, memoise_last
from makeway.policies.safety.arbiter import Refusal, protection


@memoise_last
def guests(cluster: Cluster) -> Mapping[str, tuple[Job, ...]]:
    """By reservation: the running jobs to which nodes of it were lent and that may be asked to leave, by job id.

    Or will be allowed to, once they are old enough for the site: nobody was let in who would be too young at the arrival.
    """
    jobs = cluster.jobs_by_id()
    found: dict[str, list[Job]] = {}
    for operation in cluster.operations:
        job = jobs.get(operation.for_job_id)
        if operation.phase is not Phase.LENT or operation.observe or job is None:
            continue
        for name in operation.out_of:
            if protection(job, cluster) in {None, Refusal.MIN_RUNTIME}:
                found.setdefault(name, []).append(job)
    return {name: tuple(sorted(held, key=lambda job: job.job_id)) for name, held in found.items()}
