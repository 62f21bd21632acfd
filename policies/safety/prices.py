"""What an eviction takes from a job: the work that a kill loses, and the price by which policies choose.

The price is the loss, times the square of one more than the job's past evictions: 1, 4, 9, and so on. The
loss alone would choose the same job every time, because the run that has just begun again loses least; and so
would a price that grows no faster than the losses of the jobs that run on.

A job that never reports a checkpoint does not seem dearer for that: if it should have had one by now, its
loss counts as that of the jobs of its class that do report.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III-B: the loss of a job that is killed.

Differs from the paper:
    Losses are whole node-seconds, not node-hours. A job on shared nodes is priced by its share of them. Past
    evictions and what other jobs report enter the price. Where the size of a run has changed, its work counts
    at the size at which it was done (`Job.past_sizes`).
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from makeway.policies.model import (
    Acknowledgement,
    Action,
    Cancel,
    Cluster,
    Job,
    Limits,
    Method,
    Operation,
    Requeue,
    Task,
    memoise_last,
    worked_node_s,
)
from makeway.policies.safety.protection import Refusal

HOUR_S = 3600.0
START_WITHIN_S: Final = 600.0
"""The start window of an urgent job whose class declares none: the default of the policies."""
_USUAL: Final = Limits()
_USUAL_SHARES: Final = {"max_loss_machine_share": 0.03, "max_loss_machine_share_per_day": 0.1}
"""What the limits on lost work may be of a machine's day, if the site sets neither them nor the amounts."""
_NONE: Final[Mapping[str, float]] = MappingProxyType({})


def hours_text(amount_s: float) -> str:
    """Seconds of nodes, cores or GPUs as hours for people: two decimals, or two significant digits if that is
    more, or none where they are 0; never an exponent.
    """
    hours = amount_s / HOUR_S
    places = 2 if abs(hours) >= 0.1 or not hours else 1 - math.floor(math.log10(abs(hours)))
    return f"{hours:.{places}f}".removesuffix(".00")


def reported_s(job: Job, now_s: float) -> float | None:
    """When the last checkpoint of the present run was complete. None: none is known.

    A checkpoint in the future is none.
    """
    saved_s = job.last_checkpoint_s
    return None if saved_s is None or saved_s > now_s else saved_s


def reports_regularly(job: Job, now_s: float) -> bool:
    """Whether a regular checkpoint of the job would be seen: its class says that jobs report in their
    comments, or it has reported one in this run.
    """
    spec = job.checkpoint
    by_comment = spec is not None and spec.acknowledgement is Acknowledgement.COMMENT
    return by_comment or reported_s(job, now_s) is not None


def unsaved_s(job: Job, now_s: float) -> float:
    """How long the job has worked since the last checkpoint of this run, else since its start. A job that has
    not started: 0.

    Without a report it is no longer than is usual in its class (`Job.usual_unsaved_s`).
    """
    if job.start_s is None:
        return 0.0
    saved_s = reported_s(job, now_s)
    if saved_s is not None:
        return max(0.0, now_s - max(job.start_s, saved_s))
    since_start_s = max(0.0, now_s - job.start_s)
    return since_start_s if job.usual_unsaved_s is None else min(since_start_s, job.usual_unsaved_s)


def node_equivalents(job: Job) -> float:
    """How many whole nodes the job's allocation counts as."""
    return job.node_count if job.node_equivalents is None else job.node_equivalents


def held_node_s(job: Job, since_s: float, until_s: float) -> float:
    """Node-seconds that the present run of a job has had between two instants, at the sizes that it had then.

    A job on a part of its nodes has had its present share of them.
    """
    node_s = worked_node_s(job.past_sizes, job.node_count, since_s, until_s)
    return node_s if job.node_equivalents is None else node_s * job.node_equivalents / max(1, job.node_count)


