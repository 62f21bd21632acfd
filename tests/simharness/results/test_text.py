"""The sentences of a report."""

from makeway.simharness.results.measures import measure
from makeway.simharness.results.text import caption
from tests.simharness.workloads.record_samples import with_makeway


def test_one_of_a_thing_is_no_plural() -> None:
    record = with_makeway()
    assert "1 eviction, 1 shrink, " in caption(measure(record))
    record.jobs[0].evictions = 1_200
    assert "1,200 evictions, " in caption(measure(record))
