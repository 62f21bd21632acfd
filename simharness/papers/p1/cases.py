"""P1's replays: a week of a trace on Mira's partitions under one scheme, and slowdowns by category.

Reference:
    Nickolay et al., "Towards Accommodating Real-time Jobs on HPC Platforms" (arXiv 2021), section 7 (figures
    3 to 7).

Differs from the paper:
    A job that is preempted goes first in the queue when the urgent job is over, as the daemon gives back what
    was lent; the paper resubmits it. The daemon polls every ten seconds.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from makeway.daemon.journal.store import Journal
from makeway.policies.model import JobKind
from makeway.policies.registry import find
from makeway.policies.wcjs.policy import WCJS
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.partitioned import PartitionSettings
from makeway.simharness.engine.records import JobRecord, ReplayRecord
from makeway.simharness.engine.scheduler import Order, SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.run.collector import collect_last_replay
from makeway.simharness.run.experiment import policy_config
from makeway.simharness.run.replay import Replay, ReplaySettings
from makeway.simharness.workloads.job import SimJob
from makeway.simharness.workloads.mira import NARROW_MIDPLANES, SCHEMES, Scheme, on_mira, with_checkpoints
from makeway.simharness.workloads.partitions import MIDPLANE_NODES, Partitions, read_partitions
from makeway.simharness.workloads.synthesis import mark_urgent
from makeway.simharness.workloads.trace import read_trace

DAY_S = 86_400.0
BOUND_S = 600.0
"""Run times below this count as this in the slowdown (section 3.2)."""
SHORT_S = 7200.0
URGENT_SHORT_S = 5400.0
"""Section 7.1.3, second variant: only jobs that run for less may be urgent."""
EVICT_WITHIN_S = 7 * DAY_S
"""The paper has no limit: an urgent job may have others preempted however long it has waited."""
POLL_S = 10.0
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Whiskers, box and median of the paper's boxplots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceWeek:
    """A trace, and the week of it that counts."""

    file: str
    from_day: float
    days: float = 7.0
    piece: tuple[float, float] | None = None
    """The days that are replayed. None: all that there are."""
    least_processors: int = 1
    """Smaller jobs are left out."""


WINDOWS: Mapping[str, TraceWeek] = {
    "wk1": TraceWeek(file="ANL-Mira-2018-wk1.swf.gz", from_day=45.84),
    "wk3": TraceWeek(file="ANL-Mira-2018-wk3.swf.gz", from_day=13.03),
    "curie": TraceWeek(
        file="CEA-Curie-2011-2.1-cln.swf.gz", from_day=596.0, piece=(594.0, 604.0), least_processors=257
    ),
}
"""The weeks of the authors' own runs.

They begin on 2018-01-21 and 2018-06-10 (UTC). Curie's are days 596 to 602, without the jobs that would fill
only a small part of a midplane.
"""
CATEGORIES = ("all", "narrow-short", "narrow-long", "wide-short", "wide-long")
GROUPS = (JobKind.ON_DEMAND, JobKind.RIGID)


@dataclass(frozen=True, slots=True, kw_only=True)
class P1Trial:
    """One replay to compute."""

    trace: Path
    partitions: Path
    week: str
    """A key of `WINDOWS`."""
    share: float
    """How many of the jobs are urgent."""
    short_only: bool
    seed: int
    scheme: str
    """A key of `SCHEMES`."""
    settings: tuple[tuple[str, float], ...] = ()
    """Settings of the policy that are tried out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The jobs of one kind and category."""

    jobs: int
    slowdown_mean: float
    slowdown: tuple[float, ...]
    """At `QUANTILES`."""
    turnaround_mean_h: float
    turnaround_h: tuple[float, ...]
    plain_slowdown_mean: float
    """Without the bound on short run times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadGroup:
    """Where a spread belongs."""

    kind: JobKind
    category: str
    spread: Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class P1Result:
    """What one replay came to."""

    week: str
    share: float
    short_only: bool
    seed: int
    scheme: str
    settings: tuple[tuple[str, float], ...]
    groups: tuple[SpreadGroup, ...]
    """Those that have jobs."""
    evictions: int
    checkpoint_node_hours: float
    """Regular checkpoints, of those jobs that completed, in node-hours of Mira's nodes."""
    overhead_node_hours: float
    """Checkpoints before a preemption, and restarts."""
    lost_node_hours: float
    """Work that was done again."""
    unfinished: int
    """Jobs that reached their time limit; there should be none."""