def unsaved_work_s(job: Job, now_s: float) -> float:
    """The work since the last checkpoint of this run, else since its start, in seconds at the present size of
    the job: more than `unsaved_s` if it was larger, less if it was smaller.
    """
    unsaved = unsaved_s(job, now_s)
    if not job.past_sizes or not unsaved:
        return unsaved
    return worked_node_s(job.past_sizes, job.node_count, now_s - unsaved, now_s) / max(1, job.node_count)


def loss_node_s(job: Job, now_s: float) -> int:
    """Node-seconds of work that a kill loses, rounded up: since the last checkpoint of this run, else since
    its start.

    P2, section III-B. A job that has not started loses nothing. A job on a part of its nodes loses its share
    of them.
    """
    unsaved = unsaved_s(job, now_s)
    if job.past_sizes:
        return math.ceil(held_node_s(job, now_s - unsaved, now_s))
    return math.ceil(unsaved * node_equivalents(job))


def price_node_s(job: Job, now_s: float) -> int:
    """What a kill counts as when jobs are compared: its loss, times 4 if it was evicted once before, 9 if
    twice, and so on.
    """
    return price_of(loss_node_s(job, now_s), job)


def price_of(lost_node_s: int, job: Job) -> int:
    """What lost work of a job counts as; see `price_node_s`."""
    return lost_node_s * (1 + job.past_evictions) ** 2


def killed_node_s(actions: Iterable[Action], cluster: Cluster, at_s: float | None = None) -> int:
    """Node-seconds of work that the actions lose: jobs that leave without a checkpoint.

    `at_s`: when they are sent. None: now.
    """
    jobs = cluster.jobs_by_id()
    sent_s = cluster.now_s if at_s is None else at_s
    return sum(
        loss_node_s(jobs[action.job_id], sent_s)
        for action in actions
        if _kills(action) and action.job_id in jobs
    )


class Payer(NamedTuple):
    """Who pays for what an urgent job costs. An empty name: unknown."""

    user: str
    account: str


_NOBODY: Final = Payer("", "")


def payer_of(cluster: Cluster, for_job_id: str) -> Payer:
    """Who pays for an urgent job, or for an announced one."""
    job = cluster.jobs_by_id().get(for_job_id)
    if job is not None:
        return Payer(job.user, job.account)
    for notice in cluster.notices:
        if notice.notice_id == for_job_id:
            return Payer(notice.user, notice.account)
    return _NOBODY


def started_with(cluster: Cluster, for_job_id: str) -> tuple[str, ...]:
    """The ids of the jobs whose price counts as one with that of an urgent job: the components that start
    together with it, or the tasks of its array with the same start window, and itself.
    """
    job = cluster.jobs_by_id().get(for_job_id)
    if job is None:
        return (for_job_id,)
    if job.array_job_id:
        return _wave(cluster.jobs, job)
    return tuple(one.job_id for one in cluster.components(job))


@memoise_last
def _wave(jobs: tuple[Job, ...], task: Job) -> tuple[str, ...]:
    """The tasks of an array that became eligible within the start window of one of them, itself among them:
    one submission, which is not to cost more than a job of the same size.
    """
    window_s = START_WITHIN_S if task.start_within_s is None else task.start_within_s
    return tuple(
        job.job_id
        for job in jobs
        if job.array_job_id == task.array_job_id and abs(job.waits_since_s - task.waits_since_s) <= window_s
    )


class _Ceiling(NamedTuple):
    """One limit on lost work, as far as it is used."""

    refusal: Refusal
    limit_node_s: float
    before_node_s: float
    whose: str
    """What it is a limit of, for people."""
    keys: str
    """The settings that give the limit."""


def limits_losses(limits: Limits) -> bool:
    """Whether the site limits the work that evictions may lose."""
    amounts = (
        limits.max_loss_node_hours,
        limits.max_loss_node_hours_per_day,
        limits.max_loss_node_hours_per_user_per_day,
        limits.max_loss_node_hours_per_account_per_day,
    )
    return any(amount is not None for amount in amounts)


