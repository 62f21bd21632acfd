"""GPUs that Slurm gives out by parts: `gres/shard` and `gres/mps`. Pure functions.

A GPU is given to one job as a whole, or to several jobs by parts, never both at once. A request gets its
parts from one GPU, unless SelectTypeParameters has MULTIPLE_SHARING_GRES_PJ (tried on 22.05 to 26.05). So
each GPU of such a node is a resource of its own (`policies.model.gpu_parts`). Of a node with MPS, only one
GPU at a time gives parts, also if others are free (tried on the same releases). gres.conf can say otherwise,
for MPS and for shards (all_sharing, one_sharing), which Slurm shows to no client.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from makeway.adapters.slurm.parse import Gres
from makeway.policies.model import GPU, PartedGpu, Resources

GPU_PARTS = frozenset({"shard", "mps"})
_HELD = re.compile(r"(?:^|,)(gpu|shard|mps):[^,(]*(?:\(([^)]*)\))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldGpus:
    """Which GPUs of a node a job holds."""

    whole: frozenset[int] = frozenset()
    """The numbers of those that it has for itself."""
    part_counts: Mapping[int, int | None] = field(default_factory=dict[int, int | None])
    """How many parts of the others it holds, by their numbers. None: all parts that it holds (22.05)."""

    def parts(self, part_count: int) -> dict[int, int]:
        """The same of a job that holds so many parts in all. Empty: it does not say where they are."""
        if None in self.part_counts.values():
            return dict.fromkeys(self.part_counts, part_count) if len(self.part_counts) == 1 else {}
        return {number: count for number, count in self.part_counts.items() if count is not None}


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
    numbered: bool
    """Whether they have the numbers from 0 on. If not, they are given to no job that shares the node."""

    @property
    def one_at_a_time(self) -> bool:
        """Whether parts of one GPU alone are in use at any time."""
        return self.name == "gres/mps" and self.gpu_count > 1

    def capacity(self, whole: Resources, *, across_gpus: bool) -> Resources:
        """What jobs may use of a node that has `whole`: each of these GPUs is a resource of its own.

        `across_gpus`: whether the parts of a job may be those of several GPUs, so that their sum counts too.
        """
        amounts = self._others(whole)
        for gpu in self._gpus():
            amounts |= {gpu.name: self.parts_per_gpu} | gpu.others
        across = across_gpus and self.numbered and not self.one_at_a_time
        return Resources.of(amounts | (self._sums(whole) if across else {}))

    def allocation(self, held: Resources, gpus: HeldGpus, *, across_gpus: bool) -> Resources:
        """What others cannot use because of a job that holds `held`.

        A job that does not say of which GPUs it holds how much holds all of them.
        """
        gpus_there = self._gpus()
        parts = dict.fromkeys(range(len(gpus_there)), self.parts_per_gpu)
        shared = parts
        gpu_count = held.amount(f"{GPU}:{self.type}" if self.type else GPU)
        part_count = held.amount(self.name)
        by_number = gpus.parts(part_count)
        known = len(gpus.whole) == gpu_count and sum(by_number.values()) == part_count
        if known and max((*gpus.whole, *by_number, -1)) < self.gpu_count:
            parts, shared = by_number | dict.fromkeys(gpus.whole, self.parts_per_gpu), by_number
        amounts = self._others(held)
        for number, gpu in enumerate(gpus_there):
            amounts[gpu.name] = parts.get(number, 0)
            amounts |= dict.fromkeys(gpu.others, sum(shared.values()) - shared.get(number, 0))
        if across_gpus and not self.one_at_a_time:
            amounts |= dict.fromkeys(self._sums(held), sum(parts.values()))
        return Resources.of(amounts)

    def _gpus(self) -> tuple[PartedGpu, ...]:
        """The resources that the GPUs are, by their numbers. None, if they are not known."""
        count = self.gpu_count if self.parts_per_gpu and self.numbered else 0
        return tuple(
            PartedGpu(
                generic=self.name,
                type=self.type,
                number=number,
                part_count=self.parts_per_gpu,
                other_part_count=self.parts_per_gpu * (count - 1) if self.one_at_a_time else 0,
            )
            for number in range(count)
        )

    def _others(self, amounts: Resources) -> dict[str, int]:
        """The amounts of all but these GPUs and their parts; of GPUs, those of other types."""
        kept = {name: count for name, count in amounts.amounts if name.partition(":")[0] != self.name}
        kept.pop(GPU, None)
        kept.pop(f"{GPU}:{self.type}", None)
        others = sum(count for name, count in kept.items() if name.startswith(f"{GPU}:"))
        return kept | {GPU: others} if others else kept

    def _sums(self, whole: Resources) -> dict[str, int]:
        """The parts by their sums, under both names."""
        amount = whole.amount(self.name)
        return dict.fromkeys((self.name, f"{self.name}:{self.type}")[: 2 if self.type else 1], amount)


def parted_gpus(gres: Iterable[Gres]) -> PartedGpus | None:
    """The GPUs of a node with these resources that are given out by parts. None: it has none."""
    there = tuple(gres)
    parts = [one for one in there if one.name in GPU_PARTS]
    if not parts:
        return None
    first = parts[0]
    gpus = [one for one in there if one.name == "gpu"]
    gpu_count = sum(one.count for one in gpus if one.type == first.type)
    known = len(parts) == 1 and gpu_count > 0 and first.count % gpu_count == 0
    return PartedGpus(
        name=f"gres/{first.name}",
        type=first.type,
        gpu_count=gpu_count,
        parts_per_gpu=first.count // gpu_count if known else 0,
        # Which numbers the GPUs of one type among several have, the node does not say.
        numbered={one.type for one in gpus} == {first.type},
    )


def for_one_job(gres: tuple[Gres, ...], *, across_gpus: bool) -> tuple[Gres, ...]:
    """What a node with these resources can give to a job that has the node for itself."""
    parted = parted_gpus(gres)
    if parted is None or (across_gpus and not parted.one_at_a_time):
        return gres
    most = parted.parts_per_gpu
    return tuple(replace(one, count=min(one.count, most)) if one.name in GPU_PARTS else one for one in gres)


def held_gpus(text: str) -> HeldGpus:
    """The GPUs of `gpu:a100:1(IDX:1),shard:2(IDX:0)` or, from 24.11 on, `shard:2(2/4,0/4)`.

    Raises ValueError if numbers are none.
    """
    whole: set[int] = set()
    parts: dict[int, int | None] = {}
    for name, where in _HELD.findall(text):
        ids = tuple(numbers(where.removeprefix("IDX:"))) if where.startswith("IDX:") else ()
        if name == "gpu":
            whole.update(ids)
        elif ids:
            parts.update(dict.fromkeys(ids))
        elif where:
            counts = [int(part.partition("/")[0]) for part in where.split(",")]
            parts.update({number: count for number, count in enumerate(counts) if count})
    return HeldGpus(whole=frozenset(whole), part_counts=parts)


def numbers(ids: str) -> Iterable[int]:
    """The numbers of `0-1,4,6-7`. Raises ValueError for anything else."""
    for part in ids.split(",") if ids else ():
        ends = part.split("-")
        yield from range(int(ends[0]), int(ends[-1]) + 1)
