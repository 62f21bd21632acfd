"""What jobs say was taken from them goes back although no operation knows of it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from makeway.adapters.protocol import Unavailable
from makeway.daemon.journal.store import Journal
from makeway.daemon.operation.kept.missing import missing
from makeway.policies.model import (
    Cluster,
    Expand,
    Job,
    JobKind,
    JobState,
    LostNodes,
    Prioritise,
    Reason,
    Reservation,
    RestoreLimit,
    TakenFromJob,
)
from tests.builders import cluster, held, node_names, pending, running, urgent
from tests.daemon.control.loops import daemon
from tests.fakes import FakeAdapter

EIGHT = node_names(8)
RAISED_S = 5400.0
TAKEN = TakenFromJob(run=0, for_job_id="u", walltime_s=1800.0, raised_to_s=RAISED_S)
LOST = LostNodes(node_count=6, kept_count=3, walltime_s=1800.0, since_s=400.0)


def requeued(**changes: object) -> Job:
    """A job that left its two nodes in its first run; its limit was raised."""
    job = replace(pending("a", 2), requeue_count=1, walltime_s=RAISED_S, taken=TAKEN, preemptible=True)
    return replace(job, **changes)  # type: ignore[arg-type]


def shrunk(nodes: tuple[str, ...] = EIGHT[:3], **changes: object) -> Job:
    """A job that has kept three of its six nodes; its limit was raised."""
    job = running("a", nodes, kind=JobKind.MALLEABLE, node_count_min=2, walltime_s=RAISED_S)
    taken = replace(TAKEN, lost_nodes=LOST)
    return replace(job, start_s=100.0, taken=taken, **changes)  # type: ignore[arg-type]


def given(view: Cluster) -> tuple[Expand | Prioritise | RestoreLimit, ...]:
    return missing(view, (), "test")


def restored(
    job: Job, walltime_s: float | None, left: TakenFromJob | None = None
) -> tuple[RestoreLimit, ...]:
    assert job.taken is not None
    return (
        RestoreLimit(
            job_id="a",
            for_job_id="a",
            policy="test",
            reason=Reason.TAKEN,
            walltime_s=walltime_s,
            taken=job.taken,
            left=left,
        ),
    )


def test_a_requeued_job_gets_its_turn_once_its_urgent_job_does_not_wait() -> None:
    turn = (Prioritise(job_id="a", for_job_id="u", policy="test", reason=Reason.TAKEN),)
    assert given(cluster(8, requeued())) == turn
    assert given(cluster(8, requeued(), running("u", EIGHT[:2], kind=JobKind.ON_DEMAND))) == turn
    assert given(cluster(8, requeued(), urgent("u", 2))) == ()
    assert given(cluster(8, requeued(), replace(urgent("u", 2), blocked_by="a licence"))) == turn
    no_more_urgent = pending("u", 2)
    assert given(cluster(8, requeued(), no_more_urgent)) == turn


@pytest.mark.parametrize("changes", [{"preemptible": False}, {"blocked_by": "its release from a hold"}])
def test_a_job_that_is_held_or_not_opted_in_gets_no_turn(changes: dict[str, object]) -> None:
    assert given(cluster(8, requeued(**changes))) == ()


def test_a_job_that_runs_again_gets_its_limit_back() -> None:
    again = replace(running("a", EIGHT[:2], start_s=900.0), requeue_count=1, walltime_s=RAISED_S, taken=TAKEN)
    assert given(cluster(8, again)) == restored(again, 1800.0)
    # The limit that it has was set by somebody else.
    other = replace(again, walltime_s=7200.0)
    assert given(cluster(8, other)) == restored(other, None)
    # Its usual limit would end too soon: it keeps the raised one in this run, and is not asked again.
    late = replace(again, start_s=-700.0)
    left = replace(TAKEN, for_job_id=None)
    assert given(cluster(8, late)) == restored(late, None, left)
    assert given(cluster(8, replace(late, taken=left))) == ()


def test_a_requeue_by_others_gives_no_turn_after_the_run_went_on() -> None:
    left = replace(TAKEN, for_job_id=None)
    job = requeued(taken=left)
    assert given(cluster(8, job)) == restored(job, 1800.0)


def test_a_job_that_was_not_made_to_leave_keeps_what_pays_for_its_checkpoint() -> None:
    job = replace(running("a", EIGHT[:2]), walltime_s=RAISED_S, taken=TAKEN)
    left = replace(TAKEN, for_job_id=None)
    assert given(cluster(8, job)) == restored(job, None, left)
    assert given(cluster(8, replace(job, taken=left))) == ()
    unraised = replace(job, taken=TakenFromJob(run=0, for_job_id="u"))
    assert given(cluster(8, unraised)) == restored(unraised, None)


def test_a_shrunk_job_grows_by_free_nodes() -> None:
    view = cluster(8, shrunk())
    (action,) = given(view)
    assert isinstance(action, Expand)
    assert (action.nodes, action.reservation) == (EIGHT[3:6], None)
    (action,) = given(cluster(8, shrunk(), running("b", EIGHT[3:7])))
    assert isinstance(action, Expand)
    assert action.nodes == EIGHT[7:]
    assert given(replace(view, reservations=(held("u", EIGHT[3:]),))) == ()
    assert given(replace(view, actions=view.actions - {"expand"})) == ()
    assert given(cluster(8, shrunk(), urgent("other", 2))) == ()


@pytest.mark.parametrize(
    ("begins_s", "nodes"), [(100.0 + RAISED_S - 1.0, EIGHT[5:8]), (100.0 + RAISED_S, EIGHT[3:6])]
)
def test_a_shrunk_job_gets_no_node_that_the_site_needs_before_its_end(
    begins_s: float, nodes: tuple[str, ...]
) -> None:
    """Slurm would let it wait for the node, and answer only after some seconds."""
    site = Reservation(name="site", nodes=EIGHT[3:5], start_s=begins_s, end_s=1e6)
    (action,) = given(cluster(8, shrunk(), reservations=(site,)))
    assert isinstance(action, Expand)
    assert action.nodes == nodes


def test_a_job_with_all_its_nodes_pays_for_the_time_without_them_alone() -> None:
    """From second 400 to second 1000 it had half its nodes: it gets 300 s more, in whole minutes."""
    job = shrunk(EIGHT[:6])
    assert cluster(8, job).now_s == 1000.0
    left = replace(TAKEN, for_job_id=None, raised_to_s=2100.0)
    assert given(cluster(8, job)) == restored(job, 2100.0, left)
    after = replace(job, walltime_s=2100.0, taken=left)
    assert given(cluster(8, after)) == ()


def test_a_job_that_grew_earlier_pays_for_the_time_until_then() -> None:
    """From second 400 to second 600 it had half its nodes, as it says itself."""
    lost = replace(LOST, kept_count=6, walltime_s=1900.0, since_s=600.0)
    job = replace(shrunk(EIGHT[:6]), taken=replace(TAKEN, lost_nodes=lost))
    left = replace(TAKEN, for_job_id=None, raised_to_s=1920.0)
    assert given(cluster(8, job)) == restored(job, 1920.0, left)


def test_a_job_that_was_shrunk_in_our_future_keeps_its_time_limit() -> None:
    """The clock was set back: for how long it had fewer nodes is not known."""
    lost = replace(LOST, since_s=1000.5)
    job = replace(shrunk(EIGHT[:6]), taken=replace(TAKEN, lost_nodes=lost))
    assert given(cluster(8, job)) == restored(job, None, replace(TAKEN, for_job_id=None))


@pytest.mark.parametrize("state", [JobState.COMPLETING, JobState.SUSPENDED])
def test_a_job_that_may_not_be_acted_upon_waits(state: JobState) -> None:
    assert given(cluster(8, replace(shrunk(), state=state))) == ()


def test_two_jobs_do_not_get_the_same_nodes() -> None:
    second = replace(shrunk(EIGHT[3:5]), job_id="b")
    actions = given(cluster(8, shrunk(), second))
    assert [(one.job_id, one.nodes) for one in actions if isinstance(one, Expand)] == [("a", EIGHT[5:])]


# In the loop


def _after(action: Expand | Prioritise | RestoreLimit, job: Job) -> Job:
    """The job after the action."""
    match action:
        case Expand():
            nodes = (*job.nodes, *action.nodes)
            return replace(job, nodes=nodes, node_count=len(nodes))
        case Prioritise():
            return replace(job, prioritised=True, walltime_s=1800.0, taken=None)
        case RestoreLimit():
            return replace(job, walltime_s=action.walltime_s or job.walltime_s, taken=action.left)


@pytest.mark.parametrize(
    ("job", "verbs"), [(requeued, ["prioritise"]), (shrunk, ["expand", "restore_limit"])]
)
def test_a_daemon_without_a_journal_gives_everything_back_once(
    job: Callable[[], Job], verbs: list[str]
) -> None:
    adapter = FakeAdapter(cluster(8, job()))
    journal = Journal(None)
    loop = daemon(adapter, journal)
    for second in range(1, 60):
        before = len(adapter.actions)
        loop.reconcile()
        (last,) = adapter.view.jobs
        for action in adapter.actions[before:]:
            assert isinstance(action, Expand | Prioritise | RestoreLimit)
            last = _after(action, last)
        if last.prioritised and second > 5:
            last = replace(last, state=JobState.RUNNING, nodes=EIGHT[:2], start_s=1005.0, prioritised=False)
        adapter.view = replace(adapter.view, now_s=1000.0 + second, jobs=(last,))
    assert [action.verb for action in adapter.actions] == verbs
    assert journal.open_operations() == ()


def test_an_open_operation_gives_back_by_itself() -> None:
    view = cluster(8, shrunk())
    journal = Journal(None)
    loop = daemon(FakeAdapter(view), journal)
    loop.reconcile()
    (opened,) = journal.open_operations()
    assert [task.action.verb for task in opened.tasks] == ["expand"]
    assert missing(view, (opened,), "test") == ()


def test_a_job_that_leaves_its_run_late_gets_its_turn_and_not_only_its_limit() -> None:
    """A requeue that had no answer is carried out long after its operation is over."""
    runs = replace(running("a", EIGHT[:2], start_s=100.0, walltime_s=RAISED_S), taken=TAKEN)
    adapter = FakeAdapter(cluster(8, runs))
    adapter.errors["restore_limit"] = Unavailable("no answer")
    loop = daemon(adapter, Journal(None))
    loop.reconcile()
    assert [action.verb for action in adapter.actions] == ["restore_limit"]
    adapter.errors.clear()
    adapter.view = replace(adapter.view, now_s=1120.0, jobs=(requeued(),))
    for _ in range(3):
        loop.reconcile()
    assert [action.verb for action in adapter.actions] == ["restore_limit", "prioritise"]
