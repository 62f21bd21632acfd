"""The policies of the safety suites: makeway's own, the example, and those of MAKEWAY_POLICY_FILE."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import pytest
from _pytest.mark import ParameterSet
from hypothesis import note

from makeway.daemon.config.policy_finder import find_policy
from makeway.policies.model import Cluster
from makeway.policies.registry import POLICIES
from tests.paths import EXAMPLE_POLICY

_FILES = (str(EXAMPLE_POLICY), *filter(None, os.environ.get("MAKEWAY_POLICY_FILE", "").split(os.pathsep)))
UNDER_TEST = {**POLICIES, **{policy.name: policy for policy in map(find_policy, _FILES)}}
"""By name."""
_OURS = {*POLICIES, find_policy(str(EXAMPLE_POLICY)).name}
AT_ONCE: Final[dict[str, dict[str, Any]]] = {
    "eviction": {"kills": "at_once"},
    "least-price": {"kills": "at_once", "waiting_machine_hours": None, "waits_for_ends": False},
}
"""Settings with which no policy waits in a hold before it evicts: what a decision holds, it also frees."""


def at_once(name: str) -> Any:
    """The settings of a policy that does not wait."""
    return UNDER_TEST[name].config_type(**AT_ONCE.get(name, {}))


def on_the_same(names: Sequence[str]) -> list[ParameterSet]:
    """These policies for tests on clusters that are drawn. makeway's own are tried on the same clusters: to
    draw one takes longer than they take to decide. Each other policy is by itself.
    """
    ours = tuple(name for name in names if name in _OURS)
    groups = [ours, *((name,) for name in names if name not in _OURS)]
    return [pytest.param(group, id=" ".join(group)) for group in groups if group]


def each_on(cluster: Cluster, names: Sequence[str]) -> Iterator[tuple[str, Cluster]]:
    """Each of these policies with a cluster that nothing has been remembered of yet. Who fails is told."""
    for name in names:
        note(f"policy {name}")
        yield name, replace(cluster)
