"""What is learned of checkpoints: when one is measured, what it says of others, and that a restart knows it
still.
"""

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from makeway.daemon.cli.explain import render
from makeway.daemon.config.mode import Mode
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import LoopSettings
from makeway.daemon.estimate.checkpoint_times import (
    LATEST,
    CheckpointRequest,
    CheckpointTimes,
    Lesson,
    Measurement,
    lesson,
    likeness,
    with_learned,
)
from makeway.daemon.inspect.explain import Explanation
from makeway.daemon.journal.store import Journal
from makeway.policies.eviction.policy import EvictionConfig
from makeway.policies.model import (
    Acknowledgement,
    Checkpoint,
    CheckpointSpec,
    Cluster,
    Ending,
    Job,
    JobState,
    Method,
    Operation,
    OperationKind,
    Progress,
    Reason,
    Task,
)
from makeway.policies.registry import find
from tests import acts
from tests.builders import cluster, node_names, running, urgent
from tests.fakes import FakeAdapter

FOUR = node_names(4)
SPEC = CheckpointSpec(system_s=10.0, grace_s=300.0)
SIGNAL = Checkpoint(
    job_id="v",
    for_job_id="u",
    policy="test",
    reason=Reason.URGENT_ARRIVAL,
    signal="USR1",
    grace_s=300.0,
    walltime_s=1e5,
)
REQUEST = CheckpointRequest("u@1", "v", 1000.0)


def victim(spec: CheckpointSpec | None = SPEC) -> Job:
    return running("v", FOUR, start_s=500.0, checkpoint=spec)


def asked(ending: Ending | None = None, ended_s: float | None = None) -> Operation:
    """An operation that has sent its signal at 1000."""
    progress = Progress.ACCEPTED if ending is None else ending.progress
    task = Task(action=SIGNAL, progress=progress, issued_s=1000.0, ended_s=ended_s, ending=ending)
    return Operation(
        operation_id="u@1",
        kind=OperationKind.MAKE_WAY,
        for_job_id="u",
        policy="test",
        reservation="mw_u",
        nodes=FOUR,
        opened_s=990.0,
        deadline_s=2000.0,
        give_up_s=3000.0,
        tasks=(task,),
    )


def learned_of(operation: Operation, seen: Cluster, spec: CheckpointSpec = SPEC) -> Lesson | None:
    """What is learned of the end of a checkpoint whose beginning is known."""
    begun = lesson([asked()], cluster(4, victim(spec)), {})
    assert begun is not None
    return lesson([operation], seen, dict(begun.begun))


def test_a_checkpoint_begins_once() -> None:
    seen = cluster(4, victim())
    first = lesson([asked()], seen, {})
    assert first is not None
    ((request, subject),) = first.begun
    assert request == REQUEST
    assert subject.likeness == likeness(victim())
    assert lesson([asked()], seen, dict(first.begun)) is None


def test_nothing_is_measured_of_a_job_that_shows_nothing() -> None:
    seen = cluster(4, victim(replace(SPEC, acknowledgement=Acknowledgement.NONE)))
    assert lesson([asked()], seen, {}) is None


def test_the_instant_that_the_job_tells_counts_and_not_the_look_at_it() -> None:
    told = replace(victim(), last_checkpoint_s=1042.0)
    found = learned_of(asked(Ending.ACKNOWLEDGED, 1060.0), cluster(4, told, now_s=1060.0))
    assert found is not None
    assert found.measured == ((REQUEST, Measurement(duration_s=42.0, acknowledged=True)),)


def test_a_job_that_requeues_itself_is_measured_by_the_look_at_it() -> None:
    waits = replace(victim(), state=JobState.PENDING, nodes=(), start_s=None)
    found = learned_of(asked(Ending.REQUEUED_ITSELF, 1060.0), cluster(4, waits, now_s=1060.0))
    assert found is not None
    assert found.measured == ((REQUEST, Measurement(duration_s=60.0, acknowledged=True)),)


def test_an_end_is_measured_only_where_it_is_the_acknowledgement() -> None:
    gone = asked(Ending.ENDED_ITSELF, 1030.0)
    leaves = learned_of(gone, cluster(4), replace(SPEC, acknowledgement=Acknowledgement.EXIT))
    assert leaves is not None
    assert leaves.measured == ((REQUEST, Measurement(duration_s=30.0, acknowledged=True)),)
    other = learned_of(gone, cluster(4))
    assert other is not None
    assert (other.measured, other.void) == ((), (REQUEST,))


@pytest.mark.parametrize(
    ("ending", "measured", "void"),
    [(None, 0, 0), (Ending.ENDED_ITSELF, 1, 0), (Ending.SEEN, 0, 1), (Ending.REJECTED, 0, 1)],
    ids=["not known yet", "by itself", "by the signal", "not put back"],
)
def test_an_end_is_measured_once_it_is_known_that_the_signal_has_not_ended_the_job(
    ending: Ending | None, measured: int, void: int
) -> None:
    """`ending`: that of the task which asks about the job that has vanished, and puts it back."""
    put_back = replace(acts.requeue("v"), ended_by="USR1")
    progress = Progress.PLANNED if ending is None else ending.progress
    task = Task(action=put_back, progress=progress, ending=ending)
    signalled = asked(Ending.ENDED_ITSELF, 1030.0)
    operation = replace(signalled, tasks=(*signalled.tasks, task))
    found = learned_of(operation, cluster(4), replace(SPEC, acknowledgement=Acknowledgement.EXIT))
    counts = (0, 0) if found is None else (len(found.measured), len(found.void))
    assert counts == (measured, void)


