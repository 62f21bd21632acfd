"""The accounts, QOS and partitions that settings name."""

from dataclasses import replace

from makeway.adapters.site.checks import SettingNames
from makeway.daemon.inspect.setting_names import setting_names
from makeway.policies.eviction.policy import EvictionConfig
from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.policies.model import Limits


def test_the_names_of_limits_and_policy() -> None:
    limits = Limits(protected_accounts=frozenset({"bio"}), protected_partitions=frozenset({"rt"}))
    limits = replace(limits, protected_users=frozenset({"ada"}))
    policy = LeastPriceConfig(vital_accounts=frozenset({"fire"}), vital_qos=frozenset({"gold"}))
    assert setting_names(limits, policy) == SettingNames(
        accounts={
            "limits.protected_accounts": frozenset({"bio"}),
            "policy.settings.vital_accounts": frozenset({"fire"}),
        },
        qos={"policy.settings.vital_qos": frozenset({"gold"})},
        partitions={"limits.protected_partitions": frozenset({"rt"})},
        users={"limits.protected_users": frozenset({"ada"})},
    )


def test_nothing_is_named() -> None:
    assert setting_names(Limits(), EvictionConfig()) == SettingNames()
