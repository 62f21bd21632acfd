"""What is free of some nodes once jobs have left is the same as what is free of them among all nodes."""

from dataclasses import replace
from random import Random

import pytest

from makeway.policies.common.departures import NodeRelease
from makeway.policies.common.shared_nodes import room_at_last, room_when_left, with_room
from makeway.policies.model import Cluster, Job, JobState, NodeState
from tests.policies.sharing import NOW_S, amounts, part, shared


def drawn(random: Random) -> tuple[Cluster, dict[str, NodeRelease]]:
    """Five nodes, some of them not up, and jobs on one to three of them; some are leaving or completing."""
    cluster = shared(node_count=5)
    names = [node.name for node in cluster.nodes]
    jobs, releases = list[Job](), dict[str, NodeRelease]()
    for number in range(random.randint(0, 10)):
        on = random.sample(names, random.randint(1, 3))
        job = part(f"j{number}", " ".join(on), amounts(random.randint(1, 3)))
        if random.random() < 0.2:
            job = replace(job, allocation=None)
        if random.random() < 0.2:
            job = replace(job, state=JobState.COMPLETING, completing_since_s=NOW_S)
        elif random.random() < 0.4:
            kept = frozenset(random.sample(on, random.randint(0, len(on) - 1)))
            releases[job.job_id] = NodeRelease(by_s=NOW_S, kept_nodes=kept)
        jobs.append(job)
    releases["gone"] = NodeRelease(by_s=NOW_S)
    states = [random.choice((NodeState.UP, NodeState.UP, NodeState.DOWN)) for _ in names]
    nodes = tuple(replace(node, state=state) for node, state in zip(cluster.nodes, states, strict=True))
    return replace(cluster, nodes=nodes, jobs=tuple(jobs)), releases


@pytest.mark.parametrize("seed", range(30))
def test_the_same_among_some_nodes(seed: int) -> None:
    random = Random(seed)
    cluster, releases = drawn(random)
    among = frozenset(random.sample([node.name for node in cluster.nodes], random.randint(0, 5)))
    demand = amounts(random.randint(2, 8))
    for room in (room_when_left, room_at_last):
        whole = room(cluster, releases)
        assert room(cluster, releases, among) == {name: whole[name] for name in among}
    assert with_room(cluster, releases, demand, among) == with_room(cluster, releases, demand) & among


def test_nodes_that_a_job_keeps_do_not_come_free() -> None:
    shrinks = part("a", "n0 n1", amounts(8))
    cluster = shared(shrinks)
    room = room_when_left(cluster, {"a": NodeRelease(by_s=NOW_S, kept_nodes=frozenset({"n0"}))})
    assert not room["n0"].amount("cpu")
    assert room["n1"].amount("cpu") == 8
