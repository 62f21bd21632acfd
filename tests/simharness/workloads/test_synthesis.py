"""P5's and P1's workloads: what is drawn, and from what."""

from collections import Counter
from dataclasses import fields, replace
from math import expm1, inf, nan
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.policies.model import JobKind, Resources
from makeway.simharness.workloads.job import SimJob, WorkloadError
from makeway.simharness.workloads.synthesis import (
    NOTICE_MIXES,
    HybridSettings,
    NoticeShares,
    checkpoint_duration_s,
    daly_interval_s,
    mark_urgent,
    notice_mix,
    synthesise,
)
from makeway.simharness.workloads.trace import read_trace

NODES = 2000


def plain(count: int = 400, *, users: int = 40, node_count: int = 100) -> list[SimJob]:
    return [
        SimJob(
            job_id=str(number),
            submit_s=10_000.0 + 60 * number,
            runtime_s=7200.0,
            walltime_s=10_000.0,
            node_count=node_count,
            user=f"u{number % users}",
            account=f"a{number % 7}",
        )
        for number in range(count)
    ]


def only(kind: JobKind, **others: Any) -> HybridSettings:
    shares: dict[str, Any] = {
        f"{name}_share": float(kind == name) for name in ("on_demand", "rigid", "malleable")
    }
    return HybridSettings(**shares, **others)


@settings(deadline=None)
@given(
    users=st.integers(1, 30),
    sizes=st.lists(st.integers(1, NODES), min_size=1, max_size=60),
    seed=st.integers(0, 2**40),
    mix=st.sampled_from(sorted(NOTICE_MIXES)),
    cost=st.sampled_from(["fixed", "by_size"]),
)
def test_every_job_keeps_what_the_trace_says_and_has_its_kind_s_traits(
    users: int, sizes: list[int], seed: int, mix: str, cost: Literal["fixed", "by_size"]
) -> None:
    before = [
        replace(job, node_count=size) for job, size in zip(plain(len(sizes), users=users), sizes, strict=True)
    ]
    config = HybridSettings(notices=notice_mix(mix), checkpoint_cost=cost)
    after = synthesise(before, NODES, config, seed)
    assert after == synthesise(before, NODES, config, seed)
    for old, new in zip(before, after, strict=True):
        for name in ("job_id", "submit_s", "runtime_s", "walltime_s", "node_count", "user", "account"):
            assert getattr(old, name) == getattr(new, name)
        match new.kind:
            case JobKind.ON_DEMAND:
                assert new.node_count <= NODES / 2
                assert (new.announced_s is None) == (new.expected_s is None)
                if new.announced_s is not None and new.expected_s is not None:
                    assert 900 - 1 <= new.expected_s - new.announced_s <= 1800 + 1
                    assert new.announced_s <= new.submit_s <= new.expected_s + 1800
            case JobKind.RIGID:
                assert 0.05 * 7200 - 1 <= new.setup_s <= 0.10 * 7200 + 1
                assert new.checkpoint_interval_s is not None
                assert new.checkpoint_interval_s >= max(new.checkpoint_cost_s, 60)
                assert new.system_gb_per_node is not None
                assert 0.4 * 208 <= new.system_gb_per_node <= 0.9 * 208
            case JobKind.MALLEABLE:
                assert new.node_count_min is not None
                assert 0.2 * new.node_count <= new.node_count_min < 0.2 * new.node_count + 1
                assert 0 <= new.setup_s <= 0.05 * 7200 + 1
                assert (new.save_s, new.checkpoint_interval_s) == (120.0, None)


def test_kinds_go_by_users_in_their_shares() -> None:
    jobs = synthesise(plain(), NODES, HybridSettings(), 1)
    kinds: dict[str, set[JobKind]] = {}
    for job in jobs:
        kinds.setdefault(job.user, set()).add(job.kind)
    assert all(len(of_user) == 1 for of_user in kinds.values())
    assert Counter(of_user.pop() for of_user in kinds.values()) == {
        "on_demand": 4,
        "rigid": 24,
        "malleable": 12,
    }
    assert {job.user for job in jobs if job.kind is JobKind.ON_DEMAND} != {
        job.user for job in synthesise(plain(), NODES, HybridSettings(), 2) if job.kind is JobKind.ON_DEMAND
    }


