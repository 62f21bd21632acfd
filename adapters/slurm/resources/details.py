"""The fields of a job that `scontrol --details show job` prints and squeue does not: what the job holds on
each node, and how its request is meant. Pure functions of text.

The text of a job contains words of its user: name, account, comment, command. The name and the account come
before what is read here. squeue prints both exactly, so they are skipped by their whole text. All others come
after it. A text in which the name is not found where it has to be is not read at all.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil

from makeway.adapters.hostlist import expand
from makeway.adapters.slurm.parse import NOTHING, RawJob, count, duration_s, gres, memory_mb
from makeway.adapters.slurm.resources.counting import gres_amounts
from makeway.adapters.slurm.resources.gpu_parts import HeldGpus, held_gpus, numbers
from makeway.policies.model import CPU, MEMORY, Resources

_HEAD = re.compile(
    r"JobId=(?P<job>\d+) (?:ArrayJobId=(?P<array>\d+) ArrayTaskId=(?P<task>\S+) "
    r"(?:ArrayTaskThrottle=(?P<most>\d+) )?|HetJobId=(?P<het>\d+) HetJobOffset=(?P<offset>\d+) )?JobName="
)
_START = re.compile(r"^(?=JobId=\d+ )", re.MULTILINE)
_AFTER_NAME = re.compile(r" (?:SLUID=\S+ )?(?:HetJobIdSet=\S+ )?UserId=\S+ GroupId=\S+ MCS_label=\S+ ")
_AFTER_ACCOUNT = re.compile(r" QOS=\S* (?:WCKey=\S* )?JobState=")
_BODY = re.compile(
    # Between the nodes and their number: those that backfill has planned, the batch host, a federation.
    r" NodeList=\S* (?:[A-Z]\w*=\S* )*?NumNodes=(?P<nodes>[\d\-KM]+) NumCPUs=\d+ "
    r".*?ReqB:S:C:T=\d+:\d+:(?P<cores>\d+|\*):(?P<threads>\d+|\*) (?P<later>Req)?TRES=.*?"
    r"(?:Socks/Node=(?P<sockets>\S+) )?"
    r"NtasksPerN:B:S:C=\d+:\d+:(?P<per_socket>\d+|\*):(?P<per_core>\d+|\*) (?:Core|Thread)Spec=\S+ +"
    r"(?:JOB_GRES=\S* +)?(?P<held>(?:Nodes=\S+ CPU_IDs=\S* Mem=\d+ GRES=\S* +)*)"
    r"MinCPUsNode=\d+ MinMemory(?P<per>Node|CPU|TRES)=(?P<memory>\S+) "
    r"MinTmpDiskNode=(?P<disk>\S+) "
    r".*?OverSubscribe=(?P<sharing>\S+) (?:Exclusive=(?P<exclusive>\S+) )?Contiguous=(?P<contiguous>\d)",
    re.DOTALL,
)
_HELD = re.compile(r"Nodes=(\S+) CPU_IDs=(\S*) Mem=(\d+) GRES=(\S*)")
_SEGMENT = re.compile(r" SegmentSize=(\d{1,9})(?=\s|$)")
_EXTRA = re.compile(r" Extra=(?!\(null\)\s)")
"""A user who writes the word elsewhere is only served worse."""
_TIME_MIN = re.compile(r" TimeMin=(\S+) SubmitTime=")
_SWITCHES = re.compile(r" Switches=[1-9]\d*@")
_UNSHARED = frozenset({"NO", "USER", "MCS", "TOPO"})


class MemoryPer(StrEnum):
    """What the memory that a job asks for is counted by."""

    NODE = "Node"
    CPU = "CPU"
    GPU = "TRES"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetails:
    """What is known of one job besides squeue's line."""

    held: Mapping[str, Resources] | None
    """What it holds, by node. None: it holds nothing, or that could not be read."""
    gpus: Mapping[str, HeldGpus]
    """By node: which GPUs it holds. Nodes with none are absent."""
    exclusive: bool
    """Whether it shares its nodes with no job, or with none of other users."""
    takes_all: bool
    """Whether it gets all CPUs and GPUs of its nodes."""
    takes_blocks: bool
    """Whether it shares no block of the topology with other jobs."""
    memory_per: MemoryPer
    memory_mb: float
    """The memory that it asks for. 0: all of each node."""
    threads_per_core: int | None
    """How many threads of a core it wants to use at most. None: all."""
    tasks_per_core: int | None
    """None: it does not say."""
    temporary_disk_mb: float
    """How large the temporary disk of each node has to be."""
    most_nodes: int | None
    """On how many nodes at most it may run. None: it does not say."""
    may_have_more: bool
    """Whether it surely may run on more nodes than the fewest. 24.11 shows the same of `-n12` and of
    `-N1 -n12`.
    """
    most_tasks: int | None
    """How many tasks of its array may run at once. None: any number, or it is no task."""
    segment_size: int
    """How many of its nodes have to be in one block (`--segment`). 0: it does not say, or this Slurm does not
    tell (24.11).
    """
    names_extra: bool
    """Whether it says with `--extra` which nodes may serve it, where Slurm reads that."""
    least_limit_s: float | None
    """To how little Slurm may cut its time limit (`--time-min`). None: it may not cut it."""
    uncounted: tuple[str, ...]
    """The options of its request that no amounts of nodes say."""


