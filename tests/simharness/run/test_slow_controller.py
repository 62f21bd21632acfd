"""The whole daemon on a simulated cluster whose controller is slow, or hangs in the middle of a cycle."""

from dataclasses import dataclass, field

import pytest

from makeway.adapters.protocol import Capabilities, Unavailable
from makeway.daemon.config.mode import Mode
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import CycleReport, LoopSettings
from makeway.daemon.control.sending import gives_back
from makeway.daemon.journal.store import Journal
from makeway.policies.model import Action, Cluster, JobKind
from makeway.policies.registry import find
from makeway.simharness.engine.adapter import SimAdapter
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.scheduler import Backfill, SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.workloads.job import SimJob

NODES = 40
TIME_OUT_S = 20.0
POLL_S = 30.0


@dataclass
class Controller:
    """A controller whose answers take virtual time. It hangs between two instants: no answer, after a
    time-out.
    """

    cluster: SimCluster
    command_s: float = 0.0
    hangs_from_s: float = float("inf")
    hangs_until_s: float = float("inf")
    sent: list[tuple[float, Action]] = field(default_factory=list[tuple[float, Action]])
    """When each command was sent, counted from the reading of the view that it was decided on."""
    read_s: float = 0.0

    def __post_init__(self) -> None:
        self.adapter = SimAdapter(self.cluster)

    @property
    def capabilities(self) -> Capabilities:
        return self.adapter.capabilities

    def snapshot(self) -> Cluster:
        self.read_s = self.cluster.now_s
        self._answer("the snapshot")
        return self.adapter.snapshot()

    def apply(self, action: Action) -> None:
        self.sent.append((self.cluster.now_s - self.read_s, action))
        self._answer(action.verb)
        self.adapter.apply(action)

    def close(self) -> None:
        self.adapter.close()

    def _answer(self, what: str) -> None:
        hangs = self.hangs_from_s <= self.cluster.now_s < self.hangs_until_s
        self.cluster.advance(self.cluster.now_s + (TIME_OUT_S if hangs else self.command_s))
        if hangs:
            raise Unavailable(f"{what}: no answer within {TIME_OUT_S:g} s")


def crowd(urgent_count: int) -> SimCluster:
    """Forty jobs of a node each, and at 1,000 s urgent jobs of a node each."""
    jobs = [SimJob(f"v{one}", 0.0, 50_000.0, 60_000.0, 1, user="batch") for one in range(NODES)]
    jobs += [
        SimJob(
            f"u{one}", 1000.0, 900.0, 1200.0, 1, user="beam", kind=JobKind.ON_DEMAND, start_within_s=3600.0
        )
        for one in range(urgent_count)
    ]
    cluster = SimCluster(
        NODES,
        jobs,
        scheduler=SchedulerSettings(backfill=Backfill.EASY),
        storage=StorageSettings(aggregate_gb_s=10.0, node_gb_s=5.0),
        check=True,
    )
    cluster.advance(1000.0)
    return cluster


def daemon_on(
    controller: Controller, journal: Journal, *, commands_per_cycle: int | None = None
) -> Reconciler:
    policy = find("eviction")
    return Reconciler(
        controller,
        journal,
        policy,
        policy.config_type(),
        LoopSettings(mode=Mode.ACT, view_age_max_s=POLL_S, commands_per_cycle=commands_per_cycle),
        now=lambda: controller.cluster.now_s,
        clock=lambda: controller.cluster.now_s,
    )


def cycles(controller: Controller, daemon: Reconciler, count: int) -> list[CycleReport]:
    """So many cycles, the next one at once if there is a reason, else after a poll."""
    reports: list[CycleReport] = []
    for _ in range(count):
        reports.append(daemon.reconcile())
        controller.cluster.advance(controller.cluster.now_s + (1.0 if reports[-1].again else POLL_S))
    return reports


@pytest.mark.parametrize("command_s", [3.0, 11.0])
def test_nothing_is_taken_on_a_view_older_than_a_poll(command_s: float) -> None:
    controller = Controller(crowd(NODES), command_s=command_s)
    daemon = daemon_on(controller, Journal(None))
    cycles(controller, daemon, 60)
    taking = [age_s for age_s, action in controller.sent if not gives_back(action)]
    assert len(taking) > NODES
    assert max(taking) <= POLL_S
    started = controller.cluster.record(policy="eviction")
    assert sum(one.start_s is not None for one in started.jobs if one.job.kind is JobKind.ON_DEMAND) > 20


def test_a_controller_that_hangs_in_mid_cycle_costs_one_time_out() -> None:
    controller = Controller(crowd(NODES), command_s=0.1)
    journal = Journal(None)
    daemon = daemon_on(controller, journal)
    controller.hangs_from_s, controller.hangs_until_s = controller.cluster.now_s + 1.0, 1500.0
    began_s = controller.cluster.now_s
    daemon.reconcile()
    assert controller.cluster.now_s - began_s <= 1.0 + 2 * TIME_OUT_S
    before = len(controller.sent)
    while controller.cluster.now_s < 1500.0:
        daemon.reconcile()
        controller.cluster.advance(controller.cluster.now_s + POLL_S)
    assert len(controller.sent) == before, "no view, no command"

    # Once it answers again, everything that was due is done, each on a fresh view.
    cycles(controller, daemon, 40)
    assert max(age_s for age_s, _ in controller.sent) <= POLL_S
    record = controller.cluster.record(policy="eviction")
    assert all(one.start_s is not None for one in record.jobs if one.job.kind is JobKind.ON_DEMAND)
    assert all(one.evictions <= 1 for one in record.jobs)


def test_the_commands_of_each_cycle_are_bounded() -> None:
    controller = Controller(crowd(NODES))
    daemon = daemon_on(controller, Journal(None), commands_per_cycle=7)
    for _ in range(60):
        before = len(controller.sent)
        report = daemon.reconcile()
        assert len(controller.sent) - before <= 7
        controller.cluster.advance(controller.cluster.now_s + (1.0 if report.again else POLL_S))
    record = controller.cluster.record(policy="eviction")
    assert all(one.start_s is not None for one in record.jobs if one.job.kind is JobKind.ON_DEMAND)
