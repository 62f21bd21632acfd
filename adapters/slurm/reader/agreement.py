"""Whether pyslurm reads the same cluster as Slurm's commands. Pure functions of records."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TypeVar

from makeway.adapters.slurm.holds import FLEX, made_as_hold
from makeway.adapters.slurm.nodes.states import node
from makeway.adapters.slurm.parse import NO_GPU_DEFAULTS, RawJob
from makeway.adapters.slurm.parse_cluster import RawNode, RawPartition, RawReservation
from makeway.adapters.slurm.partitions.admission import ANYBODY
from makeway.adapters.slurm.partitions.times import PartitionTimes
from makeway.adapters.slurm.reader.answer import ClusterRecords

_RecordT = TypeVar("_RecordT", RawJob, RawNode, RawPartition, RawReservation)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one reader reports about a cluster."""

    jobs: tuple[RawJob, ...]
    cluster: ClusterRecords


def difference(before: View, told: View, after: View) -> str | None:
    """The first difference between pyslurm's view and the commands', in words. None: there is none.

    The commands were asked `before` and `after`: what has changed in between is not compared.
    """
    one, two, three = before.cluster, told.cluster, after.cluster
    return (
        _differs("job", _jobs(before.jobs), _jobs(told.jobs), _jobs(after.jobs))
        or _differs("node", _nodes(one.nodes), _nodes(two.nodes), _nodes(three.nodes))
        or _differs(
            "partition",
            _partitions(one.partitions),
            _partitions(two.partitions),
            _partitions(three.partitions),
        )
        or _differs(
            "reservation",
            _reservations(one.reservations),
            _reservations(two.reservations),
            _reservations(three.reservations),
        )
    )


def _differs(
    kind: str, before: Mapping[str, _RecordT], told: Mapping[str, _RecordT], after: Mapping[str, _RecordT]
) -> str | None:
    for name, record in before.items():
        if after.get(name) != record:
            continue
        if name not in told:
            return f"{kind} {name} is missing"
        if told[name] != record:
            wrong = [
                f"{one.name} is {getattr(told[name], one.name)!r} instead of {getattr(record, one.name)!r}"
                for one in fields(record)
                if getattr(told[name], one.name) != getattr(record, one.name)
            ]
            return f"{kind} {name}: {wrong[0]}"
    unknown = sorted(told.keys() - before.keys() - after.keys())
    return f"there is no {kind} {unknown[0]}" if unknown else None


def _jobs(jobs: Iterable[RawJob]) -> dict[str, RawJob]:
    # pyslurm tells the resources in an order of its own. The scheduler adds the defaults of GPUs later.
    return {
        job.job_id: replace(job, tres=",".join(sorted(job.tres.split(","))), gpu_defaults=None)
        for job in jobs
    }


def _nodes(nodes: Iterable[RawNode]) -> dict[str, RawNode]:
    # Whether jobs are on a node is told by the jobs, and pyslurm fitted to 24.11 cannot tell. The threads of
    # a core it does not tell.
    return {raw.name: replace(raw, states=frozenset({node(raw).state}), threads_per_core=1) for raw in nodes}


def _partitions(partitions: Iterable[RawPartition]) -> dict[str, RawPartition]:
    # Of the times, pyslurm tells an overtime that is not 0.
    return {
        raw.name: replace(
            raw,
            weights=(),
            gpu_defaults=NO_GPU_DEFAULTS,
            admission=ANYBODY,
            times=PartitionTimes(overtime_s=raw.times.overtime_s or None),
        )
        for raw in partitions
    }


def _reservations(reservations: Iterable[RawReservation]) -> dict[str, RawReservation]:
    # Of the flags makeway reads only one, and whether they are those of its own holds; of the limits, whether
    # there are any. pyslurm tells no licenses of a reservation.
    return {
        raw.name: replace(
            raw,
            flags=frozenset({"hold"} if made_as_hold(raw) else raw.flags & {FLEX}),
            limited_by=frozenset({"something"} if raw.limited_by else ()),
            licenses="",
        )
        for raw in reservations
    }