def texts(output: str, *, token: str, names: Iterable[str]) -> dict[str, str]:
    """What scontrol printed in each of these sections of `build.show_script`, unchanged.

    Only the caller knows the token. A user therefore cannot begin or end a section.
    """
    wanted = {f"-{name}": name for name in names}
    found: dict[str, str] = {}
    for part in output.split(token):
        marker, newline, content = part.partition("\n")
        if newline and marker in wanted:
            # With readline scontrol repeats its prompt and each command that it reads.
            content = re.sub(r"\A(?:scontrol: )?(?:show job[^\n]*\n)?", "", content)
            content = re.sub(r"\n?(?:scontrol: )?(?:show hostnames )?\Z", "", content)
            found[wanted[marker]] = found.get(wanted[marker], "") + content
    return found


def records(text: str) -> dict[str, str | None]:
    """The records of `show job`, by job id. None: several claim to be that job.

    A user can write the beginning of a record into a job's name: then there are two of the job that it
    names, and none of them is believed.
    """
    found: dict[str, str | None] = {}
    for record in _START.split(text):
        head = _HEAD.match(record)
        if head is not None:
            job_id = _job_id(head)
            found[job_id] = None if job_id in found else record
    return found


def details(record: str, job: RawJob) -> JobDetails | None:
    """The details of the job in a record. None: the record is of another job, or cannot be read."""
    head = _HEAD.match(record)
    if head is None or _job_id(head) != job.job_id or not record.startswith(job.name, head.end()):
        return None
    named = _AFTER_NAME.match(record, head.end() + len(job.name))
    # Numbers alone are between the label and the account.
    account = f"Account={job.account or '(null)'}"
    at = -1 if named is None else record.find(account, named.end())
    known = None if at < 0 else _AFTER_ACCOUNT.match(record, at + len(account))
    body = None if known is None else _BODY.search(record, known.end())
    if known is None or body is None:
        return None
    threads, per_core, exclusive = body["threads"], body["per_core"], body["exclusive"]
    try:
        return JobDetails(
            held=_held(body["held"]),
            gpus=_gpus(body["held"]),
            # From 26.05 on it has a field of its own.
            exclusive=body["sharing"] in _UNSHARED if exclusive is None else exclusive != "NO",
            takes_all=body["sharing"] == "NO" if exclusive is None else exclusive == "NODE",
            takes_blocks="TOPO" in (body["sharing"], exclusive),
            memory_per=MemoryPer(body["per"]),
            memory_mb=memory_mb(body["memory"]),
            threads_per_core=None if threads == "*" else int(threads),
            tasks_per_core=None if per_core == "*" else int(per_core),
            temporary_disk_mb=memory_mb(body["disk"]),
            most_nodes=_most_nodes(body, job),
            may_have_more=_may_have_more(body["nodes"]),
            most_tasks=None if head["most"] is None else int(head["most"]),
            segment_size=_segment_size(body),
            names_extra=_EXTRA.search(record, body.end()) is not None,
            least_limit_s=_least_limit_s(record[known.end() : body.start()]),
            uncounted=_uncounted(body, job),
        )
    except ValueError:
        return None


def overcommits(job: RawJob) -> bool:
    """Whether a job waits for one CPU of each node, and has more tasks (`--overcommit`; tried on 22.05, 24.11
    and 26.05). One with `--ntasks-per-node` may look so without it, and counts as one that does not.

    Of a job with a range of nodes and without `--ntasks`, Slurm counts one CPU of each node, too, whatever
    `--cpus-per-task` says. It has no more tasks than nodes.
    """
    node_count = max(1, job.requested_node_count)
    return job.cpu_count == node_count < job.task_count and not job.tasks_per_node


def least_nodes(job: RawJob) -> int:
    """The least number of nodes that a job asks for, by its resources and by its tasks of a node, which 22.05
    and 24.11 do not count in its resources.
    """
    least = max(1, job.requested_node_count)
    return max(least, ceil(job.task_count / job.tasks_per_node)) if job.tasks_per_node else least


