"""Amounts of resources, shares of nodes, and what is left of the nodes of a snapshot."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.policies.model import (
    CPU,
    GPU,
    MEMORY,
    NO_RESOURCES,
    Cluster,
    Job,
    JobKind,
    JobState,
    Node,
    NodeState,
    Reservation,
    Resources,
    dominant_share,
    total,
    weighted_share,
)

NODE = Resources.of({CPU: 64, MEMORY: 256_000, GPU: 4, "gres/gpu:a100": 4})
RESOURCES = st.dictionaries(st.sampled_from([CPU, MEMORY, GPU]), st.integers(0, 100)).map(Resources.of)


def _job(job_id: str, nodes: tuple[str, ...], allocation: tuple[Resources, ...] | None) -> Job:
    return Job(
        job_id=job_id,
        kind=JobKind.RIGID,
        state=JobState.RUNNING,
        node_count=len(nodes),
        walltime_s=3600.0,
        submit_s=0.0,
        start_s=0.0,
        user="anna",
        nodes=nodes,
        allocation=allocation,
    )


def test_amounts_of_nothing_are_left_out_and_names_are_sorted() -> None:
    assert Resources.of({MEMORY: 5, CPU: 2, GPU: 0}).amounts == ((CPU, 2), (MEMORY, 5))


@given(RESOURCES, RESOURCES)
def test_a_sum_covers_both_and_gives_each_back(one: Resources, other: Resources) -> None:
    both = one.plus(other)
    assert both.covers(one)
    assert both.covers(other)
    assert both.minus(other) == one
    assert total([one, other]) == both


@given(RESOURCES, RESOURCES)
def test_covers_compares_every_name(one: Resources, other: Resources) -> None:
    names = (CPU, MEMORY, GPU)
    assert one.covers(other) == all(one.amount(name) >= other.amount(name) for name in names)


def test_any_gpu_serves_a_request_without_a_type() -> None:
    assert NODE.covers(Resources.of({GPU: 2}))
    assert not NODE.covers(Resources.of({GPU: 2, "gres/gpu:v100": 2}))


def test_typed_amounts_count_as_untyped_ones_too() -> None:
    assert Resources.with_totals({"gres/gpu:a100": 2, "gres/gpu:h100": 1, CPU: 4}).amounts == (
        (CPU, 4),
        (GPU, 3),
        ("gres/gpu:a100", 2),
        ("gres/gpu:h100", 1),
    )
    assert Resources.with_totals({GPU: 4, "gres/gpu:a100": 2}).amount(GPU) == 4


def test_a_difference_is_never_below_nothing() -> None:
    assert Resources.of({CPU: 2}).minus(Resources.of({CPU: 3, GPU: 1})) == NO_RESOURCES


@pytest.mark.parametrize(
    ("held", "share"),
    [
        (Resources.of({CPU: 16, MEMORY: 64_000}), 0.25),
        (Resources.of({CPU: 1, GPU: 2}), 0.5),
        (Resources.of({CPU: 1, MEMORY: 256_000}), 1.0),
        (Resources.of({CPU: 128}), 1.0),
        (Resources.of({"license/x": 3}), 0.0),
    ],
)
def test_the_dominant_share_is_that_of_the_scarcest_resource(held: Resources, share: float) -> None:
    assert dominant_share(held, NODE) == share


def test_weights_price_an_allocation_as_the_site_bills_it() -> None:
    weights = {CPU: 1.0, GPU: 16.0}
    assert weighted_share(Resources.of({CPU: 32}), NODE, weights) == 0.25
    assert weighted_share(Resources.of({CPU: 16, GPU: 1}), NODE, weights) == 0.25
    assert weighted_share(Resources.of({CPU: 16}), NODE, {}) == 0.25  # no weights: the dominant share


def test_what_is_left_of_a_node_is_free_for_a_demand() -> None:
    quarter = Resources.of({CPU: 16, MEMORY: 64_000, GPU: 1, "gres/gpu:a100": 1})
    cluster = Cluster(
        now_s=10.0,
        nodes=(
            *(Node(name=name, capacity=NODE) for name in ("n1", "n2", "n3", "n4")),
            Node(name="n5", capacity=NODE, state=NodeState.DRAINED),
        ),
        jobs=(
            _job("1", ("n1", "n2"), (quarter, total([quarter, quarter]))),
            _job("2", ("n1",), (quarter,)),
            _job("3", ("n3",), None),  # it has the node for itself
        ),
        reservations=(Reservation(name="maintenance", nodes=("n4",), start_s=0.0, end_s=20.0),),
    )
    half = total([quarter, quarter])
    assert cluster.unused()["n1"] == half
    assert cluster.unused()["n3"] == NO_RESOURCES
    assert cluster.free_nodes(demand=half) == ("n1", "n2")
    assert cluster.free_nodes(demand=total([half, quarter])) == ()
    assert cluster.free_nodes(frozenset({"n2"}), half) == ("n2",)
    assert cluster.free_nodes() == ()


def test_a_cluster_of_whole_nodes_has_no_capacities() -> None:
    cluster = Cluster(now_s=0.0, nodes=(Node(name="n1"),), jobs=())
    assert not cluster.unused()
    assert cluster.free_nodes() == ("n1",)
    assert cluster.free_nodes(demand=Resources.of({CPU: 1})) == ()
