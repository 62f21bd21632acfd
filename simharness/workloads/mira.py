"""P1's machine and jobs: Mira's partitions, the cost of a checkpoint there, and the paper's schemes.

A node of the simulated machine is a midplane of 512 nodes, the smallest thing that Mira allocates;
node-seconds are midplane-seconds. A job is given the smallest partition that holds it, and all of it.

Reference:
    Nickolay et al., "Towards Accommodating Real-time Jobs on HPC Platforms" (arXiv 2021), sections 4, 5.2 and
    7.1, eq. 1 to 20 (schemes), 34 (cost of a checkpoint) and 59 (other traces scaled to Mira).

Differs from the paper:
    A job's time limit is raised where its checkpoints and one restart would exceed it: the simulator holds
    jobs to theirs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from makeway.policies.model import JobKind
from makeway.simharness.workloads.job import SimJob
from makeway.simharness.workloads.partitions import MIDPLANE_NODES, Partitions

MIRA_NODES = 49_152
NODE_GB = 16.0
IO_NODES = 128
"""How many nodes share one I/O node."""
IO_GB_S = 4.0
FILE_SYSTEM_GB_S = 216.0
SYSTEM_INTERVAL_S = 3600.0
"""SYS-CKPT's one interval for all jobs; the paper does not give it, the authors' simulator has this."""
NARROW_MIDPLANES = 4096 // MIDPLANE_NODES


class Checkpointing(StrEnum):
    """How batch jobs checkpoint (table 1)."""

    NONE = "none"
    SYSTEM = "system"  # all at one interval
    APPLICATION = "application"  # at an interval of their own, for at most a share of their time limit
    JUST_IN_TIME = "just-in-time"  # right before they are preempted


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """One way to schedule urgent jobs on Mira."""

    name: str
    label: str
    preempts: bool = True
    """Whether `policy` runs, with `settings`; else the base scheduler is alone."""
    policy: str = "wcjs"
    settings: Mapping[str, object] = field(default_factory=dict[str, object])
    checkpointing: Checkpointing = Checkpointing.NONE
    share: float = 0.0
    """APP-CKPT: checkpoints take at most this share of the time limit."""
    urgent_first: bool = False


_PREEMPTIVE: Mapping[str, object] = MappingProxyType(
    {
        **{f"urgent_{size}": 1.0 for size in ("narrow_short", "narrow_long", "wide_short", "wide_long")},
        **{
            f"batch_{size}": float("inf")
            for size in ("narrow_short", "narrow_long", "wide_short", "wide_long")
        },
        "spare_larger": False,
        "slowdown_weight": 0.0,
        "checkpoint_weight": 0.0,
        "remaining_weight": 0.0,
    }
)
"""Section 4.2: at once, any job but urgent ones, the partition that keeps most nodes in use."""

JIT = Scheme(name="wcjs-jit", label="JIT-CKPT", checkpointing=Checkpointing.JUST_IN_TIME)
APP_5 = Scheme(name="wcjs-app-5", label="APP-CKPT-5%", checkpointing=Checkpointing.APPLICATION, share=0.05)
APP_10 = Scheme(name="wcjs-app-10", label="APP-CKPT-10%", checkpointing=Checkpointing.APPLICATION, share=0.1)
BASELINE = Scheme(name="baseline", label="baseline", preempts=False)
HEURISTICS = (BASELINE, JIT, APP_5, APP_10)
"""The four of figures 3 to 7."""
HIGH_PRIORITY = Scheme(name="high-priority", label="high-priority queue", preempts=False, urgent_first=True)
BASIC = (
    HIGH_PRIORITY,
    Scheme(name="preemptive-no", label="preemptive, NO-CKPT", settings=_PREEMPTIVE),
    Scheme(
        name="preemptive-sys",
        label="preemptive, SYS-CKPT",
        settings=_PREEMPTIVE,
        checkpointing=Checkpointing.SYSTEM,
    ),
    Scheme(
        name="preemptive-app-5",
        label="preemptive, APP-CKPT-5%",
        settings=_PREEMPTIVE,
        checkpointing=Checkpointing.APPLICATION,
        share=0.05,
    ),
    Scheme(
        name="preemptive-app-10",
        label="preemptive, APP-CKPT-10%",
        settings=_PREEMPTIVE,
        checkpointing=Checkpointing.APPLICATION,
        share=0.1,
    ),
    Scheme(
        name="preemptive-jit",
        label="preemptive, JIT-CKPT",
        settings=_PREEMPTIVE,
        checkpointing=Checkpointing.JUST_IN_TIME,
    ),
)
"""Section 4's schemes."""
LEAST_PRICE = Scheme(
    name="least-price",
    label="least-price, JIT-CKPT",
    policy="least-price",
    settings={"start_within_s": 3600.0, "checkpoints": "parallel"},
    checkpointing=Checkpointing.JUST_IN_TIME,
)
"""makeway's own policy, which the paper does not have.

A checkpoint takes 512 s at least (eq. 34), however many jobs write one; urgent jobs have an hour. The hour
was chosen on wk3.
"""
SCHEMES: Mapping[str, Scheme] = MappingProxyType(
    {scheme.name: scheme for scheme in (*HEURISTICS, *BASIC, LEAST_PRICE)}
)