def test_kinds_can_go_by_accounts_and_nobody_s_jobs_stand_alone() -> None:
    by_account = synthesise(plain(), NODES, HybridSettings(group_by="account"), 1)
    assert len({(job.account, job.kind) for job in by_account}) == 7
    assert {job.kind for job in by_account} == set(JobKind)
    no_users = [replace(job, user="") for job in plain(100)]
    assert Counter(job.kind for job in synthesise(no_users, NODES, HybridSettings(), 1)) == {
        "on_demand": 10,
        "rigid": 60,
        "malleable": 30,
    }


def test_a_share_above_zero_has_a_group_if_there_are_enough() -> None:
    for users in (3, 4, 5):
        assert {job.kind for job in synthesise(plain(users=users), NODES, HybridSettings(), 3)} == set(
            JobKind
        )


def test_on_demand_jobs_above_half_the_machine_become_something_else() -> None:
    config = only(JobKind.ON_DEMAND)
    assert {job.kind for job in synthesise(plain(), 200, config, 1)} == {JobKind.ON_DEMAND}
    counts = Counter(job.kind for job in synthesise(plain(), 199, config, 1))
    assert set(counts) == {JobKind.RIGID, JobKind.MALLEABLE}
    assert all(150 <= count <= 250 for count in counts.values())


@pytest.mark.parametrize("mix", sorted(NOTICE_MIXES))
def test_notices_have_the_shares_of_their_mix(mix: str) -> None:
    shares = notice_mix(mix)
    jobs = synthesise(plain(4000), NODES, only(JobKind.ON_DEMAND, notices=shares, start_within_s=300.0), 5)
    found: Counter[str] = Counter()
    for job in jobs:
        if job.expected_s is None:
            found["none"] += 1
        elif job.submit_s == job.expected_s:
            found["accurate"] += 1
        else:
            found["early" if job.submit_s < job.expected_s else "late"] += 1
    for name in ("none", "accurate", "early", "late"):
        assert found[name] / 4000 == pytest.approx(getattr(shares, name), abs=0.03)
    assert {job.start_within_s for job in jobs} == {300.0}


def test_no_notice_comes_before_the_beginning() -> None:
    jobs = [replace(job, submit_s=5.0) for job in plain()]
    announced = [
        (job.announced_s, job.expected_s)
        for job in synthesise(jobs, NODES, only(JobKind.ON_DEMAND), 1)
        if job.announced_s is not None
    ]
    assert {at for at, _ in announced} == {0.0}
    assert min(expected or 0.0 for _, expected in announced) == 0.0


def test_settings_share_their_draws() -> None:
    """What is not asked for does not change: the same setups and sizes under another mix of notices."""
    one = synthesise(plain(), NODES, HybridSettings(), 9)
    other = synthesise(
        plain(), NODES, HybridSettings(notices=NOTICE_MIXES["W1"], checkpoint_frequency=2.0), 9
    )
    assert [(job.kind, job.setup_s, job.system_gb_per_node) for job in one] == [
        (job.kind, job.setup_s, job.system_gb_per_node) for job in other
    ]
    halved = [
        (a.checkpoint_interval_s, b.checkpoint_interval_s)
        for a, b in zip(one, other, strict=True)
        if a.checkpoint_interval_s is not None and b.checkpoint_interval_s is not None
    ]
    assert halved
    assert all(abs(a - 2 * b) <= 1 for a, b in halved)


def test_fixed_checkpoint_costs_go_by_the_size_of_the_job() -> None:
    jobs = [replace(job, node_count=999 + int(job.job_id) % 2) for job in plain()]
    costs = {
        (job.node_count, job.checkpoint_cost_s) for job in synthesise(jobs, NODES, only(JobKind.RIGID), 1)
    }
    assert costs == {(999, 600.0), (1000, 1200.0)}


def test_checkpoint_costs_by_size_follow_the_bandwidths() -> None:
    config = only(
        JobKind.RIGID,
        checkpoint_cost="by_size",
        system_size_share=(0.5, 0.5),
        application_size_share=(0.25, 0.25),
        node_memory_gb=200.0,
        aggregate_gb_per_s=50.0,
        node_gb_per_s=0.5,
    )
    by_nodes = {1: 50.0, 100: 50.0, 400: 200.0}
    for node_count, expected_s in by_nodes.items():
        (job,) = synthesise(plain(1, node_count=node_count), NODES, config, 1)
        assert (job.system_gb_per_node, job.checkpoint_cost_s) == (100.0, expected_s)


