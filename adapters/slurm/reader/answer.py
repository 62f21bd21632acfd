"""The answer of `pyslurm_helper`, as the records that the commands' output is read into too.

The helper puts values into the words of squeue and scontrol. One parser therefore reads both.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard, TypeVar

from makeway.adapters.protocol import Unreadable
from makeway.adapters.slurm.parse import RawJob, job_of
from makeway.adapters.slurm.parse_cluster import (
    RawNode,
    RawPartition,
    RawReservation,
    listed,
    node_of,
    partition_of,
    reservation_of,
)
from makeway.adapters.slurm.partitions.times import partition_times
from makeway.adapters.slurm.reader.alike import AlikeTasks, ListedJobs

_RecordT = TypeVar("_RecordT")
JOB_CELLS = (
    *("JobArrayID", "State", "Reason", "NumNodes", "NumCPUs", "MinCpus", "MinMemory", "tres-alloc"),
    *("tres-per-node", "tres-per-task", "by-gpu", "numtasks", "cpus-per-task", "ntpernode", "Licenses"),
    *("TimeLimit", "SubmitTime", "StartTime", "EligibleTime", "Deadline", "UserID", "GroupID", "UserName"),
    *("Account", "QOS", "Partition", "Feature", "ReqNodes", "ExcNodes", "NodeList", "BatchHost"),
    *("OverSubscribe", "Requeue", "BatchFlag", "RestartCnt", "HetJobID", "Reservation", "PriorityLong"),
    *("admin_comment", "Name", "Comment"),
)
"""The helper's cells of a job by squeue's names; `by-gpu` is no field of squeue."""
HIDDEN = ("tres-per-job", "tres-per-socket", "mem-per-tres", "cpus-per-tres")
"""What pyslurm does not report of a job: it reads only texts with `=`, and Slurm writes gres/gpu:2."""
_BY_GPU = JOB_CELLS.index("by-gpu") + 1
_NODE_WORDS = (
    *("NodeName", "State", "CPUTot", "RealMemory", "ActiveFeatures", "Gres", "Sockets", "CoresPerSocket"),
    *("CoreSpecCount", "CPUEfctv", "MemSpecLimit", "TmpDisk", "Partitions"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRecords:
    """The nodes, partitions and reservations of a cluster."""

    nodes: tuple[RawNode, ...]
    partitions: tuple[RawPartition, ...]
    """Without billing weights, which pyslurm does not tell."""
    reservations: tuple[RawReservation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One whole answer."""

    listed: ListedJobs
    """Without what `HIDDEN` names."""
    asks_by_gpu: bool
    """Whether a job asks for memory or CPUs by GPU."""
    cluster: ClusterRecords


class AnswerReader:
    """Reads answers, and keeps the jobs of the last one: most rows of a long queue stay the same."""

    def __init__(self) -> None:
        self._known: dict[bytes, RawJob] = {}
        self._by_gpu: set[bytes] = set()
        """The lines of jobs that ask for memory or CPUs by GPU."""

    def read(self, lines: Sequence[bytes]) -> Answer:
        """The records of an answer that ends in the line `["end", COUNT]`.

        Raises:
            Unreadable: it is not whole, or a line cannot be read.
        """
        known, self._known = self._known, {}
        jobs: list[RawJob] = []
        rows: dict[str, list[list[str]]] = {"node": [], "partition": [], "reservation": []}
        line, alike = b"", AlikeTasks(b'", "', 1, lambda line: _job(row_of(line)))
        try:
            if row_of(lines[-1]) != ["end", str(len(lines) - 1)]:
                raise ValueError(f"{len(lines) - 1} rows, and it counts otherwise")
            for line in lines[:-1]:
                if alike.is_other(line, 0, len(line)):
                    continue
                alike.keep(line)
                job = known.get(line)
                if job is None:
                    row = row_of(line)
                    if row[0] != "job":
                        rows[row[0]].append(row[1:])
                        continue
                    if row[_BY_GPU] != "0":
                        self._by_gpu.add(line)
                    job = _job(row)
                self._known[line] = job
                jobs.append(job)
            cluster = ClusterRecords(
                nodes=_all(rows["node"], _node),
                partitions=_all(rows["partition"], _partition),
                reservations=tuple(_reservation(*row) for row in rows["reservation"]),
            )
        except (ValueError, KeyError, IndexError, TypeError) as error:
            self._known = {}
            message = f"pyslurm's helper wrote what cannot be read: {type(error).__name__}: {error}"
            raise Unreadable(message, command=("pyslurm",), text=line.decode("ascii", "replace")) from None
        self._by_gpu &= self._known.keys()
        listed = ListedJobs(jobs=tuple(jobs), others=alike.others())
        return Answer(listed=listed, asks_by_gpu=bool(self._by_gpu), cluster=cluster)


def row_of(line: bytes) -> list[str]:
    """A line of the helper: a kind, and texts. Raises ValueError for anything else."""
    row: object = json.loads(line)
    cells = [cell for cell in row if isinstance(cell, str)] if _is_list(row) else []
    if not _is_list(row) or not cells or len(cells) < len(row):
        raise ValueError("a line that is no list of texts")
    return cells


def _is_list(found: object) -> TypeGuard[list[object]]:
    return isinstance(found, list)


def _all(rows: list[list[str]], read: Callable[..., _RecordT]) -> tuple[_RecordT, ...]:
    if not rows:
        raise ValueError("no node or no partition")
    return tuple(read(*row) for row in rows)


def _job(row: list[str]) -> RawJob:
    return job_of((*row[1:], *["N/A"] * len(HIDDEN)), JOB_CELLS + HIDDEN)


def _node(*cells: str) -> RawNode:
    words: Mapping[str, str] = dict(zip(_NODE_WORDS, cells, strict=True))
    return node_of(words)


def _partition(
    name: str,
    state: str,
    user: str,
    sharing: str,
    default: str,
    per_node: str,
    per_cpu: str,
    cpus_max: str,
    cpus_of_socket: str,
    minutes_max: str,
    nodes_max: str,
    qos: str,
    overtime: str,
) -> RawPartition:
    return partition_of(
        name=name,
        state=state,
        exclusive=user != "NO",
        sharing=sharing,
        weights="",
        default=default,
        memory_per_node=per_node,
        memory_per_cpu=per_cpu,
        cpus_per_node_max=cpus_max,
        cpus_per_socket_max=cpus_of_socket,
        time_max=f"{minutes_max}:00" if minutes_max.isdecimal() else "",
        nodes_max=nodes_max,
        qos=qos,
        times=partition_times(overtime),
    )


def _reservation(
    name: str, nodes: str, start: str, end: str, users: str, flags: str, limits: str
) -> RawReservation:
    return reservation_of(
        name=name,
        nodes=nodes,
        start=start,
        end=end,
        users=users,
        flags=flags,
        limited_by=frozenset(listed(limits)),
    )
