"""What is worked out once for several requests, or for several snapshots, is what the definitions give each time."""

from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.policies.common.commitments import (
    Answer,
    Ask,
    decide_each,
    departure,
    hold,
    leavers,
    no_room,
    rationale,
)
from makeway.policies.common.victims import bundles, urgent
from makeway.policies.model import Action, Cluster, Method
from tests.policies import plain
from tests.policies.any_cluster import clusters

NOBODY: frozenset[str] = frozenset()


def kill_the_first(ask: Ask) -> Answer:
    """Whoever comes first in the order of ids leaves, until there is room."""
    able = [
        bundle
        for bundle in bundles(ask.cluster, ask.request, unusable=ask.unusable, spared=ask.spared)
        if not bundle.barrier
    ]
    if sum(len(bundle.nodes) for bundle in able) < ask.shortage:
        return no_room(ask, "too few")
    held = hold(ask, tuple(name for bundle in able for name in bundle.nodes))
    actions: list[Action] = [held]
    for bundle in able:
        for job in leavers(bundle, held):
            actions.extend(departure(ask, job, Method.KILL, ask.cluster.now_s))
    return Answer(actions=tuple(actions), rationale=rationale(ask, "killed"))


@settings(deadline=None, max_examples=300)
@given(cluster=clusters(), start_within_s=st.sampled_from([0.0, 90.0, 600.0]))
def test_every_request_is_offered_what_the_definition_offers_it(
    cluster: Cluster, start_within_s: float
) -> None:
    asked: list[Ask] = []

    def answer(ask: Ask) -> Answer:
        asked.append(ask)
        return kill_the_first(ask)

    decide_each(cluster, "test", answer, start_within_s=start_within_s, hold_slack_s=60.0)
    assert asked == plain.asks(cluster, "test", kill_the_first, start_within_s, 60.0)


@settings(deadline=None, max_examples=300)
@given(before=clusters(), cluster=clusters(), eligible=st.sampled_from([None, frozenset({"n0", "n2", "n3"})]))
def test_a_cluster_remembers_nothing_of_another_one(
    before: Cluster, cluster: Cluster, eligible: frozenset[str] | None
) -> None:
    before.free_nodes(), before.jobs_by_id(), before.up_nodes()
    expected = plain.free_nodes(cluster, eligible)

    assert cluster.free_nodes(eligible) == expected
    assert cluster.free_nodes(eligible) == expected
    assert plain.elsewhere(cluster).free_nodes(eligible) == expected
    assert cluster.jobs_by_id() == {job.job_id: job for job in cluster.jobs}
    assert before.free_nodes() == plain.free_nodes(before, None)


@settings(deadline=None, max_examples=300)
@given(cluster=clusters(), unusable=st.frozensets(st.sampled_from(["n0", "n1", "n5"])))
def test_jobs_that_share_useful_nodes_leave_together(cluster: Cluster, unusable: frozenset[str]) -> None:
    for request in urgent(cluster):
        found = bundles(cluster, request, unusable=unusable, spared=NOBODY)
        assert {frozenset(bundle.job_ids) for bundle in found} == plain.groups(cluster, request, unusable)
