"""Partitions that allow or deny an account, and jobs of an account below it.

Tried on 22.05.8, 24.11.5 and 26.05.5 on 2026-11-27: from 24.11 on the partition goes by the account above,
too.
"""

import pytest

from tests.adapters.slurm.entitlement.test_entitlement import FakeAccounting, account, asked


@pytest.mark.parametrize(
    ("said", "release", "refused"),
    [
        ("AllowAccounts=lab", "24.11.5", False),
        ("DenyAccounts=lab", "24.11.5", True),
        ("AllowAccounts=lab", "22.05.8", True),
        ("DenyAccounts=lab", "22.05.8", False),
    ],
)
def test_from_24_11_on_an_account_stands_for_those_below_it(said: str, release: str, refused: bool) -> None:
    slurm = FakeAccounting()
    slurm.config = slurm.config.replace("24.11.5", release)
    slurm.partition["accounts"] = said
    slurm.associations = {
        **slurm.associations,
        "": (account("root", ""), account("lab", "root"), account("light", "lab")),
    }
    assert (asked(slurm)[0] is not None) is refused
