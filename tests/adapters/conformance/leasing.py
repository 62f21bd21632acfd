"""The leases by which one of several daemons acts, where the adapter keeps them."""

import pytest

from makeway.adapters.protocol import GatedAdapter, Gone, LeaseKeeper, Rejected, Unavailable
from makeway.policies.model import LEASE_MARKS, LeaderLease
from tests import acts
from tests.adapters.conformance.world import ConformanceBase, World, needs, over, running


class LeasingConformance(ConformanceBase):
    """The leases by which one of several daemons acts. Skipped where the adapter keeps none."""

    @pytest.fixture
    def keeper(self, world: World) -> LeaseKeeper:
        """The adapter, which has seen the cluster."""
        if not isinstance(world.adapter, LeaseKeeper):
            pytest.skip(f"{world.adapter.capabilities.name} keeps no leases")
        world.adapter.snapshot()
        return world.adapter

    def test_a_lease_is_made_once_shown_renewed_and_removed(self, world: World, keeper: LeaseKeeper) -> None:
        assert keeper.command_s >= 0.0
        made = LeaderLease(term=3, mark=5, lasts_s=600.0)
        keeper.create_lease(made)
        with pytest.raises(Rejected):
            keeper.create_lease(LeaderLease(term=3, mark=6, lasts_s=600.0))
        keeper.create_lease(LeaderLease(term=4, mark=0, lasts_s=120.0))
        seen = world.adapter.snapshot()
        assert {lease.term: lease for lease in seen.leader_leases} == {
            3: made,
            4: LeaderLease(term=4, mark=0, lasts_s=120.0),
        }
        assert seen.reservations == (), "a lease is no hold"
        assert len(seen.free_nodes()) == len(world.nodes), "a lease keeps no node"

        for changed in (
            LeaderLease(term=3, mark=LEASE_MARKS - 1, lasts_s=900.0),
            LeaderLease(term=3, mark=None, lasts_s=900.0),
        ):
            keeper.renew_lease(changed)
            assert changed in world.adapter.snapshot().leader_leases

        for term in (3, 4):
            keeper.remove_lease(term)
        assert world.adapter.snapshot().leader_leases == ()
        with pytest.raises(Gone):
            keeper.renew_lease(made)
        with pytest.raises(Gone):
            keeper.remove_lease(3)

    @needs("cancel")
    def test_no_command_is_sent_that_may_not_be(self, world: World, keeper: LeaseKeeper) -> None:
        adapter = world.adapter
        if not isinstance(adapter, GatedAdapter):
            pytest.skip(f"{adapter.capabilities.name} does not ask before each command")
        job = running(world, world.submit(1))
        adapter.ask_before_commands(lambda: False)
        with pytest.raises(Unavailable) as refusal:
            world.adapter.apply(acts.cancel(job.job_id))
        assert not refusal.value.sent
        keeper.create_lease(LeaderLease(term=1, mark=1, lasts_s=60.0))
        keeper.remove_lease(1)
        assert running(world, job.job_id) == job
        adapter.ask_before_commands(lambda: True)
        world.adapter.apply(acts.cancel(job.job_id))
        world.wait(over(job.job_id), "the job is gone")
