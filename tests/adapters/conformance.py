"""What every adapter must do, whatever stands behind it: one suite, written against a small `World`.

A test module makes a class of its own out of `AdapterConformance` and gives it a fixture `world`: an empty
cluster of six or more nodes that are up, on which a requeued job is held back for a while.
"""

from collections.abc import Callable
from typing import Protocol

import pytest

from makeway.adapters.protocol import Adapter, AdapterError, Gone, Rejected, Unsupported
from makeway.policies.model import RESERVATION_PREFIX, VERBS, Cluster, Job, JobKind, JobState, NodeState
from tests import acts

LONG_S = 3600.0
HOLD = f"{RESERVATION_PREFIX}conformance"
needs = pytest.mark.needs
"""Which kinds of action a test needs; it is skipped where `capabilities.actions` lacks one."""


class World(Protocol):
    """A cluster that a test can fill with jobs and whose time it can let pass."""

    @property
    def adapter(self) -> Adapter:
        """What is tested."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of all nodes."""

    def submit(
        self,
        node_count: int,
        *,
        kind: JobKind = JobKind.RIGID,
        runtime_s: float = LONG_S,
        walltime_s: float = LONG_S,
        node_count_min: int | None = None,
        saves: bool = False,
    ) -> str:
        """Submit a job that lasts `runtime_s`, or until its time limit. Returns its id.

        `saves`: at a signal it checkpoints and acknowledges.
        """

    def wait(self, condition: Callable[[Cluster], bool], what: str) -> Cluster:
        """Let time pass until a snapshot fulfils the condition; return that one. Fails, naming `what`, if
        none does.
        """


def job_of(cluster: Cluster, job_id: str) -> Job:
    """The job of that id, which must be there."""
    return cluster.jobs_by_id()[job_id]


def runs(job_id: str) -> Callable[[Cluster], bool]:
    """Condition: the job runs."""
    return lambda cluster: (
        job_id in cluster.jobs_by_id() and job_of(cluster, job_id).state is JobState.RUNNING
    )


def waits(job_id: str) -> Callable[[Cluster], bool]:
    """Condition: the job is pending."""
    return lambda cluster: (
        job_id in cluster.jobs_by_id() and job_of(cluster, job_id).state is JobState.PENDING
    )


def over(job_id: str) -> Callable[[Cluster], bool]:
    """Condition: the job is gone."""
    return lambda cluster: job_id not in cluster.jobs_by_id()


def running(world: World, job_id: str) -> Job:
    """The job, once it runs."""
    return job_of(world.wait(runs(job_id), f"job {job_id} runs"), job_id)


def waiting(world: World, job_id: str) -> Job:
    """The job, seen in the queue."""
    return job_of(world.wait(waits(job_id), f"job {job_id} waits"), job_id)


def way_made(world: World, *, runtime_s: float = LONG_S, walltime_s: float = LONG_S / 2) -> Job:
    """An urgent job of two nodes that runs in its reservation on a machine that was full."""
    victim = running(world, world.submit(2))
    running(world, world.submit(len(world.nodes) - 2))
    urgent = world.submit(2, kind=JobKind.ON_DEMAND, runtime_s=runtime_s, walltime_s=walltime_s)
    waiting(world, urgent)
    world.adapter.apply(acts.reserve(HOLD, nodes=victim.nodes, duration_s=LONG_S, job_id=urgent))
    world.adapter.apply(acts.cancel(victim.job_id))
    return running(world, urgent)


