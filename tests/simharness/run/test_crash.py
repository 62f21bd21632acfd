"""A daemon that is killed at any moment, and started again, finishes what it began.

A journal write is the only thing that a death can come between: every command is sent between two of them.
The test replays one small story for every write, kills the daemon before or after that write reaches the
disk, starts a new one on the same file, and looks at what the cluster was asked to do in all. A death
before a write is the same as one after the write before it if the daemon read and sent nothing in between:
one of the two is enough.
"""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.daemon.journal.store import Journal
from makeway.policies.model import JobKind
from makeway.policies.registry import find
from makeway.simharness.engine.adapter import SimAdapter
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.faults import NO_FAULTS, Fault, FaultKind, FaultPlan
from makeway.simharness.engine.scheduler import Backfill, SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.run.replay import Replay, ReplaySettings
from makeway.simharness.workloads.job import SimJob

LOUD = [FaultKind.NO_ANSWER, FaultKind.LOST_ANSWER, FaultKind.LATE_ANSWER, FaultKind.REFUSED]
"""Faults of the way to the cluster; no job ends by them."""


MEMORY = Path("/dev/shm")
START_WITHIN_S = 600.0
"""An urgent job that starts so long after its submission is on time."""
POLL_S = 20.0
"""With shorter intervals there are more cycles, and not more writes."""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder in memory where there is one: a process that dies leaves its files there as it does on
    a disk.
    """
    with TemporaryDirectory(prefix="makeway-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as name:
        yield Path(name)


class Killed(BaseException):
    """The daemon's death: nothing that handles errors may see it."""


Moment = tuple[int, int, int]
"""How many steps of the replay, snapshots and commands there were. Within a moment no cluster changes."""


class MortalJournal(Journal):
    """A journal that dies at its write number `cut`, just before or just after it is on the disk.

    Attributes:
        steps: how many steps of the replay have begun.
        writes: the moment of each write so far.
    """

    def __init__(self, path: Path, cut: int | None, adapter: SimAdapter, *, after: bool) -> None:
        self.steps = 0
        self.writes: list[Moment] = []
        self._adapter = adapter
        self._cut = cut
        self._after = after
        super().__init__(path)

    def _write(self, *statements: tuple[str, tuple[object, ...]]) -> int:
        self.writes.append((self.steps, self._adapter.snapshots, len(self._adapter.calls)))
        if len(self.writes) == self._cut and not self._after:
            raise Killed
        row_id = super()._write(*statements)
        if len(self.writes) == self._cut:
            raise Killed
        return row_id


def rigid(job_id: str, submit_s: float, node_count: int, runtime_s: float, **more: Any) -> SimJob:
    return SimJob(job_id, submit_s, runtime_s, 2 * runtime_s, node_count, user="batch", **more)


def urgent(job_id: str, submit_s: float, node_count: int) -> SimJob:
    return SimJob(
        job_id,
        submit_s,
        900.0,
        1200.0,
        node_count,
        user="beam",
        kind=JobKind.ON_DEMAND,
        start_within_s=START_WITHIN_S,
    )


def story() -> list[SimJob]:
    """Two urgent jobs on a full machine of eight nodes: one waits for a checkpoint, one shrinks or kills."""
    return [
        rigid("1", 0.0, 3, 9000.0, save_s=60.0),
        rigid("2", 0.0, 2, 9000.0, checkpoint_interval_s=600.0, checkpoint_cost_s=30.0, setup_s=20.0),
        SimJob(
            "3", 0.0, 9000.0, 18000.0, 3, user="m", kind=JobKind.MALLEABLE, node_count_min=1, save_s=120.0
        ),
        rigid("4", 100.0, 4, 3000.0),
        urgent("u1", 1800.0, 4),
        urgent("u2", 1815.0, 2),
        urgent("u3", 5000.0, 6),
    ]


def announced(job_id: str, submit_s: float, node_count: int, announced_s: float, expected_s: float) -> SimJob:
    return replace(urgent(job_id, submit_s, node_count), announced_s=announced_s, expected_s=expected_s)


def announced_story() -> list[SimJob]:
    """Three urgent jobs that were announced: one comes early, one late, and one so late that nothing is held
    for it.

    Job 6 passes the time on nodes that are held for them.
    """
    return [
        rigid("1", 0.0, 3, 9000.0, save_s=60.0),
        rigid("2", 0.0, 2, 9000.0, checkpoint_interval_s=600.0, checkpoint_cost_s=30.0, setup_s=20.0),
        SimJob(
            "3", 0.0, 9000.0, 18000.0, 2, user="m", kind=JobKind.MALLEABLE, node_count_min=1, save_s=120.0
        ),
        SimJob("4", 0.0, 2500.0, 2600.0, 1, user="batch"),
        rigid("5", 100.0, 1, 3000.0),
        SimJob("6", 200.0, 2000.0, 20000.0, 1, user="m", kind=JobKind.MALLEABLE, save_s=60.0),
        announced("u1", 3600.0, 4, 1800.0, 3300.0),
        announced("u2", 3000.0, 2, 2000.0, 3500.0),
        announced("u3", 9000.0, 3, 6000.0, 7000.0),
    ]


