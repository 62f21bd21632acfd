"""Leases where accounting asks for an account, and makeway's user is SlurmUser, which has none."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from bench.fight.accounting import Accounting

from makeway.adapters.devcluster.cluster import DevCluster
from makeway.adapters.devcluster.conf import CLUSTER_NAME, DevSpec
from makeway.adapters.protocol import Rejected
from makeway.adapters.slurm.adapter import SlurmCliAdapter
from makeway.adapters.slurm.lease.check import check_lease
from makeway.adapters.slurm.survey import survey
from makeway.policies.model import LeaderLease
from tests.slurm.support.accounted import accounted_cluster
from tests.slurm.support.world import SETTINGS, slurm_settings
from tests.waiting import await_that

pytestmark = pytest.mark.slurm

WITHOUT_ACCOUNT, WITH_ACCOUNT = 2, 5
"""bin and games: users of every system."""


@pytest.fixture(scope="module")
def one_node(slurm_root: str | None) -> Iterator[DevCluster]:
    spec = DevSpec(node_count=1, root=slurm_root, settings=slurm_settings())
    with accounted_cluster(spec, add_association) as cluster:
        yield cluster


def add_association(accounting: Accounting) -> None:
    accounting.manage("add", "account", "some", f"cluster={CLUSTER_NAME}")
    accounting.manage("add", "user", "games", "account=some", f"cluster={CLUSTER_NAME}")


def test_a_lease_needs_no_account_of_makeways_own_user(
    one_node: DevCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def makes_a_lease(term: int) -> bool:
        lease = LeaderLease(term=term, mark=term, lasts_s=60.0)
        try:
            adapter.create_lease(lease)
        except Rejected:
            return False
        made = lease in adapter.snapshot().leader_leases
        adapter.remove_lease(term)
        return made

    def is_refused() -> bool:
        found = survey(SETTINGS, runner=one_node.runner, user_id=WITHOUT_ACCOUNT)
        return check_lease(found, acts=True) is not None

    monkeypatch.setattr("os.geteuid", lambda: WITHOUT_ACCOUNT)
    with closing(SlurmCliAdapter(SETTINGS, runner=one_node.runner)) as adapter:
        adapter.snapshot()
        assert makes_a_lease(1)
        assert not is_refused()
        one_node.run("sacctmgr", "--immediate", "delete", "user", "root")
        await_that("the controller knows that root has no account any more", is_refused)
        assert not makes_a_lease(2)
        monkeypatch.setattr("os.geteuid", lambda: WITH_ACCOUNT)
        assert makes_a_lease(3)
