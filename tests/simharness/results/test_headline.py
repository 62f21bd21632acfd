"""The sentences at the top say what the measures say."""

from dataclasses import replace

from makeway.policies.model import Resources
from makeway.simharness.results.headline import baseline_of, headlines
from makeway.simharness.results.measures import measure
from tests.simharness.workloads.record_samples import empty, with_makeway, without_makeway


def test_a_policy_is_told_beside_the_run_without_makeway() -> None:
    (headline,) = headlines([measure(without_makeway()), measure(with_makeway())])
    assert str(headline) == (
        "With eviction: 1 of 1 urgent job started on time (0 without makeway). The urgent jobs waited 10.0 s "
        "on average (without: 2.50 min). 1 eviction lost 0.033 node-hours (15% of the useful work); 1 shrink "
        "took nodes from 1 malleable job; checkpoints and repeated setups took 0.0056 node-hours (2.5% of "
        "the useful work). On average, rigid jobs were done 2.62 min later (154%), malleable jobs were done "
        "10.0 s later (5%). Useful utilisation 76.9% (without: 75.4%)."
    )


def test_the_run_without_makeway_is_told_only_when_it_is_alone() -> None:
    (headline,) = headlines([measure(without_makeway())])
    assert str(headline) == (
        "Without makeway: 0 of 1 urgent job started on time. The urgent jobs waited 2.50 min on average. "
        "Useful utilisation 75.4%."
    )


def test_without_urgent_jobs_and_without_evictions() -> None:
    record = without_makeway()
    del record.jobs[2:], record.segments[2:]
    with_policy = replace(measure(record), policy="eviction")
    (headline,) = headlines([measure(record), with_policy])
    assert headline.lead == "no job is urgent (2 jobs)."
    assert "No job was evicted or shrunk." in headline.rest
    assert (
        "On average, rigid jobs were done just as soon, malleable jobs were done just as soon."
        in headline.rest
    )


def test_without_a_run_to_compare_with() -> None:
    measured = [measure(with_makeway()), replace(measure(with_makeway()), policy="n-paa")]
    assert baseline_of(measured) is None
    first, second = headlines(measured)
    assert (first.name, second.name) == ("With eviction", "With n-paa")
    assert "without" not in str(first)


def test_nothing_at_all() -> None:
    (headline,) = headlines([measure(empty())])
    assert str(headline) == "Without makeway: no job is urgent (0 jobs)."


def test_jobs_that_were_evicted_more_than_once_are_counted_apart() -> None:
    record = with_makeway()
    record.jobs[0].evictions = 3
    record.jobs[0].lost_node_s = 0.0
    (headline,) = headlines([measure(record)])
    assert headline.rest[1].startswith("3 evictions of 1 job lost no work;")


def test_on_shared_nodes_utilisation_is_called_what_it_is() -> None:
    record = without_makeway()
    record.capacities = (Resources.of({"cpu": 1}),) * record.node_count
    (headline,) = headlines([measure(record)])
    assert headline.rest[-1] == "Useful dominant shares 75.4%."
