"""The policies of the safety suites: makeway's own, the example, and those of MAKEWAY_POLICY_FILE."""

import os
from typing import Any, Final

from makeway.daemon.config.policy_finder import find_policy
from makeway.policies.registry import POLICIES
from tests.paths import EXAMPLE_POLICY

_FILES = (str(EXAMPLE_POLICY), *filter(None, os.environ.get("MAKEWAY_POLICY_FILE", "").split(os.pathsep)))
UNDER_TEST = {**POLICIES, **{policy.name: policy for policy in map(find_policy, _FILES)}}
"""By name."""
AT_ONCE: Final[dict[str, dict[str, Any]]] = {
    "eviction": {"kills": "at_once"},
    "least-price": {"kills": "at_once", "waiting_machine_hours": None, "waits_for_ends": False},
}
"""Settings with which no policy waits in a hold before it evicts: what a decision holds, it also frees."""


def at_once(name: str) -> Any:
    """The settings of a policy that does not wait."""
    return UNDER_TEST[name].config_type(**AT_ONCE.get(name, {}))
