"""Which jobs may be touched: the protections of the site and of the cluster's state. Pure functions."""

from collections.abc import Mapping
from enum import StrEnum

from makeway.policies.model import Cluster, Job, JobKind, JobState, Shrink, memoise_last


class Refusal(StrEnum):
    """Why an action is refused. The value is also the log field and the metric label."""

    URGENT = "urgent"  # the victim is itself an urgent job
    NOT_PREEMPTIBLE = "not_preemptible"  # the site has not opted the job in, or it would not run again
    PROTECTED_USER = "protected_user"
    PROTECTED_ACCOUNT = "protected_account"
    PROTECTED_QOS = "protected_qos"
    PROTECTED_PARTITION = "protected_partition"
    NOT_RUNNING = "not_running"  # it ended, is completing, is suspended, or never existed
    MIN_RUNTIME = "min_runtime"  # its present run has not lasted long enough
    MIN_PROGRESS = "min_progress"  # it was requeued before, and has done too little since
    MAX_LOSS = "max_loss"  # the urgent job would cost too much work
    MAX_LOSS_PER_DAY = "max_loss_per_day"  # all urgent jobs of a day would cost too much work
    MAX_LOSS_PER_USER = "max_loss_per_user"  # those of one user
    MAX_LOSS_PER_ACCOUNT = "max_loss_per_account"  # those of one account
    PER_JOB = "per_job"  # it was evicted as often as the site allows
    PER_HOUR = "per_hour"  # as many jobs were evicted in the last hour as the site allows
    TOO_SMALL = "too_small"  # a shrink below the smallest size
    BATCH_HOST = (
        "batch_host"  # a shrink that gives up the batch host, or keeps nodes that the job does not have
    )
    UNSUPPORTED = "unsupported"  # this cluster cannot do such an action
    MAX_NODES = "max_nodes"  # too many nodes held for urgent jobs
    NODE_TAKEN = "node_taken"  # in a reservation of another user, or promised to another urgent job
    NOT_OURS = "not_ours"  # a reservation that makeway did not make
    NOT_WAITING = "not_waiting"  # it was to be started, but is running or has ended
    BLOCKED = "blocked"  # for an urgent job that would not start on free nodes either
    NO_HOLD = "no_hold"  # an eviction for an urgent job for which no nodes are held
    BREAKER = "breaker"  # too many commands failed lately
    GROUP = "group"  # an action that belongs with it was refused


def protection(job: Job, cluster: Cluster) -> Refusal | None:
    """Why `job` may not be evicted or shrunk now. None: it may be."""
    hard = hard_protection(job, cluster)
    if job.state is not JobState.RUNNING or job.start_s is None:
        # Adapters opt in no such job, whatever its class says.
        return Refusal.NOT_RUNNING if hard in {None, Refusal.NOT_PREEMPTIBLE} else hard
    if hard is not None:
        return hard
    limits = cluster.limits
    if cluster.now_s - job.start_s < limits.min_runtime_s:
        return Refusal.MIN_RUNTIME
    if limits.evictions_per_job is not None and job.requeue_count >= limits.evictions_per_job:
        return Refusal.PER_JOB
    progress_s = max(0.0, cluster.now_s - job.start_s - job.setup_s)
    if job.requeue_count and progress_s < limits.min_progress_s:
        return Refusal.MIN_PROGRESS
    return None


@memoise_last
def protections(cluster: Cluster) -> Mapping[str, str]:
    """Why jobs that hold nodes may not be evicted now, by job id; absent if they may be."""
    refusals = ((job.job_id, protection(job, cluster)) for job in cluster.holders())
    return {job_id: refusal.value for job_id, refusal in refusals if refusal is not None}


def hard_protection(job: Job, cluster: Cluster) -> Refusal | None:
    """The protections that also stop an eviction under way: by owner and opt-in, not by age or count. None:
    there is none.
    """
    limits = cluster.limits
    if job.kind is JobKind.ON_DEMAND:
        return Refusal.URGENT
    if not job.preemptible:
        return Refusal.NOT_PREEMPTIBLE
    if job.user in limits.protected_users:
        return Refusal.PROTECTED_USER
    if job.account in limits.protected_accounts:
        return Refusal.PROTECTED_ACCOUNT
    # A waiting job may name several, of which the cluster chooses one.
    if limits.protected_qos and not limits.protected_qos.isdisjoint(job.qos.split(",")):
        return Refusal.PROTECTED_QOS
    if limits.protected_partitions and not limits.protected_partitions.isdisjoint(job.partition.split(",")):
        return Refusal.PROTECTED_PARTITION
    return None


def start_protection(job: Job, cluster: Cluster) -> Refusal | None:
    """Why waiting `job` may not start before its turn, with a possible eviction later. None: it may."""
    hard = hard_protection(job, cluster)
    if hard is not None:
        return hard
    if job.state is not JobState.PENDING:
        return Refusal.NOT_WAITING
    limit = cluster.limits.evictions_per_job
    return Refusal.PER_JOB if limit is not None and job.requeue_count >= limit else None


def shrink_refusal(action: Shrink, job: Job) -> tuple[Refusal, str] | None:
    """Why `job` may not be shrunk in this way.

    None: it keeps its batch host first, only nodes of its own, and at least its smallest size.
    """
    kept = set(action.keep_nodes)
    if (
        not action.keep_nodes
        or not job.nodes
        or action.keep_nodes[0] != job.nodes[0]
        or not kept <= set(job.nodes)
    ):
        return (
            Refusal.BATCH_HOST,
            f"job {job.job_id} must keep its batch host as the first node, and only nodes that it has",
        )
    smallest = job.node_count if job.node_count_min is None else job.node_count_min
    if len(kept) < smallest:
        return Refusal.TOO_SMALL, f"job {job.job_id} needs {smallest} nodes, {len(kept)} would be left"
    return None