def price_refusal(
    cluster: Cluster, for_job_id: str, cost_node_s: float, others: Mapping[str, float] = _NONE
) -> tuple[Refusal, str] | None:
    """Why an urgent job may not cost so much work, with the figures. None: it may.

    Args:
        cluster: the snapshot, with the limits and what was lost by earlier decisions.
        for_job_id: the urgent job, or the announcement.
        cost_node_s: what its evictions would lose. 0 is always allowed.
        others: what other evictions of the same decision lose, by urgent job.
    """
    if not cost_node_s:
        return None
    text = f"it would cost {hours_text(cost_node_s)} node-hours"
    for one in _ceilings(cluster, for_job_id, others):
        if one.before_node_s + cost_node_s <= one.limit_node_s:
            continue
        if one.refusal is Refusal.MAX_LOSS:
            before = f" after {hours_text(one.before_node_s)} before" if one.before_node_s else ""
            return one.refusal, f"{text}{before}, the limit is {hours_text(one.limit_node_s)} ({one.keys})"
        return one.refusal, (
            f"{text}, and {hours_text(one.before_node_s)} of the {hours_text(one.limit_node_s)} of "
            f"{one.whose} are used ({one.keys})"
        )
    return None


def overdrawn(action: Action, cluster: Cluster) -> tuple[Refusal, str] | None:
    """Why a kill of an open operation may not be sent any more: with what its jobs would lose by now, a limit
    on lost work is exceeded. None: it may be sent.

    A job that was to leave after a regular checkpoint, and has to leave without it, is killed. Only the first
    kill of an operation is asked about: none is left half done. What the operation was expected to lose is
    part of what the snapshot counts as lost.
    """
    operation = next(
        (one for one in cluster.operations if any(task.action == action for task in one.tasks)), None
    )
    if operation is None:
        return None
    kills = tuple(task for task in operation.tasks if _kills_by_now(operation, task, cluster))
    if any(task.issued_s is not None for task in kills) or all(task.action != action for task in kills):
        return None
    jobs = cluster.jobs_by_id()
    leaving = {task.action.job_id for task in kills if task.ended_s is None}
    cost_node_s = sum(loss_node_s(jobs[job_id], cluster.now_s) for job_id in leaving & jobs.keys())
    counted_node_s = min(cost_node_s, cluster.lost_node_s.get(action.for_job_id, 0.0))
    return price_refusal(cluster, action.for_job_id, cost_node_s, {action.for_job_id: -counted_node_s})


def _kills_by_now(operation: Operation, task: Task, cluster: Cluster) -> bool:
    """Whether a task kills its job, or killed it when it was sent: because it should, or because the regular
    checkpoint has not come that the job was to leave after. A checkpoint that would not be seen counts as
    taken.
    """
    action = task.action
    if not isinstance(action, Requeue | Cancel) or action.method is not Method.APPLICATION:
        return _kills(action)
    if task.issued_s is not None:
        return task.issued_s >= action.not_after_s
    job, now_s = cluster.jobs_by_id().get(action.job_id), cluster.now_s
    if job is None or now_s < action.not_after_s or not reports_regularly(job, now_s):
        return False
    planned_s = operation.opened_s if task.planned_s is None else task.planned_s
    saved_s = reported_s(job, now_s)
    return saved_s is None or saved_s <= planned_s


def _kills(action: Action) -> bool:
    return isinstance(action, Requeue | Cancel) and action.method is Method.KILL


