"""Plans made in a thread: asked for once, never waited for, kept in the journal, dropped with the policy."""

import sys
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from makeway.adapters.protocol import Rejected
from makeway.daemon.config.mode import Mode
from makeway.daemon.control.planner import RETRY_S, Planning, PlanningFailed
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import LoopSettings
from makeway.daemon.journal.store import Journal
from makeway.daemon.operation.observation import Timeouts
from makeway.policies.contract import Planner, Policy, PolicyError
from makeway.policies.horizon.cp_sat import SolverUnavailable
from makeway.policies.horizon.policy import STEP, HorizonConfig
from makeway.policies.model import Cluster, Decision, Plan, Prioritise, Progress
from makeway.policies.registry import find
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.scheduler import SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.run.replay import Replay, ReplaySettings
from makeway.simharness.workloads.job import SimJob
from tests.builders import cluster, held, node_names, pending, running
from tests.fakes import FakeAdapter
from tests.waiting import limit_s

PLAN = Plan(made_s=1000.0, order=("b", "a"), starts_s=(1000.0, 2000.0), value=1.0, easy_value=2.0, bound=1.0)


@dataclass(frozen=True)
class NoSettings:
    """None."""


@dataclass
class Desk:
    """A planner that works until it is let go, and counts what it was asked."""

    go: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)
    asked: int = 0
    fails: bool = False
    due_fails: bool = False
    always_due: bool = False

    def due(self, snapshot: Cluster, config: NoSettings) -> bool:
        if self.due_fails:
            raise ZeroDivisionError("no plan")
        return self.always_due or snapshot.plan is None

    def make(self, snapshot: Cluster, config: NoSettings) -> Plan:
        self.asked += 1
        assert self.go.wait(limit_s())
        self.done.set()
        if self.fails:
            raise ZeroDivisionError("no plan")
        return PLAN

    def policy(self) -> Policy[NoSettings]:
        return Policy(
            name="desk",
            summary="Plans when it is let go.",
            config_type=NoSettings,
            decide=lambda snapshot, config: Decision(policy="desk"),
            planner=Planner(due=self.due, make=self.make, require=lambda: None),
        )


def view(later_s: float = 0.0) -> Cluster:
    jobs = (pending("a", 2, submit_s=900.0), pending("b", 2, submit_s=950.0))
    return cluster(2, *jobs, now_s=1000.0 + later_s)


def planners() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "planner"]


def finished(planning: Planning) -> Cluster:
    """The snapshot of the first cycle that finds the plan."""
    for thread in planners():
        thread.join(limit_s())
    return planning.with_plan(view())


def test_a_cycle_asks_once_and_does_not_wait() -> None:
    desk, journal = Desk(), Journal(None)
    planning = Planning(journal, in_thread=True)
    planning.reconfigure(desk.policy(), NoSettings())
    assert [planning.with_plan(view()).plan for _ in range(3)] == [None] * 3
    desk.go.set()
    assert finished(planning).plan == PLAN
    assert journal.plan() == PLAN
    assert planning.with_plan(view()).plan == PLAN
    assert desk.asked == 1


def test_within_the_cycle_the_plan_is_there_at_once() -> None:
    desk = Desk()
    desk.go.set()
    planning = Planning(Journal(None), in_thread=False)
    planning.reconfigure(desk.policy(), NoSettings())
    assert planning.with_plan(view()).plan == PLAN


