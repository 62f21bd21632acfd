"""What is worked out once for several requests, or for several snapshots, is what the definitions give each
time."""

from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.policies.common.proposals import decide_each, eviction_actions, hold, no_room
from makeway.policies.common.requests import Proposal, Request, rationale
from makeway.policies.common.urgent_jobs import urgent_jobs
from makeway.policies.common.victims import leavers, victim_groups
from makeway.policies.model import Action, Cluster, Method
from tests.policies import plain
from tests.policies.any_cluster import clusters

NO_JOB: frozenset[str] = frozenset()


def kill_the_first(request: Request) -> Proposal:
    """Jobs leave in the order of their ids, until there is room."""
    able = [
        group
        for group in victim_groups(
            request.cluster, request.urgent, unusable=request.unusable, excluded=request.excluded
        )
        if not group.protected_by
    ]
    if sum(len(group.nodes) for group in able) < request.shortage:
        return no_room(request, "too few")
    held = hold(request, tuple(name for group in able for name in group.nodes))
    actions: list[Action] = [held]
    for group in able:
        for job in leavers(group, held):
            actions.extend(eviction_actions(request, job, Method.KILL, request.cluster.now_s))
    return Proposal(actions=tuple(actions), rationale=rationale(request, "killed"))


@settings(deadline=None, max_examples=300)
@given(cluster=clusters(), start_within_s=st.sampled_from([0.0, 90.0, 600.0]))
def test_every_request_is_offered_what_the_definition_offers_it(
    cluster: Cluster, start_within_s: float
) -> None:
    asked: list[Request] = []

    def proposal(request: Request) -> Proposal:
        asked.append(request)
        return kill_the_first(request)

    decide_each(cluster, "test", proposal, start_within_s=start_within_s, hold_slack_s=60.0)
    expected = plain.requests(cluster, "test", kill_the_first, start_within_s, 60.0)
    assert asked[: len(expected)] == expected  # those without room may be asked for once more, first


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
    for urgent in urgent_jobs(cluster):
        found = victim_groups(cluster, urgent, unusable=unusable, excluded=NO_JOB)
        assert {frozenset(group.job_ids) for group in found} == plain.groups(cluster, urgent, unusable)
