"""Pods and nodes of Alibaba's GPU cluster of 2023 (`openb`): jobs that share CPUs, memory and GPUs of nodes.

Both files are CSV, plain or compressed by gzip. A pod is a job on one node. Its thousandths of a CPU are
rounded up to CPUs, and a share of a GPU to a whole one, as on a cluster that gives whole GPUs only. A wanted
model is a typed GPU; a choice of several models is any GPU. The time limit is the run time: pods name none.
The second pod p is the job `p.2`.

Reference: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
    Descent" (USENIX ATC 2023), whose trace this is: cluster-trace-gpu-v2023.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from operator import attrgetter
from pathlib import Path

from makeway.policies.model import CPU, GPU, MEMORY, Resources
from makeway.simharness.workloads.classes import ClassName, ClassRule
from makeway.simharness.workloads.job import SimJob
from makeway.simharness.workloads.swf import TraceError
from makeway.simharness.workloads.text_files import DAMAGE, FileKind, open_text, shown

OPENB_NODES = (Resources.of({CPU: 96, MEMORY: 393_216, GPU: 8}),) * 8
"""The machine of an openb workload by default: eight of the trace's commonest nodes with eight GPUs."""
OPENB_CLASSES = (
    ClassRule(name=ClassName.URGENT, field="queue", values=frozenset({"LS"})),
    ClassRule(name=ClassName.EVICTABLE, field="queue", values=frozenset({"BE"})),
)
"""Latency-sensitive pods are urgent, best-effort ones may be evicted."""

_CSV = FileKind(noun="a CSV file of openb", error=TraceError)
_POD_COLUMNS = (
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_spec",
    "qos",
    "creation_time",
    "deletion_time",
    "scheduled_time",
)
_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenbPods:
    """The pods of a file as jobs."""

    jobs: list[SimJob]
    """Sorted by submit time. The queue of a job is the QoS class of its pod."""
    dropped: int
    """Pods that were never scheduled, or not for any time."""
    bad: int
    """Damaged lines; above 0 with `skip_bad` only."""


def is_openb(path: Path) -> bool:
    """Whether the file begins like a list of pods."""
    try:
        with open_text(path, _CSV) as file:
            return file.stream.readline().startswith("name,cpu_milli,")
    except (TraceError, *DAMAGE):
        return False


def read_pods(path: Path, *, skip_bad: bool = False) -> OpenbPods:
    """The pods of a file.

    Args:
        path: the CSV file.
        skip_bad: count damaged lines instead of raising.

    Raises:
        TraceError: no such file, another form, damage (without `skip_bad`), or no pod that ran.
    """
    jobs: dict[str, SimJob] = {}
    dropped = bad = 0
    for line, row in _rows(path, _POD_COLUMNS):
        try:
            job = _job(row)
        except ValueError as error:
            if not skip_bad:
                raise TraceError(f"{path}, line {line}: {error}") from None
            bad += 1
            continue
        if job is None:
            dropped += 1
            continue
        name, times = job.job_id, 1
        while job.job_id in jobs:
            times += 1
            job.job_id = f"{name}.{times}"
        jobs[job.job_id] = job
    if not jobs:
        raise TraceError(f"{path}: no pod that ran ({dropped} never did, {bad} damaged)")
    ordered = sorted(jobs.values(), key=attrgetter("submit_s"))
    return OpenbPods(jobs=ordered, dropped=dropped, bad=bad)


def read_nodes(path: Path, *, model: str | None = None, count: int | None = None) -> tuple[Resources, ...]:
    """What the nodes of a file have.

    Args:
        path: the CSV file.
        model: only nodes with GPUs of this model. None: all nodes.
        count: only the first so many of these. None: all of them.

    Raises:
        TraceError: no such file, another form, damage, or fewer nodes.
    """
    nodes: list[Resources] = []
    models: set[str] = set()
    for line, row in _rows(path, _NODE_COLUMNS):
        try:
            cpus, memory_mb, gpus = (_whole(row, name) for name in ("cpu_milli", "memory_mib", "gpu"))
        except ValueError as error:
            raise TraceError(f"{path}, line {line}: {error}") from None
        models.add(row["model"])
        if model is None or row["model"] == model:
            nodes.append(_resources(cpus // 1000, memory_mb, gpus, row["model"]))
    if not nodes or len(nodes) < (count or 1):
        known = ", ".join(sorted(models - {""})) or "none"
        which = "nodes" if model is None else f"nodes with model {shown(model)}"
        raise TraceError(
            f"{path}: it has {len(nodes)} {which}; accepted: {count or 1} or more, of the models {known}"
        )
    return tuple(nodes[:count])


def _job(row: Mapping[str, str]) -> SimJob | None:
    """The job of a pod. None: it did not run."""
    if not row["name"].strip():
        raise ValueError(f"name: '{shown(row['name'])}'; accepted: a name")
    if not row["scheduled_time"].strip():
        return None
    created_s, deleted_s, scheduled_s = (
        _number(row, name) for name in ("creation_time", "deletion_time", "scheduled_time")
    )
    cpus, memory_mb, gpus = (_whole(row, name) for name in ("cpu_milli", "memory_mib", "num_gpu"))
    run_s = deleted_s - scheduled_s
    demand = _resources(-(-cpus // 1000), memory_mb, gpus, row["gpu_spec"])
    if run_s <= 0 or not demand:
        return None
    return SimJob(row["name"], created_s, run_s, run_s, 1, queue=row["qos"], demand=demand)


def _resources(cpus: int, memory_mb: int, gpus: int, model: str) -> Resources:
    typed = gpus and model and "|" not in model
    return Resources.with_totals({CPU: cpus, MEMORY: memory_mb, f"{GPU}:{model}" if typed else GPU: gpus})


def _rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, Mapping[str, str]]]:
    """The rows of a CSV file with these columns, and others, each with its line number."""
    try:
        with open_text(path, _CSV) as file:
            reader = csv.DictReader(file.stream)
            missing = [name for name in columns if name not in (reader.fieldnames or ())]
            if missing:
                raise TraceError(
                    f"{path}: it has no column {missing[0]}; accepted: CSV with {', '.join(columns)}"
                )
            try:
                for row in reader:
                    yield reader.line_num, {name: row.get(name) or "" for name in columns}
            except DAMAGE as error:
                line = reader.line_num + 1
                raise TraceError(f"{path}, line {line}: {file.complaint(error)}") from error
    except csv.Error as error:
        raise TraceError(f"{path}: cannot be read: {shown(str(error))}") from error


def _number(row: Mapping[str, str], name: str) -> float:
    text = row[name]
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not (isfinite(number) and number >= 0):
        raise ValueError(f"{name}: '{shown(text)}'; accepted: a number from 0")
    return number


def _whole(row: Mapping[str, str], name: str) -> int:
    number = _number(row, name)
    if not number.is_integer() or number >= 1e12:
        raise ValueError(f"{name}: '{shown(row[name])}'; accepted: a whole number from 0 below 1e12")
    return int(number)
