"""What is unused on each node is the same as worked out from all jobs, whatever snapshots follow."""

from dataclasses import replace
from random import Random

import pytest

from makeway.policies.model import CPU, MEMORY, NO_RESOURCES, Cluster, Job, Node, NodeState, Resources
from makeway.policies.model.unused import Unused
from tests.builders import running

NAMES = ("n1", "n2", "n3", "n4", "whole")


def unused(cluster: Cluster) -> dict[str, Resources]:
    """From all jobs, one after another."""
    has = {node.name: node.capacity for node in cluster.nodes if node.capacity is not None}
    left, wholes = dict(has), list[str]()
    for job in cluster.jobs if has else ():
        if job.allocation is None:
            wholes += job.nodes
        for name, held in zip(job.nodes, job.allocation or (), strict=job.allocation is not None):
            left[name] = left.get(name, NO_RESOURCES).minus(held)
    for name in dict.fromkeys(wholes):
        left[name] = left.get(name, NO_RESOURCES).owing(has.get(name, NO_RESOURCES), wholes.count(name))
    return left


def job(random: Random, number: int) -> Job:
    nodes = tuple(random.sample(NAMES, random.randint(1, 3)))
    held = tuple(Resources.of({CPU: random.randint(1, 6), MEMORY: random.randint(0, 5)}) for _ in nodes)
    return replace(running(str(number), nodes), allocation=held if random.random() < 0.8 else None)


def held_otherwise(random: Random, one: Job) -> Job:
    """The same job after it has shrunk, or with more of its nodes."""
    if len(one.nodes) == 1 or random.random() < 0.5:
        return replace(one, allocation=(Resources.of({CPU: 6}),) * len(one.nodes))
    held = None if one.allocation is None else one.allocation[:1]
    return replace(one, nodes=one.nodes[:1], allocation=held)


def nodes_of(random: Random) -> tuple[Node, ...]:
    def capacity(name: str) -> Resources | None:
        return None if name == "whole" else Resources.of({CPU: random.randint(6, 9), MEMORY: 9})

    return tuple(Node(name=name, capacity=capacity(name)) for name in NAMES)


@pytest.mark.parametrize("seed", range(10))
def test_the_same_as_from_all_jobs(seed: int) -> None:
    random = Random(seed)
    nodes, jobs, before = nodes_of(random), list[Job](), dict[int, tuple[Cluster, dict[str, Resources]]]()
    for number in range(60):
        if random.random() < 0.1:
            nodes = nodes_of(random)
        if random.random() < 0.3:
            nodes = tuple(map(replace, nodes))
        jobs = [one for one in jobs if random.random() < 0.8]
        jobs = [replace(one, past_evictions=number) if random.random() < 0.3 else one for one in jobs]
        jobs = [held_otherwise(random, one) if random.random() < 0.1 else one for one in jobs]
        jobs += [job(random, number * 10 + one) for one in range(random.randint(0, 3))]
        cluster = Cluster(now_s=0.0, nodes=nodes, jobs=tuple(jobs))
        found = cluster.unused()
        assert found == unused(cluster)
        before[number] = cluster, dict(found)
        earlier, known = before[random.choice(list(before))]
        assert earlier.unused() == known


def test_an_allocation_of_another_length_leaves_nothing_behind() -> None:
    nodes = (Node(name="n1", capacity=Resources.of({CPU: 4})), Node(name="n2"))
    half = (Resources.of({CPU: 2}),)
    good = replace(running("1", ("n1",)), allocation=half)
    wrong = replace(running("2", ("n1", "n2")), allocation=(Resources.of({CPU: 3}),))
    first = Cluster(now_s=0.0, nodes=nodes, jobs=(good,))
    assert first.unused() == {"n1": Resources.of({CPU: 2})}
    with pytest.raises(ValueError, match="zip"):
        Cluster(now_s=0.0, nodes=nodes, jobs=(wrong,)).unused()
    assert Cluster(now_s=0.0, nodes=nodes, jobs=(good, running("3", ("n2",)))).unused() == {
        "n1": Resources.of({CPU: 2}),
        "n2": NO_RESOURCES,
    }
    assert Cluster(now_s=0.0, nodes=nodes, jobs=(good,)).unused() == {"n1": Resources.of({CPU: 2})}
    small = replace(running("4", ("n1",)), allocation=(Resources.of({CPU: 1}),))
    assert Cluster(now_s=0.0, nodes=nodes, jobs=(good, small)).unused() == {"n1": Resources.of({CPU: 1})}


def test_nodes_that_are_only_given_as_a_whole_are_absent() -> None:
    jobs = running("1", ("n1",)), running("2", ("n1", "n2"))
    assert Cluster(now_s=0.0, nodes=(Node(name="n1"), Node(name="n2")), jobs=jobs).unused() == {}


def test_other_objects_for_the_same_nodes_and_jobs_change_nothing() -> None:
    """The Slurm adapter makes new nodes for each snapshot, and the daemon replaces some of the jobs."""
    nodes = tuple(Node(name=name, capacity=Resources.of({CPU: 8})) for name in NAMES)
    half = (Resources.of({CPU: 4}),)
    jobs = [replace(running(name, (name,)), allocation=half) for name in NAMES]
    before = Unused().after(nodes, jobs)
    drained = [replace(node, state=NodeState.DRAINED) for node in nodes]
    again = before.after(tuple(drained), [replace(job, past_evictions=1) for job in jobs])
    assert again.left is before.left
    later = again.after(tuple(map(replace, nodes)), map(replace, jobs[1:]))
    assert later.left == {**before.left, "n1": Resources.of({CPU: 8})}
    assert all(later.held[name] is before.held[name] for name in NAMES[1:])
    larger = (replace(nodes[0], capacity=Resources.of({CPU: 9})), *nodes[1:])
    assert later.after(larger, jobs).left == {**before.left, "n1": Resources.of({CPU: 5})}
