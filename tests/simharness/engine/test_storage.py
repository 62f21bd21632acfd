"""The file system: P2's eq. 1 for one checkpoint alone, max-min fair shares for several."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.simharness.engine.storage import Storage, StorageSettings

SETTINGS = StorageSettings(aggregate_gb_s=100.0, node_gb_s=10.0)


def ends(settings: StorageSettings, transfers: list[tuple[float, float, int]]) -> list[float]:
    """When each (start, GB per node, nodes) ends."""
    storage = Storage(settings)
    ended: dict[int, float] = {}
    waiting = sorted(enumerate(transfers), key=lambda item: item[1][0])
    while len(ended) < len(transfers):
        next_s = storage.next_end_s()
        if waiting and (next_s is None or waiting[0][1][0] < next_s):
            key, (start_s, gb_per_node, node_count) = waiting.pop(0)
            storage.begin(key, gb_per_node=gb_per_node, node_count=node_count, now_s=start_s)
        else:
            assert next_s is not None
            for key in storage.finish(next_s):
                ended[key] = next_s
    return [ended[key] for key in range(len(transfers))]


@pytest.mark.parametrize(
    ("gb_per_node", "node_count", "duration_s"),
    [(50.0, 4, 5.0), (50.0, 10, 5.0), (50.0, 20, 10.0)],  # by the node, both, by the file system
)
def test_one_alone_takes_what_equation_1_says(gb_per_node: float, node_count: int, duration_s: float) -> None:
    assert SETTINGS.alone_s(gb_per_node, node_count) == duration_s
    assert ends(SETTINGS, [(3.0, gb_per_node, node_count)]) == [3.0 + duration_s]


def test_two_that_saturate_the_file_system_share_it_evenly() -> None:
    """1000 GB each: 50 GB/s each for 10 s, then the second has 100 GB/s for its last 500 GB."""
    assert ends(SETTINGS, [(0.0, 50.0, 20), (0.0, 100.0, 10)]) == [20.0, 20.0]
    assert ends(SETTINGS, [(0.0, 25.0, 20), (0.0, 50.0, 20)]) == [10.0, 15.0]


def test_one_that_cannot_use_its_share_leaves_it_to_the_others() -> None:
    """2 nodes write 20 GB/s and no more; the others have 40 GB/s each until it is done, then 50 GB/s."""
    times = ends(SETTINGS, [(0.0, 100.0, 2), (0.0, 100.0, 10), (0.0, 100.0, 10)])
    assert times == pytest.approx([10.0, 22.0, 22.0])


def test_one_that_never_has_to_share_is_not_disturbed() -> None:
    assert ends(SETTINGS, [(0.0, 1 / 3, 3), (0.01, 1.0, 1), (0.02, 1.0, 1)])[0] == SETTINGS.alone_s(1 / 3, 3)


def test_whoever_gives_up_leaves_its_share_to_the_others() -> None:
    storage = Storage(SETTINGS)
    storage.begin(0, gb_per_node=50.0, node_count=20, now_s=0.0)
    storage.begin(1, gb_per_node=50.0, node_count=20, now_s=0.0)
    storage.abort(0, 10.0)
    assert storage.next_end_s() == 15.0
    storage.abort(0, 11.0)
    assert storage.next_end_s() == 15.0


@given(
    transfers=st.lists(
        st.tuples(st.integers(0, 5).map(float), st.integers(5, 30).map(float), st.integers(1, 15)),
        min_size=1,
        max_size=5,
    )
)
@settings(deadline=None, max_examples=50)
def test_many_are_what_small_steps_of_fair_shares_give(transfers: list[tuple[float, float, int]]) -> None:
    """Against water-filling in steps of a fiftieth of a second."""
    left = [gb_per_node * node_count for _, gb_per_node, node_count in transfers]
    expected = [0.0] * len(transfers)
    step = 0
    while any(amount > 1e-6 for amount in left):
        active = [
            key for key, transfer in enumerate(transfers) if transfer[0] <= step / 50 and left[key] > 1e-6
        ]
        level = water_level([transfers[key][2] * SETTINGS.node_gb_s for key in active])
        step += 1
        for key in active:
            left[key] -= min(level, transfers[key][2] * SETTINGS.node_gb_s) / 50
            expected[key] = step / 50
    assert ends(SETTINGS, transfers) == pytest.approx(expected, abs=0.2)


def water_level(caps_gb_s: list[float]) -> float:
    """The rate at which all that are not capped are served when all rise together, found by bisection."""
    low, high = 0.0, SETTINGS.aggregate_gb_s
    for _ in range(25):
        level = (low + high) / 2
        if sum(min(level, cap_gb_s) for cap_gb_s in caps_gb_s) > SETTINGS.aggregate_gb_s:
            high = level
        else:
            low = level
    return high


def test_a_bandwidth_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="node_gb_s is 0"):
        StorageSettings(node_gb_s=0)
