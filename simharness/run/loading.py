"""The workload of an experiment: the jobs of a trace, the classes that were asked for, and the machine."""

from collections import Counter
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from makeway.daemon.errors import counted
from makeway.policies.model import CPU, MEMORY, JobKind, Resources
from makeway.simharness.engine.shared.nodes import SharingSettings
from makeway.simharness.run.collector import rare_collections
from makeway.simharness.run.experiment import SAMPLE, Experiment, ExperimentError, Workload, storage_of
from makeway.simharness.workloads.classes import ClassName, classify
from makeway.simharness.workloads.job import SimJob
from makeway.simharness.workloads.openb import OPENB_CLASSES, OPENB_NODES, is_openb, read_nodes, read_pods
from makeway.simharness.workloads.swf import TraceError
from makeway.simharness.workloads.unit import TraceUnit

if TYPE_CHECKING:
    from makeway.simharness.workloads.trace import Trace

_OPTIONS = {
    "node_count": "--nodes",
    "procs_per_node": "--procs-per-node",
    "unit": "--unit",
    "node": "--node",
    "node_list": "--node-list",
    "node_model": "--node-model",
}
"""The options that describe the machine, by the field of the experiment."""


@rare_collections()
def load_workload(experiment: Experiment) -> Workload:
    """The workload that an experiment describes; the same seed gives the same.

    Raises:
        TraceError: the trace cannot be read.
        WorkloadError: a share or a mix that cannot be.
        ExperimentError: options that exclude each other.
    """
    _check_kinds(experiment)
    if experiment.trace == SAMPLE:
        _refuse(experiment, "the sample, which has its own machine", *_OPTIONS)
        from makeway.simharness.workloads.sample import sample_workload

        node_count, jobs = sample_workload(experiment.seed)
        workload = Workload(name=SAMPLE, node_count=node_count, jobs=jobs)
    elif is_openb(Path(experiment.trace)):
        workload = _from_openb(experiment)
    else:
        workload = _from_trace(experiment)
    return _with_urgent(workload, experiment)


def _check_kinds(experiment: Experiment) -> None:
    """At most one option decides which jobs are urgent."""
    urgent_class = any(rule.name is ClassName.URGENT for rule in experiment.classes)
    given = {
        "--workload": experiment.synthesis is not None,
        "--urgent": experiment.urgent_share is not None,
        "--class urgent": urgent_class,
    }
    named = [option for option, is_given in given.items() if is_given]
    if len(named) > 1:
        raise ExperimentError(f"{named[0]} and {named[1]} exclude each other: give one of them")


def _refuse(experiment: Experiment, what: str, *names: str) -> None:
    """Refuse options that do not go with a workload. `names`: fields of the experiment."""
    for name in names:
        if getattr(experiment, name) is not None:
            raise ExperimentError(f"{_OPTIONS[name]} does not go with {what}")


def _from_trace(experiment: Experiment) -> Workload:
    """The workload of an SWF file."""
    from makeway.simharness.workloads.trace import read_trace

    if get_close_matches(experiment.trace, [SAMPLE]) and not Path(experiment.trace).exists():
        raise ExperimentError(f"{experiment.trace}: there is no such file; did you mean {SAMPLE}?")
    _refuse(experiment, "an SWF file: --node says what its nodes have", "node_list", "node_model")
    unit = experiment.unit
    if experiment.node is not None:
        _refuse(experiment, "--node, whose CPUs are the processors of a node", "procs_per_node")
        if unit not in (None, TraceUnit.PACKED) or not experiment.node.amount(CPU):
            raise ExperimentError(
                "--node is for nodes that jobs share: accepted: --unit packed, and cpu=N in it"
            )
        unit = TraceUnit.PACKED
    trace = read_trace(
        experiment.trace,
        skip_bad=experiment.skip_bad,
        node_count=experiment.node_count,
        procs_per_node=experiment.procs_per_node,
        unit=unit,
        node=experiment.node,
    )
    sharing = None
    if trace.node is not None:
        sharing = SharingSettings(capacities=(trace.node,) * trace.node_count, packing=experiment.packing)
    return Workload(
        name=trace.name,
        node_count=trace.node_count,
        jobs=trace.jobs,
        impossible=trace.impossible,
        dropped=trace.dropped,
        parts=trace.parts,
        bad=trace.bad,
        unit=trace.unit,
        reading=_reading(trace, chosen=unit is not None),
        sharing=sharing,
    )


