"""A job that is to leave may not be made to any more: somebody has changed it while it saves its work."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from makeway.daemon.config.mode import Mode
from makeway.daemon.control.report import CycleReport, LoopSettings
from makeway.daemon.inspect.explain import explain
from makeway.daemon.journal.command_log import Outcome
from makeway.daemon.journal.store import Journal
from makeway.daemon.operation.transitions import advance
from makeway.daemon.operation.validation import validate
from makeway.policies.model import (
    Acknowledgement,
    Action,
    CheckpointSpec,
    Cluster,
    Ending,
    Job,
    JobKind,
    JobState,
    Limits,
    Method,
    Operation,
    Progress,
)
from makeway.policies.registry import find
from makeway.policies.safety.protection import Refusal
from tests.builders import cluster, pending, running, urgent
from tests.daemon.acting import (
    COMMENTS,
    NODES,
    PATIENCE,
    begun,
    due,
    held_operation,
    holding,
    issue_all,
    requeue,
    reserve,
    shrink,
    signal,
)
from tests.daemon.control.loops import daemon
from tests.fakes import FakeAdapter

SAVES = (signal("v"), requeue("v", Method.SYSTEM))
SAVING = running("v", NODES, checkpoint=COMMENTS)
CHANGES: list[dict[str, Any]] = [
    {"preemptible": False},  # such as by `Requeue=0`, a deadline, a hold, or another class
    {"kind": JobKind.ON_DEMAND},
    {"user": "vip"},
    {"account": "vips"},
    {"qos": "vip"},
    {"partition": "vip"},
]
LIMITS = Limits(
    protected_users=frozenset({"vip"}),
    protected_accounts=frozenset({"vips"}),
    protected_qos=frozenset({"vip"}),
    protected_partitions=frozenset({"vip"}),
)


def view_of(*jobs: Job, now_s: float = 1012.0) -> Cluster:
    return replace(holding(*jobs, now_s=now_s), limits=LIMITS)


def endings(operation: Operation) -> list[Ending | None]:
    return [task.ending for task in operation.tasks[1:]]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_a_job_that_saves_its_work_stays(change: dict[str, Any]) -> None:
    """It is known at the next snapshot, and not only at the end of the grace."""
    operation, issued = issue_all(held_operation(*SAVES), holding(SAVING))
    assert issued == [SAVES[0]]
    kept = replace(SAVING, **change)
    operation = advance(operation, view_of(kept), PATIENCE)
    assert endings(operation) == [None, Ending.OUTDATED]
    assert operation.tasks[2].detail.startswith("the job may not be made to leave any more: ")
    assert operation.short_since_s == 1012.0
    for now_s in (1060.0, 1071.0):
        saved = replace(kept, last_checkpoint_s=1060.0)
        operation = advance(operation, view_of(saved, now_s=now_s), PATIENCE)
        validate(operation)
        assert due(operation, view_of(saved, now_s=now_s)) == []
    assert endings(operation) == [Ending.ACKNOWLEDGED, Ending.OUTDATED]


@pytest.mark.parametrize("actions", [SAVES, (requeue("v"),), (shrink("v", ("n1",)),)])
def test_a_job_that_was_not_asked_yet_is_not_asked(actions: tuple[Action, ...]) -> None:
    operation = held_operation(*actions)
    view = view_of(replace(SAVING, preemptible=False))
    operation = advance(operation, view, PATIENCE)
    assert set(endings(operation)) == {Ending.OUTDATED}
    assert due(operation, view) == []


def test_a_job_that_was_requeued_gets_its_turn_whatever_was_changed() -> None:
    operation, _ = issue_all(held_operation(requeue("v")), holding(SAVING))
    waits = replace(pending("v", 4, requeue_count=1), preemptible=False)
    operation = advance(operation, view_of(waits), PATIENCE)
    assert endings(operation) == [Ending.SEEN]


@pytest.mark.parametrize("state", [JobState.COMPLETING, JobState.SUSPENDED])
def test_a_job_that_keeps_its_nodes_from_none_is_counted_on(state: JobState) -> None:
    """Its state keeps the adapter from opening it to preemption."""
    operation, _ = issue_all(held_operation(*SAVES), holding(SAVING))
    there = replace(SAVING, state=state, preemptible=False)
    operation = advance(operation, view_of(there), PATIENCE)
    assert endings(operation) == [None, None]


@pytest.mark.parametrize("how", [Acknowledgement.REQUEUE, Acknowledgement.EXIT])
def test_a_job_that_leaves_by_itself_is_counted_on_while_it_saves(how: Acknowledgement) -> None:
    """So no other job has to leave in its place. It has its grace for it."""
    spec = replace(COMMENTS, acknowledgement=how)
    saving = running("v", NODES, checkpoint=spec)
    operation, _ = issue_all(held_operation(*SAVES, spec=spec), holding(saving))
    view = view_of(replace(saving, preemptible=False))
    operation = advance(operation, view, PATIENCE)
    assert endings(operation) == [None, None]

    view = replace(view, now_s=1311.0)
    operation = advance(operation, view, PATIENCE)
    assert endings(operation) == [Ending.UNACKNOWLEDGED, Ending.OUTDATED]


def test_a_requeue_without_an_answer_is_not_sent_again() -> None:
    operation, _ = issue_all(held_operation(requeue("v")), holding(SAVING))
    unsure = replace(operation.tasks[1], progress=Progress.ISSUING)
    operation = replace(operation, tasks=(operation.tasks[0], unsure))
    view = view_of(replace(SAVING, preemptible=False), now_s=1010.0 + PATIENCE.settle_s)
    operation = advance(operation, view, PATIENCE)
    assert (endings(operation), due(operation, view)) == ([Ending.OUTDATED], [])


def test_no_other_job_leaves_for_nodes_that_do_not_suffice() -> None:
    first, second = running("v", ("n1", "n2")), running("w", ("n3", "n4"))
    before = cluster(4, urgent("u", 4), first, second)
    operation, _ = issue_all(begun(before, reserve(), requeue("v"), requeue("w")), before)
    view = view_of(replace(first, preemptible=False), second)
    operation = advance(operation, view, PATIENCE)
    assert endings(operation) == [Ending.OUTDATED, Ending.OUTDATED]
    assert due(operation, view) == []


# From the snapshot to what is sent


class Saving:
    """The daemon, when two of the victims save their work for an urgent job of two nodes."""

    def __init__(self, count: int, policy: str, path: Path | None = None) -> None:
        spec = CheckpointSpec(system_s=100.0)
        victims = [running(f"v{number}", (f"n{number}",), checkpoint=spec) for number in range(1, count + 1)]
        self.adapter = FakeAdapter(cluster(count, urgent("u", 2, submit_s=990.0), *victims))
        self.journal = Journal(path)
        self.loop = daemon(self.adapter, self.journal, policy=policy)
        self.loop.reconcile()
        self.loop.reconcile()
        self.first, self.second = (name for verb, name in self.adapter.calls if verb == "checkpoint")
        self.adapter.calls.clear()

    def later(self, by_s: float, *job_ids: str, **changes: Any) -> CycleReport:
        """A cycle some seconds later, when these jobs are others."""
        view = self.adapter.view
        jobs = tuple(replace(job, **changes) if job.job_id in job_ids else job for job in view.jobs)
        self.adapter.view = replace(view, jobs=jobs, now_s=view.now_s + by_s)
        return self.loop.reconcile()

    def taken(self) -> list[tuple[str, str]]:
        return [call for call in self.adapter.calls if call[0] in ("checkpoint", "requeue")]


POLICIES = pytest.mark.parametrize("policy", ["eviction", "least-price"])


@POLICIES
def test_another_job_leaves_in_its_place_and_what_the_other_saves_is_not_in_vain(policy: str) -> None:
    saving = Saving(4, policy)
    saving.later(10.0, saving.first, preemptible=False)
    saving.later(2.0)
    ((verb, third),) = saving.taken()
    assert verb == "checkpoint"
    saving.later(80.0, saving.second, last_checkpoint_s=1090.0)
    assert saving.taken()[1:] == [("requeue", saving.second)]
    saving.later(20.0, third, last_checkpoint_s=1110.0)
    assert ("requeue", third) in saving.taken()
    assert all(name != saving.first for _, name in saving.taken())


@POLICIES
def test_nothing_is_taken_if_no_other_job_may_leave(policy: str) -> None:
    saving = Saving(2, policy)
    saving.later(10.0, saving.first, preemptible=False)
    for _ in range(4):
        saving.later(30.0, saving.first, saving.second, last_checkpoint_s=1090.0)
    assert saving.taken() == []
    assert ("release", "mw_u") in saving.adapter.calls


def test_what_it_has_saved_is_counted_as_a_checkpoint_in_vain() -> None:
    saving = Saving(4, "eviction")
    saving.later(10.0, saving.first, preemptible=False, checkpointing_since_s=1005.0)
    report = saving.later(80.0, saving.first, last_checkpoint_s=1090.0)
    (loss,) = report.losses
    assert (loss.evicted, loss.lost_s, loss.overhead_s) == (False, 0.0, 90.0)


def test_a_site_may_protect_an_account_meanwhile() -> None:
    saving = Saving(4, "eviction")
    found = find("eviction")
    account = saving.adapter.view.jobs_by_id()[saving.first].account
    limits = Limits(protected_accounts=frozenset({account}))
    saving.loop.reconfigure(found, found.config_type(), LoopSettings(mode=Mode.ACT, limits=limits))
    refused = [one.refusal for one in saving.later(10.0).actions if one.outcome is Outcome.REFUSED]
    assert refused == [Refusal.PROTECTED_ACCOUNT] * 2
    saving.later(80.0, saving.first, saving.second, last_checkpoint_s=1090.0)
    assert saving.taken() == []


def test_the_log_and_the_decision_say_why(tmp_path: Path) -> None:
    saving = Saving(4, "eviction", tmp_path / "journal.sqlite")
    report = saving.later(10.0, saving.first, preemptible=False)
    (refused,) = [one for one in report.actions if one.outcome is Outcome.REFUSED]
    assert (refused.action.verb, refused.action.job_id) == ("requeue", saving.first)
    assert refused.refusal is Refusal.NOT_PREEMPTIBLE
    outcomes = {
        one.action.job_id: one.outcome
        for one in explain(saving.journal, "1").actions
        if one.action.verb == "requeue"
    }
    assert outcomes == {saving.first: f"not sent ({refused.detail})", saving.second: "not sent"}
    assert refused.detail == "the job may not be made to leave any more: not_preemptible"
    saving.later(1.0)
    assert all(one.outcome is not Outcome.REFUSED for one in saving.later(1.0).actions)
    saving.journal.close()
