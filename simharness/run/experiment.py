"""One replay from its description: which workload, which machine, which policy, which seed.

A description is a value that another process can be given, so that seeds run side by side.
"""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from makeway.daemon.config.policy_finder import find_policy
from makeway.daemon.errors import UserError
from makeway.policies.model import JobKind
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.records import ReplayRecord
from makeway.simharness.engine.scheduler import Backfill, Order, SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.workloads.job import SimJob

SAMPLE = "sample"
"""The name of the workload that ships with makeway."""
SAMPLE_STORAGE = StorageSettings(aggregate_gb_s=20.0, node_gb_s=2.0)


class ExperimentError(UserError):
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
    policy_settings: Mapping[str, object] = field(default_factory=dict[str, object])
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
    bad: int = 0
    """Damaged lines of the trace, left out."""

    @property
    def urgent(self) -> int:
        """How many of the jobs are urgent."""
        return sum(1 for job in self.jobs if job.kind is JobKind.ON_DEMAND)


def load_workload(experiment: Experiment) -> Workload:
    """The workload that an experiment describes; the same seed gives the same.

    Raises:
        TraceError: the trace cannot be read.
        WorkloadError: a share or a mix that cannot be.
        ExperimentError: options that exclude each other.
    """
    from makeway.simharness.workloads.trace import read_trace

    if experiment.synthesis is not None and experiment.urgent_share is not None:
        raise ExperimentError("--workload and --urgent exclude each other: give one of them")
    if experiment.trace == SAMPLE:
        if experiment.node_count is not None or experiment.procs_per_node is not None:
            raise ExperimentError(
                "--nodes and --procs-per-node are for traces: the sample has its own machine"
            )
        from makeway.simharness.workloads.sample import sample_workload

        node_count, jobs = sample_workload(experiment.seed)
        workload = Workload(name=SAMPLE, node_count=node_count, jobs=jobs)
    else:
        trace = read_trace(
            experiment.trace,
            skip_bad=experiment.skip_bad,
            node_count=experiment.node_count,
            procs_per_node=experiment.procs_per_node,
        )
        workload = Workload(
            name=trace.name,
            node_count=trace.node_count,
            jobs=trace.jobs,
            impossible=trace.impossible,
            dropped=trace.dropped,
            bad=trace.bad,
        )
    return _with_urgent(workload, experiment)


def run(
    experiment: Experiment, workload: Workload, progress: Callable[[float], None] | None = None
) -> ReplayRecord:
    """Replay a workload. `progress` is called with the virtual time now and then.

    Raises:
        UnknownPolicy: there is no such policy.
        ExperimentError: it has no such setting, or refuses the value.
        InvariantViolated: with `check`, a defect of the simulator.
    """
    policy = find_policy(experiment.policy)
    config = policy_config(policy.name, policy.config_type, experiment.policy_settings)
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
    )
    excluded = len(workload.impossible)
    if not policy.active:
        # The policy would never be asked: the daemon and its modules are not needed.
        cluster.run(progress)
        return cluster.record(policy=policy.name, excluded=excluded)
    from makeway.daemon.journal.store import Journal
    from makeway.simharness.run.replay import Replay, ReplaySettings

    settings = ReplaySettings(
        poll_interval_s=experiment.poll_interval_s,
        poke=experiment.poke,
        keep_snapshots=experiment.journal is not None,
    )
    journal = Journal(experiment.journal)
    try:
        record = Replay(cluster, policy, config, settings, journal=journal).run(progress)
    finally:
        journal.close()
    record.excluded = excluded
    return record


def policy_config(name: str, config_type: type[Any], settings: Mapping[str, object]) -> Any:
    """A policy's settings as its own type.

    Raises:
        ExperimentError: an unknown setting (the closest is suggested), or a value that it refuses.
    """
    known = [each.name for each in fields(config_type)]
    for key in settings:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(known) or 'none'}"
            raise ExperimentError(f"--set {key}: policy {name} has no such setting; {hint}")
    if not settings:
        return config_type()
    from pydantic import TypeAdapter, ValidationError

    from makeway.daemon.config.complaints import complaints

    try:
        return TypeAdapter(config_type).validate_python(dict(settings))
    except ValidationError as error:
        first = complaints(error)[0]
        where = ".".join(str(part) for part in first.location) or ", ".join(settings)
        message = first.message.removeprefix("Value error, ")
        raise ExperimentError(f"--set {where}: {message}") from error


def storage_of(experiment: Experiment) -> StorageSettings:
    """The file system that checkpoints are written to."""
    if experiment.storage is not None:
        return experiment.storage
    return SAMPLE_STORAGE if experiment.trace == SAMPLE else StorageSettings()


def _with_urgent(workload: Workload, experiment: Experiment) -> Workload:
    """The workload with the urgent jobs that the experiment asks for."""
    jobs = workload.jobs
    if experiment.synthesis is not None:
        from makeway.simharness.workloads.synthesis import HybridSettings, notice_mix, synthesise

        settings = HybridSettings(
            notices=notice_mix(experiment.synthesis),
            aggregate_gb_per_s=storage_of(experiment).aggregate_gb_s,
            node_gb_per_s=storage_of(experiment).node_gb_s,
        )
        jobs = synthesise(jobs, workload.node_count, settings, experiment.seed)
    elif experiment.urgent_share is not None:
        from makeway.simharness.workloads.synthesis import mark_urgent

        jobs = mark_urgent(jobs, experiment.urgent_share, experiment.seed)
    if experiment.start_within_s is not None:
        within_s = experiment.start_within_s
        jobs = [
            replace(job, start_within_s=within_s) if job.kind is JobKind.ON_DEMAND else job for job in jobs
        ]
    return replace(workload, jobs=jobs)