def _from_openb(experiment: Experiment) -> Workload:
    """The workload of a list of openb pods."""
    _refuse(experiment, "openb pods, which ask for CPUs, memory and GPUs", "unit", "procs_per_node")
    pods = read_pods(Path(experiment.trace), skip_bad=experiment.skip_bad)
    count = experiment.node_count
    if experiment.node_list is not None:
        _refuse(experiment, "--node-list", "node")
        capacities = read_nodes(experiment.node_list, model=experiment.node_model, count=count)
    else:
        _refuse(experiment, "openb pods without --node-list", "node_model")
        capacities = (experiment.node or OPENB_NODES[0],) * (count or len(OPENB_NODES))
    sharing = SharingSettings(capacities=capacities, packing=experiment.packing)
    able_count = cache(sharing.able_count)
    possible = [job for job in pods.jobs if job.demand is None or able_count(job.demand)]
    fits = {job.job_id for job in possible}
    kinds = Counter(capacities)
    machine = ", ".join(
        f"{counted(number, 'node')} of {shape(capacity)}" for capacity, number in kinds.items()
    )
    if not possible:
        found = f"{pods.bad} damaged, {pods.dropped} that never ran, {len(pods.jobs)} larger than a node"
        raise TraceError(
            f"{experiment.trace}: no pod that can run ({found}); accepted: pods that fit on {machine}"
        )
    return Workload(
        name=Path(experiment.trace).name.split(".")[0],
        node_count=len(capacities),
        jobs=_with_openb_classes(possible, experiment),
        impossible=tuple((job.job_id, 1) for job in pods.jobs if job.job_id not in fits),
        dropped=pods.dropped,
        bad=pods.bad,
        reading=f"openb pods on {machine}; a share of a GPU counts as a whole one",
        sharing=sharing,
    )


def _with_openb_classes(jobs: list[SimJob], experiment: Experiment) -> list[SimJob]:
    """The jobs with the classes of their QoS, unless options say which jobs are urgent or evictable."""
    if experiment.classes or experiment.urgent_share is not None:
        return jobs
    return classify(jobs, [rule for rule in OPENB_CLASSES if any(map(rule.matches, jobs))])


def shape(capacity: Resources) -> str:
    """Amounts as the option --node takes them."""
    return ",".join(
        f"{name}={_memory(amount) if name == MEMORY else amount}" for name, amount in capacity.amounts
    )


def _memory(megabytes: int) -> str:
    """An amount of memory in the largest unit that gives a whole number."""
    for unit, size in (("T", 1024**2), ("G", 1024)):
        if megabytes % size == 0:
            return f"{megabytes // size}{unit}"
    return f"{megabytes}M"


def _reading(trace: "Trace", *, chosen: bool) -> str:
    """One line about the unit of a trace's sizes. Empty: a node has one processor, both units are one."""
    per_node = trace.procs_per_node
    if per_node == 1 and trace.node is None:
        return ""
    match trace.unit:
        case TraceUnit.NODE:
            taken = f"whole nodes of {per_node} processors ({trace.node_count} nodes)"
            other = TraceUnit.PROCESSOR
        case TraceUnit.PROCESSOR:
            taken = f"processors ({trace.node_count} in one pool)"
            other = TraceUnit.NODE
        case TraceUnit.PACKED:
            node = trace.node or Resources()
            taken = f"processors packed on {trace.node_count} shared nodes of {shape(node)}"
            other = TraceUnit.NODE
        case _:
            assert_never(trace.unit)
    share = f"{trace.below_a_node:.0%} of the jobs ask for less than the {per_node} processors of a node"
    choice = (
        "as the options say"
        if chosen
        else f"--unit {other}, or unit {other} in a grid, for the other reading"
    )
    return f"{trace.name} is read by {taken}: {share}; {choice}"


def _with_urgent(workload: Workload, experiment: Experiment) -> Workload:
    """The workload with the urgent jobs that the experiment asks for.

    An option that says which jobs are urgent decides it alone, also on the sample, which has urgent jobs.
    """
    jobs = workload.jobs
    if experiment.synthesis is not None and workload.sharing is not None:
        raise ExperimentError("--workload makes malleable jobs, which do not share nodes: see --unit node")
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
    if experiment.classes:
        jobs = classify(jobs, experiment.classes)
    if experiment.start_within_s is not None:
        within_s = experiment.start_within_s
        jobs = [
            replace(job, start_within_s=within_s) if job.kind is JobKind.ON_DEMAND else job for job in jobs
        ]
    return replace(workload, jobs=jobs)
