"""A program that reads a Slurm cluster through pyslurm and prints it, one JSON array a line.

It is a program of its own: it imports nothing of makeway, and no module of makeway imports it. makeway starts
it with the interpreter that has pyslurm, writes requests to its standard input and reads lines from its
standard output. pyslurm is licensed under GPL-2.0-only, holds the interpreter's lock while it waits for the
controller, and can end its process: it is loaded here and nowhere else.

    python3 -c "$(cat pyslurm_helper.py)" SECONDS

The first line is `["hello", VERSION]` with the version of pyslurm, or `["error", "import", WORDS]`. Each line
of input is one request. The answer is the records of the cluster, `["job", ...]`, `["node", ...]`,
`["partition", ...]` and `["reservation", ...]`, and at last `["end", COUNT]` with their number. If the
controller does not answer it is `["error", "slurm", WORDS]`, and `["error", "pyslurm", WORDS]` if pyslurm
cannot tell what it answered. Values are texts, in the words of squeue and scontrol. The program ends with its
standard input. A signal ends it if one answer takes more than SECONDS.

Reference: pyslurm 25.11.2, on Slurm 25.11.7 and, fitted, on 24.11.5.
"""

import importlib
import json
import os
import pwd
import signal
import sys
from typing import Any, Dict, Iterator, List, TextIO  # noqa: UP035

NONE = "(null)"
"""Slurm's word for no value."""
FLAGS = {
    "IGNORE_RUNNING_JOBS": "IGNORE_JOBS",
    "MAINTENANCE": "MAINT",
    "NO_JOB_HOLD_AFTER_END": "NO_HOLD_JOBS_AFTER_END",
    "SPECIFIC_NODES": "SPEC_NODES",
}
"""The flags of reservations that scontrol calls otherwise."""
RESTRICTIONS = {
    "Accounts": "accounts",
    "BurstBuffer": "burst_buffer",
    "Comment": "comment",
    "Features": "features",
    "Groups": "groups",
    "Licenses": "licenses",
    "MaxStartDelay": "max_start_delay",
    "PartitionName": "partition",
}
"""What a reservation may be limited to: scontrol's key, and pyslurm's attribute."""


def value(record: Any, name: str, default: Any = None) -> Any:
    """An attribute, or `default` for None.

    pyslurm raises for bytes that are no UTF-8. They are decoded here as makeway decodes squeue's output.
    """
    try:
        found = getattr(record, name)
    except UnicodeDecodeError as error:
        return error.object.decode("utf-8", "surrogateescape")
    return default if found is None else found


def text(record: Any, name: str, default: Any = NONE) -> str:
    """An attribute as text."""
    return str(value(record, name, default))


def joined(record: Any, name: str) -> str:
    """A list as one text. pyslurm has split it at the commas, wherever they were."""
    found = value(record, name)
    return found if isinstance(found, str) else ",".join(found or ()) or NONE


def counts(found: Dict[str, int], joint: str = ":") -> str:  # noqa: UP006
    """Counts by name, such as `gpu:a100:4`. pyslurm calls Slurm's `fpga:(null)` "fpga::null"."""
    named = {name.replace("::null", ""): count for name, count in found.items()}
    return ",".join(f"{name}{joint}{count}" for name, count in named.items()) or NONE


def amount(megabytes: int) -> str:
    """An amount of memory as Slurm prints it: in the largest unit that makes a whole number."""
    units = "MGTP"
    while units[1:] and megabytes and megabytes % 1024 == 0:
        megabytes, units = megabytes // 1024, units[1:]
    return f"{megabytes}{units[0]}"


def tres(job: Any) -> str:
    """What a job has, or else asks for: `cpu=2,mem=100M,node=1,billing=2,gres/gpu=1`."""
    found = value(job, "allocated_tres") or value(job, "requested_tres")
    if found is None:
        return NONE
    parts = {name: getattr(found, name) for name in ("cpu", "mem", "node", "billing")}
    parts.update({f"license/{name}": one for name, one in found.license.items()})
    parts.update({f"gres/{name}": one for name, one in found.gres.items()})
    return ",".join(
        f"{name}={amount(one.count) if name == 'mem' else one.count}"
        for name, one in parts.items()
        if one is not None
    )


