"""The service of a daemon that shares a cluster with others."""

from collections.abc import Callable
from dataclasses import replace

from makeway.policies.model import Cluster, LeaderLease
from makeway.simharness.engine.reservations import LeaseBook
from tests.builders import cluster
from tests.daemon.service.site import SELDOM, Site
from tests.fakes import FakeAdapter


class LeasedAdapter(FakeAdapter):
    """Keeps leases, and remembers what it is to ask before its commands."""

    command_s = 1.0

    def __init__(self, view: Cluster) -> None:
        super().__init__(view)
        self.book = LeaseBook()
        self.may_send: Callable[[], bool] | None = None

    def snapshot(self) -> Cluster:
        return replace(super().snapshot(), leader_leases=self.book.all())

    def create_lease(self, lease: LeaderLease) -> None:
        self.book.create(lease, self.view.now_s)

    def renew_lease(self, lease: LeaderLease) -> None:
        self.book.renew(lease)

    def remove_lease(self, term: int) -> None:
        self.book.remove(term)

    def ask_before_commands(self, may_send: Callable[[], bool]) -> None:
        self.may_send = may_send


def test_the_adapter_asks_the_lease_before_each_command(site: Site) -> None:
    adapter = LeasedAdapter(cluster(4))
    site.adapter = adapter
    site.write(f"mode: act\n{SELDOM}")
    with site.up():
        site.listener.wait_for("STATUS=")
        assert adapter.may_send is not None
        assert adapter.may_send()
        site.ask(command="handover")
        assert "waits for the lease" in site.listener.wait_for("STATUS=")
        assert not adapter.may_send()
