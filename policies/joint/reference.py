"""The joint choice by trying every combination of jobs that leave, and of nodes: exact and exponential.

It is kept as the oracle of the fast method, for instances of about six jobs and six nodes.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations, product

from makeway.policies.joint.instance import JointChoice, JointComponent, JointInstance
from makeway.policies.model import Resources, total


def enumerate_jointly(instance: JointInstance) -> JointChoice | None:
    """A choice of least loss. None: there is none."""
    able = [job for job in instance.jobs if job.ways]
    counts = [component.node_count for component in instance.components]
    best: JointChoice | None = None
    for ways in product(*((None, *job.ways) for job in able)):
        leaving = {job.job_id: way for job, way in zip(able, ways, strict=True) if way is not None}
        loss_node_s = sum(way.loss_node_s for way in leaving.values())
        too_long = sum(way.serial_steps for way in leaving.values()) > instance.budget_steps
        if too_long or (best is not None and loss_node_s >= best.loss_node_s):
            continue
        serving = [_serving(component, instance, leaving.keys()) for component in instance.components]
        nodes = next(_assignments(serving, counts), None)
        if nodes is not None:
            best = JointChoice(nodes=nodes, leaving=leaving)
    return best


def _serving(component: JointComponent, instance: JointInstance, gone: Collection[str]) -> list[str]:
    """The nodes that serve a component when some jobs have left, sorted."""
    found: list[str] = []
    for name, free in component.free.items():
        here = [job for job in instance.jobs if name in job.held]
        room = total([free, *(job.held[name] for job in here if job.job_id in gone)])
        ways = component.ways_on(name)
        unused = all(job.job_id in gone for job in here)
        if unused if ways is None else any(_has(room, way) for way in ways):
            found.append(name)
    return sorted(found)


def _has(room: Resources, way: Resources) -> bool:
    return all(room.amount(name) >= amount for name, amount in way.amounts)


def _assignments(
    serving: Sequence[Collection[str]], counts: Sequence[int], taken: frozenset[str] = frozenset()
) -> Iterator[tuple[tuple[str, ...], ...]]:
    """The ways to give each component as many nodes of its own as it needs."""
    if not serving:
        yield ()
        return
    for nodes in combinations([name for name in serving[0] if name not in taken], counts[0]):
        for rest in _assignments(serving[1:], counts[1:], taken.union(nodes)):
            yield (nodes, *rest)
