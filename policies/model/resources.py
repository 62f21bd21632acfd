"""Amounts of resources of nodes: CPUs, memory, GPUs and other generic resources. Imported through `model`.

The names are Slurm's names of trackable resources (TRES): `cpu` counts CPUs as the cluster counts them,
`mem` is megabytes, `gres/gpu` counts GPUs of every type and `gres/gpu:a100` those of one type. A typed
resource always counts under both names. A request for `gres/gpu` is therefore met by GPUs of any type, and
all comparisons are made name by name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from makeway.policies.model.gpu_parts import available

CPU = "cpu"
MEMORY = "mem"


@dataclass(frozen=True, slots=True)
class Resources:
    """Amounts of resources: what a node has, what a job holds on a node, or what it needs on a node."""

    amounts: tuple[tuple[str, int], ...] = ()
    """Pairs of name and amount, sorted by name, each name once, no amount of 0. Use `of` to make them."""

    @classmethod
    def of(cls, amounts: Mapping[str, int]) -> Self:
        """The amounts by name; those of 0 are left out."""
        return cls(tuple(sorted((name, amount) for name, amount in amounts.items() if amount)))

    @classmethod
    def with_totals(cls, amounts: Mapping[str, int]) -> Self:
        """The amounts by name; an amount of one type, such as `gres/gpu:a100`, also counts as `gres/gpu`.

        An untyped amount that is given counts if it is the larger one.
        """
        found = dict(amounts)
        for generic in {name.partition(":")[0] for name in amounts if ":" in name}:
            typed = sum(amount for name, amount in amounts.items() if name.startswith(f"{generic}:"))
            found[generic] = max(typed, amounts.get(generic, 0))
        return cls.of(found)

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return bool(self.amounts)

    @property
    def text(self) -> str:
        """The amounts for people, such as `cpu=8, mem=16000M, gres/gpu=2`."""
        return ", ".join(f"{name}={amount}{'M' * (name == MEMORY)}" for name, amount in self.amounts)

    def amount(self, name: str) -> int:
        """The amount of one resource; 0 if there is none."""
        return next((amount for known, amount in self.amounts if known == name), 0)

    def covers(self, needed: "Resources") -> bool:
        """Whether there is at least as much of every resource as is needed.

        Parts of GPUs have to be those of one GPU: see `gpu_parts`.
        """
        if not needed.amounts:
            return True
        own = dict(self.amounts)
        for name, amount in needed.amounts:
            if own.get(name, 0) < amount and (name[:5] != "gres/" or available(own, name) < amount):
                return False
        return True

    def plus(self, other: "Resources") -> "Resources":
        """The sum of both."""
        if not (self.amounts and other.amounts):
            return self if self.amounts else other
        total = dict(self.amounts)
        for name, amount in other.amounts:
            total[name] = total.get(name, 0) + amount
        return Resources.of(total)

    def minus(self, other: "Resources") -> "Resources":
        """What remains of this without the other, nothing below 0 and no name that this does not have."""
        if not other.amounts:
            return self
        taken = dict(other.amounts)
        left = [(name, amount - taken.get(name, 0)) for name, amount in self.amounts]
        return Resources(tuple([(name, amount) for name, amount in left if amount > 0]))

    def owing(self, other: "Resources", times: int) -> "Resources":
        """What remains of this without the other so many times: below 0 where that is more than there is."""
        left = dict(self.amounts)
        for name, amount in other.amounts:
            left[name] = left.get(name, 0) - times * amount
        return Resources.of(left)


NO_RESOURCES = Resources()


def dominant_share(allocation: Resources, capacity: Resources) -> float:
    """Which part of a node an allocation takes: the largest part of any of its resources, at most 1.

    Reference:
        Ghodsi et al., "Dominant Resource Fairness" (NSDI 2011), section 4: the dominant share.
    """
    has = dict(capacity.amounts)
    parts = (amount / has[name] for name, amount in allocation.amounts if name in has)
    return min(1.0, max(parts, default=0.0))


def weighted_share(allocation: Resources, capacity: Resources, weights: Mapping[str, float]) -> float:
    """Which part of a node an allocation takes by the site's weights (Slurm's TRESBillingWeights), at most 1.

    Weights that give the whole node no value say nothing: then the dominant share counts.
    """
    whole = sum(weights.get(name, 0.0) * amount for name, amount in capacity.amounts)
    if whole <= 0.0:
        return dominant_share(allocation, capacity)
    return min(1.0, sum(weights.get(name, 0.0) * amount for name, amount in allocation.amounts) / whole)


def total(parts: Sequence[Resources]) -> Resources:
    """The sum of all parts."""
    found: dict[str, int] = {}
    for part in parts:
        for name, amount in part.amounts:
            found[name] = found.get(name, 0) + amount
    return Resources.of(found)
