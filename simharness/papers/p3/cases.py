"""P3's experiment: a trace replayed under classical backfilling, or with makeway's early starts.

Nothing in it is drawn at random. The classical algorithm is the simulator's EASY without makeway; the
checkpoint-based one is policy "ckpt-backfill" over the same EASY; in addition, the paper's algorithms run as
they are written. Every job can checkpoint, as the paper assumes (section 3.1).

Reference:
    Niu et al., "Employing Checkpoint to Improve Job Scheduling in Large-Scale Systems" (JSSPP 2012), sections
    4 (metrics), 4.1 (p), 4.2 (alpha) and 5.2 (overhead).

Differs from the paper:
    A checkpoint and a restart take half of T_extend each, but a restart no more than half of the job's run
    time. A job's first setup is as long as a restart and part of its run time.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np

from makeway.daemon.journal.store import Journal
from makeway.policies.ckpt_backfill.outlook import UNKNOWN_SHARE, CkptBackfillConfig
from makeway.policies.ckpt_backfill.policy import CKPT_BACKFILL
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.records import ReplayRecord, RunEnding
from makeway.simharness.engine.scheduler import SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.papers.p3.literal import LiteralSimulation
from makeway.simharness.results.series import Floats, floats, nodes_held, queue_length
from makeway.simharness.run.collector import collect_last_replay
from makeway.simharness.run.replay import Replay, ReplaySettings
from makeway.simharness.workloads.job import SimJob
from makeway.simharness.workloads.trace import Trace, read_trace

TRACES: Mapping[str, str] = {
    "CTC": "CTC-SP2-1996-3.1-cln.swf.gz",
    "SDSC-BLUE": "SDSC-BLUE-2000-4.2-cln.swf.gz",
    "HPC2N": "HPC2N-2002-2.2-cln.swf.gz",
}
"""The file of each trace."""
P_VALUES = (0.1, 0.2, 0.5, 1.0)
ALPHAS = (0.0, 0.5, 1.0)
EXTENDS_S = (0.0, 120.0, 430.0, 1200.0, 3600.0)
P = 0.2
"""What the paper keeps while something else varies."""
BOUND_S = 10.0
"""Run times below this count as this in the slowdown (section 4)."""
LOAD_EDGES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""The days are sorted by how busy the machine was (figure 5)."""
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class P3Setting:
    """One replay of the experiment."""

    trace: str
    """A key of `TRACES`."""
    p: float | None = None
    """None: the classical algorithm, without makeway."""
    alpha: float = 1.0
    """How wrong the time limits are: 0, the run time itself; 1, what the user asked for (section 4.2)."""
    extend_s: float = 0.0
    """T_extend: what a checkpoint and a restart take together (section 5.1)."""
    learned: bool = False
    """Whether p is learned from each user's own history; `p` is then for users with too little history."""
    literal: bool = False
    """Whether the paper's algorithms run as they are written, without makeway. Their checkpoints are free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class P3Trial:
    """What to replay, and from where."""

    traces: Path
    """The directory of the traces."""
    setting: P3Setting
    first: int | None = None
    """So many jobs from the beginning of the trace. None: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBucket:
    """The days on which the machine was about so busy."""

    from_utilisation: float
    to_utilisation: float
    days: int
    queue_length: float | None
    """Mean of the jobs that waited on these days. None: there was no such day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class P3Result:
    """The paper's numbers of one replay (sections 4 and 5.2)."""

    setting: P3Setting
    jobs: int
    node_count: int
    wait_s: float
    """Mean over the jobs of all the time that they were in the queue, after an eviction too."""
    slowdown: float
    """Mean of (wait + max(run, 10 s)) / max(run, 10 s)."""
    queue_length: float
    """Mean over time of the jobs that wait."""
    backfill_ratio: float
    """Share of the jobs that first started before one that had been submitted earlier."""
    preempted_ratio: float
    """pRatio: share of the jobs that were evicted at least once."""
    checkpoints_per_node_day: float
    """cNum: evictions, each counted once for each of its nodes, per node and day."""
    wasted_ratio: float
    """wRatio: node-time of checkpoints, restarts and lost work / node-time of the machine."""
    utilisation: float
    by_load: tuple[LoadBucket, ...]


def settings(trace: str) -> Iterator[P3Setting]:
    """Every replay of one trace, each once."""
    for alpha in reversed(ALPHAS):
        yield P3Setting(trace=trace, alpha=alpha)
    for p in P_VALUES:
        yield P3Setting(trace=trace, p=p)
    yield P3Setting(trace=trace, p=UNKNOWN_SHARE, learned=True)
    for alpha in ALPHAS[:-1]:
        yield P3Setting(trace=trace, p=P, alpha=alpha)
    for extend_s in EXTENDS_S[1:]:
        yield P3Setting(trace=trace, p=P, extend_s=extend_s)
    for p in P_VALUES:
        yield P3Setting(trace=trace, p=p, literal=True)
    for alpha in ALPHAS[:-1]:
        yield P3Setting(trace=trace, p=P, alpha=alpha, literal=True)


