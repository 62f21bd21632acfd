"""The argument lists of Slurm's commands: pure functions.

Nothing that a user wrote becomes an option: job ids, node names, reservation names, signals and user numbers
are checked before they are put into a command, and stand behind a keyword (`NodeList=...`) wherever the
command has one.
"""

import math
import re
from collections.abc import Iterable
from typing import assert_never

from makeway.adapters.hostlist import fold
from makeway.adapters.protocol import Rejected
from makeway.adapters.slurm.parse import RawJob
from makeway.policies.model import QUEUE_POSITIONS, SignalTarget

FRONT_PRIORITY = 4_294_967_200
"""The priority of a job at the front of the queue; Slurm's own never come near it."""
PLANNED_PRIORITY = FRONT_PRIORITY - 1
"""Minus its queue position: the priority of a job in a planned order. Slurm's own begin at 4,294,901,760
under priority/basic, below the last of all places.
"""
PURGE_MIN = 1
"""Slurm removes makeway's reservation once it has had no job for this many minutes, if makeway does not."""
RESTART_S = 3
"""How soon a requeued job may start again; more than the clocks of controller and nodes differ."""
LONGEST_HOLD_S = 360 * 86_400.0
"""No hold lasts longer, for one of a year would not be makeway's (`holds.made_as_hold`)."""
RESERVATION_LIMIT = 255
"""The longest name of a reservation: slurmctld takes any, the accounting database no longer one."""
LONGEST_LIMIT_S = 365 * 86_400.0
"""The longest time limit that squeue shows: a year."""
EXPANDER_NAME = "mw_expand"
"""The job name of an allocation that is about to be merged into a job."""

JOB_FIELDS = (
    "JobArrayID",
    "State",
    "Reason",
    "NumNodes",
    "NumCPUs",
    "MinCpus",
    "MinMemory",
    "tres-alloc",
    *("tres-per-node", "tres-per-job", "tres-per-task", "tres-per-socket"),
    *("mem-per-tres", "cpus-per-tres"),
    *("numtasks", "cpus-per-task", "ntpernode"),
    "Licenses",
    "TimeLimit",
    "SubmitTime",
    "StartTime",
    "EligibleTime",
    "Deadline",
    "UserID",
    "GroupID",
    "UserName",
    "Account",
    "QOS",
    "Partition",
    "Feature",
    "ReqNodes",
    "NodeList",
    "BatchHost",
    "OverSubscribe",
    "Requeue",
    "BatchFlag",
    "RestartCnt",
    "HetJobID",
    "Reservation",
    "PriorityLong",
    "admin_comment",
    "Name",
    "Comment",
)
"""What is read of every job, by squeue's names, which 22.05, 24.11 and 26.05 share."""
ALL_JOBS = "job"
"""The section of `show_script` that has all jobs."""
CLUSTER_SECTIONS = ("nodes", "partitions", "reservations")
EXCLUDED_NODES = "ExcNodes"
"""Read too where squeue knows it: 22.05 does not."""
KNOWS_EXCLUDED_NODES = (24, 11)
"""The first release in which squeue was seen to know it."""
TELLS_EXCLUSIVE = (24, 11)
"""The last release whose squeue was seen to tell which jobs share no node. 26.05 says so of all jobs."""
RESIZES_CLEANLY = (24, 11)
"""The first release that was seen to account for a job's nodes after they were taken away or given back.

On 22.05 the nodes that an exclusive job gives away serve one more job, and then none until `scontrol
reconfigure`; after any job has grown, the same happens to its nodes.
"""
_JOB_ID = re.compile(r"\d+(?:[_+]\d+)?", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+\-]*", re.ASCII)
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@\-]*\$?", re.ASCII)
_SIGNAL = re.compile(r"[A-Z][A-Z0-9+\-]*|\d{1,2}", re.ASCII)


def job_fields(version: tuple[int, int]) -> tuple[str, ...]:
    """The fields to ask of squeue of that release; the comment is the last."""
    return (EXCLUDED_NODES, *JOB_FIELDS) if version >= KNOWS_EXCLUDED_NODES else JOB_FIELDS


