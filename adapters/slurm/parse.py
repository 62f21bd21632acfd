"""What Slurm's commands print, as records: pure functions of text, tested on what 22.05, 24.11 and 26.05
really print.

A text that is not whole raises `Unreadable`. Fields that users write (names, comments, accounts) are taken as
they are, newlines and lone surrogates included; they cannot make up a field or a record, because a token that
only the caller knows follows each field and precedes each section.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from sys import intern
from types import MappingProxyType
from typing import TypedDict

from makeway.adapters.hostlist import batch_host_first, expand
from makeway.adapters.protocol import Unreadable

NOTHING = frozenset({"", "(null)", "N/A", "n/a", "None", "Unknown", "NONE"})
"""Slurm's words for no value."""
_TIME = re.compile(r"(?:(?P<days>\d+)-)?(?:(?:(?P<hours>\d+):)?(?P<minutes>\d+):)?(?P<seconds>\d+)", re.ASCII)
_MEMORY = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[KMGTP]?)[cn]?", re.ASCII)
_UNITS = MappingProxyType({"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4, "P": 1024**5})
_MEMORY_MB = MappingProxyType({"K": 1 / 1024, "": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3})
_COUNT = re.compile(r"(\d+)([KMGTPkmgtp]?)", re.ASCII)
_COUNT_ONLY = re.compile(r"\(CNT:(\d+)\)", re.ASCII)
"""How many a job holds of resources that have no files, such as those of `nvme(CNT:400)`."""
_TRES_GRES = re.compile(r"(?:^|,)(gres/[^=,]+)=(\d+[KMGTP]?)(?=,|$)")
_NO_NUMBER = 0xFFFE
"""Slurm's value for "not set" in its smallest numbers, and from there on."""
_SHARED_BY_ALL = "no_consume"
"""The flag of a generic resource that any number of jobs may use."""
_PROMPT = "scontrol: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Gres:
    """So many generic resources of a name and, if `type` is not empty, of a type."""

    name: str
    type: str
    count: int
    consumable: bool = True
    """Whether a job that uses it leaves less for others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDefaults:
    """What a job gets for each of its GPUs that does not say. 0: there is no default."""

    cpu_count: int = 0
    memory_mb: float = 0.0


NO_GPU_DEFAULTS = GpuDefaults()


@dataclass(frozen=True, slots=True, kw_only=True)
class RawJob:
    """One line of squeue. None: no value."""

    job_id: str
    state: str
    reason: str
    node_count: int
    cpu_count: int
    least_cpus_per_node: int
    """The least number of CPUs that a node must have."""
    memory_mb: float
    """Asked for per node or per CPU, which of them is not told. 0: nothing asked for."""
    tres: str
    gres_per_node: tuple[Gres, ...]
    gres_per_job: tuple[Gres, ...]
    gres_per_task: tuple[Gres, ...]
    gres_per_socket: tuple[Gres, ...]
    memory_per_gpu_mb: int
    """0: memory is not asked for by GPU."""
    cpus_per_gpu: int
    """0: CPUs are not asked for by GPU."""
    gpu_defaults: GpuDefaults | None
    """What Slurm's scheduler has given it by default; no CPUs if it asks for them. None: not known."""
    task_count: int
    cpus_per_task: int
    tasks_per_node: int
    """0: it does not say."""
    licenses: str
    """Such as `fluent:1`. Empty: it asks for none."""
    limit_s: float | None
    """None: it has no time limit, or not yet."""
    submit_s: float
    start_s: float | None
    """While pending, when Slurm expects it to start."""
    eligible_s: float | None
    deadline_s: float | None
    """Slurm ends it while it waits if it could not be over by then. None: it may end at any time."""
    user_id: str
    group_id: str
    user: str
    account: str
    qos: str
    partitions: tuple[str, ...]
    features: str
    """The expression, empty for none."""
    required_nodes: tuple[str, ...]
    excluded_nodes: tuple[str, ...] | None
    """None: this squeue does not tell."""
    nodes: tuple[str, ...]
    """The batch host first."""
    exclusive: bool
    """Whether it shares no node with others. 26.05 says so of every job that did not ask to share."""
    requeueable: bool
    batch: bool
    restarts: int
    heterogeneous: bool
    reservations: tuple[str, ...]
    """Those that it may run in. 22.05 shows the first one only."""
    priority: int
    name: str
    comment: str
    admin_comment: str

    @property
    def requested_node_count(self) -> int:
        """The size that the job was submitted with, as far as its resources tell; 0 if they do not."""
        return _tres_count(self.tres, "node")

    @property
    def tres_gres(self) -> dict[str, int]:
        """The generic resources of all its nodes together, as far as accounting tracks them."""
        return {name: count(number) for name, number in _TRES_GRES.findall(self.tres)}

    @property
    def tres_memory_mb(self) -> float:
        """The memory of all its nodes together; 0 if it is not told."""
        found = re.search(r"(?:^|,)mem=(\d+(?:\.\d+)?[KMGTP]?)(?=,|$)", self.tres)
        return memory_mb(found.group(1)) if found else 0.0


def jobs(text: str, *, fields: tuple[str, ...], token: str, command: tuple[str, ...]) -> tuple[RawJob, ...]:
    """The jobs that squeue printed with `fields`, each followed by `token`: a short list, read at once."""
    cells = text.split(token)
    rest = cells.pop()
    if rest not in {"", "\n"} or len(cells) % len(fields):
        raise Unreadable(f"squeue broke off, or has other fields than {fields}", command=command, text=text)
    each = (cells[first : first + len(fields)] for first in range(0, len(cells), len(fields)))
    try:
        return tuple(
            job_of((_row_start(number, row[0]), *row[1:]), fields) for number, row in enumerate(each)
        )
    except (ValueError, KeyError) as error:
        raise Unreadable(f"squeue printed what cannot be read: {error}", command=command, text=text) from None


def sections(text: str, *, token: str, command: tuple[str, ...]) -> dict[str, list[str]]:
    """The lines of each section that `show_script` asked for, by the section's name. The end must be
    there.
    """
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in text.split("\n"):
        # With readline scontrol repeats what it reads after its prompt; without, the prompt precedes
        # the output.
        said = line.removeprefix(_PROMPT)
        if said.startswith(f"{token}-"):
            current = found.setdefault(said.removeprefix(f"{token}-"), [])
        elif current is not None and said and not (said is not line and said.startswith("show ")):
            current.append(said)
    if "end" not in found:
        raise Unreadable("scontrol broke off", command=command, text=text)
    return found


def excluded_nodes(lines: list[str]) -> tuple[str, ...]:
    """The nodes that a job excludes, by `scontrol show job`; none if the job is over.

    A user who writes the same words into a job's name changes only what is read of that job.
    """
    found = re.search(r" ExcNodeList=(\S+) NodeList=", "\n".join(lines))
    try:
        return expand(found.group(1)) if found else ()
    except ValueError:
        return ()


def config(text: str) -> dict[str, str]:
    """The settings of `scontrol show config`; a setting without a value is left out."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {key.strip(): value.strip() for key, equals, value in pairs if equals and value.strip()}


def release(version: str) -> tuple[int, int]:
    """Year and month of a version such as `24.11.5`. Raises ValueError for anything else."""
    year, month = version.split(".")[:2]
    return int(year), int(month)


def exact_release(version: str) -> tuple[int, int, int]:
    """Year, month and number of a version such as `24.11.5` or `25.11.0-rc1`. Raises ValueError for anything
    else.
    """
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", version, re.ASCII)
    if found is None:
        raise ValueError(f"no version: {version!r}")
    return int(found[1]), int(found[2]), int(found[3] or 0)


@lru_cache(maxsize=1 << 12)
def duration_s(text: str) -> float | None:
    """Seconds of `[days-][[hours:]minutes:]seconds`. None: no limit. Raises ValueError for anything else."""
    # squeue shows a limit of more than 365 days as invalid (22.05, 24.11 and 26.05).
    if text in {"UNLIMITED", "INFINITE", "NOT_SET", "Partition_Limit", "INVALID"}:
        return None
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(f"no duration: {text!r}")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


@lru_cache(maxsize=1 << 12)
def memory_mb(text: str) -> float:
    """Megabytes of `100M`, `1.50G` or `0`. Raises ValueError for anything else."""
    found = _MEMORY.fullmatch(text)
    if found is None:
        raise ValueError(f"no size of memory: {text!r}")
    return float(found["number"]) * _MEMORY_MB[found["unit"]]


@lru_cache(maxsize=1 << 12)
def count(text: str) -> int:
    """A number such as `12`, `2K` or, of a range such as `2-4`, the least. Raises ValueError for anything
    else.
    """
    found = _COUNT.fullmatch(text.partition("-")[0])
    if found is None:
        raise ValueError(f"no number: {text!r}")
    return int(found.group(1)) * _UNITS[found.group(2).upper()]


@lru_cache(maxsize=1 << 12)
def gres(text: str) -> tuple[Gres, ...]:
    """The resources of `gpu:a100:4(S:0-1),fpga::2`, `gres:gpu:2`, `gres/gpu=2` or `nvme(CNT:400)`.

    What looks like nothing known is a resource of that name: a job that asks for it finds no node that has
    it.
    """
    if text in NOTHING:
        return ()
    counted = _COUNT_ONLY.sub(r":\1", text)
    return tuple(_one_gres(part) for part in re.sub(r"\([^)]*\)", "", counted).split(","))


class ForEachGpu(TypedDict):
    """The fields of `RawJob` that say what is for each GPU."""

    memory_per_gpu_mb: int
    cpus_per_gpu: int
    gpu_defaults: GpuDefaults | None


@lru_cache(maxsize=1 << 10)
def for_each_gpu(memory: str, cpus: str) -> ForEachGpu:
    """What `mem-per-tres` and `cpus-per-tres` say.

    When the scheduler first looks at a job it adds the defaults, as `gpu:500`. What the job asks for itself
    is `gres:gpu:500` on 22.05 and `gres/gpu:500` on 24.11.
    """
    (asked_mb, default_mb), (asked_cpus, default_cpus) = map(_asked_and_default, (memory, cpus))
    known = GpuDefaults(cpu_count=default_cpus, memory_mb=float(default_mb))
    return ForEachGpu(
        memory_per_gpu_mb=asked_mb,
        cpus_per_gpu=asked_cpus,
        gpu_defaults=None if known == NO_GPU_DEFAULTS else known,
    )


def _asked_and_default(text: str) -> tuple[int, int]:
    amount = sum(one.count for one in gres(text))
    return (amount, 0) if text.startswith("gres") else (0, amount)


def _only_gres(text: str) -> tuple[Gres, ...]:
    """The generic resources of `cpu=2,gres/gpu=1`."""
    return gres(",".join(part for part in text.split(",") if part.startswith("gres")))


def _number(text: str, below: int = _NO_NUMBER) -> int:
    """A number. 0: the field has none, as 22.05 and later write in several ways, or one from `below` on."""
    return int(text) if text.isascii() and text.isdigit() and int(text) < below else 0


def _one_gres(text: str) -> Gres:
    parts = [part for part in re.split(r"[:=/]", text) if part]
    if len(parts) > 1 and parts[0] == "gres":
        del parts[0]
    number = 1
    if len(parts) > 1 and (found := _COUNT.fullmatch(parts[-1])):
        number = int(found.group(1)) * _UNITS[found.group(2).upper()]
        del parts[-1]
    consumable = _SHARED_BY_ALL not in parts[1:]
    kind = ":".join(part for part in parts[1:] if part != _SHARED_BY_ALL)
    return Gres(name=parts[0] if parts else text, type=kind, count=number, consumable=consumable)


def _row_start(number: int, cell: str) -> str:
    """The first cell of a row; every row but the first begins after the end of the line before."""
    if number and not cell.startswith("\n"):
        raise ValueError(f"no new line before {cell!r}")
    return cell[1:] if number else cell


def job_of(cells: Iterable[str], fields: tuple[str, ...]) -> RawJob:
    """A job by the values of squeue's fields. Raises KeyError or ValueError for what cannot be read."""
    row = dict(zip(fields, cells, strict=True))  # what many have in common is kept once, to save a gigabyte
    excluded = row.get("ExcNodes")
    return RawJob(
        job_id=row["JobArrayID"],
        state=intern(row["State"]),
        reason=intern(row["Reason"]),
        node_count=count(row["NumNodes"]),
        cpu_count=count(row["NumCPUs"]),
        least_cpus_per_node=count(row["MinCpus"]),
        memory_mb=memory_mb(row["MinMemory"]),
        tres=intern(row["tres-alloc"]),
        gres_per_node=gres(row["tres-per-node"]),
        gres_per_job=gres(row["tres-per-job"]),
        gres_per_task=_only_gres(row["tres-per-task"]),
        gres_per_socket=gres(row["tres-per-socket"]),
        **for_each_gpu(row["mem-per-tres"], row["cpus-per-tres"]),
        task_count=max(1, _number(row["numtasks"], below=0xFFFF_FFFE)),  # it has 32 bits
        cpus_per_task=max(1, _number(row["cpus-per-task"])),
        tasks_per_node=_number(row["ntpernode"]),
        licenses=_text(row["Licenses"]),
        limit_s=duration_s(row["TimeLimit"]),
        submit_s=_seconds(row["SubmitTime"]),
        start_s=_instant(row["StartTime"]),
        eligible_s=_instant(row["EligibleTime"]),
        deadline_s=_instant(row["Deadline"]),
        user_id=intern(str(int(row["UserID"]))),
        group_id=intern(str(int(row["GroupID"]))),
        user=intern(row["UserName"]),
        account=_text(row["Account"]),
        qos=_text(row["QOS"]),
        partitions=_parts(row["Partition"]),
        features=_text(row["Feature"]),
        required_nodes=_asked(row["ReqNodes"]),
        excluded_nodes=None if excluded is None else _asked(excluded),
        nodes=batch_host_first(expand(row["NodeList"]), row["BatchHost"]),
        exclusive=row["OverSubscribe"] in {"NO", "USER", "MCS", "TOPO"},
        requeueable=row["Requeue"] == "1",
        batch=row["BatchFlag"] == "1",
        restarts=int(row["RestartCnt"]),
        heterogeneous=row["HetJobID"] not in NOTHING | {"0"},
        reservations=tuple(filter(None, _parts(_text(row["Reservation"])))),
        priority=int(row["PriorityLong"]),
        name=row["Name"],
        comment=_text(row["Comment"]),
        admin_comment=_text(row["admin_comment"]),
    )


def value(line: str, key: str) -> str:
    """The first value of that key, up to the next blank. Raises ValueError if the line has no such key."""
    found = re.search(rf"(?:^|\s){key}=(\S*)", line)
    if found is None:
        raise ValueError(f"no {key} in {line[:200]!r}")
    return found.group(1)


def _text(text: str) -> str:
    return "" if text in {"(null)", "N/A"} else intern(text)


@lru_cache(maxsize=1 << 12)
def _parts(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _instant(text: str) -> float | None:
    return None if text in NOTHING else _seconds(text)


@lru_cache(maxsize=1 << 10)
def _seconds(text: str) -> float:
    # Most jobs could start as soon as they were submitted.
    return float(text)


def _asked(text: str) -> tuple[str, ...]:
    """A list of nodes that a user asked for; nonsense is no list, as Slurm lets no such job start."""
    try:
        return expand(text)
    except ValueError:
        return ()


def _tres_count(tres: str, name: str) -> int:
    found = re.search(rf"(?:^|,){name}=(\d+[KMGTP]?(?:-\d+[KMGTP]?)?)(?=,|$)", tres)
    return count(found.group(1)) if found else 0