def test_a_checkpoint_takes_the_file_system_s_time_or_a_node_s() -> None:
    assert checkpoint_duration_s(512, 208, aggregate_gb_per_s=250, node_gb_per_s=20) == 512 * 208 / 250
    assert checkpoint_duration_s(2, 70, aggregate_gb_per_s=250, node_gb_per_s=0.7) == pytest.approx(100)


@pytest.mark.parametrize(("cost_s", "mtbf_s"), [(600.0, 86_400.0), (1200.0, 86_400.0), (60.0, 4000.0)])
def test_daly_s_interval_loses_least(cost_s: float, mtbf_s: float) -> None:
    """Daly's exact cost of a run has its minimum there, within 1%."""

    def cost(interval_s: float) -> float:
        return expm1((interval_s + cost_s) / mtbf_s) / interval_s

    best = min((cost(10.0 * step), 10.0 * step) for step in range(1, 20_000))[1]
    assert daly_interval_s(cost_s, mtbf_s) == pytest.approx(best, rel=0.01, abs=10)


def test_daly_s_interval_is_the_time_between_failures_where_checkpoints_take_longer_than_that() -> None:
    assert daly_interval_s(2000, 1000) == 1000


def test_urgent_shares_are_exact_and_leave_the_others_alone() -> None:
    jobs = plain(200)
    marked = mark_urgent(jobs, 0.15, 4, start_within_s=60)
    urgent = [job for job in marked if job.kind is JobKind.ON_DEMAND]
    assert len(urgent) == 30
    assert {job.start_within_s for job in urgent} == {60}
    assert all(new is old for old, new in zip(jobs, marked, strict=True) if new.kind is not JobKind.ON_DEMAND)
    assert marked == mark_urgent(jobs, 0.15, 4, start_within_s=60)
    assert marked != mark_urgent(jobs, 0.15, 5, start_within_s=60)


def traits(job: SimJob) -> dict[str, object]:
    """What does not come from a trace; for a job of `plain` all of it has its default."""
    read = {"job_id", "submit_s", "runtime_s", "walltime_s", "node_count", "user", "account"}
    return {field.name: getattr(job, field.name) for field in fields(job) if field.name not in read}


def every_trait(kind: JobKind) -> list[SimJob]:
    """Jobs with all that a kind can bring, as no workload has them together."""
    return [
        replace(
            job,
            kind=kind,
            node_count_min=2,
            setup_s=30.0,
            restart_s=20.0,
            checkpoint_interval_s=600.0,
            checkpoint_cost_s=5.0,
            system_gb_per_node=3.0,
            save_s=4.0,
            announced_s=0.0,
            expected_s=1.0,
            start_within_s=7.0,
        )
        for job in plain(100)
    ]


def test_a_plain_job_has_nothing_of_a_kind_and_keeps_the_rest() -> None:
    demand = Resources.with_totals({"cpu": 2})
    kept = {"queue": "q", "partition": "p", "preemptible": False, "het_job_id": "9", "demand": demand}
    (job, *_) = every_trait(JobKind.MALLEABLE)
    found = replace(job, **kept).plain()  # type: ignore[arg-type]
    assert found == replace(plain(1)[0], **kept)  # type: ignore[arg-type]
    untouched = {name for name, value in traits(job).items() if value == traits(plain(1)[0])[name]}
    assert untouched == set(kept), "every other field has to be reset, and to be in this test"


@pytest.mark.parametrize("kind", JobKind)
def test_no_trait_of_an_old_kind_is_left(kind: JobKind) -> None:
    before = every_trait(kind)
    assert synthesise(before, NODES, HybridSettings(), 3) == synthesise(
        plain(100), NODES, HybridSettings(), 3
    )
    (default,) = {str(traits(job)) for job in plain(100)}
    marked = mark_urgent(before, 0.3, 1)
    urgent = [job for job in marked if job.kind is JobKind.ON_DEMAND]
    assert len(urgent) == 30, "those that were urgent before do not count"
    assert {str(traits(replace(job, kind=JobKind.RIGID))) for job in urgent} == {default}
    for old, new in zip(before, marked, strict=True):
        if new.kind is not JobKind.ON_DEMAND:
            assert new == (old.plain() if kind is JobKind.ON_DEMAND else old)
    assert all(job.kind is not JobKind.ON_DEMAND for job in mark_urgent(before, 0.0, 1))


