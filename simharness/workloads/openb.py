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
    dropped = 0
    damage = _Damage(path=path, skip=skip_bad)
    for line, row in _rows(path, _POD_COLUMNS, damage):
        try:
            job = _job(row)
        except ValueError as error:
            damage.found(line, str(error))
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
        raise TraceError(
            f"{path}: no pod that ran ({dropped} never did, {damage.lines} damaged); accepted: pods that "
            "have run"
        )
    ordered = sorted(jobs.values(), key=attrgetter("submit_s"))
    return OpenbPods(jobs=ordered, dropped=dropped, bad=damage.lines)


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
    damage = _Damage(path=path)
    for line, row in _rows(path, _NODE_COLUMNS, damage):
        try:
            cpus, memory_mb, gpus = (_whole(row, name) for name in ("cpu_milli", "memory_mib", "gpu"))
        except ValueError as error:
            damage.found(line, str(error))
            continue
        models.add(row["model"])
        if model is None or row["model"] == model:
            nodes.append(_resources(cpus // 1000, memory_mb, gpus, row["model"]))
    if not nodes or len(nodes) < (count or 1):
        known = ", ".join(sorted(models - {""}))
        which = "nodes" if model is None else f"nodes with model {shown(model)}"
        accepted = f"{count or 1} or more" + (f", of the models {known}" if known else "")
        raise TraceError(f"{path}: it has {len(nodes)} {which}; accepted: {accepted}")
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


@dataclass(slots=True, kw_only=True)
class _Damage:
    """The damaged lines of a file."""

    path: Path
    skip: bool = False
    """Whether they are counted. Else the first one raises."""
    lines: int = 0

    def found(self, line: int, complaint: str) -> None:
        """Take note of a line. Raises `TraceError` if lines are not skipped."""
        if not self.skip:
            raise TraceError(f"{self.path}, line {line}: {complaint}")
        self.lines += 1


def _rows(path: Path, columns: Sequence[str], damage: _Damage) -> Iterator[tuple[int, Mapping[str, str]]]:
    """The rows of a CSV file with these columns, and others, each with its line number. A stream that breaks
    off ends them, and counts as one damaged line.
    """
    with open_text(path, _CSV) as file:
        reader = csv.reader(file.stream)
        names: Sequence[str] | None = None
        while True:
            try:
                cells = next(reader, None)
            except csv.Error as error:
                damage.found(reader.line_num, shown(str(error)))
                continue
            except DAMAGE as error:
                damage.found(reader.line_num + 1, file.complaint(error))
                return
            if names is None:
                names = _header(path, cells, columns)
            elif cells is None:
                return
            elif len(cells) == len(names):
                yield reader.line_num, dict(zip(names, cells, strict=True))
            elif cells:
                damage.found(
                    reader.line_num, f"{len(cells)} of {len(names)} columns; accepted: what the header names"
                )


def _header(path: Path, names: Sequence[str] | None, columns: Sequence[str]) -> Sequence[str]:
    """The names of the columns of a file, by its first line. None: it is empty."""
    missing = [name for name in columns if name not in (names or ())]
    if missing or names is None:
        raise TraceError(f"{path}: it has no column {missing[0]}; accepted: CSV with {', '.join(columns)}")
    return names


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
