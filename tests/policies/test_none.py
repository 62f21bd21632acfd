"""The policy that does nothing."""

from collections.abc import Callable

from makeway.policies.model import Cluster, Decision, Job
from makeway.policies.none import NONE, NoneConfig


def test_it_wants_nothing_even_when_an_urgent_job_waits(
    waiting: Callable[..., Job], running: Callable[..., Job], cluster_of: Callable[..., Cluster]
) -> None:
    cluster = cluster_of(4, running("a", "n0 n1"), waiting("u", 3))
    assert NONE.decide(cluster, NoneConfig()) == Decision(policy="none")
    assert not NONE.active
