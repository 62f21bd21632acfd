"""Jobs and nodes as Slurm prints them, and their translation, for tests."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from makeway.adapters.site.job_class import JobClass
from makeway.adapters.slurm.holds import HoldNames
from makeway.adapters.slurm.parse import Gres, RawJob
from makeway.adapters.slurm.parse_cluster import RawNode, RawPartition
from makeway.adapters.slurm.resources.limits import NO_LIMITS, KnownLimits
from makeway.adapters.slurm.resources.view import SnapshotResources
from makeway.adapters.slurm.translate import (
    Translator,
)
from makeway.policies.model import (
    Acknowledgement,
    CheckpointSpec,
    Job,
    TakenFromJob,
)

NOW_S = 1_795_250_000.0

PENDING = RawJob(
    job_id="7",
    state="PENDING",
    reason="Resources",
    node_count=2,
    cpu_count=4,
    least_cpus_per_node=1,
    memory_mb=0.0,
    tres="cpu=4,mem=2000M,node=2,billing=4",
    gres_per_node=(),
    gres_per_job=(),
    gres_per_task=(),
    gres_per_socket=(),
    memory_per_gpu_mb=0,
    cpus_per_gpu=0,
    gpu_defaults=None,
    task_count=4,
    cpus_per_task=1,
    tasks_per_node=0,
    licenses="",
    limit_s=3600.0,
    submit_s=NOW_S - 500,
    start_s=NOW_S + 4000,
    eligible_s=NOW_S - 500,
    deadline_s=None,
    user_id="1000",
    group_id="1000",
    user="alice",
    account="physics",
    qos="normal",
    partitions=("batch",),
    features="",
    required_nodes=(),
    excluded_nodes=(),
    nodes=(),
    exclusive=False,
    requeueable=True,
    batch=True,
    restarts=0,
    heterogeneous=False,
    reservations=(),
    priority=1,
    name="name",
    comment="",
    admin_comment="",
)

RUNNING = replace(
    PENDING, state="RUNNING", reason="None", nodes=("n1", "n2"), start_s=NOW_S - 400, eligible_s=NOW_S - 500
)

SPEC = CheckpointSpec(
    interval_s=600.0, application_s=20.0, system_s=30.0, acknowledgement=Acknowledgement.COMMENT
)

ANY = JobClass(name="any", preemptible=True, checkpoint=SPEC)

PARTITIONS = (
    RawPartition(name="batch", state="UP"),
    RawPartition(name="big", state="DRAIN"),
    RawPartition(name="closed", state="DOWN"),
)


def raw_node(number: int) -> RawNode:
    """Four small nodes and four big ones, the latter in the partition `big` too."""
    big = number > 4
    return RawNode(
        name=f"n{number}",
        states=frozenset({"IDLE"}),
        cpu_count=16 if big else 2,
        usable_cpu_count=16 if big else 2,
        core_count=16 if big else 2,
        socket_count=1,
        memory_mb=64_000.0 if big else 8_000.0,
        usable_memory_mb=64_000.0 if big else 8_000.0,
        features=frozenset({"large", "fast"} if big else {"small"}),
        gres=(Gres(name="gpu", type="a100", count=4),) if big else (),
        partitions=frozenset({"batch", "big", "closed"} if big else {"batch", "closed"}),
    )


NODES = tuple(raw_node(number) for number in range(1, 9))


def translated(
    raw: RawJob,
    *classes: JobClass,
    taken: TakenFromJob | None = None,
    exclusive_shrink: bool = True,
    no_room: Mapping[str, str] = MappingProxyType({}),
    limits: KnownLimits = NO_LIMITS,
) -> Job:
    translator = Translator(
        classes,
        SnapshotResources(NODES, PARTITIONS),
        NOW_S,
        exclusive_shrink=exclusive_shrink,
        holds=HoldNames(prefix="makeway_c."),
        no_room=no_room,
        limits=limits,
    )
    return translator.job(raw, taken)


def serving(**changes: Any) -> str:
    """The nodes that may serve a pending job with these demands."""
    names = translated(replace(PENDING, **changes)).eligible_nodes
    return "all" if names is None else " ".join(sorted(names))
