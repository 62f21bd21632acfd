"""GPUs that Slurm gives out by parts: `gres/shard` and `gres/mps`. Pure functions.

A GPU is given to one job as a whole, or to several jobs by parts, never both at once. A request gets its
parts from one GPU, unless SelectTypeParameters has MULTIPLE_SHARING_GRES_PJ (tried on 22.05 to 26.05). The
model compares sums. A request for one part is read exactly: it fits if any part is free. So is a request for
more parts on a node that has one such GPU. No other request for parts is served.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from makeway.adapters.slurm.parse import Gres
from makeway.policies.model import GPU, Resources

GPU_PARTS = frozenset({"shard", "mps"})
_HELD = re.compile(r"(?:^|,)(?:shard|mps):[^,(]*(?:\(([^)]*)\))?")
_NOTHING = frozenset[int]()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartedGpus:
    """Those GPUs of a node that are given out by parts."""

    name: str
    """`gres/shard` or `gres/mps`."""
    type: str
    """The type of the GPUs. Empty: they have none."""
    gpu_count: int
    parts_per_gpu: int
    """0: the node does not say which GPU has how many. Then neither its GPUs nor their parts are given."""

    def most_for_one_job(self, whole: Resources, *, across_gpus: bool) -> Resources:
        """What a node that has `whole` can give to one job.

        `across_gpus`: whether the parts of a job may be those of several GPUs.
        """
        most = self.parts_per_gpu if self.gpu_count == 1 else 1
        if not self.parts_per_gpu:
            return self.capacity(whole, _NOTHING)
        return whole if across_gpus else self._changed(whole, parts=lambda count: min(count, most))

    def capacity(self, whole: Resources, shared: frozenset[int]) -> Resources:
        """What jobs may use of a node that has `whole`.

        A GPU of which several jobs hold parts (`shared`) counts as not there: it is free when all of them
        have left, which no sum can say.
        """
        if self.parts_per_gpu:
            return self._changed(whole, gpus=lambda count: max(0, count - len(shared)))
        kept = (pair for pair in whole.amounts if pair[0].partition(":")[0] not in {GPU, self.name})
        return Resources(tuple(kept))

    def allocation(self, held: Resources, by_parts: frozenset[int], shared: frozenset[int]) -> Resources:
        """What a job that holds `held` leaves less for others.

        Its GPUs have no free parts, and the GPUs of which it alone holds parts (`by_parts` without `shared`)
        are not free.
        """
        whole_gpus = held.amount(f"{GPU}:{self.type}" if self.type else GPU)
        alone, parts = len(by_parts - shared), held.amount(self.name) + whole_gpus * self.parts_per_gpu
        return self._changed(held, gpus=lambda count: count + alone, parts=lambda _: parts)

    def _changed(
        self,
        amounts: Resources,
        *,
        gpus: Callable[[int], int] = lambda count: count,
        parts: Callable[[int], int] = lambda count: count,
    ) -> Resources:
        """The amounts with other numbers of these GPUs and of their parts, under both names of each."""
        found = dict(amounts.amounts)
        for generic, change in ((GPU, gpus), (self.name, parts)):
            for name in (generic, f"{generic}:{self.type}")[: 2 if self.type else 1]:
                found[name] = change(found.get(name, 0))
        return Resources.of(found)


def parted_gpus(gres: Iterable[Gres]) -> PartedGpus | None:
    """The GPUs of a node with these resources that are given out by parts. None: it has none."""
    there = tuple(gres)
    parts = [one for one in there if one.name in GPU_PARTS]
    if not parts:
        return None
    first = parts[0]
    gpu_count = sum(one.count for one in there if one.name == "gpu" and one.type == first.type)
    known = len(parts) == 1 and gpu_count > 0 and first.count % gpu_count == 0
    return PartedGpus(
        name=f"gres/{first.name}",
        type=first.type,
        gpu_count=gpu_count,
        parts_per_gpu=first.count // gpu_count if known else 0,
    )


def for_one_job(gres: tuple[Gres, ...], *, across_gpus: bool) -> tuple[Gres, ...]:
    """What a node with these resources can give to a job that has the node for itself."""
    parted = None if across_gpus else parted_gpus(gres)
    if parted is None:
        return gres
    most = parted.parts_per_gpu
    return tuple(replace(one, count=min(one.count, most)) if one.name in GPU_PARTS else one for one in gres)


def gpus_by_parts(text: str) -> frozenset[int]:
    """The numbers of the GPUs of which `shard:2(IDX:0)` or, from 24.11 on, `shard:2(2/4,0/4)` holds parts.

    Raises ValueError if parts are held, and it does not say of which GPUs.
    """
    found: set[int] = set()
    for where in _HELD.findall(text):
        if where.startswith("IDX:"):
            found.update(numbers(where.removeprefix("IDX:")))
        else:
            held = (part.partition("/")[0] for part in where.split(","))
            found.update(number for number, count in enumerate(held) if int(count))
    return frozenset(found)


def numbers(ids: str) -> Iterable[int]:
    """The numbers of `0-1,4,6-7`. Raises ValueError for anything else."""
    for part in ids.split(",") if ids else ():
        ends = part.split("-")
        yield from range(int(ends[0]), int(ends[-1]) + 1)
