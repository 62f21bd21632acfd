"""The whole daemon on the simulated cluster: nothing is taken for a job that cannot start or is late."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from makeway.adapters.protocol import Unavailable
from makeway.daemon.journal.store import Journal
from makeway.policies.model import Action, Cluster, JobKind, Phase, Reserve
from makeway.policies.registry import find
from makeway.simharness.engine.adapter import SimAdapter
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.scheduler import Backfill, SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.run.replay import Replay, ReplaySettings
from makeway.simharness.workloads.job import SimJob

ARRIVES_S = 3600.0
LONG_S = 40_000.0


def batch(job_id: str, node_count: int, **more: Any) -> SimJob:
    return SimJob(job_id, 0.0, LONG_S, 2 * LONG_S, node_count, user="batch", **more)


def urgent(job_id: str, node_count: int, submit_s: float = ARRIVES_S) -> SimJob:
    return SimJob(
        job_id, submit_s, 900.0, 1200.0, node_count, user="beam", kind=JobKind.ON_DEMAND, start_within_s=600.0
    )


SAVING = [batch(str(number), 2, save_s=60.0) for number in range(1, 5)]
KILLED = [batch(str(number), 2) for number in range(1, 5)]


class SilentAdapter(SimAdapter):
    """Does not answer for `silence_s` after the first hold, and does `at_first_hold` when it is made."""

    silence_s = 0.0
    at_first_hold: Callable[[], None] | None = None
    _until_s = 0.0

    def snapshot(self) -> Cluster:
        cluster = super().snapshot()
        if cluster.now_s < self._until_s:
            raise Unavailable("no answer")
        return cluster

    def apply(self, action: Action) -> None:
        super().apply(action)
        if isinstance(action, Reserve) and not self._until_s:
            self._until_s = self.calls[-1].at_s + self.silence_s
            if self.at_first_hold is not None:
                self.at_first_hold()


@dataclass
class World:
    """Eight full nodes, and the daemon."""

    jobs: list[SimJob]
    policy: str = "eviction"
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    silence_s: float = 0.0

    def __post_init__(self) -> None:
        self.cluster = SimCluster(
            8,
            self.jobs,
            scheduler=SchedulerSettings(backfill=Backfill.EASY),
            storage=StorageSettings(),
            check=True,
        )
        policy = find(self.policy)
        self.adapter = SilentAdapter(self.cluster)
        self.adapter.silence_s = self.silence_s
        self.replay = Replay(
            self.cluster,
            policy,
            policy.config_type(**self.settings),
            ReplaySettings(poll_interval_s=10.0),
            adapter=self.adapter,
            journal=Journal(None),
        )

    def at(self, at_s: float, call: Callable[[], None]) -> None:
        """Let something happen at that instant."""
        self.cluster.call_at(at_s, call)

    def until(self, until_s: float) -> None:
        """Let the daemon run until that instant."""
        self.at(until_s, lambda: None)
        while self.cluster.now_s < until_s:
            self.replay.step()

    def taken(self) -> list[tuple[str, str]]:
        """The commands that took something from a job, with the job."""
        verbs = ("checkpoint", "requeue", "cancel", "shrink")
        return [(call.verb, call.action.job_id) for call in self.adapter.calls if call.verb in verbs]

    def requeued(self) -> list[str]:
        return [job_id for verb, job_id in self.taken() if verb == "requeue"]

    def held_nodes(self) -> list[int]:
        """The nodes of the only hold, by number."""
        (hold,) = self.cluster.machine.holds.values()
        return [node for node in range(8) if hold.nodes >> node & 1]

    def first_s(self, verb: str) -> float:
        """When the first such command was sent."""
        return next(call.at_s for call in self.adapter.calls if call.verb == verb)

    def runs(self, job_id: str) -> bool:
        live = self.cluster.machine.live.get(job_id)
        return live is not None and bool(live.nodes)

    def nothing_is_held(self) -> bool:
        over = all(one.phase is Phase.CLOSED for one in self.replay.journal.open_operations())
        return over and not self.cluster.machine.holds


def test_an_urgent_job_that_its_owner_holds_after_the_signal_takes_no_job() -> None:
    world = World([*SAVING, urgent("u", 2)])
    world.at(ARRIVES_S + 20.0, lambda: world.cluster.admission.hold("u"))
    world.until(ARRIVES_S + 1500.0)
    assert [verb for verb, _ in world.taken()] == ["checkpoint"]
    assert world.nothing_is_held()
    assert all(world.runs(job.job_id) for job in SAVING)


def test_it_is_served_once_it_is_released() -> None:
    world = World([*SAVING, urgent("u", 2)])
    world.at(ARRIVES_S + 20.0, lambda: world.cluster.admission.hold("u"))
    world.at(ARRIVES_S + 200.0, lambda: world.cluster.admission.release("u"))
    world.until(ARRIVES_S + 580.0)
    assert world.runs("u")
    assert len(world.requeued()) == 1
    world.until(ARRIVES_S + 3000.0)
    assert world.nothing_is_held()
    assert all(world.runs(job.job_id) for job in SAVING)


def test_the_time_that_an_urgent_job_has_begins_when_it_is_released() -> None:
    """Its limit was over long before: for a late job no work would be lost."""
    world = World([*KILLED, urgent("u", 2)])
    world.at(ARRIVES_S, lambda: world.cluster.admission.hold("u"))
    world.at(ARRIVES_S + 5000.0, lambda: world.cluster.admission.release("u"))
    world.until(ARRIVES_S + 4990.0)
    assert world.taken() == []
    world.until(ARRIVES_S + 5590.0)
    assert world.runs("u")
    assert len(world.requeued()) == 1


def test_a_lender_is_back_at_once_if_the_urgent_job_is_held_after_the_requeue() -> None:
    killed, saving = batch("killed", 4), batch("saving", 4, save_s=60.0)
    world = World([killed, saving, urgent("u", 8)])
    world.at(ARRIVES_S + 20.0, lambda: world.cluster.admission.hold("u"))
    world.until(ARRIVES_S + 15.0)
    assert world.taken() == [("requeue", "killed"), ("checkpoint", "saving")]
    world.until(ARRIVES_S + 60.0)
    assert world.runs("killed")
    world.until(ARRIVES_S + 1000.0)
    assert world.requeued() == ["killed"]
    assert world.nothing_is_held()


def test_of_several_urgent_jobs_under_a_limit_only_as_many_are_served_as_may_run() -> None:
    world = World([*KILLED, *[urgent(f"u{number}", 2) for number in range(4)]])
    world.cluster.admission.limit("beam", 1)
    world.until(ARRIVES_S + 590.0)
    assert len(world.requeued()) == 1
    assert world.runs("u0")


def test_the_next_one_is_served_when_the_first_has_ended() -> None:
    late = urgent("u1", 2, ARRIVES_S + 600.0)
    world = World([*KILLED, urgent("u0", 2), late])
    world.cluster.admission.limit("beam", 1)
    world.until(ARRIVES_S + 890.0)
    assert (world.runs("u0"), world.runs("u1"), len(world.requeued())) == (True, False, 1)
    world.until(ARRIVES_S + 1190.0)
    assert world.runs("u1")


def test_nobody_leaves_a_node_that_was_drained() -> None:
    """Every job that leaves does so for nodes that the urgent job gets."""
    world = World([*SAVING, urgent("u", 2)])

    def drain() -> None:
        for node in world.held_nodes():
            world.cluster.drain(node)

    world.at(ARRIVES_S + 20.0, drain)
    world.until(ARRIVES_S + 590.0)
    assert world.runs("u")
    assert len(world.requeued()) == 1


@pytest.mark.parametrize("policy", ["eviction", "least-price"])
@pytest.mark.parametrize("jobs", [SAVING, KILLED], ids=["saving", "killed"])
def test_one_job_leaves_if_a_node_is_drained_before_any_was_asked(jobs: list[SimJob], policy: str) -> None:
    """What the hold has left is no reason to make two jobs leave where one suffices."""
    world = World([*jobs, urgent("u", 2)], policy=policy)
    world.adapter.at_first_hold = lambda: world.cluster.drain(world.held_nodes()[0])
    world.until(ARRIVES_S + 590.0)
    assert world.runs("u")
    assert len({job_id for _, job_id in world.taken()}) == 1


def test_an_urgent_job_whose_nodes_are_all_drained_gives_back() -> None:
    world = World([*SAVING, urgent("u", 8)])
    world.at(ARRIVES_S + 20.0, lambda: world.cluster.drain(0))
    world.until(ARRIVES_S + 1500.0)
    assert world.requeued() == []
    assert world.nothing_is_held()
    assert all(world.runs(job.job_id) for job in SAVING)


def test_a_job_that_is_signalled_late_has_its_time_to_save_all_the_same() -> None:
    """The plan leaves it 420 s, of which 110 s are over at the signal, and it needs 330 s."""
    hurried = replace(urgent("u", 2), start_within_s=450.0)
    world = World([batch("1", 8, save_s=330.0), hurried], silence_s=110.0)
    world.until(ARRIVES_S + 450.0)
    assert world.first_s("checkpoint") >= ARRIVES_S + 110.0
    assert world.first_s("requeue") - world.first_s("checkpoint") == pytest.approx(330.0, abs=10.0)
    assert world.runs("u")


def test_after_a_silence_that_leaves_time_a_job_saves_before_it_leaves() -> None:
    world = World([*SAVING, urgent("u", 2)], silence_s=300.0)
    world.until(ARRIVES_S + 590.0)
    assert world.runs("u")
    assert world.first_s("requeue") - world.first_s("checkpoint") == pytest.approx(60.0, abs=10.0)


@pytest.mark.parametrize("jobs", [SAVING, KILLED], ids=["saving", "killed"])
def test_after_a_silence_beyond_the_deadline_nothing_is_taken(jobs: list[SimJob]) -> None:
    world = World([*jobs, urgent("u", 2)], silence_s=900.0)
    world.until(ARRIVES_S + 2000.0)
    assert world.taken() == []
    assert world.nothing_is_held()


def test_a_job_leaves_at_its_regular_checkpoint_and_loses_nothing() -> None:
    """Between two polls. Another urgent job comes shortly before: its cycle makes the next poll no later."""
    saves = batch("1", 4, checkpoint_interval_s=1900.0, checkpoint_cost_s=32.5)
    world = World([saves, batch("2", 4), urgent("u", 4), urgent("v", 8, ARRIVES_S + 259.0)])
    world.until(ARRIVES_S + 580.0)
    assert world.first_s("requeue") == pytest.approx(2 * 1932.5, abs=1e-3)
    assert world.requeued() == ["1"]
    assert world.replay.record().jobs[0].lost_node_s == pytest.approx(0.0)


def test_an_urgent_job_that_cannot_be_served_is_not_moved_to_the_front() -> None:
    world = World([*KILLED, urgent("u", 8)])
    world.cluster.drain(0)
    world.until(ARRIVES_S + 1500.0)
    assert "prioritise" not in {call.verb for call in world.adapter.calls}
    world.cluster.resume(0)
    world.until(ARRIVES_S + 1600.0)
    assert ("prioritise", "u") in {(call.verb, call.action.job_id) for call in world.adapter.calls}