def test_a_plan_outlives_the_daemon(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    journal.save_plan(PLAN)
    journal.close()
    again = Journal(tmp_path / "journal")
    assert again.plan() == PLAN
    again.close()


def test_a_plan_for_other_settings_is_dropped() -> None:
    desk, other = Desk(), Desk()
    journal = Journal(None)
    planning = Planning(journal, in_thread=True)
    planning.reconfigure(desk.policy(), NoSettings())
    planning.with_plan(view())
    planning.reconfigure(other.policy(), NoSettings())
    desk.go.set()
    assert desk.done.wait(limit_s())
    assert planning.with_plan(view()).plan is None
    assert (desk.asked, journal.plan()) == (1, None)
    other.go.set()
    assert finished(planning).plan == PLAN
    assert other.asked == 1


def test_a_plan_that_fails_is_reported_until_the_next_one_is_made() -> None:
    desk = Desk(fails=True)
    desk.go.set()
    planning = Planning(Journal(None), in_thread=True)
    planning.reconfigure(desk.policy(), NoSettings())
    planning.with_plan(view())
    assert finished(planning).plan is None
    assert planning.failure == "ZeroDivisionError: no plan"
    planning.with_plan(view(RETRY_S - 1.0))
    assert desk.asked == 1, "it is not asked again at once"

    desk.fails = False
    planning.with_plan(view(RETRY_S))
    assert finished(planning).plan == PLAN
    assert desk.asked == 2
    assert not planning.failure


def test_a_planner_that_fails_changes_nothing_of_the_last_plan() -> None:
    journal = Journal(None)
    journal.save_plan(PLAN)
    desk = Desk(fails=True, always_due=True)
    desk.go.set()
    planning = Planning(journal, in_thread=False)
    planning.reconfigure(desk.policy(), NoSettings())
    assert planning.with_plan(view()).plan == PLAN
    assert planning.failure is not None
    assert planning.failure.startswith("ZeroDivisionError: no plan (")


def test_a_failure_is_over_when_no_plan_is_due_any_more() -> None:
    journal = Journal(None)
    journal.save_plan(PLAN)
    desk = Desk(due_fails=True)
    planning = Planning(journal, in_thread=False)
    planning.reconfigure(desk.policy(), NoSettings())
    planning.with_plan(view())
    assert planning.failure is not None
    assert planning.failure.startswith("ZeroDivisionError: no plan (")
    assert desk.asked == 0, "whether a plan is due is not known"

    desk.due_fails = False
    planning.with_plan(view(RETRY_S))
    assert not planning.failure


def test_other_settings_are_planned_for_at_once_after_a_failure() -> None:
    desk = Desk(fails=True)
    desk.go.set()
    planning = Planning(Journal(None), in_thread=False)
    planning.reconfigure(desk.policy(), NoSettings())
    planning.with_plan(view())
    assert planning.failure
    better = Desk()
    better.go.set()
    planning.reconfigure(better.policy(), NoSettings())
    assert not planning.failure
    assert planning.with_plan(view(1.0)).plan == PLAN


@pytest.mark.parametrize("in_thread", [True, False])
@pytest.mark.parametrize("broken", ["make", "due"])
def test_a_planner_that_keeps_failing_does_not_keep_the_daemon_from_acting(
    broken: str, in_thread: bool
) -> None:
    """An earlier life left a reservation: it is released all the same, and each cycle says what failed."""
    desk = Desk(fails=True, due_fails=broken == "due")
    desk.go.set()
    adapter = FakeAdapter(replace(view(), reservations=(held("lost", ("n1",)),)))
    loop = Reconciler(
        adapter,
        Journal(None),
        desk.policy(),
        NoSettings(),
        LoopSettings(mode=Mode.ACT),
        plan_in_thread=in_thread,
    )
    loop.reconcile()
    for thread in planners():
        thread.join(limit_s())
    report = loop.reconcile()
    assert adapter.calls == [("release", "mw_lost")]
    assert report.planning_failure is not None
    assert report.planning_failure.startswith("ZeroDivisionError: no plan")
    assert "no new plan: ZeroDivisionError: no plan" in report.sentence


def test_a_replay_does_not_pass_over_a_planner_that_fails() -> None:
    desk = Desk(fails=True)
    desk.go.set()
    jobs = [SimJob(name, 0.0, 60.0, 60.0, 2, user="user") for name in ("a", "b")]
    simulated = SimCluster(2, jobs, scheduler=SchedulerSettings(), storage=StorageSettings())
    policy = replace(desk.policy(), arrivals_only=False)
    replay = Replay(simulated, policy, NoSettings(), ReplaySettings())
    words = (
        rf"^policy {policy.name} failed at 0 s: no plan: ZeroDivisionError: no plan \({__file__}, line \d+\)$"
    )
    with pytest.raises(PlanningFailed, match=words) as failed:
        replay.run()
    assert isinstance(failed.value, PolicyError), "the command line makes one line of it"


def test_a_policy_that_does_not_plan_has_no_plan() -> None:
    journal = Journal(None)
    journal.save_plan(PLAN)
    planning = Planning(journal, in_thread=False)
    planning.reconfigure(find("none"), find("none").config_type())
    assert planning.with_plan(view()).plan is None


def test_without_the_solver_a_policy_that_plans_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    with pytest.raises(SolverUnavailable, match="OR-Tools"):
        Reconciler(FakeAdapter(view()), Journal(None), find("horizon"), HorizonConfig(), LoopSettings())


def test_a_reload_that_needs_the_solver_changes_nothing_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    desk.go.set()
    loop = Reconciler(
        FakeAdapter(view()), Journal(None), desk.policy(), NoSettings(), LoopSettings(), plan_in_thread=False
    )
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    with pytest.raises(ValueError, match="OR-Tools"):
        loop.reconfigure(find("horizon"), HorizonConfig(), LoopSettings(mode=Mode.ACT))
    report = loop.reconcile()
    assert (report.mode, desk.asked) == (Mode.OBSERVE, 1)


def test_the_daemon_puts_the_queue_into_the_plan_s_order() -> None:
    """A long job waits before a short one that would be late behind it."""
    long = pending("long", 2, submit_s=900.0, walltime_s=72_000.0)
    short = pending("short", 2, submit_s=990.0, walltime_s=600.0)
    blocker = running("r", node_names(2), start_s=500.0, walltime_s=1000.0)
    adapter = FakeAdapter(cluster(2, blocker, long, short))
    journal = Journal(None)
    loop = Reconciler(
        adapter,
        journal,
        find("horizon"),
        HorizonConfig(),
        LoopSettings(mode=Mode.ACT),
        now=lambda: adapter.view.now_s,
        plan_in_thread=False,
    )
    loop.reconcile()
    assert adapter.calls == [("prioritise", "short")]
    (operation,) = journal.open_operations()
    assert operation.tasks[0].progress is Progress.ACCEPTED
    action = operation.tasks[0].action
    assert isinstance(action, Prioritise)
    assert action.queue_position == STEP
    loop.reconcile()
    assert adapter.calls == [("prioritise", "short")], "what is not yet seen is not asked for again"
    placed = replace(short, queue_position=STEP, prioritised=True, priority=1.0)
    adapter.view = cluster(2, blocker, long, placed)
    loop.reconcile()
    assert journal.open_operations() == ()
    adapter.view = cluster(2, blocker, long, short)
    loop.reconcile()
    assert adapter.calls == [("prioritise", "short")] * 2, "a place that was lost is given again"


def test_a_place_that_is_refused_is_not_asked_for_again_at_once() -> None:
    jobs = (
        pending("a", 2, submit_s=900.0, walltime_s=72_000.0),
        pending("b", 2, submit_s=950.0, walltime_s=600.0),
    )
    adapter = FakeAdapter(cluster(2, running("r", node_names(2), walltime_s=2000.0), *jobs))
    adapter.errors["prioritise"] = Rejected("job b is held")
    loop = Reconciler(
        adapter,
        Journal(None),
        find("horizon"),
        HorizonConfig(),
        LoopSettings(mode=Mode.ACT),
        now=lambda: adapter.view.now_s,
        plan_in_thread=False,
    )
    for _ in range(3):
        loop.reconcile()
    assert adapter.calls == [("prioritise", "b")]
    later_s = adapter.view.now_s + Timeouts().refused_s + 1.0
    for _ in range(2):
        adapter.view = replace(adapter.view, now_s=later_s)
        loop.reconcile()
    assert adapter.calls == [("prioritise", "b")] * 2
