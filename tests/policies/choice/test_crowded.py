"""Values in rows are sorted as by one sort of all of them."""

import numpy as np

from makeway.policies.choice.crowded import _in_rows


def test_rows_are_sorted_each_for_itself() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        counts = rng.integers(1, rng.integers(2, 40), size=rng.integers(1, 30))
        values = rng.integers(0, 6, size=counts.sum()).astype(np.float64)
        row = np.repeat(np.arange(len(counts)), counts)
        assert _in_rows(values, counts, np.cumsum(counts) - counts).tolist() == (
            np.lexsort((values, row)).tolist()
        )
