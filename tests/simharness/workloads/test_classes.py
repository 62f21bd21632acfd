"""Which jobs of a trace are urgent or evictable, by what the trace says of them."""

from pathlib import Path

import pytest

from makeway.policies.model import JobKind
from makeway.simharness.engine.adapter import SimAdapter
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.scheduler import SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.run.experiment import Experiment, ExperimentError
from makeway.simharness.run.loading import load_workload
from makeway.simharness.workloads.classes import classify, parse_class
from makeway.simharness.workloads.job import SimJob, WorkloadError
from makeway.simharness.workloads.trace import read_trace
from tests.simharness.workloads.test_trace import line, trace_of


def job(job_id: str, queue: str, user: str = "1", kind: JobKind = JobKind.RIGID) -> SimJob:
    return SimJob(job_id, 0.0, 10.0, 10.0, 1, user=user, account="3", queue=queue, partition="5", kind=kind)


JOBS = [job("a", "1"), job("b", "2"), job("c", "2", user="7"), job("d", "3")]


def classes(*rules: str) -> dict[str, tuple[JobKind, bool]]:
    return {one.job_id: (one.kind, one.preemptible) for one in classify(JOBS, list(map(parse_class, rules)))}


def test_urgent_jobs_are_chosen_by_queue() -> None:
    found = classes("urgent:queue=1,3")
    assert {name for name, (kind, _) in found.items() if kind is JobKind.ON_DEMAND} == {"a", "d"}
    assert all(preemptible for _, preemptible in found.values())


def test_with_a_rule_for_evictable_jobs_no_other_job_is_evictable() -> None:
    found = classes("urgent:queue=1", "evictable:queue=2")
    assert {name for name, (_, preemptible) in found.items() if preemptible} == {"b", "c"}


def test_a_rule_for_urgent_jobs_says_alone_which_are_urgent() -> None:
    own = job("own", "9", kind=JobKind.ON_DEMAND)
    own.start_within_s = 600.0
    malleable = job("malleable", "1", kind=JobKind.MALLEABLE)
    malleable.node_count_min, malleable.save_s, malleable.setup_s = 1, 120.0, 5.0
    jobs = [own, malleable, *JOBS]

    def found(*rules: str) -> dict[str, SimJob]:
        return {one.job_id: one for one in classify(jobs, list(map(parse_class, rules)))}

    chosen = found("urgent:queue=1")
    assert {name for name, one in chosen.items() if one.kind is JobKind.ON_DEMAND} == {"a", "malleable"}
    assert chosen["malleable"] == job("malleable", "1", kind=JobKind.ON_DEMAND), (
        "nothing of its old kind is left"
    )
    assert chosen["own"] == job("own", "9")
    assert found("urgent:queue=9")["own"] is own
    assert found("evictable:queue=1")["own"].kind is JobKind.ON_DEMAND, (
        "this rule says nothing of urgent jobs"
    )


def test_several_rules_of_a_class_add_up() -> None:
    found = classes("evictable:queue=3", "evictable:user=7")
    assert {name for name, (_, preemptible) in found.items() if preemptible} == {"c", "d"}


@pytest.mark.parametrize("rule", ["urgent:queue=1", "urgent:group=3", "urgent:partition=5", "urgent:user=1"])
def test_every_field_can_be_used(rule: str) -> None:
    assert classes(rule)["a"][0] is JobKind.ON_DEMAND


@pytest.mark.parametrize(
    "text",
    [
        "",
        "urgent",
        "urgent:queue",
        "urgent:queue=",
        "urgent:queue=,",
        "urgent:color=1",
        "batch:queue=1",
        "queue=1",
    ],
)
def test_another_form_is_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(WorkloadError, match=r"accepted: CLASS:FIELD=VALUE.*urgent or evictable.*partition"):
        parse_class(text)


def test_a_value_that_no_job_has_is_refused_with_the_values_there_are() -> None:
    with pytest.raises(
        WorkloadError, match="urgent:queue=9: no job has this queue; the workload has 1, 2, 3"
    ):
        classes("urgent:queue=1,9")


def test_the_classes_come_from_the_fields_of_the_trace(tmp_path: Path) -> None:
    path = trace_of(tmp_path, line(1), line(2).replace("12 -1 -1 -1", "12 -1 4 6"))
    assert [(one.queue, one.partition) for one in read_trace(path).jobs] == [("", ""), ("4", "6")]
    workload = load_workload(Experiment(trace=str(path), classes=(parse_class("urgent:queue=4"),)))
    assert [one.kind for one in workload.jobs] == [JobKind.RIGID, JobKind.ON_DEMAND]
    with pytest.raises(ExperimentError, match="--urgent and --class urgent exclude each other"):
        load_workload(Experiment(trace=str(path), urgent_share=0.1, classes=(parse_class("urgent:queue=4"),)))


def test_a_snapshot_shows_queue_partition_and_who_may_be_evicted() -> None:
    jobs = classify(JOBS, [parse_class("urgent:queue=1"), parse_class("evictable:queue=2")])
    cluster = SimCluster(4, jobs, scheduler=SchedulerSettings(), storage=StorageSettings())
    cluster.advance(1.0)
    seen = SimAdapter(cluster).snapshot().jobs_by_id()
    assert {name: found.preemptible for name, found in seen.items()} == {
        "a": False,
        "b": True,
        "c": True,
        "d": False,
    }
    assert (seen["c"].qos, seen["c"].partition) == ("2", "5")