def _most_nodes(body: re.Match[str], job: RawJob) -> int | None:
    """On how many nodes at most the job may run. None: it does not say.

    Later releases print `3-3` also of a job without -N, and of one with -N2 whose CPUs need three nodes. What
    was asked for is then in the requested resources.
    """
    least, ranged, most = body["nodes"].partition("-")
    if not ranged:
        return None
    if least == most and body["later"]:
        return job.requested_node_count if job.requested_node_count > 1 else None
    return count(most)


def _may_have_more(node_counts: str) -> bool:
    least, ranged, most = node_counts.partition("-")
    return not ranged or count(least) < count(most)


def _least_limit_s(state: str) -> float | None:
    found = _TIME_MIN.search(state)
    return None if found is None or found[1] in NOTHING else duration_s(found[1])


def _segment_size(body: re.Match[str]) -> int:
    # A user who writes such words elsewhere is only served worse.
    found = _SEGMENT.search(body.string, body.end())
    return 0 if found is None else int(found[1])


def _uncounted(body: re.Match[str], job: RawJob) -> tuple[str, ...]:
    """The options that ask for certain sockets, for nodes next to each other, or for GPUs by the number of
    tasks; and two that 24.11 and 26.05 never start together, as tried.
    """
    # A user who writes the words of the last options elsewhere is only served worse.
    rest = body.string[body.end() :]
    gpus_by_tasks = " NtasksPerTRES=" in rest and not (
        job.gres_per_node or job.gres_per_job or job.gres_per_task
    )
    several = body["nodes"] not in {"1", "1-1"}
    asked = {
        "--sockets-per-node": body["sockets"] not in {None, "*", "0", "1"},
        "--cores-per-socket": body["cores"] not in {"*", "0"},
        "--ntasks-per-socket": body["per_socket"] not in {"*", "0"},
        "--contiguous": several and body["contiguous"] != "0",
        "--switches": several and _SWITCHES.search(rest) is not None,
        "--gres-flags=enforce-binding": " GresEnforceBind=Yes" in rest,
        "--ntasks-per-gpu": gpus_by_tasks,
        "--overcommit with --cpus-per-task": overcommits(job) and job.cpus_per_task > 1,
    }
    return tuple(option for option, given in asked.items() if given)


def _job_id(head: re.Match[str]) -> str:
    if head["array"] is not None:
        return f"{head['array']}_{head['task']}"
    return head["job"] if head["het"] is None else f"{head['het']}+{head['offset']}"


def _held(text: str) -> Mapping[str, Resources] | None:
    found: dict[str, Resources] = {}
    for nodes, cpus, memory, generic in _HELD.findall(text):
        part = Resources.of(
            {CPU: len(tuple(numbers(cpus))), MEMORY: int(memory)} | gres_amounts(gres(generic))
        )
        for name in expand(nodes):
            if name in found:
                return None
            found[name] = part
    return found or None


def _gpus(text: str) -> Mapping[str, HeldGpus]:
    """The GPUs that it holds. Raises ValueError if their numbers are none."""
    found: dict[str, HeldGpus] = {}
    for nodes, _, _, generic in _HELD.findall(text):
        gpus = held_gpus(generic)
        if gpus.whole or gpus.part_counts:
            found.update(dict.fromkeys(expand(nodes), gpus))
    return found


def array_of(raw: RawJob) -> str:
    """The id of the array that the job is a task of. Empty: of none."""
    array, is_task, _ = raw.job_id.partition("_")
    return array if is_task else ""


def tasks_left(jobs: Sequence[RawJob], details: Mapping[str, JobDetails]) -> Mapping[str, float]:
    """How many more tasks of each array with a limit (`--array=0-9%2`) may run now, by the array's id.

    A task that is completing counts as running, although Slurm already starts the next task. The node of the
    completing task is free sooner than one that another job has yet to leave.

    Args:
        jobs: those of a snapshot.
        details: of those that wait. One task of an array tells the limit of all.
    """
    with_nodes = Counter(map(array_of, (job for job in jobs if job.nodes)))
    told = ((array_of(job), details.get(job.job_id)) for job in jobs)
    most = {array: one.most_tasks for array, one in told if one is not None and one.most_tasks is not None}
    return {array: max(0.0, float(count - with_nodes[array])) for array, count in most.items()}


def present_reason(raw: RawJob, left: Mapping[str, float]) -> str:
    """Why a job waits, as Slurm says it. None, as after a change, if that is the limit of its array and one
    more task may run by now: Slurm has not looked since a task has ended.

    `left`: see `tasks_left`.
    """
    outdated = raw.reason == "JobArrayTaskLimit" and left.get(array_of(raw), 0.0) >= 1.0
    return "None" if outdated else raw.reason
