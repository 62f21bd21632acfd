"""From the records of PBS and the site's classes to the model. Pure functions.

A job says what makeway should know of it in the environment variable MAKEWAY (`qsub -v
MAKEWAY="makeway:min-nodes=2"`): PBS shows it in `Variable_List`. The field `comment` of a PBS job belongs to
the scheduler. A job cannot change its variables once it runs, so it cannot acknowledge a checkpoint there: an
adapter that acts would need another field.
"""

from makeway.adapters.pbs.parse import PbsJob, PbsNode, size_bytes
from makeway.adapters.site.comment import (
    checkpoint_spec,
    comment_words,
    instant_in_run,
    notice_word,
    smallest_size,
)
from makeway.adapters.site.job_class import JobClass, first_class
from makeway.adapters.site.text import printable
from makeway.adapters.site.times import NOT_BEFORE_S, UNLIMITED_S
from makeway.policies.model import Job, JobKind, JobState, Node, NodeState, Reservation

_STATES = {
    "Q": JobState.PENDING,
    "H": JobState.PENDING,
    "W": JobState.PENDING,
    "T": JobState.PENDING,
    "R": JobState.RUNNING,
    "E": JobState.COMPLETING,
    "S": JobState.SUSPENDED,
    "U": JobState.SUSPENDED,
}
_OVER = frozenset("FMX")
"""Finished, moved to another server, a subjob that has ended."""
_UP = frozenset({"free", "job-busy", "job-exclusive", "resv-exclusive", "busy"})
_DRAINED = frozenset({"offline", "maintenance"})
_NOT_OF_A_NODE = frozenset({"mpiprocs", "ompthreads"})
"""What a chunk may ask for that no vnode has."""


def has_ended(raw: PbsJob) -> bool:
    """Whether the job has ended: it is in no snapshot."""
    return raw.state in _OVER


def state(raw: PbsJob) -> JobState:
    """The job's state. An unknown one is one that may not be acted upon."""
    return _STATES.get(raw.state, JobState.SUSPENDED if raw.nodes else JobState.PENDING)


def node(raw: PbsNode) -> Node:
    """A vnode as the model has it. A state that is not known counts as down."""
    if raw.states - _UP - _DRAINED:
        return Node(name=raw.name, state=NodeState.DOWN)
    return Node(name=raw.name, state=NodeState.DRAINED if raw.states & _DRAINED else NodeState.UP)


def reservations(nodes: tuple[PbsNode, ...], now_s: float) -> tuple[Reservation, ...]:
    """The reservations that are on vnodes.

    `pbsnodes` does not say when they begin and end: their nodes count as reserved from now on.
    """
    names = dict.fromkeys(name for one in nodes for name in one.reservations)
    return tuple(
        Reservation(
            name=printable(name),
            nodes=tuple(one.name for one in nodes if name in one.reservations),
            start_s=now_s,
            end_s=NOT_BEFORE_S,
        )
        for name in names
    )


def job(raw: PbsJob, classes: tuple[JobClass, ...], nodes: tuple[PbsNode, ...], now_s: float) -> Job:
    """One job as the model has it."""
    words = comment_words(raw.words)
    job_class = first_class(
        classes,
        partitions=(raw.queue,),
        qos="",
        account=raw.account,
        user=raw.owner,
        features="",
        words=frozenset(words),
    )
    kind = job_class.kind if job_class is not None else JobKind.RIGID
    present = state(raw)
    holds = raw.nodes if present is not JobState.PENDING else ()
    started_s = raw.start_s if present is not JobState.PENDING else None
    size = len(holds) or raw.node_count
    malleable = job_class if kind is JobKind.MALLEABLE else None
    return Job(
        job_id=raw.job_id,
        kind=kind,
        state=present,
        node_count=size,
        walltime_s=UNLIMITED_S if raw.walltime_s is None else raw.walltime_s,
        submit_s=raw.submit_s,
        user=printable(raw.owner),
        account=printable(raw.account),
        partition=printable(raw.queue),
        node_count_min=smallest_size(malleable, words, size) if malleable is not None else None,
        node_count_max=size if malleable is not None else None,
        nodes=holds,
        eligible_nodes=_serving(raw, nodes),
        start_s=started_s,
        eligible_s=_eligible_s(raw, now_s) if present is JobState.PENDING else None,
        setup_s=job_class.setup_s if job_class is not None else 0.0,
        checkpoint=checkpoint_spec(job_class, words),
        array_job_id=raw.job_id.partition("[")[0] if "[" in raw.job_id else "",
        job_class=job_class.name if job_class is not None else "",
        last_checkpoint_s=instant_in_run(words.get("ckpt"), started_s, now_s),
        requeue_count=raw.run_count if present is JobState.PENDING else max(0, raw.run_count - 1),
        preemptible=_preemptible(raw, job_class),
        reservation=_reservation_of(raw, nodes),
        eligible_since_s=_eligible_since_s(raw) if kind is JobKind.ON_DEMAND else None,
        start_within_s=job_class.start_within_s
        if job_class is not None and kind is JobKind.ON_DEMAND
        else None,
        notice_id=notice_word(raw.words) if kind is JobKind.ON_DEMAND else None,
        priority=raw.priority,
    )


def _eligible_s(raw: PbsJob, now_s: float) -> float | None:
    if raw.state == "H":
        return NOT_BEFORE_S
    later = raw.not_before_s is not None and raw.not_before_s > now_s
    return raw.not_before_s if later else None


def _eligible_since_s(raw: PbsJob) -> float | None:
    """See `Job.eligible_since_s`."""
    later = raw.eligible_since_s is not None and raw.eligible_since_s > raw.submit_s
    return raw.eligible_since_s if later else None


def _preemptible(raw: PbsJob, job_class: JobClass | None) -> bool:
    """Whether the job may be touched: it is opted in, and PBS would requeue it if it were asked to."""
    return (
        job_class is not None
        and job_class.preemptible
        and job_class.kind is not JobKind.ON_DEMAND
        and raw.state in "RQ"
        and raw.rerunnable
    )


def _reservation_of(raw: PbsJob, nodes: tuple[PbsNode, ...]) -> str | None:
    """The reservation that the job runs or waits in: its queue has the reservation's name. None: none."""
    names = {name for one in nodes for name in one.reservations}
    return next((name for name in sorted(names) if name.split(".", 1)[0] == raw.queue), None)


def _serving(raw: PbsJob, nodes: tuple[PbsNode, ...]) -> frozenset[str] | None:
    """The vnodes that can hold any chunk of the job. None: all of them."""
    fitting = frozenset(
        one.name
        for one in nodes
        if one.queue in ("", raw.queue)
        and all(_has(one, name, value) for chunk in raw.chunks for name, value in chunk.needs)
    )
    return None if len(fitting) == len(nodes) else fitting


def _has(one: PbsNode, name: str, wanted: str) -> bool:
    """Whether a vnode has as much of a resource, or the same value, as a chunk asks for."""
    if name in _NOT_OF_A_NODE:
        return True
    having = dict(one.resources).get(name)
    if having is None:
        return False
    least, most = size_bytes(wanted), size_bytes(having)
    if least is not None and most is not None:
        return most >= least
    return wanted in having.split(",")
