"""What is sent in one cycle of what is due: a slow controller, one that hangs, and the limit."""

from dataclasses import replace

import pytest

from makeway.adapters.protocol import AdapterError, Gone, Rejected, Unavailable, Unreadable
from makeway.daemon.config.mode import Mode
from makeway.daemon.control.executor import Executor
from makeway.daemon.control.permission import ONLY_DAEMON
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import CycleReport, Deferral, Deferred, LoopSettings
from makeway.daemon.control.sending import Sending, gives_back
from makeway.daemon.journal.command_log import Outcome
from makeway.daemon.journal.store import Journal
from makeway.daemon.operation.transitions import advance
from makeway.policies.eviction.policy import EvictionConfig
from makeway.policies.model import Action, Cluster, Limits, Notice, OperationKind, Requeue, TakenFromJob
from makeway.policies.registry import find
from tests import acts
from tests.builders import cluster, held, node_names, running, urgent
from tests.daemon.acting import NODES, PATIENCE, begun, holding, issue_all, requeue, reserve
from tests.fakes import FakeAdapter

URGENT = 6
"""So many urgent jobs wait, each for the one node of one job."""


class SlowAdapter(FakeAdapter):
    """Each command takes `command_s`, the snapshot `snapshot_s`. `hangs`: how many commands it answers."""

    def __init__(
        self, view: Cluster, *, command_s: float = 0.0, snapshot_s: float = 0.0, answers: int = 1000
    ) -> None:
        super().__init__(view)
        self.command_s = command_s
        self.snapshot_s = snapshot_s
        self.answers = answers
        self.clock_s = 5000.0
        """A monotonic clock, which has nothing to do with the time of the cluster."""

    def snapshot(self) -> Cluster:
        self.clock_s += self.snapshot_s
        return super().snapshot()

    def apply(self, action: Action) -> None:
        self.clock_s += self.command_s
        if len(self.calls) >= self.answers:
            self.calls.append((action.verb, action.job_id))
            raise Unavailable("no answer within 20 s")
        super().apply(action)


def crowded() -> Cluster:
    """Every node has its job, and as many urgent jobs wait as there are nodes."""
    jobs = [running(f"v{name}", (name,), start_s=500.0) for name in node_names(URGENT)]
    waiting = [urgent(f"u{number}", 1, submit_s=990.0) for number in range(URGENT)]
    return cluster(URGENT, *jobs, *waiting)


def loop_on(
    adapter: SlowAdapter,
    journal: Journal | None = None,
    *,
    commands_per_cycle: int | None = None,
    view_age_max_s: float | None = 30.0,
) -> Reconciler:
    return Reconciler(
        adapter,
        journal or Journal(None),
        find("eviction"),
        EvictionConfig(),
        LoopSettings(mode=Mode.ACT, commands_per_cycle=commands_per_cycle, view_age_max_s=view_age_max_s),
        now=lambda: adapter.view.now_s,
        clock=lambda: adapter.clock_s,
    )


def deferred(report: CycleReport) -> dict[Deferral, int]:
    return {one.why: one.count for one in report.deferred}


class RefusingAdapter(SlowAdapter):
    """Refuses to requeue the first job that it is asked to."""

    stays: str | None = None

    def apply(self, action: Action) -> None:
        if isinstance(action, Requeue) and self.stays in {None, action.job_id}:
            self.stays = action.job_id
            self.calls.append((action.verb, action.job_id))
            raise Rejected("requested operation is presently disabled")
        super().apply(action)


def test_the_first_command_without_an_answer_ends_the_cycle() -> None:
    adapter = SlowAdapter(crowded(), answers=2)
    loop = loop_on(adapter)
    report = loop.reconcile()
    assert len(adapter.calls) == 3
    assert deferred(report) == {Deferral.UNANSWERED: URGENT - 3}
    assert f"{URGENT - 3} not sent: the cluster does not answer" in report.sentence
    assert not report.again, "it is left in peace until the next poll"


def test_a_cluster_that_leaves_the_last_command_without_an_answer_is_left_in_peace() -> None:
    adapter = SlowAdapter(crowded(), answers=URGENT - 1)
    report = loop_on(adapter).reconcile()
    assert (len(adapter.calls), report.deferred, report.again) == (URGENT, (), False)


