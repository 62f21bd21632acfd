"""Small random instances of the joint choice, and what is wrong with a choice."""

import random
from collections.abc import Sequence

from makeway.policies.choice.instance import WayToLeave
from makeway.policies.joint.instance import JointChoice, JointComponent, JointInstance, JointJob
from makeway.policies.model import Method, Resources, total

RESOURCES = ("cpu", "mem", "gres/gpu")


def kill(loss_node_s: int) -> WayToLeave:
    return WayToLeave(method=Method.KILL, loss_node_s=loss_node_s)


def system(steps: int) -> WayToLeave:
    return WayToLeave(method=Method.SYSTEM, checkpoint_steps=steps, serial_steps=steps)


def job(job_id: str, nodes: Sequence[str], *ways: WayToLeave, cpus: int = 0) -> JointJob:
    """A job with so many CPUs on each of some nodes; without ways it stays."""
    return JointJob(job_id=job_id, held=dict.fromkeys(nodes, Resources.of({"cpu": cpus})), ways=ways)


def component(node_count: int, nodes: Sequence[str], cpus: int | None = None) -> JointComponent:
    """A component that needs CPUs on nodes without free ones, or whole nodes (None)."""
    demand = None if cpus is None else Resources.of({"cpu": cpus})
    return JointComponent(node_count=node_count, free=dict.fromkeys(nodes, Resources()), demand=demand)


def random_instance(seed: int) -> JointInstance:
    """Two or three components, up to six nodes and six jobs, on whole nodes or on parts of them; some jobs
    stay, some have checkpoints; half the time so alike that ties are the rule.
    """
    rng = random.Random(seed)
    alike, whole = rng.random() < 0.5, rng.random() < 0.4
    resources = RESOURCES[: rng.randint(1, 3)]
    nodes = [f"n{index}" for index in range(rng.randint(3, 6))]
    left, jobs = list(nodes), list[JointJob]()
    for index in range(rng.randint(2, 6)):
        able = left if whole else nodes
        mine = rng.sample(able, min(len(able), rng.choice((1, 1, 2, 3))))
        left = [name for name in left if name not in mine]
        held = {name: Resources.of({one: rng.randint(0, 5) for one in resources}) for name in mine}
        ways = [kill(rng.choice((0, 1, 2)) if alike else rng.randint(0, 10_000))]
        ways += [system(rng.randint(0, 4))] if rng.random() < 0.4 else []
        if mine:
            stays = rng.random() < 0.1
            jobs.append(JointJob(job_id=f"j{index}", held=held, ways=() if stays else tuple(ways)))
    free = {name: Resources.of({one: rng.choice((0, 0, 1, 2)) for one in resources}) for name in nodes}
    components: list[JointComponent] = []
    for _ in range(rng.choice((2, 2, 3))):
        able = nodes if rng.random() < 0.5 else rng.sample(nodes, rng.randint(2, len(nodes)))
        demand = Resources.of({one: rng.randint(0, 5) for one in resources})
        components.append(
            JointComponent(
                node_count=rng.choice((1, 1, 2)),
                free={name: free[name] for name in able},
                demand=None if whole or rng.random() < 0.1 else demand,
            )
        )
    return JointInstance(components=tuple(components), jobs=tuple(jobs), budget_steps=rng.choice((0, 2, 4)))


def many_nodes(seed: int, node_count: int, needed: int) -> JointInstance:
    """Three components that each need so many of the same nodes. On each node there are three jobs or more,
    which lose much or little; some are on the next node too.
    """
    rng = random.Random(seed)
    names = [f"n{index:03}" for index in range(node_count)]
    jobs = [
        job(
            f"{name}.{number}",
            names[index : index + (2 if rng.random() < 0.3 else 1)],
            kill(rng.randint(1, 10_000)),
            cpus=rng.choice((1, 2, 3)),
        )
        for index, name in enumerate(names)
        for number in range(3)
    ]
    needs = tuple(component(needed, names, cpus=cpus) for cpus in (2, 3, 4))
    return JointInstance(components=needs, jobs=tuple(jobs))


def faults(asked: JointInstance, choice: JointChoice) -> list[str]:
    """What is wrong with a choice, whatever it loses; recomputed from the instance alone."""
    found: list[str] = []
    every = [name for nodes in choice.nodes for name in nodes]
    if len(set(every)) < len(every):
        found.append("a node is given twice")
    for component, nodes in zip(asked.components, choice.nodes, strict=True):
        if len(nodes) != component.node_count or not set(nodes) <= component.free.keys():
            found.append(f"{nodes} are not {component.node_count} candidates")
        for name in nodes:
            here = [one for one in asked.jobs if name in one.held]
            gone = [one.held[name] for one in here if one.job_id in choice.leaving]
            room = total([component.free[name], *gone])
            serves = len(gone) == len(here) if component.demand is None else room.covers(component.demand)
            if not serves:
                found.append(f"{name} does not serve")
    ways = {one.job_id: one.ways for one in asked.jobs}
    if any(way not in ways[job_id] for job_id, way in choice.leaving.items()):
        found.append("a job leaves in a way that it does not have")
    if sum(way.serial_steps for way in choice.leaving.values()) > asked.budget_steps:
        found.append("over the budget")
    return found
