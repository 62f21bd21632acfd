"""What must hold for every policy of the registry, whatever the cluster looks like."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from makeway.policies.gate.arbiter import arbitrate
from makeway.policies.model import (
    Cluster,
    Eviction,
    Prioritise,
    Release,
    Reserve,
)
from makeway.policies.safety.protection import Refusal
from tests.policies.any_cluster import NOW_S, clusters, placements
from tests.policies.safety.rules import check_safe, decide, evictions, unannounced, under_way
from tests.policies.under_test import UNDER_TEST, each_on, on_the_same

ACTIVE = [name for name, policy in UNDER_TEST.items() if policy.active and policy.arrivals_only]
"""The policies that act for urgent jobs alone; `test_safety_queue` has the others."""
PLACED = [name for name, policy in UNDER_TEST.items() if policy.whole_placements]
"""The policies that know of placements."""


@pytest.mark.parametrize("names", on_the_same(ACTIVE))
@settings(deadline=None, max_examples=500)
@given(cluster=clusters())
def test_every_decision_is_safe(names: Sequence[str], cluster: Cluster) -> None:
    for name, view in each_on(cluster, names):
        check_safe(name, view)


@pytest.mark.parametrize("names", on_the_same(PLACED))
@settings(deadline=None, max_examples=150)
@given(cluster=clusters(), data=st.data())
def test_every_decision_within_placements_is_safe(
    names: Sequence[str], cluster: Cluster, data: st.DataObject
) -> None:
    found = data.draw(placements(tuple(node.name for node in cluster.nodes)))
    for name, view in each_on(replace(cluster, placements=found), names):
        check_safe(name, view)


@pytest.mark.parametrize("names", on_the_same(ACTIVE))
@settings(deadline=None, max_examples=500)
@given(
    cluster=clusters(),
    per_hour=st.none() | st.integers(0, 4),
    past=st.integers(0, 2),
    max_nodes=st.none() | st.integers(0, 12),
    failures=st.integers(0, 6),
)
def test_limits_are_never_exceeded_and_groups_never_torn(
    names: Sequence[str],
    cluster: Cluster,
    per_hour: int | None,
    past: int,
    max_nodes: int | None,
    failures: int,
) -> None:
    limited = replace(
        cluster,
        limits=replace(cluster.limits, evictions_per_hour=per_hour, max_nodes=max_nodes),
        evictions=tuple(Eviction(job_id=f"x{index}", at_s=NOW_S - 60.0) for index in range(past)),
        failures_s=(NOW_S - 5.0,) * failures,
    )
    for name, view in each_on(limited, names):
        check_limits(name, view if UNDER_TEST[name].collects else unannounced(view))


def check_limits(name: str, limited: Cluster) -> None:
    """A policy's decision keeps to the limits of a cluster, and is allowed or refused in whole groups."""
    limits, past, failures = limited.limits, len(limited.evictions), len(limited.failures_s)
    per_hour, max_nodes = limits.evictions_per_hour, limits.max_nodes
    verdicts = arbitrate(decide(name, limited).actions, limited)
    allowed = [verdict.action for verdict in verdicts if verdict.allowed]
    taken = {action.job_id for action in evictions(allowed)}
    pending = {action.job_id for action in under_way(limited)}
    assert per_hour is None or not taken or past + len(taken | pending) <= per_hour
    assert failures < 5 or all(isinstance(action, Prioritise | Release) for action in allowed)
    held = {
        action.reservation: action.nodes
        for action in allowed
        if isinstance(action, Reserve) and not action.out_of
    }
    ours = {kept.name: kept.nodes for kept in limited.reservations if kept.by_makeway}
    given_up = {action.reservation for action in allowed if isinstance(action, Release)}
    at_most = {f"mw_{notice.notice_id}": notice.node_count for notice in limited.notices if not notice.job_id}
    counted = [
        min(len(nodes), at_most.get(reservation, len(nodes)))
        for reservation, nodes in (ours | held).items()
        if reservation not in given_up
    ]
    assert max_nodes is None or not held or sum(counted) <= max_nodes
    for _, members in groupby(verdicts, key=lambda verdict: verdict.action.for_job_id):
        refused = [verdict.refusal for verdict in members]
        if any(refused):
            event("a group was refused")
            assert all(refused)
            assert any(refusal is not Refusal.GROUP for refusal in refused)
