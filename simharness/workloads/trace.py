"""Job traces as workloads: reading them from the Standard Workload Format, and writing a workload in it."""

import gzip
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

from makeway.policies.model import CPU, Resources
from makeway.simharness.workloads.job import SimJob
from makeway.simharness.workloads.swf import PARTS, PROCESSOR_LIMIT, SUMMARIES, Columns, SwfReader, TraceError
from makeway.simharness.workloads.unit import TraceMachine, TraceUnit, fit, natural_unit, small_share

__all__ = ["Trace", "TraceError", "read_trace", "write_swf"]


_NAME_LIMIT = 1e15
"""A number from here on is no name and keeps its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One trace as a workload for a machine of equal nodes, or of processors."""

    name: str
    """The file's name without its endings."""
    node_count: int
    """Nodes of the machine; its processors, if `unit` is the processor."""
    procs_per_node: int
    start_epoch_s: float | None
    """POSIX time of the trace's second 0. None: the header does not say."""
    jobs: list[SimJob]
    """Sorted by submit time; those of one instant in the order of the file."""
    dropped: int = 0
    """Jobs without a run time or a size: cancelled before they started, or not recorded."""
    parts: int = 0
    """Lines of partial executions of jobs that have a line of their own, left out."""
    bad: int = 0
    """Damaged lines (a stream that breaks off counts as one). Above 0 with `skip_bad` only."""
    impossible: tuple[tuple[str, int], ...] = ()
    """Id and size of the jobs that are larger than the machine; they are not among `jobs`."""
    duplicates: int = 0
    """Jobs whose number another had before them. The second job 15 has the id `15.2`."""
    unit: TraceUnit = TraceUnit.NODE
    """What the sizes of the jobs and of the machine are counted in."""
    below_a_node: float = 0.0
    """The share of the jobs that ask for fewer processors than a node has."""
    node: Resources | None = None
    """What each node has. None: nodes, or processors, are given as a whole."""


def read_trace(
    path: str | Path,
    *,
    skip_bad: bool = False,
    node_count: int | None = None,
    procs_per_node: int | None = None,
    unit: TraceUnit | None = None,
    node: Resources | None = None,
) -> Trace:
    """Read a trace as a workload.

    A job's size is its allocated processors (requested ones where those are missing), in whole nodes, rounded
    up, or in processors (`unit`). Its limit is the requested time, or the run time where that is more or
    nothing was requested. Jobs without a run time or a size are dropped, jobs larger than the machine are
    named in `Trace.impossible`. A partial execution is left out if its job has a line of its own.

    Args:
        path: an SWF file, plain or gzip, whatever its name.
        skip_bad: count damaged lines instead of raising.
        node_count: nodes of the machine. None: by the header.
        procs_per_node: processors of a node. None: by the header.
        unit: what a size is counted in. None: processors if at least half of the jobs ask for fewer than a
            node has, else whole nodes.
        node: what a node has, where the unit is `PACKED`; its CPUs are the processors. None: processors only.

    Raises:
        TraceError: no such file, not a trace, damage (without `skip_bad`), no usable job, or a header without
            the size of the machine and no `node_count`.
    """
    reader = SwfReader(path=Path(path), skip_bad=skip_bad)
    workload = _Workload()
    empty = True
    for columns in reader.blocks():
        workload.add(columns)
        empty = False
    if empty:
        raise _no_job(path, reader.bad, workload.dropped, 0)
    machine = _machine(reader, node_count, procs_per_node, node)  # parts of the header may come after jobs
    workload.leave_out_parts()
    return _trace(reader, workload, machine, unit)


