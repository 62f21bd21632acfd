"""Policy "horizon" on whole workloads: horizon after horizon, no job is left behind, and two runs go
alike.
"""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.daemon.control.report import CycleReport
from makeway.daemon.journal.store import Journal
from makeway.policies.horizon.plan import AcceptanceCurve
from makeway.policies.horizon.policy import HORIZON, HorizonConfig
from makeway.policies.model import Plan
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.records import ReplayRecord
from makeway.simharness.engine.scheduler import SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.run.replay import Replay, ReplaySettings
from makeway.simharness.workloads.job import SimJob

NODES = 6
CONFIG = HorizonConfig(curve=AcceptanceCurve.LOWER, work=0.02, moves_per_cycle=3)


def workload(seed: int) -> list[SimJob]:
    """Thirty jobs of minutes to hours that come faster than the machine can serve them."""
    draw = Random(seed)
    jobs = []
    submit_s = 0.0
    for index in range(30):
        submit_s += draw.choice([0, 0, 60, 300, 1200])
        runtime_s = draw.choice([60.0, 600.0, 3600.0, 20_000.0])
        size = draw.choice([1, 1, 2, 3, 4, NODES])
        jobs.append(
            SimJob(str(index), submit_s, runtime_s, runtime_s * draw.choice([1, 1, 3]), size, user="u")
        )
    return jobs


class Watch:
    """Sees every plan that is made, and who had started by then."""

    def __init__(self, cluster: SimCluster, journal: Journal) -> None:
        self.machine = cluster.machine
        self.journal = journal
        self.plans: list[Plan] = []

    def look(self, report: CycleReport) -> None:
        """After each cycle."""
        plan = self.journal.plan()
        if plan is None or plan in self.plans:
            return
        waiting = {job_id for job_id, live in self.machine.live.items() if not live.nodes}
        if self.plans:
            assert waiting.isdisjoint(self.plans[-1].order), "a horizon begins when the last plan is done"
        assert plan.made_s == report.at_s
        assert plan.bound <= plan.value <= plan.easy_value
        self.plans.append(plan)


def replayed(jobs: list[SimJob]) -> tuple[ReplayRecord, list[Plan]]:
    cluster = SimCluster(
        NODES,
        jobs,
        scheduler=SchedulerSettings(),
        storage=StorageSettings(),
        requeue_delay_s=60.0,
        check=True,
    )
    journal = Journal(None)
    watch = Watch(cluster, journal)
    record = Replay(cluster, HORIZON, CONFIG, ReplaySettings(), journal=journal, on_cycle=watch.look).run()
    return record, watch.plans


@settings(deadline=None, max_examples=12)
@given(seed=st.integers(0, 10**9))
def test_every_job_is_planned_once_at_the_most_and_done_in_the_end(seed: int) -> None:
    record, plans = replayed(workload(seed))
    assert all(one.end_s is not None and one.evictions == 0 for one in record.jobs)
    planned = [job_id for plan in plans for job_id in plan.order]
    assert len(planned) == len(set(planned))
    assert set(record.commands) <= {"prioritise"}


def test_two_runs_go_alike_and_otherwise_than_without_makeway() -> None:
    jobs = workload(2)
    first, plans = replayed(jobs)
    again, same = replayed(jobs)
    assert plans == same
    assert [one.start_s for one in first.jobs] == [one.start_s for one in again.jobs]
    assert first.commands["prioritise"] >= len(plans) > 1