def squeue(
    job_id: str | None = None, reservation: str | None = None, *, ended: bool = False
) -> tuple[str, ...]:
    """List the jobs that are not over, array tasks one by one: all, one, or those bound to a reservation.

    `ended`: those too that are over, as far as Slurm has not forgotten them.
    """
    which: tuple[str, ...] = ("--states=all",) if ended else ()
    if job_id is not None:
        which += (f"--jobs={_job(job_id)}",)
    if reservation is not None:
        which += (f"--reservation={_name(reservation)}",)
    return ("squeue", "--noheader", "--all", "--array", *which)


def squeue_environment(fields: tuple[str, ...], token: str) -> dict[str, str]:
    """The variables that make squeue print `fields`, each followed by `token`, and times in seconds.

    The format is passed in the environment, which no other user can read, so that no user can forge `token`
    in a comment.
    """
    return {"SQUEUE_FORMAT2": ",".join(f"{field}:0{token}" for field in fields), "SLURM_TIME_FORMAT": "%s"}


def show_cluster() -> tuple[str, ...]:
    """Read commands of scontrol from the standard input and print one line a record, with all details."""
    return ("scontrol", "--all", "--details", "--oneliner")


def show_script(
    token: str,
    job_ids: Iterable[str] = (),
    *,
    all_jobs: bool = False,
    licenses: bool = False,
    limits: str = "",
    sections: tuple[str, ...] = CLUSTER_SECTIONS,
) -> bytes:
    """What `show_cluster` is given to read: each section is preceded by a line `token`-name, the end by
    `token`-end.

    Args:
        token: what no user can know.
        job_ids: the jobs to show, each in a section of its own.
        all_jobs: whether to show all jobs, in a section `job`.
        licenses: whether to show the licenses, in a section `licenses`.
        limits: of which users, accounts and QOS to show the limits, in a section `limits`. Empty: of none.
        sections: which of `CLUSTER_SECTIONS` to show.
    """
    lines: list[str] = []
    more = [*(["licenses"] if licenses else []), *([ALL_JOBS] if all_jobs else [])]
    for section in [*sections, *more]:
        lines += [f"show hostnames {token}-{section}", f"show {section}"]
    if limits:
        lines += [f"show hostnames {token}-limits", f"show assoc_mgr {limits}"]
    for job_id in job_ids:
        lines += [f"show hostnames {token}-{_job(job_id)}", f"show job {job_id}"]
    lines += [f"show hostnames {token}-end"]
    return "\n".join([*lines, ""]).encode()


def show_config() -> tuple[str, ...]:
    """Print the configuration of the controller."""
    return ("scontrol", "show", "config")


def show_topology(name: str = "") -> tuple[str, ...]:
    """Print the switches or the blocks of a topology. Empty: of that of the cluster."""
    return ("scontrol", "show", "topology", *([_name(name)] if name else []))


def signal_batch(job_id: str, signal: str) -> tuple[str, ...]:
    """Send a signal to the batch shell of a job. Raises `Rejected` for what cannot be a signal."""
    return ("scancel", "-vvv", _signal(signal), "--batch", _job(job_id))


def signal_steps(job_id: str, signal: str) -> tuple[str, ...]:
    """Send a signal to the processes of every step of a job, but the batch script.

    A job without a step gets none, and Slurm says nothing. Raises `Rejected` for what cannot be a signal.
    """
    return ("scancel", "-vvv", _signal(signal), _job(job_id))


def signal_job(job_id: str, signal: str, target: SignalTarget) -> tuple[tuple[str, ...], ...]:
    """The commands that send a signal to those processes of a job. Raises `Rejected` for what cannot be a
    signal.

    `scancel --full` is one command for both; it also reaches each child of the batch shell, and ends those
    that have no handler (tried on 22.05 and 24.11).
    """
    match target:
        case SignalTarget.BATCH:
            return (signal_batch(job_id, signal),)
        case SignalTarget.STEPS:
            return (signal_steps(job_id, signal),)
        case SignalTarget.BOTH:
            return signal_batch(job_id, signal), signal_steps(job_id, signal)
        case _:
            assert_never(target)


