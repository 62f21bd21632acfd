"""A daemon that follows sends nothing, and one that is paused takes nothing."""

from makeway.daemon.config.mode import Mode
from makeway.daemon.control.permission import Permission
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import LoopSettings
from makeway.daemon.journal.store import Journal
from makeway.daemon.leader.pause import Pause
from makeway.policies.eviction.policy import EvictionConfig
from makeway.policies.registry import find
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
