"""The nodes that jobs go on holding, from those that leave alone."""

import random

from makeway.policies.common.departures import NodeRelease
from makeway.policies.common.holds import occupied_set, still_occupied_set
from tests.builders import cluster, node_names, pending, running


def test_what_stays_occupied_is_what_the_jobs_say_one_by_one() -> None:
    rng, shared = random.Random(1), 0
    for _ in range(300):
        names = node_names(30)
        free, jobs = list(names), [pending("p", 2)]
        rng.shuffle(free)
        while len(free) > 5:
            nodes = tuple(free.pop() for _ in range(rng.randint(1, 4)))
            if rng.random() < 0.02:
                nodes = (*nodes, rng.choice([name for name in names if name not in nodes]))
            jobs.append(running(f"b{len(jobs)}", nodes))
        jobs.append(running("lost", ("gone",)))
        view = cluster(30, *jobs)
        shared += bool(view.shared_nodes())
        releases = {
            one.job_id: NodeRelease(by_s=0.0, kept_nodes=frozenset(one.nodes[: rng.randint(0, 2)]))
            for one in rng.sample(jobs, 6)
        } | {"unknown": NodeRelease(by_s=0.0)}
        plain = occupied_set(view.node_sets(), view.jobs, releases)
        assert still_occupied_set(view, releases) == plain
    assert 30 < shared < 270
