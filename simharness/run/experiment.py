"""One replay from its description: which workload, which machine, which policy, which seed.

A description is a value that another process can be given, so that seeds run side by side.
"""

import gc
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from makeway.daemon.config.policy_finder import find_policy
from makeway.daemon.config.suggestion import closest
from makeway.daemon.errors import OneProblem
from makeway.policies.contract import Policy
from makeway.policies.model import JobKind, Limits, Resources
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.records import ReplayRecord
from makeway.simharness.engine.scheduler import Backfill, Order, SchedulerSettings
from makeway.simharness.engine.shared.nodes import Packing, SharingSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.run.collector import collect_last_replay, rare_collections
from makeway.simharness.workloads.classes import ClassRule
from makeway.simharness.workloads.job import SimJob
from makeway.simharness.workloads.unit import TraceUnit

if TYPE_CHECKING:
    from makeway.daemon.control.report import CycleReport

SAMPLE = "sample"
"""The name of the workload that ships with makeway."""
SAMPLE_STORAGE = StorageSettings(aggregate_gb_s=20.0, node_gb_s=2.0)


class ExperimentError(OneProblem):
    """An experiment that cannot be run. The message names the option, its value and what is accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """What to replay, and on what."""

    trace: str = SAMPLE
    """Path of an SWF file, or `sample`."""
    synthesis: str | None = None
    """W1 to W5: kinds of jobs and notices as in P5. None: the trace as it is."""
    urgent_share: float | None = None
    """Share of the jobs, drawn at random, that are urgent. None: none are made so."""
    start_within_s: float | None = None
    """When the start of an urgent job is on time. None: the workload's or the policy's own."""
    node_count: int | None = None
    procs_per_node: int | None = None
    unit: TraceUnit | None = None
    """What the sizes of a trace's jobs are counted in. None: what the trace calls for."""
    node: Resources | None = None
    """What each node has, where jobs share nodes. None: by the trace."""
    node_list: Path | None = None
    """A file of openb nodes that lists what each node has. None: see `node`."""
    node_model: str | None = None
    """Only the listed nodes with GPUs of this model. None: all."""
    packing: Packing = Packing.DENSE
    """Where jobs share nodes: on which of those that are free enough a job starts."""
    classes: tuple[ClassRule, ...] = ()
    """Which jobs are urgent and which may be evicted. Empty: by the workload."""
    skip_bad: bool = False
    backfill: Backfill = Backfill.EASY
    order: Order = Order.FCFS
    start_smaller: bool = False
    """Whether malleable jobs may start with fewer nodes than they ask for."""
    storage: StorageSettings | None = None
    """The file system of checkpoints. None: the sample's own, else P2's Theta (250 GB/s, 20 GB/s a node)."""
    requeue_delay_s: float = 120.0
    poll_interval_s: float = 30.0
    poke: bool = True
    check: bool = False
    seed: int = 0
    policy: str = "none"
    """A name, or the path of a file that defines a policy."""
    label: str = ""
    """What the policy is called in the record. Empty: its own name."""
    policy_settings: Mapping[str, object] = field(default_factory=dict[str, object])
    limits: Limits | None = None
    """What urgent jobs may cost, and which jobs are protected. None: no limits."""
    journal: Path | None = None
    """Where the decisions are kept, with their snapshots. None: nowhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Jobs and the machine that they are for."""

    name: str
    node_count: int
    jobs: list[SimJob]
    impossible: tuple[tuple[str, int], ...] = ()
    """Id and nodes of jobs that are larger than the machine, left out."""
    dropped: int = 0
    """Jobs of the trace without a run time or a size, left out."""
    parts: int = 0
    """Lines of partial executions of jobs that have a line of their own, left out."""
    bad: int = 0
    """Damaged lines of the trace, left out."""
    unit: TraceUnit = TraceUnit.NODE
    """What `node_count` and the sizes of the jobs are counted in."""
    reading: str = ""
    """What the sizes of the trace's jobs were counted in, and why. Empty: the trace leaves no choice."""
    sharing: SharingSettings | None = None
    """What the nodes have, where jobs share them. None: a job has its nodes to itself."""

    @property
    def urgent(self) -> int:
        """How many of the jobs are urgent."""
        return sum(1 for job in self.jobs if job.kind is JobKind.ON_DEMAND)


def require_scheduler(workload: Workload, backfill: Backfill, *, start_smaller: bool = False) -> None:
    """Refuse what the scheduler of shared nodes cannot do.

    Raises:
        ExperimentError: jobs share nodes, and the backfill is CQSim's or jobs may start smaller.
    """
    if workload.sharing is None:
        return
    if start_smaller:
        raise ExperimentError("--start-smaller: accepted only where a job has its nodes to itself")
    if backfill is Backfill.EASY_CQSIM:
        raise ExperimentError(
            f"--backfill {backfill}, or backfill in a grid: {workload.name} has nodes that jobs share; "
            "accepted: none, easy, conservative"
        )