def tres_per_task(job: Any) -> str:
    """The generic resources that each task asks for, such as `gres/gpu=1`."""
    found = value(job, "tres_per_task")
    return (
        NONE
        if found is None
        else counts({f"gres/{name}": one.count for name, one in found.gres.items()}, "=")
    )


def asks_by_gpu(job: Any) -> str:
    """1 if a job asks for memory or CPUs by GPU, else 0. How much, pyslurm cannot tell: it raises."""
    try:
        asked = job.memory_per_gpu is not None or job.cpus_per_gpu is not None
    except (IndexError, ValueError):
        asked = True
    return str(int(asked))


def task_numbers(tasks: str) -> Iterator[int]:
    """The numbers of `0-3,7,10-20:5`."""
    for part in tasks.split(","):
        numbers, _, step = part.partition(":")
        first, _, last = numbers.partition("-")
        yield from range(int(first), int(last or first) + 1, int(step or 1))


def job_ids(job: Any) -> List[str]:  # noqa: UP006
    """The ids under which squeue lists a job: those of the waiting tasks of an array, else one."""
    array, waiting = value(job, "array_id"), value(job, "array_tasks_waiting")
    if waiting is not None:
        return [f"{array}_{task}" for task in task_numbers(waiting)]
    if array is not None:
        return [f"{array}_{value(job, 'array_task_id', 0)}"]  # it says None for task 0
    if value(job, "heterogeneous_id"):
        return [f"{job.heterogeneous_id}+{value(job, 'heterogeneous_offset', 0)}"]
    return [str(job.id)]


class UserNames(Dict[int, str]):  # noqa: UP006
    """Names by user number, each looked up once."""

    def __missing__(self, user_id: int) -> str:
        try:
            self[user_id] = pwd.getpwuid(user_id).pw_name
        except KeyError:
            self[user_id] = str(user_id)
        return self[user_id]


def job_rows(job: Any, users: UserNames) -> Iterator[List[str]]:  # noqa: UP006
    """The rows of one job; the waiting tasks of an array are one record in pyslurm."""
    limit_min = value(job, "time_limit")
    cells = [
        text(job, "state"),
        text(job, "state_reason", "None"),
        text(job, "num_nodes", 0),
        text(job, "cpus", 0),
        text(job, "min_cpus_per_node", 0),
        f"{value(job, 'memory_per_node', 0) or value(job, 'memory_per_cpu', 0)}M",
        tres(job),
        counts(value(job, "gres_per_node", {})),
        tres_per_task(job),
        asks_by_gpu(job),
        text(job, "ntasks", 1),
        text(job, "cpus_per_task", 1),
        text(job, "ntasks_per_node", 0),
        joined(job, "licenses"),
        "UNLIMITED" if limit_min is None else f"{limit_min}:00",
        text(job, "submit_time", 0),
        text(job, "start_time", "N/A"),
        text(job, "eligible_time", "N/A"),
        text(job, "deadline", "N/A"),
        str(job.user_id),
        str(job.group_id),
        users[job.user_id],
        text(job, "account"),
        text(job, "qos"),
        text(job, "partition"),
        joined(job, "constraints"),
        text(job, "required_nodes"),
        text(job, "excluded_nodes"),
        text(job, "allocated_nodes"),
        text(job, "batch_host"),
        text(job, "resource_sharing"),
        str(int(job.is_requeueable)),
        str(int(job.is_batch_job)),
        text(job, "requeue_count", 0),
        text(job, "heterogeneous_id", 0),
        text(job, "reservation"),
        text(job, "priority", 0),
        text(job, "admin_comment"),
        text(job, "name", ""),
        text(job, "comment"),
    ]
    for job_id in job_ids(job):
        yield ["job", job_id, *cells]


def node_row(node: Any) -> List[str]:  # noqa: UP006
    """The row of one node."""
    return [
        "node",
        text(node, "name"),
        text(node, "state"),
        text(node, "total_cpus"),
        text(node, "real_memory", 0),
        joined(node, "active_features"),
        counts(node.configured_gres),
        text(node, "sockets"),
        text(node, "cores_per_socket", 1),
        text(node, "cores_reserved_for_system", 0),
        text(node, "effective_cpus"),
        text(node, "memory_reserved_for_system", 0),
        text(node, "temporary_disk", 0),
        joined(node, "partitions"),
    ]


