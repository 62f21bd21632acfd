"""Policy "ckpt-backfill" on whole workloads: no job that is first in the queue waits for those that started
early.
"""

from dataclasses import replace
from random import Random

from hypothesis import event, given, settings
from hypothesis import strategies as st

from makeway.daemon.control.report import CycleReport
from makeway.daemon.journal.store import Journal
from makeway.policies.ckpt_backfill.outlook import CkptBackfillConfig
from makeway.policies.ckpt_backfill.policy import CKPT_BACKFILL
from makeway.policies.model import Phase
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.job_run import JobRun
from makeway.simharness.engine.records import ReplayRecord
from makeway.simharness.engine.scheduler import Scheduler, SchedulerSettings, shadow
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.run.replay import Replay, ReplaySettings
from makeway.simharness.workloads.job import SimJob

NODES = 8
SLOWEST_S = 90.0


def workload(seed: int) -> list[SimJob]:
    """Thirty jobs, more than the machine can serve, whose time limits are up to ten times too long; all save
    themselves.
    """
    draw = Random(seed)
    jobs = []
    submit_s = 0.0
    for index in range(30):
        submit_s += draw.choice([0, 0, 1, 2, 5, 10]) * 10.0
        runtime_s = draw.choice([20.0, 100.0, 300.0, 1000.0]) * draw.choice([1, 2, 3])
        jobs.append(
            SimJob(
                str(index),
                submit_s,
                runtime_s,
                runtime_s * draw.choice([1, 2, 5, 10]),
                draw.choice([1, 1, 2, 2, 3, 4, 6, NODES]),
                user="u",
                save_s=draw.choice([0.0, 30.0, SLOWEST_S]),
                setup_s=draw.choice([0.0, 5.0]),
            )
        )
    return jobs


workloads = st.integers(0, 10**9).map(workload)


class Watch:
    """Foresees, from the machine itself, the start of each job when it becomes the first of the queue.

    A job that was put first because it had to leave comes before that: what was foreseen for others is then
    void.
    """

    def __init__(self, cluster: SimCluster, journal: Journal, config: CkptBackfillConfig) -> None:
        self.machine = cluster.machine
        self.journal = journal
        self.config = config
        self.foreseen_s: dict[str, float] = {}
        self.late_s: dict[str, float] = {}
        """How much later than foreseen a job started."""

    def look(self, report: CycleReport) -> None:
        """After each cycle."""
        machine = self.machine
        for job_id in [*self.foreseen_s]:
            live = machine.live.get(job_id)
            if live is None or live.nodes:
                at_s = report.at_s if live is None else live.start_s
                self.late_s[job_id] = at_s - self.foreseen_s.pop(job_id)
        scheduler = machine.scheduler
        assert isinstance(scheduler, Scheduler)
        if not scheduler.queue or any(not live.nodes for live in machine.bound.values()):
            return
        head = scheduler.queue[0][5]
        if head.rank < 0:
            self.foreseen_s.clear()
        else:
            self.foreseen_s.setdefault(head.job.job_id, self._foresee(head))

    def _foresee(self, head: JobRun) -> float:
        """When enough nodes are free if those that started early last as long as predicted, all others to
        their limits.
        """
        now_s = self.machine.now_s
        early = {
            operation.for_job_id
            for operation in self.journal.open_operations()
            if operation.kind.starts_early and operation.phase is Phase.LENT
        }
        releases = []
        for live in self.machine.running.values():
            end_s = live.limit_s
            if live.job.job_id in early:
                end_s = min(end_s, live.start_s + max(live.walltime_s - live.saved_before_s(), 0.0))
                if not live.requeue_count:
                    assert self.config.p != "learned"
                    end_s = live.start_s + live.walltime_s * self.config.p
            releases.append((max(end_s, now_s), live.index, live.size))
        return max(now_s, shadow(sorted(releases), head.size, self.machine.free.bit_count())[0])


def played(jobs: list[SimJob], config: CkptBackfillConfig) -> tuple[ReplayRecord, Watch]:
    cluster = SimCluster(
        NODES,
        jobs,
        scheduler=SchedulerSettings(),
        storage=StorageSettings(),
        requeue_delay_s=20.0,
        check=True,
    )
    journal = Journal(None)
    watch = Watch(cluster, journal, config)
    told = Replay(
        cluster,
        CKPT_BACKFILL,
        config,
        ReplaySettings(poll_interval_s=1.0),
        journal=journal,
        on_cycle=watch.look,
    )
    record = told.run()
    assert journal.open_operations() == ()
    assert cluster.machine.holds == {}
    return record, watch


@settings(deadline=None, max_examples=100)
@given(jobs=workloads, p=st.sampled_from([0.1, 0.2, 0.5]))
def test_the_first_of_the_queue_waits_for_no_more_than_the_slowest_checkpoint(
    jobs: list[SimJob], p: float
) -> None:
    record, watch = played(jobs, CkptBackfillConfig(p=p, threshold_s=0.0))
    event(f"evictions: {min(3, sum(done.evictions for done in record.jobs))}")
    assert all(done.end_s is not None for done in record.jobs), "no job starves"
    assert sum(done.lost_node_s for done in record.jobs) == 0.0
    assert [job_id for job_id, late_s in watch.late_s.items() if late_s > SLOWEST_S + 2.0] == []


@settings(deadline=None, max_examples=60)
@given(jobs=workloads, p=st.sampled_from([0.1, 0.5]))
def test_where_some_may_not_be_asked_nobody_starves_and_they_are_left_alone(
    jobs: list[SimJob], p: float
) -> None:
    mixed = [replace(job, save_s=None) if index % 3 == 0 else job for index, job in enumerate(jobs)]
    record, _ = played(mixed, CkptBackfillConfig(p=p, threshold_s=0.0))
    assert all(done.end_s is not None for done in record.jobs)
    assert [done.job.job_id for done in record.jobs if done.job.save_s is None and done.evictions] == []


@settings(deadline=None, max_examples=60)
@given(jobs=workloads)
def test_with_the_whole_time_limit_it_adds_nothing_to_easy(jobs: list[SimJob]) -> None:
    record, _ = played(jobs, CkptBackfillConfig(p=1.0))
    plain = SimCluster(
        NODES, jobs, scheduler=SchedulerSettings(), storage=StorageSettings(), requeue_delay_s=20.0
    )
    plain.run()
    assert [done.start_s for done in record.jobs] == [
        done.start_s for done in plain.record(policy="none").jobs
    ]
    assert record.commands == {}


def test_a_job_starts_early_leaves_and_goes_on_from_its_checkpoint() -> None:
    """Job 2 starts before job 1, leaves for it when job 0 is over, and goes on where it was."""
    jobs = [
        SimJob("0", 0.0, 1000.0, 1000.0, 4, user="u", save_s=30.0),
        SimJob("1", 10.0, 500.0, 500.0, 8, user="u", save_s=30.0),
        SimJob("2", 20.0, 2000.0, 4000.0, 4, user="u", save_s=30.0, setup_s=5.0),
    ]
    record, _ = played(jobs, CkptBackfillConfig(p=0.2))
    starts = [(segment.job, segment.start_s, segment.end_s) for segment in record.segments]
    assert sorted(starts) == [
        (0, 0.0, 1000.0),
        (1, 1030.0, 1530.0),
        (2, 20.0, 1030.0),
        (2, 1530.0, 1530.0 + 2000.0 - 980.0 + 5.0),
    ]
    assert record.commands == {"reserve": 2, "checkpoint": 1, "requeue": 1, "prioritise": 1, "release": 2}
