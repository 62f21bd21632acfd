"""Urgent jobs of a user that come soon after each other, on the nodes of one lender."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from makeway.daemon.config.mode import Mode
from makeway.daemon.control.permission import Permission
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import LoopSettings
from makeway.daemon.journal.store import Journal
from makeway.daemon.leader.pause import Pause
from makeway.daemon.operation.observation import Timeouts
from makeway.policies.model import CPU, Job, JobKind, Limits, NodeState, Resources
from makeway.policies.registry import find
from tests.builders import pending, running
from tests.daemon.control.arrays.array_cluster import LENDER, ArrayCluster

LINGER_S = 40.0
LINGERS = LoopSettings(mode=Mode.ACT, timeouts=Timeouts(linger_s=LINGER_S))
FIRST, SECOND = "11", "12"


class StreamCluster(ArrayCluster):
    """A user submits an urgent job of two nodes when the one before has ended."""

    def __init__(self, *others: Job) -> None:
        super().__init__(*others, tasks=())
        self.submit(FIRST)

    def submit(self, job_id: str, node_count: int = 2, user: str | None = None) -> None:
        job = pending(job_id, node_count, kind=JobKind.ON_DEMAND, submit_s=self.view.now_s)
        job = replace(job, user=job.user if user is None else user)
        self.view = replace(self.view, jobs=(*self.view.jobs, job))

    def count(self, verb: str) -> int:
        """How many commands of this kind the cluster was sent."""
        return sum(called == verb for called, _ in self.calls)


def daemon(slurm: StreamCluster, journal: Journal, settings: LoopSettings = LINGERS) -> Reconciler:
    policy = find("eviction")
    return Reconciler(
        slurm,
        journal,
        policy,
        policy.config_type(),
        settings,
        now=lambda: slurm.view.now_s,
        permission=Permission(pause=Pause(journal)),
    )


def goes_on(slurm: StreamCluster, loop: Reconciler, cycles: int = 6) -> None:
    for _ in range(cycles):
        loop.reconcile()
        slurm.settle()


def first_has_ended(settings: LoopSettings = LINGERS) -> tuple[StreamCluster, Journal, Reconciler]:
    """The first job has run in its hold and is gone; makeway has seen that."""
    slurm, journal = StreamCluster(), Journal(None)
    loop = daemon(slurm, journal, settings)
    goes_on(slurm, loop)
    assert slurm.runs(FIRST)
    slurm.end(FIRST)
    loop.reconcile()
    return slurm, journal, loop


@pytest.mark.parametrize("restarts", [False, True], ids=["one daemon", "a new daemon for each job"])
def test_a_stream_costs_one_eviction(restarts: bool) -> None:
    slurm, journal, loop = first_has_ended()
    for job_id in ("12", "13", "14"):
        slurm.settle(LINGER_S - 1.0)
        slurm.submit(job_id)
        loop = daemon(slurm, journal) if restarts else loop
        goes_on(slurm, loop)
        assert slurm.runs(job_id)
        assert not slurm.runs("v")
        slurm.end(job_id)
        loop.reconcile()
    slurm.settle(LINGER_S)
    goes_on(slurm, loop)
    assert slurm.runs("v")
    assert [slurm.count(verb) for verb in ("requeue", "prioritise", "release")] == [1, 1, 1]
    assert slurm.view.reservations == ()
    assert journal.open_operations() == ()


def test_without_it_each_job_of_the_stream_makes_a_job_leave() -> None:
    slurm, _, loop = first_has_ended(LoopSettings(mode=Mode.ACT, limits=Limits(min_progress_s=0.0)))
    assert slurm.count("prioritise") == 1
    goes_on(slurm, loop)
    assert slurm.runs("v")
    slurm.submit(SECOND)
    goes_on(slurm, loop)
    assert slurm.count("requeue") == 2


def test_a_job_that_comes_before_makeway_sees_the_end_follows() -> None:
    slurm, journal = StreamCluster(), Journal(None)
    loop = daemon(slurm, journal)
    goes_on(slurm, loop)
    slurm.end(FIRST)
    slurm.submit(SECOND)
    goes_on(slurm, loop)
    assert slurm.runs(SECOND)
    assert slurm.count("requeue") == 1


def test_a_job_that_waited_before_the_first_one_was_served_does_not_follow() -> None:
    """makeway decided then whether jobs leave for it."""
    slurm, _, loop = first_has_ended()
    slurm.submit(SECOND)
    slurm.put(replace(slurm.job(SECOND), submit_s=990.0))
    loop.reconcile()
    assert slurm.count("prioritise") == 1


def test_the_nodes_go_back_when_the_time_is_over() -> None:
    slurm, _, loop = first_has_ended()
    ended_s = slurm.view.now_s
    assert loop.wakeup_s(ended_s, 1000.0) == ended_s + LINGER_S
    slurm.settle(LINGER_S - 1.0)
    loop.reconcile()
    assert slurm.count("prioritise") == 0
    slurm.settle(1.0)
    loop.reconcile()
    assert slurm.count("prioritise") == 1
    goes_on(slurm, loop)
    assert slurm.runs("v")


def a_larger_one(slurm: StreamCluster) -> None:
    slurm.submit(SECOND, 3)


def a_smaller_one(slurm: StreamCluster) -> None:
    slurm.submit(SECOND, 1)


def one_of_another_user(slurm: StreamCluster) -> None:
    slurm.submit(SECOND, user="other")


def one_for_which_a_node_is_missing(slurm: StreamCluster) -> None:
    slurm.submit(SECOND)
    first, *others = slurm.view.nodes
    slurm.view = replace(slurm.view, nodes=(replace(first, state=NodeState.DOWN), *others))


@pytest.mark.parametrize(
    "comes", [a_larger_one, a_smaller_one, one_of_another_user, one_for_which_a_node_is_missing]
)
def test_the_nodes_go_back_at_once_if_another_urgent_job_finds_no_room(
    comes: Callable[[StreamCluster], None],
) -> None:
    slurm, _, loop = first_has_ended()
    assert slurm.count("prioritise") == 0
    comes(slurm)
    loop.reconcile()  # moves it to the front
    slurm.settle(1.0)
    loop.reconcile()
    assert ("prioritise", "v") in slurm.calls


def test_they_stay_held_while_others_leave_for_another_urgent_job() -> None:
    lenders = (LENDER, running("w", ("n3", "n4"), start_s=500.0))
    slurm, journal = StreamCluster(*lenders), Journal(None)
    loop = daemon(slurm, journal)
    goes_on(slurm, loop)
    slurm.end(FIRST)
    loop.reconcile()
    slurm.submit("21", user="other")
    goes_on(slurm, loop, cycles=2)
    assert (slurm.runs("21"), slurm.count("requeue"), slurm.count("prioritise")) == (True, 2, 0)
    slurm.submit(SECOND)
    goes_on(slurm, loop)
    assert slurm.runs(SECOND)
    assert slurm.count("requeue") == 2


def without_a_licence(job: Job) -> Job:
    return replace(job, blocked_by="a licence")


def not_yet_eligible(job: Job) -> Job:
    return replace(job, eligible_s=1e9)


def of_parts_of_nodes_without_a_licence(job: Job) -> Job:
    return replace(job, blocked_by="a licence", demand=Resources.of({CPU: 1}))


@pytest.mark.parametrize(
    "cannot_start", [without_a_licence, not_yet_eligible, of_parts_of_nodes_without_a_licence]
)
def test_an_urgent_job_that_could_not_start_changes_nothing(cannot_start: Callable[[Job], Job]) -> None:
    slurm, _, loop = first_has_ended()
    slurm.submit(SECOND, user="other")
    slurm.put(cannot_start(slurm.job(SECOND)))
    loop.reconcile()
    assert slurm.count("prioritise") == 0


def test_a_job_that_replaces_one_which_no_snapshot_has_shown_running_follows() -> None:
    """The first one was brief, or its user has cancelled it."""
    slurm, journal = StreamCluster(), Journal(None)
    loop = daemon(slurm, journal)
    for _ in range(3):
        loop.reconcile()
    assert slurm.count("requeue") == 1
    slurm.end(FIRST)
    loop.reconcile()
    slurm.settle()
    slurm.submit(SECOND)
    goes_on(slurm, loop)
    assert slurm.runs(SECOND)
    assert (slurm.count("requeue"), slurm.count("prioritise")) == (1, 0)


def test_the_nodes_go_back_at_once_while_makeway_is_paused() -> None:
    slurm, journal, loop = first_has_ended()
    Pause(journal).set(True)
    loop = daemon(slurm, journal)
    loop.reconcile()
    assert slurm.count("prioritise") == 1


def test_the_nodes_go_back_at_once_if_everything_does() -> None:
    slurm, _, loop = first_has_ended()
    policy = find("none")
    loop.reconfigure(policy, policy.config_type(), replace(LINGERS, restoring=True))
    loop.reconcile()
    assert slurm.count("prioritise") == 1


def test_they_go_back_when_others_have_followed_long_enough() -> None:
    timeouts = Timeouts(linger_s=LINGER_S, pass_on_s=100.0)
    slurm, _, loop = first_has_ended(LoopSettings(mode=Mode.ACT, timeouts=timeouts))
    slurm.submit(SECOND)
    goes_on(slurm, loop, cycles=10)
    assert slurm.runs(SECOND)
    slurm.end(SECOND)
    loop.reconcile()
    assert slurm.count("prioritise") == 1
