"""GPUs of a node that are given out by parts, each as a resource of its own. Imported through `model`.

`gres/shard#1/4` counts the parts of GPU 1 of a node, which has four of them; `gres/shard:a100#1/4` the same
of a GPU with a type. A job that has the whole GPU holds all of its parts. Such a node has no `gres/gpu`: how
many GPUs are free, and how many parts one job can get, follows from the parts of each GPU.

Where one GPU at a time gives parts, as with MPS, GPU 1 is `gres/mps#1/100/300`: a job gets parts of it while
the 300 parts of the other GPUs are in no use as parts. They are counted by `gres/mps#1/others`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, islice

GPU = "gres/gpu"
_OTHERS = "/others"
MOST_ALTERNATIVES = 100
"""How many sets of GPUs of one node are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartedGpu:
    """One GPU of a node that is given out by parts."""

    generic: str
    """What its parts are called: `gres/shard` or `gres/mps`."""
    type: str
    """Empty: it has none."""
    number: int
    part_count: int
    other_part_count: int = 0
    """How many parts the other GPUs of its node have, none of which may be in use when a job gets parts of
    this one. 0: parts of several GPUs may be in use.
    """

    @property
    def name(self) -> str:
        """The name of the resource that its parts are."""
        alone = f"/{self.other_part_count}" if self.other_part_count else ""
        return f"{self._numbered}/{self.part_count}{alone}"

    @property
    def others(self) -> dict[str, int]:
        """What of its node's other GPUs a job needs that gets parts of this one."""
        return {f"{self._numbered}{_OTHERS}": self.other_part_count} if self.other_part_count else {}

    @property
    def _numbered(self) -> str:
        typed = f"{self.generic}:{self.type}" if self.type else self.generic
        return f"{typed}#{self.number}"


@lru_cache(maxsize=1 << 12)
def parted_gpu(name: str) -> PartedGpu | None:
    """The GPU whose parts this resource counts. None: it counts something else."""
    typed, marked, counted = name.rpartition("#")
    number, *counts = counted.split("/")
    if not (marked and 1 <= len(counts) <= 2 and all(map(str.isdecimal, (number, *counts)))):
        return None
    generic, _, type_ = typed.partition(":")
    return PartedGpu(
        generic=generic,
        type=type_,
        number=int(number),
        part_count=int(counts[0]),
        other_part_count=int(counts[1]) if len(counts) == 2 else 0,
    )


def available(amounts: Mapping[str, int], name: str) -> int:
    """How much of a resource one job can get of a node with these amounts: all of its parts from one GPU."""
    found = amounts.get(name, 0)
    generic, _, type_ = name.partition(":")
    for known, amount in amounts.items():
        gpu = parted_gpu(known) if "#" in known else None
        if gpu is None or type_ not in {"", gpu.type}:
            continue
        if generic == GPU:
            found += amount >= gpu.part_count
        elif generic == gpu.generic and all(
            amounts.get(key, 0) >= least for key, least in gpu.others.items()
        ):
            found = max(found, amount)
    return found


def alternatives(
    there: Iterable[tuple[PartedGpu, float]], demand: Mapping[str, int]
) -> tuple[dict[str, int], ...]:
    """The ways in which a node's GPUs can meet a demand, each as amounts of which the node needs all.

    At most `MOST_ALTERNATIVES` sets of GPUs are looked at, those with the GPUs of the lowest rank first.

    Args:
        there: the GPUs of the node that are given out by parts, each with a rank.
        demand: by name. Empty result: it concerns none of these GPUs.
    """
    gpus = [gpu for gpu, _ in sorted(there, key=lambda one: (one[1], one[0].number))]
    for generic in (GPU, *(gpu.generic for gpu in gpus[:1])):
        types = {name.partition(":")[2] for name in demand if name.partition(":")[0] == generic}
        able = [gpu for gpu in gpus if types <= {"", gpu.type}]
        if not types or not able:
            continue
        wanted = max(amount for name, amount in demand.items() if name.partition(":")[0] == generic)
        rest = {name: amount for name, amount in demand.items() if name.partition(":")[0] != generic}
        if generic == GPU:
            sets = islice(combinations(able, wanted), MOST_ALTERNATIVES)
            return tuple(rest | {gpu.name: gpu.part_count for gpu in chosen} for chosen in sets)
        return tuple(rest | {gpu.name: wanted} | gpu.others for gpu in able if gpu.part_count >= wanted)
    return ()


def gpu_equivalents(amounts: Mapping[str, int]) -> float:
    """How many GPUs these amounts are; parts count as parts."""
    parts = ((parted_gpu(name), amount) for name, amount in amounts.items() if "#" in name)
    return amounts.get(GPU, 0) + sum(amount / gpu.part_count for gpu, amount in parts if gpu is not None)


def without_numbers(amounts: Mapping[str, int], *, as_held: bool = False) -> dict[str, int]:
    """The same by sums over the GPUs, under the names that requests use: GPUs, and parts of GPUs.

    `as_held`: of what one job holds, so that a whole GPU does not count as its parts too.
    """
    found = {
        name: amount
        for name, amount in amounts.items()
        if parted_gpu(name) is None and not name.endswith(_OTHERS)
    }
    for name, amount in amounts.items():
        gpu = parted_gpu(name)
        if gpu is None:
            continue
        whole = amount >= gpu.part_count
        counted = {GPU: int(whole), gpu.generic: 0 if whole and as_held else amount}
        for generic, count in counted.items():
            if count and generic not in amounts:
                for key in (generic, f"{generic}:{gpu.type}")[: 2 if gpu.type else 1]:
                    found[key] = found.get(key, 0) + count
    return found
