"""Values in rows are sorted as by one sort of all of them."""

import numpy as np

from makeway.policies.choice.crowded import _in_rows, cover_in_order
from makeway.policies.choice.table import tabulate
from tests.policies.choice.instances import random_instance


def test_rows_are_sorted_each_for_itself() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        counts = rng.integers(1, rng.integers(2, 40), size=rng.integers(1, 30))
        values = rng.integers(0, 6, size=counts.sum()).astype(np.float64)
        row = np.repeat(np.arange(len(counts)), counts)
        assert _in_rows(values, counts, np.cumsum(counts) - counts).tolist() == (
            np.lexsort((values, row)).tolist()
        )


def test_a_good_cover_is_enough_and_has_no_needless_job() -> None:
    covers = 0
    for seed in range(200):
        table = tabulate(random_instance(seed))
        for node, need in enumerate(table.need):
            places = np.arange(table.first_place[node], table.first_place[node + 1])
            order = np.random.default_rng(seed).permutation(places).tolist()
            cover = cover_in_order(table, node, order)
            assert (table.gives[list(cover)].sum(axis=0) >= need).all()
            for place in cover:
                others = [one for one in cover if one != place]
                assert (table.gives[others].sum(axis=0) < need).any()
            covers += 1
    assert covers > 100
