"""Names of settings that Slurm does not know, as `makeway doctor` reports them."""

import pytest

from makeway.adapters.site.checks import SettingNames
from makeway.adapters.slurm.entitlement.check import check_setting_names
from tests.adapters.slurm.test_doctor import slurm

ACCOUNTING = {"AccountingStorageType": "accounting_storage/slurmdbd"}
WRONG = ": no job ever has it; correct the name"


def protected(*names: str) -> dict[str, frozenset[str]]:
    return {"limits.protected": frozenset(names)}


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (SettingNames(), []),
        (SettingNames(accounts=protected("bio"), qos=protected("gold"), partitions=protected("rt")), []),
        (SettingNames(accounts=protected("bio", "boi")), ["account (limits.protected: boi)"]),
        (SettingNames(accounts=protected("Bio")), ["account (limits.protected: Bio, which is bio in Slurm)"]),
        (SettingNames(qos=protected("GOLD")), ["QOS (limits.protected: GOLD, which is gold in Slurm)"]),
        (SettingNames(partitions=protected("tr")), ["partition (limits.protected: tr)"]),
        (SettingNames(users=protected("ada", "dada")), ["user (limits.protected: dada)"]),
    ],
)
def test_names_that_no_job_has(names: SettingNames, said: list[str]) -> None:
    survey = slurm(ACCOUNTING, qos=frozenset({"gold"}), accounts=frozenset({"bio"}), users=frozenset({"ada"}))
    found = check_setting_names(survey, names)
    assert [one.text for one in found] == [f"Slurm knows no such {text}{WRONG}" for text in said]


def test_what_slurm_does_not_tell_is_not_reported() -> None:
    names = SettingNames(accounts=protected("Bio"), qos=protected("GOLD"), users=protected("dada"))
    assert check_setting_names(slurm(ACCOUNTING, qos=None, accounts=None), names) == []
    assert check_setting_names(slurm(qos=frozenset(), accounts=frozenset()), names) == []
