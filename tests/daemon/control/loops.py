"""A reconciler over a fake cluster, for tests."""

from makeway.daemon.config.mode import Mode
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import LoopSettings
from makeway.daemon.journal.store import Journal
from makeway.policies.model import (
    Cluster,
    Limits,
)
from makeway.policies.registry import find
from tests.builders import cluster, node_names, running, urgent
from tests.fakes import FakeAdapter

FOUR = node_names(4)


def busy() -> Cluster:
    """Four nodes, all held by one job; an urgent job wants two."""
    return cluster(4, urgent("u", 2, submit_s=990.0), running("v", FOUR, start_s=500.0))


def daemon(
    adapter: FakeAdapter,
    journal: Journal | None = None,
    *,
    mode: Mode = Mode.ACT,
    limits: Limits | None = None,
    policy: str = "eviction",
) -> Reconciler:
    found = find(policy)
    return Reconciler(
        adapter,
        journal or Journal(None),
        found,
        found.config_type(),
        LoopSettings(mode=mode, limits=limits or Limits()),
        now=lambda: adapter.view.now_s,
    )
