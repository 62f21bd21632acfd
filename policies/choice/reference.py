"""The choice on shared nodes by trying every combination of jobs that leave: exact and exponential.

It is kept as the oracle of the fast method, for instances of about ten jobs.
"""

from collections.abc import Iterable, Mapping

from makeway.policies.choice.instance import (
    Choice,
    ChoiceInstance,
    ChoiceProof,
    LeavingOccupant,
    Occupant,
    WayToLeave,
)
from makeway.policies.model import Resources

EnumeratedPrice = tuple[int, int, int, int]
"""Loss, checkpoint steps, jobs that leave, serial steps: compared in this order."""


def enumerate_choice(instance: ChoiceInstance) -> Choice | None:
    """The choice of least loss, then of the fewest checkpoint steps, jobs and serial steps, then the first in
    the order of job ids.

    None: not even all jobs that may leave free enough nodes.
    """
    search = _Enumeration(instance)
    search.descend(0, _lacking(instance), (0, 0, 0, 0))
    if search.best is None:
        return None
    loss_node_s = search.best[0]
    return Choice(
        nodes=search.best_nodes,
        leaving=tuple(search.best_leaving),
        loss_node_s=loss_node_s,
        bound_node_s=loss_node_s,
        proof=ChoiceProof.BOUNDS,
    )


_Lacking = Mapping[tuple[str, int], tuple[int, ...]]
"""What is missing on each candidate node in each of its ways to serve, resource by resource; nothing below 0
counts."""


class _Enumeration:
    """One depth-first search over the jobs that may leave, in the order of their ids."""

    def __init__(self, instance: ChoiceInstance) -> None:
        able = sorted(
            (occupant for occupant in instance.occupants if occupant.ways),
            key=lambda occupant: occupant.job_id,
        )
        self.gives = [(occupant, _gives(instance, occupant)) for occupant in able]
        self.node_count = instance.node_count
        self.budget_steps = instance.budget_steps
        self.best: EnumeratedPrice | None = None
        self.best_nodes: tuple[str, ...] = ()
        self.best_leaving: list[LeavingOccupant] = []
        self.path: list[LeavingOccupant] = []

    def descend(self, index: int, lacking: _Lacking, price: EnumeratedPrice) -> None:
        """Try every way for the jobs from `index` on, after a path with this price."""
        if self.best is not None and price >= self.best:
            return
        served = _served(lacking)
        if len(served) >= self.node_count:
            self.best = price
            self.best_nodes = tuple(served[: self.node_count])
            self.best_leaving = list(self.path)
            return
        if index == len(self.gives) or not self.possible(index, lacking):
            return
        occupant, gives = self.gives[index]
        if gives:
            after = _minus(lacking, gives)
            for way in occupant.ways:
                dearer = _plus(price, way)
                if dearer[3] <= self.budget_steps:
                    self.path.append(LeavingOccupant(occupant=occupant, way=way))
                    self.descend(index + 1, after, dearer)
                    self.path.pop()
        self.descend(index + 1, lacking, price)

    def possible(self, index: int, lacking: _Lacking) -> bool:
        """Whether enough nodes are served if all jobs from `index` on leave."""
        for _, gives in self.gives[index:]:
            lacking = _minus(lacking, gives)
        return len(_served(lacking)) >= self.node_count


def _lacking(instance: ChoiceInstance) -> _Lacking:
    if instance.demand is None:
        holders = [name for occupant in instance.occupants for name in occupant.nodes]
        return {(name, 0): (holders.count(name),) for name in instance.free}
    return {
        (name, way): tuple(amount - free.amount(resource) for resource, amount in wanted.amounts)
        for name, free in instance.free.items()
        for way, wanted in enumerate(_ways(instance, name, instance.demand))
    }


def _ways(instance: ChoiceInstance, name: str, demand: Resources) -> tuple[Resources, ...]:
    """What a candidate node needs in each way in which it can serve."""
    return instance.alternatives.get(name, (demand,))


def _gives(instance: ChoiceInstance, occupant: Occupant) -> _Lacking:
    """What a job's leaving frees on each candidate node."""
    here = [
        (name, held)
        for name, held in zip(occupant.nodes, occupant.allocation, strict=True)
        if name in instance.free
    ]
    if instance.demand is None:
        return dict.fromkeys(((name, 0) for name, _ in here), (1,))
    return {
        (name, way): _amounts(held, (resource for resource, _ in wanted.amounts))
        for name, held in here
        for way, wanted in enumerate(_ways(instance, name, instance.demand))
    }


def _amounts(held: Resources, names: Iterable[str]) -> tuple[int, ...]:
    return tuple(held.amount(name) for name in names)


def _minus(lacking: _Lacking, gives: _Lacking) -> _Lacking:
    less = {
        name: tuple(one - other for one, other in zip(lacking[name], freed, strict=True))
        for name, freed in gives.items()
    }
    return {**lacking, **less}


def _served(lacking: _Lacking) -> list[str]:
    """The nodes on which nothing is missing, sorted."""
    return sorted({name for (name, _), amounts in lacking.items() if all(amount <= 0 for amount in amounts)})


def _plus(price: EnumeratedPrice, way: WayToLeave) -> EnumeratedPrice:
    loss, steps, jobs, serial = price
    return loss + way.loss_node_s, steps + way.checkpoint_steps, jobs + 1, serial + way.serial_steps