def _trace(reader: SwfReader, workload: "_Workload", machine: TraceMachine, unit: TraceUnit | None) -> Trace:
    """The trace with its sizes in `unit`, or in the unit that it calls for."""
    share = small_share(workload.jobs, machine.procs_per_node)
    unit = unit or natural_unit(share)
    jobs, impossible = fit(workload.jobs, machine, unit, workload.memory_kb)
    if not jobs:
        raise _no_job(reader.path, reader.bad, workload.dropped, len(impossible))
    jobs.sort(key=attrgetter("submit_s"))
    return Trace(
        name=_name(reader.path),
        node_count=machine.units(unit),
        procs_per_node=machine.procs_per_node,
        start_epoch_s=reader.header.start_epoch_s,
        jobs=jobs,
        dropped=workload.dropped,
        parts=workload.parts,
        bad=reader.bad,
        impossible=impossible,
        duplicates=workload.duplicates,
        unit=unit,
        below_a_node=share,
        node=machine.node if unit is TraceUnit.PACKED else None,
    )


class _Names(dict[str, str]):
    """The name for each text of a user, group, queue or partition: 7 for `7.0`, too, and nothing for -1."""

    def __missing__(self, text: str) -> str:
        number = float(text)
        whole = number.is_integer() and abs(number) < _NAME_LIMIT
        name = "" if number == -1.0 else str(int(number)) if whole else text
        self[text] = name
        return name


@dataclass(slots=True)
class _Workload:
    """The jobs read so far, sized in processors, and the number of those left out."""

    jobs: list[SimJob] = field(default_factory=list[SimJob])
    memory_kb: list[float] = field(default_factory=list[float])
    """What each job asks for, for each processor."""
    status: list[float] = field(default_factory=list[float])
    dropped: int = 0
    parts: int = 0
    duplicates: int = 0
    _seen: dict[str, int] = field(default_factory=dict[str, int])
    _names: _Names = field(default_factory=_Names)
    """Each user, group, queue and partition once, however many jobs they have."""

    def add(self, columns: Columns) -> None:
        """Add a block's jobs."""
        names = self._names
        for (
            job_id,
            submit_s,
            run_s,
            allocated,
            requested,
            requested_s,
            kb,
            status,
            user,
            group,
            queue,
            partition,
        ) in zip(
            columns.job_id,
            columns.submit_s,
            columns.run_s,
            columns.allocated,
            columns.requested,
            columns.requested_s,
            columns.requested_kb,
            columns.status,
            columns.user,
            columns.group,
            columns.queue,
            columns.partition,
            strict=True,
        ):
            size = int(allocated if allocated > 0 else requested)
            if run_s <= 0 or size <= 0:
                self.dropped += 1
                continue
            self.memory_kb.append(kb)
            self.status.append(status)
            self.jobs.append(
                SimJob(
                    self._unique(job_id),
                    submit_s,
                    run_s,
                    max(run_s, requested_s),
                    size,
                    names[user],
                    names[group],
                    queue=names[queue],
                    partition=names[partition],
                )
            )

    def leave_out_parts(self) -> None:
        """Leave out the partial executions whose jobs have a line of their own."""
        if PARTS.isdisjoint(self.status):
            return
        numbers = [job.job_id.partition(".")[0] for job in self.jobs]
        whole = {number for number, status in zip(numbers, self.status, strict=True) if status in SUMMARIES}
        kept = [
            place
            for place, (number, status) in enumerate(zip(numbers, self.status, strict=True))
            if not (status in PARTS and number in whole)
        ]
        self.parts, self.duplicates = len(self.jobs) - len(kept), 0
        self.jobs = [self.jobs[place] for place in kept]
        self.memory_kb = [self.memory_kb[place] for place in kept]
        self.status = [self.status[place] for place in kept]
        self._seen.clear()
        for job, place in zip(self.jobs, kept, strict=True):
            job.job_id = self._unique(numbers[place])

    def _unique(self, number: str) -> str:
        """The id of the next job with that number."""
        times = self._seen[number] = self._seen.get(number, 0) + 1
        if times == 1:
            return number
        self.duplicates += 1
        return f"{number}.{times}"


def _no_job(path: str | Path, bad: int, dropped: int, impossible: int) -> TraceError:
    """Why a trace is of no use: what happened to each of its lines."""
    found = f"{bad} damaged, {dropped} without run time or size, {impossible} larger than the machine"
    return TraceError(f"{path}: no job that can run ({found}); accepted: an SWF file with jobs")


