"""Cycles that can change nothing are not run, and are reported as they would have been."""

from dataclasses import replace
from typing import Any

import pytest

from makeway.daemon.config.mode import Mode
from makeway.daemon.control.permission import Permission
from makeway.daemon.control.quiet import QuietCycles
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import CycleReport, LoopSettings
from makeway.daemon.estimate.actual_losses import HeldAmounts, LeavingRun, RunKey
from makeway.daemon.estimate.recent_losses import DAY_S, RecentLoss
from makeway.daemon.journal.store import Journal
from makeway.daemon.leader.pause import Pause
from makeway.policies.contract import Policy
from makeway.policies.model import (
    Acknowledgement,
    Cluster,
    Decision,
    Method,
    Notice,
    Placement,
    Reservation,
    TakenFromJob,
)
from makeway.policies.none import NoneConfig
from makeway.simharness.swarm.campaign import tell_validated
from makeway.simharness.swarm.drawing import POLICIES, draw
from makeway.simharness.swarm.story import TroubleKind
from tests.builders import cluster, held, pending, running, urgent
from tests.fakes import FakeAdapter

QUIET = cluster(4, running("v", ("n1", "n2"), start_s=500.0), pending("w", 3))


class Loop:
    """A daemon whose policy counts how often it is asked, and wants nothing."""

    def __init__(self, seen: Cluster, *, arrivals_only: bool = True, again_s: float | None = None) -> None:
        self.asked = 0
        self.adapter = FakeAdapter(seen)
        self.journal = Journal(None)
        self.pause = Pause(self.journal)

        def decide(_cluster: Cluster, _config: NoneConfig) -> Decision:
            self.asked += 1
            return Decision(policy="counting", again_s=again_s)

        self.policy = Policy(
            name="counting",
            summary="Wants nothing.",
            config_type=NoneConfig,
            decide=decide,
            arrivals_only=arrivals_only,
        )
        self.reconciler = Reconciler(
            self.adapter,
            self.journal,
            self.policy,
            NoneConfig(),
            LoopSettings(mode=Mode.ACT),
            now=lambda: self.adapter.view.now_s,
            permission=Permission(pause=self.pause),
        )

    def reconcile(self, **changes: Any) -> CycleReport:
        """The next cycle, 30 s later, on a snapshot that differs in these fields."""
        seen = self.adapter.view
        self.adapter.view = replace(seen, now_s=seen.now_s + 30.0, **changes)
        return self.reconciler.reconcile()


def test_the_policy_is_not_asked_again_about_the_same_quiet_cluster() -> None:
    loop = Loop(QUIET)
    first, second, third = (loop.reconcile() for _ in range(3))
    assert loop.asked == 1
    timed: dict[str, Any] = {"at_s": 0.0, "snapshot_s": 0.0, "decision_s": 0.0, "snapshot_age_s": 0.0}
    assert replace(second, **timed) == replace(third, **timed) == replace(first, **timed)
    assert (first.at_s, second.at_s, third.at_s) == (1030.0, 1060.0, 1090.0)
    assert (second.decision_s, second.decision_cpu_s) == (0.0, 0.0), "it has decided nothing"
    assert loop.reconciler.wakeup_s(1090.0, 30.0) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"jobs": (*QUIET.jobs, pending("x", 1))},
        {"jobs": QUIET.jobs[:1]},
        {"jobs": (QUIET.jobs[0], replace(QUIET.jobs[1], priority=7.0))},
        {"nodes": QUIET.nodes[:3]},
        {"reservations": (Reservation(name="site", nodes=("n4",), start_s=0.0, end_s=9e9),)},
        {"placements": (Placement(name="switch", nodes=tuple(QUIET.up_nodes())),)},
        {"actions": frozenset()},
        {"recomputes_priority": True},
        {"reservation_prefix": "makeway_other."},
    ],
)
def test_a_cluster_that_shows_anything_else_is_decided_on(changes: dict[str, Any]) -> None:
    loop = Loop(QUIET)
    loop.reconcile()
    loop.reconcile(**changes)
    assert loop.asked == 2
    loop.reconcile()
    assert loop.asked == 2, "which is quiet again"


