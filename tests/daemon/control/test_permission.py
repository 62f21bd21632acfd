"""A daemon that follows sends nothing, and one that is paused takes nothing."""

from dataclasses import replace

from makeway.daemon.config.mode import Mode
from makeway.daemon.control.permission import Permission
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import Deferral, Deferred, LoopSettings
from makeway.daemon.journal.store import Journal
from makeway.daemon.leader.pause import Pause
from makeway.daemon.leader.standing import Role
from makeway.policies.eviction.policy import EvictionConfig
from makeway.policies.model import Action, Cluster
from makeway.policies.registry import find
from tests.builders import cluster, node_names, running, urgent
from tests.daemon.acting import begun, held_operation, requeue, reserve
from tests.daemon.control.loops import busy
from tests.daemon.leader.daemons import Daemon, World
from tests.fakes import FakeAdapter


def reconciler(adapter: FakeAdapter, journal: Journal, permission: Permission) -> Reconciler:
    return Reconciler(
        adapter,
        journal,
        find("eviction"),
        EvictionConfig(),
        LoopSettings(mode=Mode.ACT),
        now=lambda: adapter.view.now_s,
        permission=permission,
    )


def test_a_paused_daemon_takes_nothing_until_it_is_resumed() -> None:
    adapter, journal = FakeAdapter(busy()), Journal(None)
    pause = Pause(journal)
    loop = reconciler(adapter, journal, Permission(pause=pause))
    pause.set(True)
    assert Pause(journal).on, "it is written down"
    assert loop.reconcile().paused
    assert adapter.calls == []
    assert journal.open_operations() == ()
    pause.set(False)
    loop.reconcile()
    assert adapter.calls[0][0] == "reserve"


def test_a_daemon_without_the_lease_sends_nothing() -> None:
    world = World()
    holder, waiting = Daemon(world), Daemon(world)
    holder.look()
    adapter = FakeAdapter(world.with_leases(busy()))
    loop = reconciler(adapter, waiting.journal, Permission(leadership=waiting.lease))
    report = loop.reconcile()
    assert report.sentence.startswith("act: another daemon leads; ")
    assert adapter.calls == []
    (operation,) = waiting.journal.open_operations()
    assert operation.observe


def test_a_pause_keeps_what_is_due_until_it_ends() -> None:
    """The nodes are held. No job is made to leave them, and another cycle at once would change nothing."""
    adapter, journal = FakeAdapter(busy()), Journal(None)
    pause = Pause(journal)
    loop = reconciler(adapter, journal, Permission(pause=pause))
    loop.reconcile()
    pause.set(True)
    report = loop.reconcile()
    assert adapter.calls == [("reserve", "mw_u")]
    assert (report.deferred, report.again) == ((Deferred(why=Deferral.PAUSED, count=1),), False)
    adapter.view = replace(adapter.view, jobs=adapter.view.jobs[1:])
    loop.reconcile()
    assert adapter.calls[1:] == [("release", "mw_u")], "the urgent job was cancelled: its hold goes back"


class Leading(FakeAdapter):
    """Shows the leases of the world, and each of its commands takes 20 s of its time."""

    def __init__(self, world: World, view: Cluster) -> None:
        super().__init__(view)
        self.world = world

    def snapshot(self) -> Cluster:
        return replace(self.world.with_leases(super().snapshot()), now_s=self.world.now_s)

    def apply(self, action: Action) -> None:
        super().apply(action)
        self.world.now_s += 20.0


def test_a_leader_sends_nothing_that_could_end_after_its_lease() -> None:
    """The lease lasts for 60 s, and a command may take 5 s: the third one is sent after 40 s."""
    world = World()
    holder = Daemon(world)
    jobs = [running(f"v{name}", (name,), start_s=500.0) for name in node_names(5)]
    waiting = [urgent(f"u{number}", 1, submit_s=990.0) for number in range(5)]
    adapter = Leading(world, cluster(5, *jobs, *waiting))
    loop = reconciler(adapter, holder.journal, Permission(leadership=holder.lease))
    report = loop.reconcile()
    assert [verb for verb, _ in adapter.calls] == ["reserve"] * 3
    assert report.deferred == (Deferred(why=Deferral.NOT_LEADING, count=2),)


def test_only_a_daemon_that_may_have_to_send_something_takes_the_lease() -> None:
    """In observe mode a daemon leaves it to others, unless it has to give back what an earlier life took."""

    def takes_it(mode: Mode, journal: Journal | None = None) -> bool:
        world = World()
        one = Daemon(world)
        adapter = Leading(world, world.view())
        Permission(leadership=one.lease).look(adapter, journal or one.journal, mode)
        return world.terms() != []

    owes, watches = Journal(None), Journal(None)
    owes.save(held_operation(requeue("v")))
    watches.save(replace(begun(busy(), reserve()), observe=True))
    assert takes_it(Mode.ACT)
    assert not takes_it(Mode.OBSERVE)
    assert takes_it(Mode.OBSERVE, owes)
    assert not takes_it(Mode.OBSERVE, watches)


def test_a_leader_says_that_it_leads_in_each_cycle() -> None:
    """Also in those in which nothing changes, and nothing is decided again."""
    world = World()
    one = Daemon(world)
    adapter = Leading(world, cluster(2, running("v", ("n1",))))
    loop = reconciler(adapter, one.journal, Permission(leadership=one.lease))
    assert [loop.reconcile().standing.role for _ in range(4)] == [Role.LEADS] * 4
