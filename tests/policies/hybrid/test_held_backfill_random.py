"""Loans of held nodes on random clusters: each is allowed, and no more jobs would fit."""

from dataclasses import replace
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from makeway.policies.gate.arbiter import arbitrate
from makeway.policies.hybrid.arrival import HybridConfig
from makeway.policies.hybrid.policy import CUA_PAA
from makeway.policies.model import (
    Cluster,
    Job,
    JobKind,
    JobState,
    Node,
    Reserve,
)
from tests.policies.hybrid.held import NOTICE, NOW_S, SAVES, collected, under_way


@st.composite
def holding(draw: st.DrawFn) -> Cluster:
    """A cluster with holds, jobs on some of their nodes, and a queue."""
    names = draw(st.permutations([f"n{index}" for index in range(10)]))
    cuts = sorted(draw(st.lists(st.integers(0, 8), min_size=2, max_size=2)))
    notices, operations = [], []
    for index, held in enumerate((names[: cuts[0]], names[cuts[0] : cuts[1]])):
        if held:
            expected_s = NOW_S + draw(st.sampled_from([-60.0, 300.0, 1200.0]))
            notice = replace(NOTICE, notice_id=f"notice-{index}", node_count=len(held), expected_s=expected_s)
            notices.append(notice)
            operations.append(collected(" ".join(held), notice))
    nodes = tuple(Node(name=name) for name in sorted(names))
    jobs = []
    for index in range(draw(st.integers(1, 6))):
        saves = draw(st.booleans())
        jobs.append(
            Job(
                job_id=f"w{index}",
                kind=JobKind.MALLEABLE if saves else JobKind.RIGID,
                state=JobState.PENDING,
                node_count=draw(st.integers(1, 6)),
                walltime_s=draw(st.sampled_from([200.0, 1000.0, 9000.0])),
                submit_s=NOW_S - draw(st.integers(0, 3)),
                user="alice",
                checkpoint=SAVES if saves else None,
                preemptible=draw(st.integers(0, 3)) > 0,
            )
        )
    return under_way(Cluster(now_s=NOW_S, nodes=nodes, jobs=tuple(jobs)), *operations)


@settings(deadline=None, max_examples=200)
@given(cluster=holding(), backfill_held=st.sampled_from(["lossless", "any"]))
def test_every_loan_is_allowed_and_no_more_jobs_would_fit(cluster: Cluster, backfill_held: Any) -> None:
    config = HybridConfig(backfill_held=backfill_held)
    decision = CUA_PAA.decide(cluster, config)
    assert CUA_PAA.decide(replace(cluster, jobs=cluster.jobs[::-1]), config) == decision
    loans = [action for action in decision.actions if isinstance(action, Reserve)]
    assert len(loans) == len(decision.actions)
    assert all(verdict.allowed for verdict in arbitrate(loans, cluster))
    lent = [name for action in loans for name in action.nodes]
    assert len(lent) == len(set(lent))
    ends_s = {one.reservation: one.deadline_s for one in cluster.operations}
    left_to = {one.reservation: set(one.nodes) - set(lent) for one in cluster.operations}
    jobs = cluster.jobs_by_id()
    for job in jobs.values():
        mine = [action for action in loans if action.job_id == job.job_id]
        leaves_s = 0.0 if backfill_held == "any" or job.checkpoint else NOW_S + job.walltime_s
        if mine:
            event("a loan")
            assert len(mine[0].nodes) == job.node_count
            assert all(leaves_s <= ends_s[name] for name in mine[0].out_of)
        elif job.preemptible:
            open_to_it = [left_to[name] for name, end_s in ends_s.items() if leaves_s <= end_s]
            assert sum(map(len, open_to_it)) < job.node_count