@rare_collections()
def run(
    experiment: Experiment,
    workload: Workload,
    progress: Callable[[float], None] | None = None,
    on_cycle: "Callable[[CycleReport], None] | None" = None,
) -> ReplayRecord:
    """Replay a workload.

    Args:
        experiment: how.
        workload: what.
        progress: is called with the virtual time now and then.
        on_cycle: is called with the report of every cycle of the daemon.

    Raises:
        UnknownPolicy: there is no such policy.
        ExperimentError: it has no such setting, or refuses the value; or see `require_scheduler`.
        InvariantViolated: with `check`, a defect of the simulator.
    """
    require_scheduler(workload, experiment.backfill, start_smaller=experiment.start_smaller)
    policy = find_policy(experiment.policy)
    config = policy_config(policy.name, policy.config_type, experiment.policy_settings)
    collect_last_replay(len(workload.jobs))
    cluster = SimCluster(
        workload.node_count,
        workload.jobs,
        scheduler=SchedulerSettings(
            order=experiment.order, backfill=experiment.backfill, start_smaller=experiment.start_smaller
        ),
        storage=storage_of(experiment),
        requeue_delay_s=experiment.requeue_delay_s,
        check=experiment.check,
        workload=workload.name,
        sharing=workload.sharing,
    )
    gc.freeze()  # else the jobs of a long trace are searched for garbage again and again
    try:
        record = _replayed(experiment, policy, config, cluster, progress, on_cycle)
    finally:
        gc.unfreeze()
    record.excluded = len(workload.impossible)
    record.policy = experiment.label or record.policy
    return record


def _replayed(
    experiment: Experiment,
    policy: Policy[Any],
    config: object,
    cluster: SimCluster,
    progress: Callable[[float], None] | None,
    on_cycle: "Callable[[CycleReport], None] | None",
) -> ReplayRecord:
    """See `run`, which sets up the cluster."""
    if not policy.active:
        # The policy would never be asked: the daemon and its modules are not needed.
        cluster.run(progress)
        return cluster.record(policy=policy.name)
    import sqlite3

    from makeway.daemon.journal.file_guard import sqlite_failure
    from makeway.daemon.journal.store import Journal
    from makeway.simharness.run.replay import UNPRICED, Replay, ReplaySettings

    settings = ReplaySettings(
        poll_interval_s=experiment.poll_interval_s,
        poke=experiment.poke,
        limits=experiment.limits or UNPRICED,
        keep_snapshots=experiment.journal is not None,
    )
    journal = Journal(experiment.journal, unread=experiment.journal is None)
    try:
        return Replay(cluster, policy, config, settings, journal=journal, on_cycle=on_cycle).run(progress)
    except sqlite3.OperationalError as error:
        raise sqlite_failure(f"--journal {experiment.journal}: cannot be written", error) from error
    finally:
        journal.close()


def policy_config(name: str, config_type: type[Any], settings: Mapping[str, object]) -> Any:
    """A policy's settings as its own type.

    Raises:
        ExperimentError: an unknown setting (the closest is suggested), or a value that it refuses.
    """
    known = [each.name for each in fields(config_type)]
    for key in settings:
        if key not in known:
            raise ExperimentError(f"--set {key}: policy {name} has no such setting; {closest(key, known)}")
    if not settings:
        return config_type()
    from pydantic import TypeAdapter, ValidationError

    from makeway.daemon.config.complaints import accepted, complaints

    try:
        config = TypeAdapter(config_type).validate_python(dict(settings))
    except ValidationError as error:
        first = complaints(error)[0]
        where = ".".join(str(part) for part in first.location) or ", ".join(settings)
        if (wanted := accepted(first.message)) is not None:
            raise ExperimentError(f"--set {where}={first.value}: accepted: {wanted}") from error
        message = first.message.removeprefix("Value error, ")
        raise ExperimentError(f"--set {where}: {message}") from error
    for key in settings:
        value: object = getattr(config, key)
        if isinstance(value, float) and (math.isnan(value) or (math.isinf(value) and key.endswith("_s"))):
            wanted = "a finite number of seconds" if key.endswith("_s") else "a number"
            raise ExperimentError(f"--set {key}={value}: accepted: {wanted}")
    return config


def storage_of(experiment: Experiment) -> StorageSettings:
    """The file system that checkpoints are written to."""
    if experiment.storage is not None:
        return experiment.storage
    return SAMPLE_STORAGE if experiment.trace == SAMPLE else StorageSettings()