def _ceilings(cluster: Cluster, for_job_id: str, others: Mapping[str, float]) -> Iterator[_Ceiling]:
    """The limits that hold for an urgent job, the narrowest first."""
    limits, payer = cluster.limits, payer_of(cluster, for_job_id)
    limit = job_ceiling(cluster.limits, len(cluster.nodes))
    if limit is not None:
        before_node_s = sum(
            cluster.lost_node_s.get(job_id, 0.0) + others.get(job_id, 0.0)
            for job_id in started_with(cluster, for_job_id)
        )
        yield _Ceiling(Refusal.MAX_LOSS, limit[0], before_node_s, "", limit[1])
    if limits.max_loss_node_hours_per_user_per_day is not None and payer.user:
        paid = sum(cost for job_id, cost in others.items() if payer_of(cluster, job_id).user == payer.user)
        yield _Ceiling(
            Refusal.MAX_LOSS_PER_USER,
            limits.max_loss_node_hours_per_user_per_day * HOUR_S,
            cluster.lost_by_user.get(payer.user, 0.0) + paid,
            f"a day of user {payer.user}",
            "max_loss_node_hours_per_user_per_day",
        )
    if limits.max_loss_node_hours_per_account_per_day is not None and payer.account:
        paid = sum(
            cost for job_id, cost in others.items() if payer_of(cluster, job_id).account == payer.account
        )
        yield _Ceiling(
            Refusal.MAX_LOSS_PER_ACCOUNT,
            limits.max_loss_node_hours_per_account_per_day * HOUR_S,
            cluster.lost_by_account.get(payer.account, 0.0) + paid,
            f"a day of account {payer.account}",
            "max_loss_node_hours_per_account_per_day",
        )
    day = day_ceiling(cluster)
    if day is not None:
        used_node_s = sum(cluster.lost_node_s.values()) + sum(others.values())
        yield _Ceiling(Refusal.MAX_LOSS_PER_DAY, day[0], used_node_s, "a day", day[1])


def job_ceiling(limits: Limits, node_count: int) -> tuple[float, str] | None:
    """Node-seconds of work that one urgent job may cost, and the setting that says so. None: there is no
    limit.

    Args:
        limits: the site's.
        node_count: of the machine.
    """
    return _limit(limits, node_count, "max_loss_node_hours", "max_loss_machine_share")


def day_ceiling(cluster: Cluster) -> tuple[float, str] | None:
    """Node-seconds of work that all urgent jobs of a day may cost, and the setting that says so. None: there
    is no limit.
    """
    keys = "max_loss_node_hours_per_day", "max_loss_machine_share_per_day"
    return _limit(cluster.limits, len(cluster.nodes), *keys)


class Spending(NamedTuple):
    """Work that was lost, or is expected to be lost, in 24 hours."""

    whose: str
    """Empty: of all urgent jobs."""
    node_s: float
    limit_node_s: float | None
    """None: there is no limit."""

    @property
    def text(self) -> str:
        """For people, such as `user beam: 12.5 of 40 node-hours`."""
        limit = "" if self.limit_node_s is None else f" of {hours_text(self.limit_node_s)}"
        return f"{self.whose}{': ' if self.whose else ''}{hours_text(self.node_s)}{limit} node-hours"


def spending(cluster: Cluster) -> tuple[Spending, ...]:
    """What all urgent jobs of the last 24 hours have cost, then the user and the account with the most of it,
    where they have limits.
    """
    day, limits = day_ceiling(cluster), cluster.limits
    found = [Spending("", sum(cluster.lost_node_s.values()), None if day is None else day[0])]
    for what, limit, lost in (
        ("user", limits.max_loss_node_hours_per_user_per_day, cluster.lost_by_user),
        ("account", limits.max_loss_node_hours_per_account_per_day, cluster.lost_by_account),
    ):
        if limit is not None and lost:
            name = max(lost, key=lambda one: (lost[one], one))
            found.append(Spending(f"{what} {name}", lost[name], limit * HOUR_S))
    return tuple(found)


def _limit(limits: Limits, node_count: int, amount_key: str, share_key: str) -> tuple[float, str] | None:
    """The larger of an amount of node-hours and a share of what all nodes can do in 24 hours: node-seconds,
    and the setting that gives them. None: the amount is not limited.
    """
    amount: float | None = getattr(limits, amount_key)
    if amount is None:
        return None
    share: float | None = getattr(limits, share_key)
    if share is None:
        share = _USUAL_SHARES[share_key] if amount == getattr(_USUAL, amount_key) else 0.0
    share_node_s = share * node_count * 24.0 * HOUR_S
    amount_node_s = amount * HOUR_S
    return (share_node_s, share_key) if share_node_s > amount_node_s else (amount_node_s, amount_key)