def test_what_the_limits_refuse_at_the_last_moment_is_refused_once() -> None:
    """The site has protected the job since: it is no task that is due in the next cycle."""
    adapter, journal = SlowAdapter(crowded()), Journal(None)
    loop = loop_on(adapter, journal)
    loop.reconcile()
    adapter.calls.clear()
    failed = Limits(breaker_failures=0)
    loop.reconfigure(find("eviction"), EvictionConfig(), LoopSettings(mode=Mode.ACT, limits=failed))
    report = loop.reconcile()
    refused = [one.action.job_id for one in report.actions if one.outcome is Outcome.REFUSED]
    assert sorted(refused) == sorted({*refused}), "each of them once"
    assert len(refused) == URGENT
    assert adapter.calls == []


@pytest.mark.parametrize(
    "error",
    [
        Unavailable("no answer"),
        Unavailable("no answer", sent=False),
        Unreadable("?", command=("scontrol",), text=""),
    ],
)
def test_whatever_leaves_a_command_in_doubt_ends_the_cycle(error: AdapterError) -> None:
    adapter = SlowAdapter(crowded())
    adapter.errors["reserve"] = error
    loop_on(adapter).reconcile()
    assert len(adapter.calls) == 1


def test_an_answer_that_is_no_success_ends_nothing() -> None:
    adapter = SlowAdapter(crowded())
    adapter.errors["reserve"] = Gone("it is over")
    loop_on(adapter).reconcile()
    assert len(adapter.calls) == URGENT


def test_what_was_not_sent_is_sent_by_the_next_cycle() -> None:
    adapter = SlowAdapter(crowded(), answers=2)
    loop = loop_on(adapter)
    loop.reconcile()
    adapter.answers, before = 1000, len(adapter.calls)
    report = loop.reconcile()
    assert sum(verb == "reserve" for verb, _ in adapter.calls[before:]) == URGENT - 3
    assert report.deferred == ()


def test_nothing_that_takes_is_sent_on_an_old_view() -> None:
    adapter = SlowAdapter(crowded(), command_s=10.0)
    report = loop_on(adapter).reconcile()
    assert len(adapter.calls) == 4, "sent 0, 10, 20 and 30 s after the view was read"
    assert deferred(report) == {Deferral.OLD_VIEW: URGENT - 4}
    assert report.again, "a fresh view sends the rest"


def test_the_age_of_a_view_counts_from_before_it_was_read() -> None:
    adapter = SlowAdapter(crowded(), snapshot_s=31.0)
    loop = loop_on(adapter)
    report = loop.reconcile()
    assert adapter.calls == []
    assert deferred(report) == {Deferral.OLD_VIEW: URGENT}
    assert loop.wakeup_s(1000.0, 30.0) == 1030.0, "at the next poll"
    adapter.snapshot_s = 29.0
    loop_on(adapter).reconcile()
    assert len(adapter.calls) == URGENT


def left_behind() -> Cluster:
    """The crowd, and two holds of an earlier life that nothing needs."""
    view = crowded()
    names = node_names(2, first=URGENT + 1)
    orphans = tuple(held(f"lost{name}", (name,)) for name in names)
    return replace(cluster(URGENT + 2, *view.jobs), reservations=orphans)


def test_what_gives_back_is_sent_on_an_old_view_too() -> None:
    adapter = SlowAdapter(left_behind(), snapshot_s=60.0)
    loop_on(adapter).reconcile()
    assert [verb for verb, _ in adapter.calls] == ["release", "release"]


def test_a_cycle_sends_as_many_commands_as_it_may_and_gives_back_first() -> None:
    adapter = SlowAdapter(left_behind())
    loop = loop_on(adapter, commands_per_cycle=3)
    report = loop.reconcile()
    assert [verb for verb, _ in adapter.calls] == ["release", "release", "reserve"]
    assert deferred(report) == {Deferral.LIMIT: URGENT - 1}
    assert report.again
    for _ in range(20):
        before = len(adapter.calls)
        loop.reconcile()
        assert len(adapter.calls) - before <= 3
    assert sum(verb == "reserve" for verb, _ in adapter.calls) >= 4


def test_without_limits_all_is_sent() -> None:
    adapter = SlowAdapter(crowded(), command_s=100.0)
    report = loop_on(adapter, view_age_max_s=None).reconcile()
    assert len(adapter.calls) == URGENT
    assert report.deferred == ()


@pytest.mark.parametrize(
    ("action", "gives"),
    [
        (acts.release("mw_1"), True),
        (acts.expand("1", nodes=("n1",), reservation=None), True),
        (acts.restore_priority("1"), True),
        (acts.restore_limit("1", TakenFromJob(run=0)), True),
        (acts.prioritise("1"), True),
        (replace(acts.prioritise("1"), for_job_id="1"), False),
        (acts.prioritise("1", queue_position=3), False),
        (acts.requeue("1"), False),
        (acts.requeue("1", forgotten_run=0), True),
        (acts.cancel("1"), False),
        (acts.shrink("1", keep_nodes=("n1",), walltime_s=60.0), False),
        (acts.checkpoint("1", signal="USR1", walltime_s=60.0), False),
        (acts.reserve("mw_1", nodes=("n1",), duration_s=60.0, job_id="1"), False),
    ],
)
def test_which_actions_give_back(action: Action, gives: bool) -> None:
    assert gives_back(action) is gives


