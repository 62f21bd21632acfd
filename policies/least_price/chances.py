"""Whether it pays to wait for jobs that may end by themselves, although those that are to leave lose more
meanwhile.

Run times are spread evenly on a logarithmic scale. So a job that is old, or close to its time limit, ends
sooner than the time that is left of the limit says: jobs often end long before it.

Reference:
    Downey, "Predicting Queue Times on Space-Sharing Parallel Computers" (IPPS 1997), eq. 3: the distribution
    of a job's lifetime, given its age. The processors that come free are the sum over the jobs of their
    processors times the probability of their ends.

Differs from the paper:
    The longest lifetime is the job's own time limit, not that of the workload.
"""

import math

from makeway.policies.common.departures import OVERDUE_S, stuck
from makeway.policies.common.losses import evictions_node_s
from makeway.policies.common.requests import Proposal, Request
from makeway.policies.model import Job, JobState

_YOUNGEST_S = 1.0
"""The least age of a job, in seconds: the logarithm of 0 has no value."""


def pays_to_wait(request: Request, given: Proposal, until_s: float) -> bool:
    """Whether waiting until `until_s` is expected to save more than it adds to the cost of the evictions."""
    cost_node_s = evictions_node_s(given.actions, request.cluster)
    later_node_s = evictions_node_s(given.actions, request.cluster, until_s)
    return expected_share(request, until_s) * later_node_s > later_node_s - cost_node_s


def expected_share(request: Request, until_s: float) -> float:
    """Which share of the missing nodes is expected to come free by `until_s` because jobs end by themselves,
    at most 1. A job counts for no more nodes than are missing.
    """
    cluster, eligible = request.cluster, request.urgent.job.eligible_nodes
    sets = cluster.node_sets()
    usable = sets.up & ~sets.of_any(request.unusable)
    usable = usable if eligible is None else usable & sets.of(eligible)
    staying, missing = request.excluded | stuck(cluster), max(1, request.shortage)
    found = 0.0
    for job in cluster.holders():
        if job.job_id not in staying:
            nodes = min((sets.of(job.nodes) & usable).bit_count(), missing)
            found += nodes * _probability(job, cluster.now_s, until_s)
    return min(1.0, found / missing)


def _probability(job: Job, now_s: float, until_s: float) -> float:
    """How likely the job ends by `until_s`. 0: its limit does not pass, or the cluster lets it run on."""
    end_s = job.latest_end_s
    if job.start_s is None or end_s is None or job.state is JobState.SUSPENDED:
        return 0.0
    if end_s <= until_s:
        return float(end_s > now_s - OVERDUE_S)
    begun_s = min(job.start_s, now_s - _YOUNGEST_S)
    return math.log((until_s - begun_s) / (now_s - begun_s)) / math.log((end_s - begun_s) / (now_s - begun_s))