def write_swf(path: str | Path, node_count: int, jobs: Iterable[SimJob]) -> None:
    """Write `jobs` as an SWF file of a machine of `node_count` single-processor nodes.

    The file is compressed if its name ends in .gz.

    What the format has no field for (kinds, checkpoints, notices) is left out. Job ids are kept if they are
    distinct whole numbers, else the jobs are numbered from 1; so are users and groups if they are whole
    numbers, and else they are numbered in the order in which they come.

    Raises:
        TraceError: the file cannot be written.
    """
    kept = list(jobs)
    ids = [job.job_id for job in kept]
    if len(set(ids)) != len(ids) or not all(_is_number(text) for text in ids):
        ids = [str(number) for number in range(1, len(kept) + 1)]
    users = _numbered([job.user for job in kept])
    groups = _numbered([job.account for job in kept])
    lines = [
        "; Version: 2.2",
        f"; MaxJobs: {len(kept)}",
        f"; MaxRecords: {len(kept)}",
        f"; MaxNodes: {node_count}",
        f"; MaxProcs: {node_count}",
    ]
    for job_id, job in zip(ids, kept, strict=True):
        submit, run, wanted = (_plain(value) for value in (job.submit_s, job.runtime_s, job.walltime_s))
        owner = f"{users[job.user]} {groups[job.account]}"
        size = job.node_count
        lines.append(f"{job_id} {submit} -1 {run} {size} -1 -1 {size} {wanted} -1 1 {owner} -1 -1 -1 -1 -1")
    content = ("\n".join(lines) + "\n").encode("ascii")
    if Path(path).suffix == ".gz":
        content = gzip.compress(content, mtime=0)
    try:
        Path(path).write_bytes(content)
    except OSError as error:
        raise TraceError(f"{path}: cannot be written: {error.strerror or error}") from error


def _machine(
    reader: SwfReader, node_count: int | None, procs_per_node: int | None, node: Resources | None
) -> TraceMachine:
    """The machine by the header, or as it was asked for.

    Where the header has more processors than nodes, a node has `MaxProcs // MaxNodes` of them and there are
    as many nodes as keep the processors: SDSC-BLUE 144 nodes of 8. Curie, whose nodes differ (its thin ones,
    nine in ten, have 16), becomes 5832 nodes of 16 instead of 5544 of 16.8. Without `MaxNodes` a node is one
    processor.
    """
    if node is not None:
        procs_per_node = node.amount(CPU)
    for option, value in (
        ("--nodes (node_count in a sweep)", node_count),
        ("--procs-per-node", procs_per_node),
    ):
        if value is not None and not 1 <= value < PROCESSOR_LIMIT:
            raise TraceError(f"{option}: {value}; accepted: a whole number from 1 to {PROCESSOR_LIMIT:.0e}")
    header = reader.header
    per_node = procs_per_node or 1
    if procs_per_node is None and header.max_nodes and header.max_procs:
        per_node = max(header.max_procs // header.max_nodes, 1)
    nodes, processors = node_count, None
    if nodes is None and header.max_procs:
        nodes, processors = max(header.max_procs // per_node, 1), header.max_procs
    nodes = nodes or header.max_nodes
    if nodes is None:
        raise TraceError(
            f"{reader.path}: the header has neither MaxNodes nor MaxProcs; accepted: one of them, "
            "or a number of nodes (--nodes; node_count in a sweep)"
        )
    return TraceMachine(
        node_count=nodes,
        procs_per_node=per_node,
        processors=processors or nodes * per_node,
        node=node or Resources.of({CPU: per_node}),
    )


def _name(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".swf") or path.name


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _plain(value: float) -> str:
    """`value` in digits that read back as the same value."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _numbered(names: list[str]) -> dict[str, str]:
    """A whole number for every name: itself where all are such, else its place; -1 for the empty name."""
    distinct = [name for name in dict.fromkeys(names) if name]
    if not all(map(_is_number, distinct)):
        return {"": "-1", **{name: str(place) for place, name in enumerate(distinct, 1)}}
    return {"": "-1", **{name: name for name in distinct}}
