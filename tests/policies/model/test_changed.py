"""Copies with some fields changed are what `dataclasses.replace` makes."""

from dataclasses import dataclass, replace

import pytest

from makeway.policies.model import Cluster, Job, JobKind, JobState, Node, NodeState, changed

JOB = Job(
    job_id="1",
    kind=JobKind.RIGID,
    state=JobState.PENDING,
    node_count=2,
    walltime_s=60.0,
    submit_s=5.0,
    user="beam",
)
CLUSTER = Cluster(now_s=7.0, nodes=(Node(name="n1", state=NodeState.UP),), jobs=(JOB,))


@dataclass(frozen=True, slots=True)
class Checked:
    """A value that checks itself."""

    low: int
    high: int

    def __post_init__(self) -> None:
        assert self.low <= self.high


def test_the_copy_is_that_of_replace() -> None:
    assert changed(CLUSTER, now_s=8.0, jobs=()) == replace(CLUSTER, now_s=8.0, jobs=())
    assert changed(JOB, nodes=("n1",)) == replace(JOB, nodes=("n1",))
    assert changed(JOB) == JOB
    assert changed(JOB, user="u").submit_s == 5.0
    assert JOB.user == "beam"


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(KeyError, match="colour"):
        changed(JOB, colour="red")


def test_a_class_that_checks_its_values_is_refused() -> None:
    with pytest.raises(TypeError, match="Checked"):
        changed(Checked(1, 2), low=3)