def test_only_short_jobs_become_urgent_on_request() -> None:
    jobs = [replace(job, runtime_s=5400.0 - int(job.job_id) % 2) for job in plain(200)]
    urgent = [job for job in mark_urgent(jobs, 0.2, 1, max_runtime_s=5400) if job.kind is JobKind.ON_DEMAND]
    assert len(urgent) == 40
    assert {job.runtime_s for job in urgent} == {5399.0}
    assert (
        len([j for j in mark_urgent(jobs, 0.9, 1, max_runtime_s=5400) if j.kind is JobKind.ON_DEMAND]) == 100
    )


@pytest.mark.parametrize(
    ("key", "value", "accepted"),
    [
        (
            "rigid_share",
            0.7,
            "on_demand_share + rigid_share + malleable_share = 1.1; accepted: shares that sum to 1",
        ),
        ("rigid_share", -0.6, "rigid_share: -0.6; accepted: a number from 0 to 1"),
        ("rigid_share", nan, "rigid_share: nan"),
        ("group_by", "colour", "group_by: 'colour'; accepted: user, account"),
        ("checkpoint_cost", "free", "checkpoint_cost: 'free'; accepted: fixed, by_size"),
        ("mtbf_s", 0, "mtbf_s: 0; accepted: a number from 1"),
        ("checkpoint_frequency", 0, "checkpoint_frequency: 0"),
        ("malleable_min_share", 1.5, "malleable_min_share: 1.5"),
        ("notice_lead_s", (1800, 900), "notice_lead_s: (1800, 900); accepted: two ascending numbers"),
        ("system_size_share", (0.4, 1.9), "system_size_share: (0.4, 1.9)"),
        ("rigid_setup_share", (-0.1, 0.1), "rigid_setup_share: (-0.1, 0.1)"),
        ("node_gb_per_s", 0, "node_gb_per_s: 0"),
        ("start_within_s", -1, "start_within_s: -1"),
        ("aggregate_gb_per_s", inf, "aggregate_gb_per_s: inf"),
    ],
)
def test_settings_that_cannot_be_are_named(key: str, value: Any, accepted: str) -> None:
    assert key in {field.name for field in fields(HybridSettings)}
    with pytest.raises(WorkloadError) as caught:
        HybridSettings(**{key: value})
    assert accepted in str(caught.value)


def test_setup_is_always_shorter_than_the_run() -> None:
    jobs = [replace(job, runtime_s=0.5 + int(job.job_id) % 4) for job in plain()]
    for kind, key in ((JobKind.RIGID, "rigid_setup_share"), (JobKind.MALLEABLE, "malleable_setup_share")):
        config = only(kind, **{key: (0.9, 0.99)})
        assert all(job.setup_s < job.runtime_s for job in synthesise(jobs, NODES, config, 1))


def test_arguments_that_cannot_be_are_named() -> None:
    with pytest.raises(
        WorkloadError, match=r"notices: none \+ accurate \+ early \+ late = 0.9; accepted: shares that sum"
    ):
        NoticeShares(none=0.9, accurate=0, early=0, late=0)
    with pytest.raises(WorkloadError, match="notices: 'W6'; accepted: W1, W2, W3, W4, W5"):
        notice_mix("W6")
    with pytest.raises(WorkloadError, match="seed: -1; accepted: a whole number from 0"):
        synthesise(plain(1), NODES, HybridSettings(), -1)
    with pytest.raises(WorkloadError, match="node_count: 0"):
        synthesise(plain(1), 0, HybridSettings(), 1)
    with pytest.raises(WorkloadError, match=r"share: 1.5; accepted: a number from 0 to 1"):
        mark_urgent(plain(1), 1.5, 1)


@pytest.mark.shared
def test_theta_s_users_make_p5_s_mix(shared_traces: Path) -> None:
    trace = read_trace(shared_traces / "ANL-Theta-2023.swf.gz")
    jobs = synthesise(trace.jobs, trace.node_count, HybridSettings(), 0)
    users = Counter(kind for _, kind in {(job.user, job.kind) for job in jobs if job.node_count <= 2180})
    assert users[JobKind.ON_DEMAND] == pytest.approx(22, abs=2)
    assert users[JobKind.RIGID] == pytest.approx(131, abs=4)
    urgent = [job for job in jobs if job.kind is JobKind.ON_DEMAND]
    assert len(urgent) > 500
    assert max(job.node_count for job in urgent) <= 2180
    # A fifth of the rigid jobs runs long enough for a checkpoint at Daly's interval.
    rigid = [job for job in jobs if job.kind is JobKind.RIGID]
    long = [job for job in rigid if job.setup_s + (job.checkpoint_interval_s or inf) < job.runtime_s]
    assert 0.05 < len(long) / len(rigid) < 0.5