def test_what_was_waited_for_in_vain_counts_twice() -> None:
    found = learned_of(asked(Ending.UNACKNOWLEDGED, 1090.0), cluster(4, victim(), now_s=1090.0))
    assert found is not None
    ((_, measurement),) = found.measured
    assert measurement == Measurement(duration_s=90.0, acknowledged=False)
    assert measurement.counted_s == 180.0


def test_a_request_that_no_operation_has_any_more_is_void() -> None:
    begun = lesson([asked()], cluster(4, victim()), {})
    assert begun is not None
    found = lesson([], cluster(4, victim()), dict(begun.begun))
    assert found is not None
    assert found.void == (REQUEST,)


def times(*durations_s: float) -> CheckpointTimes:
    kept = CheckpointTimes()
    for duration_s in durations_s:
        kept.add(likeness(victim()), Measurement(duration_s=duration_s, acknowledged=True))
    return kept


@settings(deadline=None)
@given(st.lists(st.floats(0.0, 1e6), min_size=1, max_size=30), st.floats(1.0, 1e5))
def test_the_longest_of_the_latest_counts_up_to_the_grace(durations_s: list[float], grace_s: float) -> None:
    jobs = (victim(replace(SPEC, grace_s=grace_s)),)
    (job,) = with_learned(jobs, times(*durations_s).learned)
    assert job.checkpoint is not None
    latest = durations_s[-LATEST:]
    assert job.checkpoint.system_s == min(grace_s, max(latest))
    assert job.checkpoint.measured_count == len(latest)


def test_who_is_not_alike_keeps_what_is_declared() -> None:
    others = (
        replace(victim(), user="other"),
        replace(victim(), account="another"),
        replace(victim(), partition="another"),
        running("v", node_names(8), checkpoint=SPEC),
        victim(replace(SPEC, system_s=None)),
        victim(None),
        replace(victim(), state=JobState.PENDING, nodes=()),
    )
    assert with_learned(others, times(77.0).learned) == others


def test_a_journal_that_is_opened_again_knows_it_still(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    journal = Journal(path)
    begun = lesson([asked()], cluster(4, victim()), {})
    assert begun is not None
    journal.learn(begun)
    journal.close()
    journal = Journal(path)
    assert dict(journal.checkpoints_under_way()) == dict(begun.begun)
    over = lesson(
        [asked(Ending.UNACKNOWLEDGED, 1090.0)],
        cluster(4, victim()),
        journal.checkpoints_under_way(),
    )
    assert over is not None
    journal.learn(over)
    assert journal.learned() == {likeness(victim()): (180.0,)}
    journal.close()
    again = Journal(path, read_only=True)
    assert again.learned() == {likeness(victim()): (180.0,)}
    assert again.checkpoints_under_way() == {}
    again.close()


@pytest.mark.parametrize(
    ("learns", "second"), [(True, {Method.KILL}), (False, {Method.SYSTEM})], ids=["learns", "off"]
)
def test_the_next_decision_uses_it_and_can_be_taken_again(learns: bool, second: set[Method]) -> None:
    """The victim's checkpoint takes 400 s and not 10: the second urgent job does not wait for it in vain."""
    slow = victim(replace(SPEC, grace_s=600.0))
    adapter = FakeAdapter(cluster(4, urgent("u", 2, submit_s=990.0), slow))
    journal = Journal(None)
    config = EvictionConfig()
    policy = find("eviction")
    loop = Reconciler(
        adapter,
        journal,
        policy,
        config,
        LoopSettings(mode=Mode.ACT, learn_durations=learns),
        now=lambda: adapter.view.now_s,
    )
    loop.reconcile()
    loop.reconcile()
    assert ("checkpoint", "v") in adapter.calls
    told = replace(slow, last_checkpoint_s=1400.0)
    waits = adapter.view.jobs_by_id()["u"]
    adapter.view = replace(adapter.view, now_s=1400.0, jobs=(waits, told))
    measured = loop.reconcile().checkpoints
    assert measured == (Measurement(duration_s=400.0, acknowledged=True),)

    later = urgent("w", 2, submit_s=5000.0)
    again = replace(slow, start_s=3000.0, requeue_count=1)
    hurried = replace(later, start_within_s=200.0)
    adapter.view = replace(adapter.view, now_s=5000.0, jobs=(hurried, again), reservations=())
    report = loop.reconcile()
    assert report.decision_id is not None
    stored = journal.decision(report.decision_id)
    assert stored is not None
    assert stored.cluster is not None
    assert policy.decide(stored.cluster, config) == stored.decision
    methods = {one.method for why in stored.decision.rationale for one in why.candidates if one.chosen}
    assert methods == second

    out = StringIO()
    render(Explanation(stored=stored, actions=()), Console(file=out, width=200))
    assert ("time measured ×1" in out.getvalue()) is learns
