"""The simulated cluster of a story and its daemons: how they start, and how they die."""

from collections.abc import Callable
from heapq import heappush
from itertools import count
from math import ceil, inf
from pathlib import Path

from makeway.daemon.config.mode import Mode
from makeway.daemon.control.permission import Permission
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import LoopSettings
from makeway.daemon.leader.leadership import Leadership
from makeway.daemon.operation.observation import Timeouts
from makeway.policies.model import Limits, Placement
from makeway.policies.registry import find
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.event_queue import NodeFailure
from makeway.simharness.engine.scheduler import SchedulerSettings
from makeway.simharness.engine.shared.nodes import SharingSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.swarm.journal import MortalJournal
from makeway.simharness.swarm.laws import Laws
from makeway.simharness.swarm.rival import FIRST, LEASE_S, Rival, leadership
from makeway.simharness.swarm.story import Story, Trouble, TroubleKind
from makeway.simharness.swarm.troubled import TroubledAdapter, Weather
from makeway.simharness.swarm.watching.leading import Leading

COMMANDS_PER_CYCLE = 25
VIEW_AGE_MAX_S = 30.0


def cluster_of(story: Story) -> SimCluster:
    """Its machine and its workload, at the start; the simulator's own invariants are checked."""
    failures = [
        NodeFailure(at_s=trouble.at_s, node=int(trouble.amount), repair_s=trouble.lasts_s)
        for trouble in story.troubles
        if trouble.kind is TroubleKind.NODE_DOWN
    ]
    capacity = story.capacity
    cluster = SimCluster(
        story.node_count,
        story.jobs,
        scheduler=SchedulerSettings(),
        storage=StorageSettings(aggregate_gb_s=10.0, node_gb_s=5.0),
        failures=failures,
        check=True,
        sharing=None if capacity is None else SharingSettings(capacities=(capacity,) * story.node_count),
    )
    if story.switch_nodes is not None:
        names = cluster.machine.names.of((1 << story.node_count) - 1)
        below = range(0, story.node_count, story.switch_nodes)
        cluster.machine.placements = tuple(
            Placement(name=f"switch {first + 1}", nodes=names[first : first + story.switch_nodes])
            for first in below
        )
    return cluster


class TwoDaemons:
    """The daemon of a story on its cluster, and the one that may contend with it.

    Args:
        story: the story.
        folder: for the journals.
    """

    def __init__(self, story: Story, folder: Path) -> None:
        self._story = story
        self._path = folder / "journal.sqlite"
        self._copies = folder / "copies"
        self._weather = Weather(story)
        self._cluster = cluster_of(story)
        self._first_s = self._cluster.now_s
        self._two = self._weather.has(TroubleKind.SECOND_DAEMON)
        self._laws = Laws(
            story,
            self._cluster.machine,
            Leading(LEASE_S if self._two else None),
            commands_per_cycle=COMMANDS_PER_CYCLE,
            view_age_s=VIEW_AGE_MAX_S,
        )
        self._adapter = TroubledAdapter(self._cluster, self._weather, self._laws, FIRST)
        self._cluster.machine.taken_clock = self._adapter.clock_s
        self._lease: Leadership | None = None
        self._lease_due_s: float | None = None
        self._rival: Rival | None = None
        self._policy = find(story.policy)
        self._pokes = {job.job_id for job in story.jobs if job.start_within_s is not None}
        self._journal: MortalJournal | None = None
        self._reconciler: Reconciler | None = None
        self._known_notices: set[str] = set()
        self._forgotten: set[Trouble] = set()
        self._death = TroubleKind.KILLED_WRITING
        self._downtime_s = 0.0
        self._stopped_until_s = -inf
        self._pause_end_s = -inf
        self._due_s: float | None = None
        self._cycles: int = 0
        self._commands: int = 0
        self._order = count()
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []

    def close(self) -> None:
        for daemon in (self._journal, self._rival):
            if daemon is not None:
                daemon.close()

    def _look_at(self, at_s: float) -> None:
        self._due_s = at_s if self._due_s is None else min(self._due_s, at_s)
        if self._rival is not None:
            self._rival.look_at(at_s)

    def _poll_s(self, at_s: float, *, after: bool = False) -> float:
        """The first poll at `at_s` or later; with `after`, later."""
        interval_s = self._story.poll_interval_s
        number = ceil(at_s / interval_s)
        return (number + 1 if after and number * interval_s <= at_s else number) * interval_s

    def _start(self) -> None:
        """The daemon starts, on whatever journal there is."""
        if self._reconciler is not None:
            return
        journal = MortalJournal(
            self._path, lambda: self._weather.meet(TroubleKind.DISK_FULL, self._cluster.now_s) is not None
        )
        self._journal = journal
        now = lambda: self._cluster.now_s
        seed = f"{self._story.seed}:{next(self._order)}"
        self._lease = leadership(self._adapter, journal, now, seed) if self._two else None
        self._reconciler = Reconciler(
            self._adapter,
            journal,
            self._policy,
            self._policy.config_type(),
            self._settings(),
            now=self._adapter.clock_s,
            clock=now,
            plan_in_thread=False,
            permission=Permission(leadership=self._lease),
        )
        self._due_s = self._cluster.now_s

    def _settings(self) -> LoopSettings:
        return LoopSettings(
            mode=Mode.ACT,
            keep_snapshots=False,
            learn_durations=self._story.learns,
            limits=Limits(max_loss_node_hours_per_user_per_day=self._story.user_node_hours),
            timeouts=Timeouts(linger_s=self._story.linger_s),
            commands_per_cycle=COMMANDS_PER_CYCLE,
            view_age_max_s=VIEW_AGE_MAX_S,
        )

    def _die(self, downtime_s: float, then: Callable[[], None] | None = None) -> None:
        """The daemon is killed, and starts again later; `then` is done to its files meanwhile."""
        if self._reconciler is None or self._journal is None:
            return
        self._journal.close()
        self._reconciler = self._journal = None
        self._laws.daemon_died()
        if then is not None:
            then()
            self._laws.memory_lost()
        self._at(self._cluster.now_s + downtime_s, self._start)

    def _at(self, at_s: float, call: Callable[[], None]) -> None:
        heappush(self._agenda, (at_s, next(self._order), call))

    def _met(self, kind: TroubleKind, effect: bool = True) -> None:
        self._weather.met[kind] += effect
