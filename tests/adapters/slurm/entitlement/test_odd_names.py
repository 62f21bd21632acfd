"""Names that sacctmgr takes, and prints so that their row cannot be read."""

from tests.adapters.slurm.entitlement.test_entitlement import FakeAccounting, account, asked, association


def test_a_name_with_a_bar_makes_no_other_row_unreadable() -> None:
    """Of an account of nobody, and of one of the user: that one opens nothing."""
    slurm = FakeAccounting()
    expected = asked(slurm)
    assert expected[0] is None
    slurm.associations = {
        "": (*slurm.associations[""], account("a|b", "root")),
        "ada": (association("a|b", "normal,urgent"), *slurm.associations["ada"]),
    }
    assert asked(slurm) == expected
