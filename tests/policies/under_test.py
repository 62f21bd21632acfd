"""The policies of the safety suites: makeway's own, the example, and those of MAKEWAY_POLICY_FILE."""

import os

from makeway.daemon.config.policy_finder import find_policy
from makeway.policies.registry import POLICIES
from tests.paths import EXAMPLE_POLICY

_FILES = (str(EXAMPLE_POLICY), *filter(None, os.environ.get("MAKEWAY_POLICY_FILE", "").split(os.pathsep)))
UNDER_TEST = {**POLICIES, **{policy.name: policy for policy in map(find_policy, _FILES)}}
"""By name."""