def requeue(job_id: str) -> tuple[str, ...]:
    """Put a running job back into the queue. `Incomplete`: without it a job that has just ended would run
    again.
    """
    return ("scontrol", "requeue", "Incomplete", _job(job_id))


def requeue_any(job_id: str) -> tuple[str, ...]:
    """Put a job back into the queue, whether it runs, completes or has ended."""
    return ("scontrol", "requeue", _job(job_id))


def cancel(job_id: str) -> tuple[str, ...]:
    """End a job."""
    return ("scancel", _job(job_id))


def resize(job_id: str, keep_nodes: tuple[str, ...] | None, limit_min: int | None) -> tuple[str, ...]:
    """Leave a running job some of its nodes, change its time limit, or both at once. None: leave it
    as it is.
    """
    changes: list[str] = []
    if keep_nodes is not None:
        changes.append(f"NodeList={node_list(keep_nodes)}")
    if limit_min is not None:
        changes.append(f"TimeLimit={limit_min}")
    return (*_update_job(job_id), *changes)


def create_reservation(
    name: str,
    *,
    nodes: tuple[str, ...],
    duration_s: float,
    users: tuple[str, ...],
    purge: bool,
    overlap: bool = False,
    until_s: float | None = None,
) -> tuple[str, ...]:
    """Keep nodes, busy ones too, for some users, by number or checked name, from now until `until_s`; None:
    for `duration_s`.

    When it ends, its pending jobs are not held but go back to the common queue; with `purge` Slurm removes it
    as soon as it has no job, with `overlap` its jobs may start on nodes that other reservations keep as well.
    """
    flags = "Flags=IGNORE_JOBS,NO_HOLD_JOBS_AFTER" + (f",PURGE_COMP={PURGE_MIN}" if purge else "")
    flags += ",OVERLAP" if overlap else ""
    what = (
        f"Nodes={node_list(nodes)}",
        f"Users={','.join(users)}",
        "StartTime=now",
        _end(duration_s, until_s),
        flags,
    )
    return ("scontrol", "create", "reservation", f"ReservationName={_name(name)}", *what)


def show_reservation(name: str) -> tuple[str, ...]:
    """Print one reservation in one line."""
    return ("scontrol", "--oneliner", "show", "reservation", _name(name))


def update_reservation(
    name: str,
    *,
    nodes: tuple[str, ...],
    duration_s: float,
    users: tuple[str, ...],
    until_s: float | None = None,
) -> tuple[str, ...]:
    """Give a reservation that is there these nodes, users and end: see `create_reservation`."""
    what = (f"Nodes={node_list(nodes)}", f"Users={','.join(users)}", _end(duration_s, until_s))
    return ("scontrol", "update", f"ReservationName={_name(name)}", *what)


def admit(name: str, user_id: str) -> tuple[str, ...]:
    """Let one more user use a reservation."""
    return ("scontrol", "update", f"ReservationName={_name(name)}", f"Users+={user_id}")


def delete_reservation(name: str) -> tuple[str, ...]:
    """End a reservation that no job is bound to."""
    return ("scontrol", "delete", f"ReservationName={_name(name)}")


