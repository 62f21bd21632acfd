"""Where accounting knows accounts: leases of a SlurmUser that has none, and how their names are written."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from bench.fight.accounting import Accounting

from makeway.adapters.devcluster.cluster import DevCluster
from makeway.adapters.devcluster.conf import CLUSTER_NAME, DevSpec
from makeway.adapters.protocol import Rejected
from makeway.adapters.site.checks import SettingNames
from makeway.adapters.slurm.adapter import SlurmCliAdapter
from makeway.adapters.slurm.entitlement.check import check_setting_names
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
    accounting.manage("add", "account", "Bio-Lab", f"cluster={CLUSTER_NAME}")
    accounting.manage("add", "qos", "Gold")
    accounting.manage("add", "user", "games", "account=some", f"cluster={CLUSTER_NAME}")


def test_accounts_and_qos_are_in_lower_case_in_slurm(one_node: DevCluster) -> None:
    """Whatever sacctmgr was given. A protected account of another case protects no job."""
    names = SettingNames(
        accounts={"limits.protected_accounts": frozenset({"Bio-Lab", "bio-lab", "none-such"})},
        qos={"limits.protected_qos": frozenset({"Gold", "gold", "normal"})},
    )
    found = survey(SETTINGS, names=names, runner=one_node.runner)
    texts = [one.text.partition(": no job")[0] for one in check_setting_names(found, names)]
    assert texts == [
        "Slurm knows no such QOS (limits.protected_qos: Gold, which is gold in Slurm)",
        (
            "Slurm knows no such account (limits.protected_accounts: Bio-Lab, which is bio-lab in Slurm, "
            "limits.protected_accounts: none-such)"
        ),
    ]


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