def early_story() -> list[SimJob]:
    """No urgent job: 2 starts before 1, which is first; 3 passes too, by itself. Both leave for 1 and
    resume.
    """
    return [
        rigid("0", 0.0, 6, 900.0, save_s=60.0),
        rigid("1", 30.0, 8, 600.0, save_s=60.0),
        rigid("2", 40.0, 1, 4000.0, save_s=60.0, setup_s=20.0),
        rigid("3", 50.0, 1, 3000.0, save_s=30.0),
        rigid("4", 60.0, 7, 600.0, save_s=60.0),
    ]


@dataclass(frozen=True)
class End:
    """What a replay came to."""

    starts: dict[str, float | None]
    completed: frozenset[str]
    operations: frozenset[str]
    twice: list[tuple[object, ...]]
    holds: int
    open_operations: int
    notices: int
    lost_node_s: float
    unsure: bool
    """Whether the death came between the record of a signal and its answer: such a signal is never repeated.
    """

    @property
    def late_s(self) -> float:
        """How much later a job may start than without a death: if the signal never came, makeway waits for
        the job until the urgent job's deadline.
        """
        return START_WITHIN_S if self.unsure else 90.0


def replay(
    folder: Path,
    policy: str,
    cut: int | None = None,
    *,
    after: bool = False,
    faults: FaultPlan = NO_FAULTS,
    jobs: list[SimJob] | None = None,
    watched: frozenset[str] = frozenset({"u1", "u2", "u3"}),
) -> tuple[End, list[Moment]]:
    """Replay the story, with a death if `cut` says so. Returns how it ended and the moments of the writes of
    the first life.
    """
    cluster = SimCluster(
        8,
        jobs if jobs is not None else story(),
        scheduler=SchedulerSettings(backfill=Backfill.EASY),
        storage=StorageSettings(aggregate_gb_s=10.0, node_gb_s=5.0),
        check=True,
    )
    adapter = SimAdapter(cluster, faults=faults)
    path = Path(mkdtemp(dir=folder)) / "journal.sqlite"
    first = MortalJournal(path, cut, adapter, after=after)
    chosen = find(policy)
    told = Replay(
        cluster,
        chosen,
        chosen.config_type(),
        ReplaySettings(poll_interval_s=POLL_S),
        adapter=adapter,
        journal=first,
    )
    alive = True
    while alive:
        first.steps += 1
        try:
            alive = told.step()
        except Killed:
            first.close()
            told.restart(Journal(path))
    end = _end(told, cluster, adapter, watched)
    told.journal.close()
    return end, first.writes


def deaths(writes: list[Moment]) -> Iterator[tuple[int, bool]]:
    """The different deaths, given the moments of the writes: at which write, and whether after it."""
    for cut in range(1, len(writes) + 1):
        if cut == 1 or writes[cut - 1] != writes[cut - 2]:
            yield cut, False
        yield cut, True


def _end(told: Replay, cluster: SimCluster, adapter: SimAdapter, watched: frozenset[str]) -> End:
    record = told.record()
    return End(
        starts={done.job.job_id: done.start_s for done in record.jobs if done.job.job_id in watched},
        completed=frozenset(done.job.job_id for done in record.jobs if done.end_s is not None),
        operations=frozenset(
            str(command.action.for_job_id)
            for command in told.journal.commands()
            if command.action.verb == "reserve"
        ),
        twice=_twice(adapter),
        holds=len(cluster.machine.holds),
        open_operations=len(told.journal.open_operations()),
        notices=len(told.journal.notices()),
        lost_node_s=sum(done.lost_node_s for done in record.jobs),
        unsure=any(
            command.action.verb == "checkpoint" and command.outcome is None
            for command in told.journal.commands()
        ),
    )


def _twice(adapter: SimAdapter) -> list[tuple[object, ...]]:
    """Evictions and signals that reached the same run of a job more than once."""
    seen: Counter[tuple[object, ...]] = Counter()
    runs: Counter[object] = Counter()
    for call in adapter.calls:
        if not call.applied or call.verb not in {"checkpoint", "requeue", "cancel", "shrink"}:
            continue
        job_id = call.action.job_id
        seen[(call.verb, job_id, runs[job_id])] += 1
        if call.verb == "requeue":
            runs[job_id] += 1
    return [key for key, count in seen.items() if count > 1]


@pytest.mark.parametrize("policy", ["eviction", "n-paa", "n-spaa"])
def test_every_death_has_the_same_end(policy: str, folder: Path) -> None:
    undisturbed, writes = replay(folder, policy)
    assert undisturbed.operations == {"u1", "u2", "u3"}
    assert undisturbed.completed == {"1", "2", "3", "4", "u1", "u2", "u3"}
    assert (undisturbed.holds, undisturbed.open_operations, undisturbed.twice) == (0, 0, [])
    assert len(writes) > 20

    for cut, after in deaths(writes):
        end, _ = replay(folder, policy, cut, after=after)
        assert end.operations == undisturbed.operations, (cut, after)
        assert end.completed == undisturbed.completed, (cut, after)
        assert (end.holds, end.open_operations, end.twice) == (0, 0, []), (cut, after)
        for job_id, start_s in end.starts.items():
            before_s = undisturbed.starts[job_id]
            assert start_s is not None
            assert before_s is not None
            assert start_s <= before_s + end.late_s, (cut, after, job_id)


