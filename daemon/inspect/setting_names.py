"""Which accounts, QOS, partitions and users of the cluster the limits and the policy name."""

from collections.abc import Mapping
from typing import Any

from makeway.adapters.site.checks import SettingNames
from makeway.policies.model import Limits


def setting_names(limits: Limits, policy_config: Any) -> SettingNames:
    """The names, by the keys of their settings. A policy without such a setting names none."""

    def of(what: str) -> Mapping[str, frozenset[str]]:
        found: dict[str, frozenset[str]] = {
            f"limits.protected_{what}": getattr(limits, f"protected_{what}"),
            f"policy.settings.vital_{what}": frozenset(getattr(policy_config, f"vital_{what}", ())),
        }
        return {key: names for key, names in found.items() if names}

    return SettingNames(
        accounts=of("accounts"), qos=of("qos"), partitions=of("partitions"), users=of("users")
    )