def checkpoint_s(midplanes: int) -> float:
    """How long a checkpoint of `midplanes` midplanes takes, and a restart from it (eq. 34)."""
    nodes = midplanes * MIDPLANE_NODES
    return NODE_GB * nodes / min(nodes / IO_NODES * IO_GB_S, FILE_SYSTEM_GB_S)


def on_mira(jobs: Sequence[SimJob], nodes: int, partitions: Partitions) -> list[SimJob]:
    """Jobs of a machine of `nodes` nodes on Mira, each as large as its partition.

    Mira's own get the smallest partition that holds them. Those of another machine are scaled to Mira's size
    (eq. 59) and get the partition whose size is nearest, of two the smaller.
    """
    if nodes == MIRA_NODES:
        wanted = [partitions.size_for(-(-job.node_count // MIDPLANE_NODES)) for job in jobs]
    else:
        scale = MIRA_NODES / (nodes * MIDPLANE_NODES)
        wanted = [_nearest(partitions.sizes, job.node_count * scale) for job in jobs]
    return [replace(job, node_count=size) for job, size in zip(jobs, wanted, strict=True)]


def _nearest(sizes: Sequence[int], midplanes: float) -> int:
    return min(sizes, key=lambda size: (abs(size - midplanes), size))


def with_checkpoints(job: SimJob, scheme: Scheme) -> SimJob:
    """The job under the scheme: when it checkpoints, and what that adds to its run time.

    See eq. 1, 6, 11 and 16.
    """
    took_s = checkpoint_s(job.node_count)
    match scheme.checkpointing:
        case Checkpointing.NONE:
            return job
        case Checkpointing.JUST_IN_TIME:
            if job.kind is JobKind.ON_DEMAND:
                return job
            return _limited(replace(job, save_s=took_s, restart_s=took_s))
        case Checkpointing.SYSTEM:
            if job.kind is JobKind.ON_DEMAND:
                return job
            return _regular(job, SYSTEM_INTERVAL_S, took_s)
        case Checkpointing.APPLICATION:
            count = int(scheme.share * job.walltime_s / took_s)
            return _regular(job, job.walltime_s / (count + 1), took_s) if count else job


def _regular(job: SimJob, interval_s: float, took_s: float) -> SimJob:
    """Checkpoints at an interval, none at the very end (eq. 6 and 11)."""
    count = max(0, -int(-job.runtime_s // interval_s) - 1)
    return _limited(
        replace(
            job,
            runtime_s=job.runtime_s + count * took_s,
            checkpoint_interval_s=interval_s,
            checkpoint_cost_s=took_s,
            restart_s=took_s,
        )
    )


def _limited(job: SimJob) -> SimJob:
    """The job with a time limit under which it can also go on from a checkpoint."""
    return replace(job, walltime_s=max(job.walltime_s, job.runtime_s + job.restart_s))