@pytest.mark.parametrize("policy", ["cua-spaa", "cup-paa"])
def test_every_death_with_announced_jobs_has_the_same_end(policy: str, folder: Path) -> None:
    every_job = frozenset(job.job_id for job in announced_story())
    undisturbed, writes = replay(folder, policy, jobs=announced_story())
    assert {"notice-u1", "notice-u3", "u1", "u2", "u3", "6"} <= undisturbed.operations
    assert undisturbed.completed == every_job
    nothing_left: tuple[object, ...] = (0, 0, 0, [])
    left = (undisturbed.holds, undisturbed.open_operations, undisturbed.notices, undisturbed.twice)
    assert left == nothing_left
    assert len(writes) > 40

    for cut, after in deaths(writes):
        end, _ = replay(folder, policy, cut, after=after, jobs=announced_story())
        assert end.completed == every_job, (cut, after)
        left = (end.holds, end.open_operations, end.notices, end.twice)
        assert left == nothing_left, (cut, after)
        for job_id, start_s in end.starts.items():
            before_s = undisturbed.starts[job_id]
            assert start_s is not None
            assert before_s is not None
            assert start_s <= before_s + end.late_s, (cut, after, job_id)


def test_every_death_in_the_midst_of_early_starts_has_the_same_end(
    folder: Path,
) -> None:
    """The first of the queue may wait longer for it; no job loses more than it does between a save and its
    requeue, but one that may have been asked to save and was not.
    """
    watched = frozenset({"1", "4"})
    undisturbed, writes = replay(folder, "ckpt-backfill", jobs=early_story(), watched=watched)
    assert undisturbed.operations == {"1", "2"}
    assert undisturbed.completed == {"0", "1", "2", "3", "4"}
    assert undisturbed.lost_node_s == 0.0
    assert (undisturbed.holds, undisturbed.open_operations, undisturbed.twice) == (0, 0, [])
    assert len(writes) > 20

    for cut, after in deaths(writes):
        end, _ = replay(folder, "ckpt-backfill", cut, after=after, jobs=early_story(), watched=watched)
        assert end.completed == undisturbed.completed, (cut, after)
        assert (end.holds, end.open_operations, end.twice) == (0, 0, []), (cut, after)
        if end.unsure:
            continue
        assert end.lost_node_s <= 30.0 * 2, (cut, after)
        for job_id, start_s in end.starts.items():
            before_s = undisturbed.starts[job_id]
            assert start_s is not None
            assert before_s is not None
            assert start_s <= before_s + 90.0, (cut, after, job_id)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    policy=st.sampled_from(["eviction", "n-paa", "n-spaa"]),
    cut=st.integers(1, 60),
    after=st.booleans(),
)
def test_faults_and_a_death_leave_nothing_behind(
    folder: Path, seed: int, policy: str, cut: int, after: bool
) -> None:
    faults = FaultPlan(seed=seed, rates=dict.fromkeys(LOUD, 0.06))
    end, _ = replay(folder, policy, cut, after=after, faults=faults)

    assert (end.holds, end.open_operations) == (0, 0)
    assert {"u1", "u2", "u3"} <= end.starts.keys()
    assert None not in end.starts.values()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    policy=st.sampled_from(["cua-paa", "cua-spaa", "cup-paa", "cup-spaa"]),
    cut=st.integers(1, 90),
    after=st.booleans(),
)
def test_faults_and_a_death_leave_no_announcement_behind(
    folder: Path, seed: int, policy: str, cut: int, after: bool
) -> None:
    faults = FaultPlan(seed=seed, rates=dict.fromkeys(LOUD, 0.06))
    end, _ = replay(folder, policy, cut, after=after, faults=faults, jobs=announced_story())

    assert (end.holds, end.open_operations, end.notices) == (0, 0, 0)
    assert {"u1", "u2", "u3"} <= end.starts.keys()
    assert None not in end.starts.values()


@pytest.mark.parametrize("verb", ["reserve", "checkpoint", "requeue", "prioritise", "release"])
@pytest.mark.parametrize("kind", LOUD)
def test_one_fault_of_each_kind_at_each_verb_is_survived(folder: Path, verb: str, kind: FaultKind) -> None:
    faults = FaultPlan(by_verb={(verb, 1): Fault(kind=kind, delay_s=15.0, retryable=True)})
    end, _ = replay(folder, "eviction", faults=faults)

    assert (end.holds, end.open_operations, end.twice) == (0, 0, [])
    assert end.completed == {"1", "2", "3", "4", "u1", "u2", "u3"}
