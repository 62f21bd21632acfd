"""The service of a daemon that shares a cluster with others."""

from tests.builders import cluster
from tests.daemon.service.site import SELDOM, Site
from tests.fakes import LeasedAdapter


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