class AdapterConformance:
    """The suite. Subclasses say what `world` is."""

    @pytest.fixture
    def world(self) -> World:
        """An empty cluster of six or more nodes."""
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _skip_what_this_cluster_cannot_do(self, request: pytest.FixtureRequest) -> None:
        marker = request.node.get_closest_marker("needs")
        if marker is None:
            return
        world: World = request.getfixturevalue("world")
        lacking = set(marker.args) - world.adapter.capabilities.actions
        if lacking:
            pytest.skip(f"{world.adapter.capabilities.name} does not support {', '.join(sorted(lacking))}")

    # The snapshot

    def test_snapshot_is_whole(self, world: World) -> None:
        rigid = running(world, world.submit(2))
        malleable = running(world, world.submit(3, kind=JobKind.MALLEABLE, node_count_min=1))
        third = world.submit(len(world.nodes))
        cluster = world.wait(waits(third), "the third job waits")
        assert tuple(node.name for node in cluster.nodes) == world.nodes
        assert {node.state for node in cluster.nodes} == {NodeState.UP}
        assert set(cluster.jobs_by_id()) == {rigid.job_id, malleable.job_id, third}
        assert len(cluster.free_nodes()) == len(world.nodes) - 5
        pending = job_of(cluster, third)
        assert (pending.node_count, pending.nodes, pending.start_s) == (len(world.nodes), (), None)
        assert (malleable.node_count_min, malleable.node_count_max) == (1, 3)
        for job, size in ((rigid, 2), (malleable, 3)):
            assert len(set(job.nodes)) == job.node_count == size
            assert job.start_s is not None
            assert job.submit_s <= job.start_s <= cluster.now_s
            assert job.walltime_s == LONG_S
            assert job.requeue_count == 0
            assert job.preemptible

    def test_urgent_jobs_are_told_from_others(self, world: World) -> None:
        urgent = running(world, world.submit(1, kind=JobKind.ON_DEMAND))
        assert urgent.kind is JobKind.ON_DEMAND
        assert not urgent.preemptible

    def test_capabilities_agree_with_the_snapshot(self, world: World) -> None:
        assert world.adapter.capabilities.name
        assert world.adapter.snapshot().actions == world.adapter.capabilities.actions

    # Making way

    @needs("requeue", "reserve")
    def test_the_bound_job_starts_on_exactly_the_nodes_that_were_held(self, world: World) -> None:
        """The rival asks for as many nodes, came first, and must not slip in."""
        victim = running(world, world.submit(2))
        running(world, world.submit(len(world.nodes) - 2))
        rival = world.submit(2)
        urgent = world.submit(2, kind=JobKind.ON_DEMAND, walltime_s=600.0)
        waiting(world, urgent)
        world.adapter.apply(acts.reserve(HOLD, nodes=victim.nodes, duration_s=LONG_S, job_id=urgent))
        held = world.wait(
            lambda cluster: job_of(cluster, urgent).reservation == HOLD, "the urgent job is bound"
        )
        (reservation,) = held.reservations
        assert reservation.by_makeway
        assert reservation.name == HOLD
        assert sorted(reservation.nodes) == sorted(victim.nodes)
        assert held.now_s < reservation.end_s <= held.now_s + LONG_S + 60
        assert job_of(held, victim.job_id).nodes == victim.nodes
        world.adapter.apply(acts.requeue(victim.job_id))
        cluster = world.wait(runs(urgent), "the urgent job runs")
        assert sorted(job_of(cluster, urgent).nodes) == sorted(victim.nodes)
        assert job_of(cluster, rival).state is JobState.PENDING

    @needs("reserve")
    def test_a_held_node_is_free_for_nobody_else(self, world: World) -> None:
        running(world, world.submit(len(world.nodes) - 2))
        urgent = world.submit(len(world.nodes) - 1, kind=JobKind.ON_DEMAND)
        free = world.wait(waits(urgent), "the urgent job waits").free_nodes()
        world.adapter.apply(acts.reserve(HOLD, nodes=free, duration_s=LONG_S, job_id=urgent))
        world.wait(lambda cluster: bool(cluster.reservations), "the reservation is there")
        rival = world.submit(1)
        cluster = world.wait(waits(rival), "the rival waits")
        assert cluster.free_nodes() == ()

    @needs("reserve")
    def test_a_hold_for_an_announced_job_is_there_before_the_job(self, world: World) -> None:
        rest = running(world, world.submit(len(world.nodes) - 2))
        free = world.adapter.snapshot().free_nodes()
        user = rest.user
        world.adapter.apply(
            acts.reserve(HOLD, nodes=(*free, rest.nodes[-1]), duration_s=LONG_S, job_id=None, user=user)
        )
        rival = world.submit(1)
        cluster = world.wait(waits(rival), "the rival waits")
        assert [set(kept.nodes) for kept in cluster.reservations] == [{*free, rest.nodes[-1]}]
        assert job_of(cluster, rest.job_id).state is JobState.RUNNING
        urgent = world.submit(2, kind=JobKind.ON_DEMAND, walltime_s=600.0)
        waiting(world, urgent)
        world.adapter.apply(acts.reserve(HOLD, nodes=free, duration_s=LONG_S, job_id=urgent))
        assert set(running(world, urgent).nodes) == set(free)

    @needs("release", "reserve")
    def test_held_nodes_are_lent_by_a_reservation_that_overlaps(self, world: World) -> None:
        rest = running(world, world.submit(len(world.nodes) - 2))
        free = world.adapter.snapshot().free_nodes()
        world.adapter.apply(acts.reserve(HOLD, nodes=free, duration_s=LONG_S, job_id=None, user=rest.user))
        guest = world.submit(1)
        waiting(world, guest)
        with pytest.raises(Rejected):
            world.adapter.apply(acts.reserve("mw_lent", nodes=free[-1:], duration_s=LONG_S, job_id=guest))
        world.adapter.apply(
            acts.reserve("mw_lent", nodes=free[-1:], duration_s=LONG_S, job_id=guest, overlap=True)
        )
        assert running(world, guest).nodes == free[-1:]
        world.adapter.apply(acts.release("mw_lent"))
        cluster = world.adapter.snapshot()
        assert [(kept.name, sorted(kept.nodes)) for kept in cluster.reservations] == [(HOLD, sorted(free))]
        assert job_of(cluster, guest).nodes == free[-1:]

    @needs("reserve")
    def test_reserving_again_changes_the_nodes(self, world: World) -> None:
        first = running(world, world.submit(2))
        second = running(world, world.submit(len(world.nodes) - 2))
        urgent = world.submit(2, kind=JobKind.ON_DEMAND, walltime_s=600.0)
        waiting(world, urgent)
        world.adapter.apply(acts.reserve(HOLD, nodes=first.nodes, duration_s=LONG_S, job_id=urgent))
        nodes = second.nodes[-2:]
        world.adapter.apply(acts.reserve(HOLD, nodes=nodes, duration_s=2 * LONG_S, job_id=urgent))
        cluster = world.wait(
            lambda cluster: (
                [sorted(reservation.nodes) for reservation in cluster.reservations] == [sorted(nodes)]
            ),
            "the reservation has the new nodes",
        )
        assert cluster.reservations[0].end_s > cluster.now_s + LONG_S
        assert job_of(cluster, urgent).reservation == HOLD

    @needs("requeue")
    def test_requeue_frees_the_nodes_and_holds_the_job_back(self, world: World) -> None:
        job = running(world, world.submit(len(world.nodes)))
        world.adapter.apply(acts.requeue(job.job_id))
        cluster = world.wait(waits(job.job_id), "the job waits again")
        again = job_of(cluster, job.job_id)
        assert again.requeue_count == job.requeue_count + 1
        assert (again.nodes, again.start_s) == ((), None)
        assert again.eligible_s is not None
        assert again.eligible_s > cluster.now_s
        assert again.node_count == len(world.nodes)
        other = running(world, world.submit(1))
        assert other.nodes[0] in world.nodes

    @needs("checkpoint")
    def test_a_signal_starts_a_checkpoint(self, world: World) -> None:
        job = running(world, world.submit(2, saves=True))
        assert job.checkpoint is not None
        assert job.last_checkpoint_s is None
        before_s = world.adapter.snapshot().now_s
        world.adapter.apply(acts.checkpoint(job.job_id, signal=job.checkpoint.signal, walltime_s=2 * LONG_S))
        cluster = world.wait(
            lambda cluster: job_of(cluster, job.job_id).last_checkpoint_s is not None, "it acknowledges"
        )
        after = job_of(cluster, job.job_id)
        assert after.last_checkpoint_s is not None
        assert before_s - 1 <= after.last_checkpoint_s <= cluster.now_s + 1
        assert (after.nodes, after.state) == (job.nodes, JobState.RUNNING)
        assert after.walltime_s == 2 * LONG_S

    # Shrinking and growing

    @needs("shrink")
    def test_shrink_keeps_the_batch_host_and_the_named_nodes(self, world: World) -> None:
        job = running(world, world.submit(5, kind=JobKind.MALLEABLE, node_count_min=2))
        keep = (job.nodes[0], job.nodes[2], job.nodes[4])
        world.adapter.apply(acts.shrink(job.job_id, keep_nodes=keep, walltime_s=2 * LONG_S))
        cluster = world.wait(
            lambda cluster: job_of(cluster, job.job_id).node_count == 3, "the job has three nodes"
        )
        after = job_of(cluster, job.job_id)
        assert after.nodes[0] == job.nodes[0]
        assert sorted(after.nodes) == sorted(keep)
        assert (after.state, after.requeue_count) == (JobState.RUNNING, 0)
        assert after.walltime_s == 2 * LONG_S
        assert {job.nodes[1], job.nodes[3]} <= set(cluster.free_nodes())
        assert after.node_count_max == 5

    @needs("shrink")
    def test_a_time_limit_never_falls(self, world: World) -> None:
        job = running(world, world.submit(3, kind=JobKind.MALLEABLE, node_count_min=1))
        world.adapter.apply(acts.shrink(job.job_id, keep_nodes=job.nodes[:1], walltime_s=LONG_S / 2))
        cluster = world.wait(
            lambda cluster: job_of(cluster, job.job_id).node_count == 1, "the job has one node"
        )
        assert job_of(cluster, job.job_id).walltime_s == LONG_S

    @needs("shrink")
    def test_a_wrong_shrink_is_rejected(self, world: World) -> None:
        job = running(world, world.submit(3, kind=JobKind.MALLEABLE, node_count_min=1))
        foreign = next(name for name in world.nodes if name not in job.nodes)
        for keep in (job.nodes[1:], (job.nodes[0], foreign)):
            with pytest.raises(Rejected):
                world.adapter.apply(acts.shrink(job.job_id, keep_nodes=keep, walltime_s=LONG_S))
        assert job_of(world.adapter.snapshot(), job.job_id).nodes == job.nodes

    @needs("expand", "shrink")
    def test_growing_back(self, world: World) -> None:
        job = running(world, world.submit(4, kind=JobKind.MALLEABLE, node_count_min=2))
        world.adapter.apply(acts.shrink(job.job_id, keep_nodes=job.nodes[:2], walltime_s=2 * LONG_S))
        world.wait(lambda cluster: job_of(cluster, job.job_id).node_count == 2, "the job has two nodes")
        world.adapter.apply(acts.expand(job.job_id, nodes=job.nodes[2:], reservation=None))
        cluster = world.wait(
            lambda cluster: job_of(cluster, job.job_id).node_count == 4, "the job has its nodes again"
        )
        after = job_of(cluster, job.job_id)
        assert after.nodes[0] == job.nodes[0]
        assert sorted(after.nodes) == sorted(job.nodes)
        assert after.requeue_count == 0

    @needs("expand", "reserve", "shrink")
    def test_growing_into_the_nodes_of_a_reservation(self, world: World) -> None:
        """The lender gets its nodes back before anybody else can start on them, or the cluster cannot grow
        jobs at all.
        """
        lender = running(world, world.submit(len(world.nodes), kind=JobKind.MALLEABLE, node_count_min=2))
        lent = lender.nodes[2:]
        urgent = world.submit(len(lent), kind=JobKind.ON_DEMAND, runtime_s=30.0, walltime_s=600.0)
        waiting(world, urgent)
        world.adapter.apply(acts.reserve(HOLD, nodes=lent, duration_s=LONG_S, job_id=urgent))
        world.adapter.apply(acts.shrink(lender.job_id, keep_nodes=lender.nodes[:2], walltime_s=2 * LONG_S))
        world.wait(runs(urgent), "the urgent job runs")
        rival = world.submit(1)
        world.wait(over(urgent), "the urgent job is over")
        world.adapter.apply(acts.expand(lender.job_id, nodes=lent, reservation=HOLD))
        cluster = world.wait(
            lambda cluster: job_of(cluster, lender.job_id).node_count == len(world.nodes),
            "the lender has its nodes again",
        )
        assert job_of(cluster, rival).state is JobState.PENDING

    # Giving back

    @needs("cancel", "release", "reserve")
    def test_release_sends_the_waiting_job_back_to_the_common_queue(self, world: World) -> None:
        victim = running(world, world.submit(2))
        running(world, world.submit(len(world.nodes) - 2))
        urgent = world.submit(1, kind=JobKind.ON_DEMAND, walltime_s=600.0)
        waiting(world, urgent)
        world.adapter.apply(acts.reserve(HOLD, nodes=victim.nodes[:1], duration_s=LONG_S, job_id=urgent))
        world.adapter.apply(acts.release(HOLD))
        cluster = world.wait(lambda cluster: not cluster.reservations, "the reservation is gone")
        assert job_of(cluster, urgent).reservation is None
        world.adapter.apply(acts.cancel(victim.job_id))
        assert running(world, urgent).nodes[0] in victim.nodes

    @needs("cancel", "release", "reserve")
    def test_release_lets_the_running_job_run_on(self, world: World) -> None:
        urgent = way_made(world)
        world.adapter.apply(acts.release(HOLD))
        cluster = world.wait(lambda cluster: not cluster.reservations, "the reservation is gone")
        after = job_of(cluster, urgent.job_id)
        assert (after.state, after.nodes, after.start_s) == (JobState.RUNNING, urgent.nodes, urgent.start_s)
        assert after.reservation is None
        other = world.submit(1, kind=JobKind.ON_DEMAND, walltime_s=600.0)
        waiting(world, other)
        world.adapter.apply(acts.reserve(HOLD, nodes=urgent.nodes[:1], duration_s=LONG_S, job_id=other))
        world.adapter.apply(acts.release(HOLD))

    @needs("cancel", "release", "reserve")
    def test_release_after_the_end_of_the_job(self, world: World) -> None:
        urgent = way_made(world, runtime_s=20.0)
        rival = world.submit(1)
        cluster = world.wait(over(urgent.job_id), "the urgent job is over")
        assert job_of(cluster, rival).state is JobState.PENDING
        world.adapter.apply(acts.release(HOLD))
        assert running(world, rival).nodes[0] in urgent.nodes
        with pytest.raises(Gone):
            world.adapter.apply(acts.release(HOLD))

    @needs("cancel", "prioritise")
    def test_prioritise_moves_a_job_to_the_front(self, world: World) -> None:
        blocker = running(world, world.submit(len(world.nodes)))
        first, second = world.submit(len(world.nodes)), world.submit(len(world.nodes))
        waiting(world, second)
        world.adapter.apply(acts.prioritise(second))
        world.adapter.apply(acts.cancel(blocker.job_id))
        running(world, second)
        assert job_of(world.adapter.snapshot(), first).state is JobState.PENDING

    @needs("cancel", "prioritise")
    def test_places_of_a_planned_order_follow_the_front_and_pass_the_common_queue(self, world: World) -> None:
        count = len(world.nodes)
        blocker = running(world, world.submit(count))
        common, late, soon, front = (world.submit(count) for _ in range(4))
        waiting(world, front)
        world.adapter.apply(acts.prioritise(late, queue_position=2048))
        world.adapter.apply(acts.prioritise(soon, queue_position=1024))
        world.adapter.apply(acts.prioritise(front))
        seen = {job.job_id: job.queue_position for job in world.adapter.snapshot().jobs}
        assert [seen[job_id] for job_id in (common, late, soon, front)] == [None, 2048, 1024, None]
        world.adapter.apply(acts.cancel(blocker.job_id))
        for job_id in (front, soon, late, common):
            running(world, job_id)
            world.adapter.apply(acts.cancel(job_id))

    @needs("prioritise", "requeue")
    def test_prioritise_lifts_the_requeue_delay(self, world: World) -> None:
        job = running(world, world.submit(2))
        world.adapter.apply(acts.requeue(job.job_id))
        held_back = waiting(world, job.job_id)
        assert held_back.eligible_s is not None
        world.adapter.apply(acts.prioritise(job.job_id))
        again = running(world, job.job_id)
        assert again.start_s is not None
        assert again.start_s < held_back.eligible_s

    @needs("cancel", "requeue")
    def test_a_requeue_is_repeated_for_the_same_run_alone(self, world: World) -> None:
        job = running(world, world.submit(2))
        world.adapter.apply(acts.requeue(job.job_id, forgotten_run=job.requeue_count))
        again = waiting(world, job.job_id)
        assert again.requeue_count == job.requeue_count + 1
        world.adapter.apply(acts.cancel(job.job_id))
        world.wait(over(job.job_id), "the job is gone")
        with pytest.raises(Gone):
            world.adapter.apply(acts.requeue(job.job_id, forgotten_run=job.requeue_count))

    @needs("cancel", "prioritise", "restore_priority")
    def test_a_job_that_started_from_the_front_gets_its_own_priority_back(self, world: World) -> None:
        blocker = running(world, world.submit(len(world.nodes)))
        job_id = world.submit(len(world.nodes))
        waiting(world, job_id)
        with pytest.raises(Gone):
            world.adapter.apply(acts.restore_priority(job_id))
        world.adapter.apply(acts.prioritise(job_id))
        assert job_of(world.adapter.snapshot(), job_id).prioritised
        world.adapter.apply(acts.cancel(blocker.job_id))
        running(world, job_id)
        world.adapter.apply(acts.restore_priority(job_id))
        assert not job_of(world.adapter.snapshot(), job_id).prioritised

    @needs("prioritise", "restore_priority")
    def test_a_job_that_waits_in_a_place_goes_back_to_where_it_stood(self, world: World) -> None:
        running(world, world.submit(len(world.nodes)))
        first, second = (world.submit(len(world.nodes)) for _ in range(2))
        waiting(world, second)
        world.adapter.apply(acts.prioritise(second, queue_position=3))
        assert job_of(world.adapter.snapshot(), second).queue_position == 3
        world.adapter.apply(acts.restore_priority(second))
        seen = world.adapter.snapshot()
        assert job_of(seen, second).queue_position is None
        assert not job_of(seen, second).prioritised
        if seen.recomputes_priority:
            assert job_of(seen, first).priority == job_of(seen, second).priority

    # What is over, and what is refused

    def test_a_job_that_is_over_is_gone_for_every_verb(self, world: World) -> None:
        job_id = world.submit(1, runtime_s=1.0)
        world.wait(over(job_id), "the job is over")
        nodes = world.nodes[:1]
        adapter = world.adapter
        actions = (
            acts.checkpoint(job_id, signal="USR1", walltime_s=0.0),
            acts.requeue(job_id),
            acts.cancel(job_id),
            acts.shrink(job_id, keep_nodes=nodes, walltime_s=LONG_S),
            acts.reserve(HOLD, nodes=nodes, duration_s=LONG_S, job_id=job_id),
            acts.prioritise(job_id),
            acts.restore_priority(job_id),
        )
        for action in actions:
            if action.verb in adapter.capabilities.actions:
                with pytest.raises(Gone):
                    adapter.apply(action)
            assert not adapter.snapshot().reservations, action.verb

    def test_an_action_that_the_cluster_cannot_do_is_unsupported(self, world: World) -> None:
        job = running(world, world.submit(2, kind=JobKind.MALLEABLE, node_count_min=1))
        waits_for = world.submit(len(world.nodes))
        waiting(world, waits_for)
        actions = (
            acts.checkpoint(job.job_id, signal="USR1", walltime_s=LONG_S),
            acts.requeue(job.job_id),
            acts.cancel(job.job_id),
            acts.shrink(job.job_id, keep_nodes=job.nodes[:1], walltime_s=LONG_S),
            acts.expand(job.job_id, nodes=world.nodes[-1:], reservation=None),
            acts.reserve(HOLD, nodes=world.nodes[-1:], duration_s=LONG_S, job_id=waits_for),
            acts.release(HOLD),
            acts.prioritise(waits_for),
            acts.restore_priority(waits_for),
        )
        assert {action.verb for action in actions} == VERBS
        for action in actions:
            if action.verb not in world.adapter.capabilities.actions:
                with pytest.raises(Unsupported):
                    world.adapter.apply(action)
        assert running(world, job.job_id) == job

    @needs("checkpoint", "requeue", "shrink")
    def test_verbs_for_running_jobs_find_a_pending_one_gone(self, world: World) -> None:
        running(world, world.submit(len(world.nodes)))
        job_id = world.submit(1, kind=JobKind.MALLEABLE)
        waiting(world, job_id)
        for action in (
            acts.requeue(job_id),
            acts.checkpoint(job_id, signal="USR1", walltime_s=0.0),
            acts.shrink(job_id, keep_nodes=world.nodes[:1], walltime_s=LONG_S),
        ):
            with pytest.raises(Gone):
                world.adapter.apply(action)

    @needs("prioritise", "reserve")
    def test_verbs_for_pending_jobs_find_a_running_one_gone(self, world: World) -> None:
        job = running(world, world.submit(1))
        with pytest.raises(Gone):
            world.adapter.apply(acts.prioritise(job.job_id))
        with pytest.raises(Gone):
            world.adapter.apply(acts.reserve(HOLD, nodes=job.nodes, duration_s=LONG_S, job_id=job.job_id))
        assert not world.adapter.snapshot().reservations

    @needs("cancel")
    def test_cancel_ends_a_job_wherever_it_is(self, world: World) -> None:
        running_job = running(world, world.submit(len(world.nodes)))
        pending = world.submit(1)
        waiting(world, pending)
        world.adapter.apply(acts.cancel(pending))
        world.wait(over(pending), "the pending job is gone")
        world.adapter.apply(acts.cancel(running_job.job_id))
        cluster = world.wait(over(running_job.job_id), "the running job is gone")
        assert len(cluster.free_nodes()) == len(world.nodes)

    @needs("reserve")
    def test_a_node_that_is_not_there_is_refused(self, world: World) -> None:
        running(world, world.submit(len(world.nodes)))
        urgent = world.submit(1, kind=JobKind.ON_DEMAND)
        waiting(world, urgent)
        with pytest.raises(AdapterError):
            world.adapter.apply(acts.reserve(HOLD, nodes=("no-such-node",), duration_s=LONG_S, job_id=urgent))
        assert not world.adapter.snapshot().reservations