def bind(job_id: str, reservation: str | None, *, own: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Bind a job to a reservation. None: to none.

    `own` are those that its user asked for: it stays bound to them as well, and starts in whichever has room
    first.
    """
    names = (*(() if reservation is None else (_name(reservation),)), *map(_own_reservation, own))
    return (*_update_job(job_id), f"ReservationName={','.join(names)}")


def _own_reservation(name: str) -> str:
    # Slurm takes other names for reservations than makeway does, but none with a comma.
    if "," in name or not name.isprintable():
        raise Rejected(f"no name of a reservation: {name!r}")
    return name


def to_front(job_id: str, *, requeued: bool, node_count: int | None) -> tuple[str, ...]:
    """Give a pending job the highest priority and lift its requeue delay; `node_count` is its size, None: as
    it is.

    A slurmd refuses, and kills, a job whose credential is not younger, in whole seconds, than the end of its
    last run: some of the delay has to stay.
    """
    changes = [f"Priority={FRONT_PRIORITY}"]
    if requeued:
        changes.append(f"StartTime=now+{RESTART_S}seconds")
    if node_count is not None:
        changes.append(f"NumNodes={node_count}")
    return (*_update_job(job_id), *changes)


def to_queue_position(job_id: str, queue_position: int) -> tuple[str, ...]:
    """Give a pending job the priority of its queue position in a planned order."""
    return (*_update_job(job_id), f"Priority={PLANNED_PRIORITY - queue_position}")


def queue_position_of(priority: int) -> int | None:
    """The queue position in a planned order that a priority encodes. None: it encodes none."""
    queue_position = PLANNED_PRIORITY - priority
    return queue_position if 1 <= queue_position <= QUEUE_POSITIONS else None


def restore_priority(job_id: str) -> tuple[str, ...]:
    """Let Slurm set the priority of a running job again: `release` undoes any `Priority=`, not only a
    hold.
    """
    return ("scontrol", "release", _job(job_id))


def allocate_expander(job: RawJob, nodes: tuple[str, ...], *, reservation: str | None) -> tuple[str, ...]:
    """Get nodes, as the job's user, that may be merged into the job. Waits some seconds at the most."""
    user = ("setpriv", f"--reuid={job.user_id}", f"--regid={job.group_id}", "--init-groups", "--")
    what = (f"--nodelist={node_list(nodes)}", f"--nodes={len(nodes)}", "--exclusive", "--immediate=5")
    # Slurm merges only what has the partition and the QOS of the job.
    same = {"account": job.account, "qos": job.qos, "partition": job.partitions[0]}
    where = {"reservation": None if reservation is None else _name(reservation)}
    like = tuple(f"--{option}={name}" for option, name in (same | where).items() if name)
    kind = (f"--dependency=expand:{_job(job.job_id)}", f"--job-name={EXPANDER_NAME}", "--no-shell")
    return (*user, "salloc", *what, *like, *kind, "--no-bell")


def merge_expander(job_id: str) -> tuple[str, ...]:
    """Give all nodes of an expander to the job that it was made for, and end it."""
    return (*_update_job(job_id), "NumNodes=0")


def user_name(user: str) -> str:
    """The name of a user, who cannot be Slurm's sign for anything else. Raises `Rejected` for another."""
    if not _USER.fullmatch(user):
        raise Rejected(f"no name of a user: {user!r}")
    return user


def minutes(seconds: float) -> int:
    """A time limit in Slurm's minutes, rounded up."""
    return math.ceil(seconds / 60)


def _update_job(job_id: str) -> tuple[str, ...]:
    return ("scontrol", "update", f"JobId={_job(job_id)}")


def _end(duration_s: float, until_s: float | None) -> str:
    in_s = max(1, math.ceil(min(duration_s, LONGEST_HOLD_S)))
    return f"EndTime=now+{in_s}seconds" if until_s is None else f"EndTime=uts{math.floor(until_s)}"


def _job(job_id: str) -> str:
    if not _JOB_ID.fullmatch(job_id):
        raise Rejected(f"no job id: {job_id!r}")
    return job_id


def _signal(signal: str) -> str:
    if not _SIGNAL.fullmatch(signal):
        raise Rejected(f"no signal: {signal!r}")
    return f"--signal={signal}"


def _name(name: str) -> str:
    if not _NAME.fullmatch(name) or len(name) > RESERVATION_LIMIT:
        raise Rejected(f"no name of a reservation or node: {name!r}")
    return name


def node_list(names: tuple[str, ...]) -> str:
    return fold(_name(name) for name in names)