def compute(trial: P1Trial) -> P1Result:
    """Make the workload and replay it.

    Raises:
        TraceError: the trace cannot be read.
        PartitionsError: the partitions cannot.
    """
    window = WINDOWS[trial.week]
    plain, partitions = _jobs(trial.trace, trial.partitions, trial.week)
    longest_s = URGENT_SHORT_S if trial.short_only else None
    jobs = mark_urgent(plain, trial.share, trial.seed, max_runtime_s=longest_s)
    record = replayed(trial, jobs, partitions)
    from_s = window.from_day * DAY_S
    to_s = from_s + window.days * DAY_S
    counted = [
        (entry, job)
        for entry, job in zip(record.jobs, jobs, strict=True)
        if from_s <= job.submit_s < to_s and entry.end_s is not None
    ]
    return P1Result(
        week=trial.week,
        share=trial.share,
        short_only=trial.short_only,
        seed=trial.seed,
        scheme=trial.scheme,
        settings=trial.settings,
        groups=tuple(_groups(counted)),
        evictions=sum(entry.evictions for entry in record.jobs),
        checkpoint_node_hours=sum(
            (entry.job.runtime_s - job.runtime_s) * job.node_count
            for entry, job in zip(record.jobs, jobs, strict=True)
        )
        * MIDPLANE_NODES
        / 3600,
        overhead_node_hours=sum(entry.overhead_node_s for entry in record.jobs) * MIDPLANE_NODES / 3600,
        lost_node_hours=sum(entry.lost_node_s for entry in record.jobs) * MIDPLANE_NODES / 3600,
        unfinished=sum(1 for entry in record.jobs if entry.end_s is None),
    )


@lru_cache(maxsize=2)
def _jobs(trace: Path, partitions: Path, week: str) -> tuple[tuple[SimJob, ...], Partitions]:
    """The jobs of the trace on Mira's partitions."""
    found, window = read_partitions(partitions), WINDOWS[week]
    read = read_trace(trace, procs_per_node=1)
    from_day, to_day = window.piece or (-math.inf, math.inf)
    jobs = [
        job
        for job in read.jobs
        if from_day * DAY_S <= job.submit_s < to_day * DAY_S and job.node_count >= window.least_processors
    ]
    return tuple(on_mira(jobs, read.node_count, found)), found


def replayed(trial: P1Trial, jobs: Sequence[SimJob], partitions: Partitions) -> ReplayRecord:
    """Replay jobs as the trial says."""
    return replayed_under(SCHEMES[trial.scheme], jobs, partitions, dict(trial.settings))


def replayed_under(
    scheme: Scheme, jobs: Sequence[SimJob], partitions: Partitions, settings: Mapping[str, object]
) -> ReplayRecord:
    """Replay jobs under a scheme, with settings of the policy besides the scheme's own."""
    collect_last_replay(len(jobs))
    cluster = SimCluster(
        partitions.node_count,
        [with_checkpoints(job, scheme) for job in jobs],
        scheduler=SchedulerSettings(order=Order.WFP),
        storage=StorageSettings(),
        requeue_delay_s=0.0,
        placed=PartitionSettings(partitions=partitions, urgent_first=scheme.urgent_first),
    )
    if not scheme.preempts:
        cluster.run()
        return cluster.record(policy="none")
    policy = find(scheme.policy)
    own = {"narrow_max_nodes": NARROW_MIDPLANES, "evict_within_s": EVICT_WITHIN_S} if policy is WCJS else {}
    config = policy_config(policy.name, policy.config_type, {**own, **scheme.settings, **settings})
    pace = ReplaySettings(poll_interval_s=POLL_S)
    return Replay(cluster, policy, config, pace, journal=Journal(None, unread=True)).run()


def _groups(counted: Sequence[tuple[JobRecord, SimJob]]) -> Iterable[SpreadGroup]:
    for kind in GROUPS:
        mine = [(entry, job) for entry, job in counted if job.kind is kind]
        for category in CATEGORIES:
            members = [(entry, job) for entry, job in mine if category in ("all", category_of(job))]
            if members:
                yield SpreadGroup(kind=kind, category=category, spread=_spread(members))


def category_of(job: SimJob) -> str:
    """Narrow or wide by its nodes, short or long by its run time (section 7.1.1)."""
    width = "narrow" if job.node_count <= NARROW_MIDPLANES else "wide"
    return f"{width}-{'short' if job.runtime_s <= SHORT_S else 'long'}"


def _spread(members: Sequence[tuple[JobRecord, SimJob]]) -> Spread:
    """Slowdowns by the run time of the trace: what checkpoints add counts as waiting (section 3.2)."""
    turnaround_s = np.array([(entry.end_s or 0.0) - job.submit_s for entry, job in members])
    run_s = np.array([job.runtime_s for _, job in members])
    bounded_s = np.maximum(run_s, BOUND_S)
    slowdown = (turnaround_s - run_s + bounded_s) / bounded_s
    hours = turnaround_s / 3600.0
    return Spread(
        jobs=len(members),
        slowdown_mean=float(slowdown.mean()),
        slowdown=tuple(np.quantile(slowdown, QUANTILES).tolist()),
        turnaround_mean_h=float(hours.mean()),
        turnaround_h=tuple(np.quantile(hours, QUANTILES).tolist()),
        plain_slowdown_mean=float((turnaround_s / run_s).mean()),
    )