def partition_row(partition: Any) -> List[str]:  # noqa: UP006
    """The row of one partition."""
    return [
        "partition",
        text(partition, "name"),
        text(partition, "state"),
        "YES" if partition.is_user_exclusive else "NO",
        text(partition, "oversubscribe", "NO"),
        "YES" if partition.is_default else "NO",
        text(partition, "default_memory_per_node", ""),
        text(partition, "default_memory_per_cpu", ""),
        text(partition, "max_cpus_per_node", ""),
        text(partition, "max_cpus_per_socket", ""),
        text(partition, "max_time", ""),
        text(partition, "max_nodes", ""),
        text(partition, "qos", ""),
        text(partition, "over_time_limit", ""),
    ]


def flags(reservation: Any) -> str:
    """The flags of a reservation in scontrol's words. UNKNOWN: it has one that pyslurm does not know.

    Python 3.11.0 to 3.11.3 drops such a flag.
    """
    try:
        kind: Any = reservation.flags.__class__
        found = [str(one.name) for one in kind if one in reservation.flags]
    except ValueError:
        return "UNKNOWN"
    names = [FLAGS.get(name, name) for name in found if name != "PURGE"]
    if "PURGE" in found:
        minutes, seconds = divmod(value(reservation, "purge_time", 0), 60)
        names.append(f"PURGE_COMP={minutes // 60:02}:{minutes % 60:02}:{seconds:02}")
    again = str(reservation.reoccurrence.name)
    return ",".join(names + ([] if again == "NO" else [again])) or NONE


def reservation_row(reservation: Any) -> List[str]:  # noqa: UP006
    """The row of one reservation."""
    return [
        "reservation",
        text(reservation, "name"),
        text(reservation, "nodes"),
        text(reservation, "start_time", 0),
        text(reservation, "end_time", 0),
        joined(reservation, "users"),
        flags(reservation),
        ",".join(key for key, name in RESTRICTIONS.items() if value(reservation, name)) or NONE,
    ]


def rows(pyslurm: Any) -> Iterator[List[str]]:  # noqa: UP006
    """The whole cluster."""
    users = UserNames()
    for job in pyslurm.Jobs.load().values():
        yield from job_rows(job, users)
    for node in pyslurm.Nodes.load().values():
        yield node_row(node)
    for partition in pyslurm.Partitions.load().values():
        yield partition_row(partition)
    for reservation in pyslurm.Reservations.load().values():
        yield reservation_row(reservation)


def answer(pyslurm: Any, out: TextIO) -> None:
    """Answer one request."""
    count = 0
    try:
        for row in rows(pyslurm):
            count += 1
            out.write(json.dumps(row) + "\n")
        last = ["end", str(count)]
    except pyslurm.RPCError as error:
        last = ["error", "slurm", str(error)]
    except Exception as error:  # noqa: BLE001 - makeway hears of it, and goes on
        last = ["error", "pyslurm", f"{type(error).__name__}: {error}"]
    out.write(json.dumps(last) + "\n")
    out.flush()


def main() -> None:
    """Answer requests to the end of the standard input."""
    limit_s = int(sys.argv[1])
    # Python's handlers do not run while pyslurm waits for the controller. The default action needs none.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(limit_s)
    # pyslurm prints resources that it does not know.
    out = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    pyslurm: Any = None
    try:
        pyslurm = importlib.import_module("pyslurm")
        hello = ["hello", str(pyslurm.__version__)]
    except Exception as error:  # noqa: BLE001
        hello = ["error", "import", f"{type(error).__name__}: {error}"]
    out.write(json.dumps(hello) + "\n")
    out.flush()
    signal.alarm(0)
    for _ in sys.stdin if hello[0] == "hello" else ():
        signal.alarm(limit_s)
        answer(pyslurm, out)
        signal.alarm(0)


if __name__ == "__main__":
    main()