def compute(trial: P3Trial) -> P3Result:
    """Replay it and measure.

    Raises:
        TraceError: the trace cannot be read.
    """
    setting = trial.setting
    trace = _trace(trial.traces / TRACES[setting.trace])
    jobs = [_as_submitted(job, setting) for job in trace.jobs[: trial.first]]
    if setting.literal:
        return outcome(setting, LiteralSimulation(trace.node_count, jobs, setting.p).run())
    collect_last_replay(len(jobs))
    cluster = SimCluster(
        trace.node_count,
        jobs,
        scheduler=SchedulerSettings(),
        storage=StorageSettings(),
        requeue_delay_s=0.0,
        workload=trace.name,
    )
    if setting.p is None:
        cluster.run()
        return outcome(setting, cluster.record(policy="none"))
    # The traces' times are whole seconds: a cycle is never later than what it answers to.
    pace = ReplaySettings(poll_interval_s=1.0)
    config = CkptBackfillConfig(p="learned" if setting.learned else setting.p)
    replay = Replay(cluster, CKPT_BACKFILL, config, pace, journal=Journal(None, unread=True))
    return outcome(setting, replay.run())


@lru_cache(maxsize=1)
def _trace(path: Path) -> Trace:
    """Read once for all the replays of a trace."""
    return read_trace(path)


def _as_submitted(job: SimJob, setting: P3Setting) -> SimJob:
    """The job with the time limit and the checkpoints of a setting."""
    return replace(
        job,
        walltime_s=job.runtime_s + setting.alpha * (job.walltime_s - job.runtime_s),
        save_s=setting.extend_s / 2,
        setup_s=min(setting.extend_s / 2, job.runtime_s / 2),
    )


def outcome(setting: P3Setting, record: ReplayRecord) -> P3Result:
    """The numbers of a replay in which every job has completed."""
    submit_s = floats(done.job.submit_s for done in record.jobs)
    start_s = floats(done.start_s for done in record.jobs)
    end_s = floats(done.end_s for done in record.jobs)
    bounded_s = np.maximum(floats(done.job.runtime_s for done in record.jobs), BOUND_S)
    ran_s = np.zeros(len(record.jobs))
    evicted_nodes = 0
    for segment in record.segments:
        ran_s[segment.job] += segment.end_s - segment.start_s
        if segment.ending is RunEnding.REQUEUED:
            evicted_nodes += segment.nodes.bit_count()
    wait_s = end_s - submit_s - ran_s
    from_s, to_s = float(submit_s.min()), float(end_s.max())
    held = nodes_held(record).bin_means(np.array([from_s, to_s]))[0] / record.node_count
    capacity_node_s = record.node_count * (to_s - from_s)
    wasted_node_s = sum(done.lost_node_s + done.overhead_node_s for done in record.jobs)
    return P3Result(
        setting=setting,
        jobs=len(record.jobs),
        node_count=record.node_count,
        wait_s=float(wait_s.mean()),
        slowdown=float(((wait_s + bounded_s) / bounded_s).mean()),
        queue_length=float(queue_length(record).bin_means(np.array([from_s, to_s]))[0]),
        backfill_ratio=float(_passed(submit_s, start_s).mean()),
        preempted_ratio=sum(done.evictions > 0 for done in record.jobs) / len(record.jobs),
        checkpoints_per_node_day=evicted_nodes * DAY_S / capacity_node_s,
        wasted_ratio=wasted_node_s / capacity_node_s,
        utilisation=float(held),
        by_load=_by_load(record, from_s, to_s),
    )


def _passed(submit_s: Floats, start_s: Floats) -> Floats:
    """1 for each job that started while one before it in the queue waited, else 0."""
    order = np.argsort(submit_s, kind="stable")
    latest_s = np.maximum.accumulate(start_s[order])
    return np.asarray(start_s[order] < latest_s, dtype=np.float64)


def _by_load(record: ReplayRecord, from_s: float, to_s: float) -> tuple[LoadBucket, ...]:
    """Mean queue length on the days of each level of utilisation; the day that is not over is left out."""
    edges_s = np.arange(from_s, to_s, DAY_S)
    if edges_s.size < 2:
        edges_s = np.array([from_s, to_s])
    used = nodes_held(record).bin_means(edges_s) / record.node_count
    waiting = queue_length(record).bin_means(edges_s)
    places = np.clip(np.searchsorted(LOAD_EDGES, used, side="right") - 1, 0, len(LOAD_EDGES) - 2)
    buckets: list[LoadBucket] = []
    for place, (low, high) in enumerate(pairwise(LOAD_EDGES)):
        mine = waiting[places == place]
        mean = float(mine.mean()) if mine.size else None
        buckets.append(
            LoadBucket(from_utilisation=low, to_utilisation=high, days=int(mine.size), queue_length=mean)
        )
    return tuple(buckets)


class P3Results:
    """The outcomes by what was replayed."""

    def __init__(self, outcomes: Iterable[P3Result]) -> None:
        self._by_setting = {found.setting: found for found in outcomes}
        self.traces = tuple(dict.fromkeys(setting.trace for setting in self._by_setting))

    def classical(self, trace: str, alpha: float = 1.0) -> P3Result:
        """EASY alone."""
        return self._by_setting[P3Setting(trace=trace, alpha=alpha)]

    def early(self, trace: str, p: float = P, *, alpha: float = 1.0, extend_s: float = 0.0) -> P3Result:
        """With makeway's early starts."""
        return self._by_setting[P3Setting(trace=trace, p=p, alpha=alpha, extend_s=extend_s)]

    def literal(self, trace: str, p: float = P, *, alpha: float = 1.0) -> P3Result:
        """With the paper's algorithms as they are written."""
        return self._by_setting[P3Setting(trace=trace, p=p, alpha=alpha, literal=True)]

    def __iter__(self) -> Iterator[P3Result]:
        """In the order in which they were computed."""
        return iter(self._by_setting.values())