def test_a_refused_eviction_is_no_reason_for_a_new_look_at_once() -> None:
    adapter = RefusingAdapter(
        cluster(1, running("v", ("n1",), start_s=500.0), urgent("u", 1, submit_s=990.0))
    )
    loop = loop_on(adapter)
    assert loop.reconcile().again, "it makes the hold"
    report = loop.reconcile()
    assert [action.final for action in report.actions] == [True]
    assert not report.again


def test_no_other_job_leaves_in_a_cycle_in_which_one_was_refused() -> None:
    jobs = [running(f"v{name}", (name,), start_s=500.0) for name in node_names(2)]
    adapter = RefusingAdapter(cluster(2, *jobs, urgent("u", 2, submit_s=990.0)))
    loop = loop_on(adapter)
    loop.reconcile()  # makes the hold
    adapter.calls.clear()

    report = loop.reconcile()
    assert [verb for verb, _ in adapter.calls] == ["requeue"]
    assert (deferred(report), report.again) == ({Deferral.REFUSED: 1}, True)

    # Without the first there is no room: the other one runs on.
    loop.reconcile()
    left = [job_id for verb, job_id in adapter.calls if verb == "requeue" and job_id != adapter.stays]
    assert left == []


def test_jobs_leave_for_other_urgent_jobs_in_a_cycle_in_which_one_was_refused() -> None:
    adapter = RefusingAdapter(crowded())
    loop = loop_on(adapter)
    loop.reconcile()
    adapter.calls.clear()
    report = loop.reconcile()
    assert len([verb for verb, _ in adapter.calls if verb == "requeue"]) == URGENT
    assert report.deferred == ()


def test_what_is_held_for_announced_jobs_is_changed_before_anything_else_is_taken() -> None:
    """A job that is here may get nodes that such a hold gives up. Its operation is the older one."""
    view = cluster(4, urgent("u", 2))
    notice = Notice(
        notice_id="n", user="beam", node_count=2, walltime_s=60.0, announced_s=900.0, expected_s=2000.0
    )
    for_notice = replace(
        reserve(node_names(2)),
        job_id="n",
        for_job_id="n",
        reservation="mw_n",
        user="beam",
        kind=OperationKind.NOTICE,
    )
    seen = replace(view, notices=(notice,))
    makes_way = begun(seen, reserve(("n3", "n4")))
    gathers = replace(begun(seen, for_notice), operation_id="2")
    adapter, journal = FakeAdapter(view), Journal(None)
    journal.save(makes_way)
    journal.save(gathers)
    executor = Executor(adapter, journal, lambda: view.now_s)
    known = replace(seen, operations=(makes_way, gathers))
    settings = LoopSettings(mode=Mode.ACT)
    Sending(executor, journal, known, settings, 0.0, lambda: 0.0, ONLY_DAEMON).send()
    assert adapter.calls == [("reserve", "mw_n"), ("reserve", "mw_u")]


def test_a_job_is_put_back_before_others_leave_for_the_same_urgent_job() -> None:
    """The signal has ended the last one."""
    put_back = replace(requeue("v"), ended_by="USR1")
    before = cluster(4, urgent("u", 4), running("v", NODES[:2]), running("w", NODES[2:]))
    operation, _ = issue_all(begun(before, reserve(), requeue("w"), put_back), before)
    view = holding(running("w", NODES[2:]))
    operation = advance(operation, view, PATIENCE)
    adapter, journal = FakeAdapter(view), Journal(None)
    journal.save(operation)
    executor = Executor(adapter, journal, lambda: view.now_s)
    known = replace(view, operations=(operation,))
    settings = LoopSettings(mode=Mode.ACT)
    Sending(executor, journal, known, settings, 0.0, lambda: 0.0, ONLY_DAEMON).send()
    assert adapter.calls == [("requeue", "v"), ("requeue", "w")]


def test_what_an_old_view_keeps_from_being_sent_is_looked_at_again_at_once() -> None:
    why = Deferred(why=Deferral.OLD_VIEW, count=1)
    late = CycleReport(at_s=0.0, mode=Mode.ACT, sentence="", deferred=(why,))
    assert (late.again, replace(late, deferred=()).again) == (True, False)