def test_what_a_cycle_has_done_is_reported_once() -> None:
    """The reservation of an earlier life is released: the operation for that opens, and closes."""
    loop = Loop(replace(QUIET, reservations=(held("lost", ("n4",)),)))
    reports = [loop.reconcile() for _ in range(5)]
    assert [len(report.actions) for report in reports] == [1, 0, 0, 0, 0]
    assert [len(report.closed) for report in reports] == [0, 1, 0, 0, 0]


def test_while_an_urgent_job_waits_no_cycle_is_left_out() -> None:
    loop = Loop(cluster(4, urgent("u", 2), running("v", ("n1", "n2"))))
    for _ in range(3):
        loop.reconcile()
    assert loop.asked == 3


def test_while_a_job_misses_something_no_cycle_is_left_out() -> None:
    job = running("v", ("n1", "n2"))
    taken = TakenFromJob(run=0, walltime_s=600.0, raised_to_s=job.walltime_s)
    loop = Loop(cluster(4, replace(job, taken=taken)))
    for _ in range(3):
        assert loop.reconcile().actions == (), "it gets its limit back with its next run"
    assert loop.asked == 3


@pytest.mark.parametrize(
    "misses", [{"taken": TakenFromJob(run=0, walltime_s=60.0)}, {"reservation_lost": True}], ids=str
)
def test_one_of_many_jobs_that_misses_something_is_enough(misses: dict[str, Any]) -> None:
    jobs = (running("v", ("n1",)), replace(running("w", ("n2",)), **misses), running("x", ("n3",)))
    loop = Loop(cluster(4, *jobs))
    for _ in range(3):
        loop.reconcile()
    assert loop.asked == 3


def test_while_a_loss_is_measured_no_cycle_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    run = LeavingRun(
        for_job_id="u",
        decided_s=900.0,
        method=Method.KILL,
        acknowledgement=Acknowledgement.NONE,
        held=HeldAmounts(nodes=1.0, cpus=None, gpus=None),
        expected_s=60.0,
        start_s=500.0,
        setup_s=0.0,
    )
    loop = Loop(QUIET)
    monkeypatch.setattr(Journal, "leaving_runs", lambda _journal: {RunKey("u@1", "v", 0): run})
    for _ in range(3):
        loop.reconcile()
    assert loop.asked == 3


def test_what_a_day_has_cost_is_reported_as_long_as_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = RecentLoss("u", "beam", "", 1030.0, 7200.0)
    loop = Loop(QUIET)
    monkeypatch.setattr(
        Journal, "recent_losses", lambda _journal, since_s: (lost,) if since_s < 1030.0 else ()
    )
    assert [loop.reconcile().lost_in_a_day[0].node_s for _ in range(3)] == [7200.0] * 3
    assert loop.asked == 1
    loop.adapter.view = replace(loop.adapter.view, now_s=1000.0 + DAY_S)
    assert loop.reconcile().lost_in_a_day[0].node_s == 0.0


def test_a_policy_for_the_whole_queue_is_asked_in_every_cycle() -> None:
    loop = Loop(QUIET, arrivals_only=False)
    for _ in range(3):
        loop.reconcile()
    assert loop.asked == 3


def test_a_policy_that_wants_to_be_asked_again_is() -> None:
    loop = Loop(QUIET, again_s=5000.0)
    for _ in range(3):
        loop.reconcile()
    assert loop.asked == 3


def test_an_announcement_ends_the_quiet() -> None:
    loop = Loop(QUIET)
    loop.reconcile()
    notice = Notice(
        notice_id="n", user="u", node_count=1, walltime_s=60.0, announced_s=1000.0, expected_s=5000.0
    )
    loop.journal.add_notice(notice)
    loop.reconcile()
    assert loop.asked == 2


def test_other_settings_and_a_pause_end_the_quiet() -> None:
    loop = Loop(QUIET)
    loop.reconcile()
    loop.reconciler.reconfigure(loop.policy, NoneConfig(), LoopSettings(mode=Mode.OBSERVE))
    assert loop.reconcile().mode is Mode.OBSERVE
    assert loop.asked == 2
    loop.pause.set(True)
    assert loop.reconcile().paused
    assert loop.asked == 3


@pytest.mark.parametrize("seed", [3, 8, 15])
def test_stories_of_the_swarm_are_told_alike_without_it(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    story = draw(seed, policies=POLICIES, kinds=tuple(TroubleKind))
    shortened = tell_validated(story)
    with monkeypatch.context() as patch:
        patch.setattr(QuietCycles, "repeated", lambda *_: None)
        assert tell_validated(story) == shortened
