"""The policies that the safety suites run on: makeway's own, the example's, and those of MAKEWAY_POLICY_FILE."""

import os
from pathlib import Path

from makeway.daemon.policy_finder import find_policy
from makeway.policies.registry import POLICIES

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "youngest.py"
_FILES = (str(EXAMPLE), *filter(None, os.environ.get("MAKEWAY_POLICY_FILE", "").split(os.pathsep)))
UNDER_TEST = {**POLICIES, **{policy.name: policy for policy in map(find_policy, _FILES)}}
"""By name."""
