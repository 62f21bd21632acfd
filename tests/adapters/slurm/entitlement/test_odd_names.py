"""Names that sacctmgr takes, and that Slurm prints so that they are hard to read."""

import pytest

from makeway.adapters.command import CompletedCommand
from makeway.adapters.site.checks import SettingNames
from makeway.adapters.site.job_class import JobClass
from makeway.adapters.slurm.entitlement.assoc_mgr import parents_of
from makeway.adapters.slurm.entitlement.known_names import ASSOC_MGR_STATE, known_names
from makeway.adapters.slurm.entitlement.ways import account_limits
from makeway.adapters.slurm.settings import SlurmSettings
from tests.adapters.slurm.entitlement.test_entitlement import FakeAccounting, account, asked, association


def test_a_name_with_a_bar_makes_no_other_row_unreadable() -> None:
    """One such account belongs to no user, another one to this user. Neither lets anybody submit."""
    slurm = FakeAccounting()
    expected = asked(slurm)
    assert expected[0] is None
    slurm.associations = {
        "": (*slurm.associations[""], account("a|b", "root")),
        "ada": (association("a|b", "normal,urgent"), *slurm.associations["ada"]),
    }
    assert asked(slurm) == expected


def test_a_row_that_is_cut_is_not_passed_over() -> None:
    with pytest.raises(ValueError, match="shorter"):
        account_limits(["science|root"])


def test_names_of_accounts_may_have_blanks_and_equals_signs() -> None:
    lines = [
        "ClusterName=c Account=root UserName= Partition= ParentAccount= Comment= GrpJobs=N(0) GrpWall=N",
        "ClusterName=c Account=a lab UserName= Partition= ParentAccount=root(1) Comment= GrpJobs=N(0)",
        "ClusterName=c Account=b UserName= Partition= ParentAccount=a lab(2) Comment= GrpJobs=N(0)",
        "ClusterName=c Account=d=e UserName= Partition= ParentAccount=b(3) Comment= GrpJobs=N(0)",
        "ClusterName=c Account=f UserName= Partition= ParentAccount=d=e(4) Comment= GrpJobs=N(0)",
    ]
    assert parents_of(lines) == {"root": "", "a lab": "root", "b": "a lab", "d=e": "b", "f": "d=e"}

    class Prints:
        def run(self, argv: tuple[str, ...], **_: object) -> CompletedCommand:
            text = "\n".join([ASSOC_MGR_STATE, *lines])
            return CompletedCommand(argv=argv, returncode=0, stdout=text, stderr="")

    settings = SlurmSettings(classes=(JobClass(name="u", accounts=frozenset({"a lab", "c"})),))
    assert known_names(Prints(), settings, SettingNames()).accounts == frozenset(
        {"root", "a lab", "b", "d=e", "f"}
    )
