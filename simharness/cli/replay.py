"""The command `replay`: a trace on the simulated cluster, once for each policy, or averaged over seeds.

What the command needs is imported inside, so that `makeway --help` stays quick.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from makeway.daemon.cli.options import NODES_MOST, SEEDS_MOST, duration, resources
from makeway.simharness.cli import terminal
from makeway.simharness.cli.options import FILE, NAMED_FILE, scheduler_options
from makeway.simharness.cli.output import measure_settings, progress, require_outputs, show, write_page
from makeway.simharness.cli.remarks import warn

if TYPE_CHECKING:
    from makeway.daemon.control.report import CycleReport
    from makeway.simharness.engine.records import ReplayRecord
    from makeway.simharness.results.measures import Measures
    from makeway.simharness.run.experiment import Experiment

_SHOWS = (
    "makeway.simharness.results.averages",
    "makeway.simharness.results.exports",
    "makeway.simharness.results.tables",
    "rich.console",
    "rich.table",
)
"""The modules that show the averages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """The options of the command, as click gives them."""

    trace: str
    policies: tuple[str, ...]
    settings: tuple[str, ...]
    backfill: str
    order: str
    start_smaller: bool
    synthesis: str | None
    classes: tuple[str, ...]
    urgent_share: float | None
    start_within: float | None
    limits: str
    seed: int
    seeds: int | None
    workers: int
    nodes: int | None
    procs_per_node: int | None
    unit: str | None
    node: Mapping[str, int] | None
    node_list: Path | None
    node_model: str | None
    packing: str
    skip_bad: bool
    poll: float
    no_poke: bool
    no_check: bool
    journal: Path | None
    report: Path | None
    json_path: Path | None
    csv_path: Path | None


@click.command()
@click.argument("trace")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    help="A policy, or a Python file that defines one; several are compared [default: none].",
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of the policies.")
@scheduler_options
@click.option(
    "--start-smaller", is_flag=True, help="Let malleable jobs start with fewer nodes than they ask for."
)
@click.option(
    "--workload",
    "synthesis",
    type=click.Choice(["W1", "W2", "W3", "W4", "W5"]),
    help="Make a tenth of the users urgent and a third malleable, with P5's mix of notices.",
)
@click.option(
    "--urgent",
    "urgent_share",
    type=click.FloatRange(0, 1),
    help="Make this share of the jobs urgent, at random.",
)
@click.option(
    "--class",
    "classes",
    multiple=True,
    metavar="CLASS:FIELD=VALUE",
    help="Make jobs urgent, or the only evictable ones, by queue, partition, user or group: "
    "urgent:queue=1, evictable:user=7,9.",
)
@click.option("--start-within", type=duration, help="An urgent job that starts within this time is on time.")
@click.option(
    "--limits",
    type=click.Choice(["none", "default"]),
    default="none",
    show_default=True,
    help="The site's limits: none, or those of a daemon whose configuration says nothing about them.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of all randomness."
)
@click.option(
    "--seeds", type=click.IntRange(1, SEEDS_MOST), help="Replay this many seeds, from --seed on, and average."
)
@click.option(
    "--jobs", "workers", type=click.IntRange(min=1), default=1, show_default=True, help="Replays at a time."
)
@click.option(
    "--nodes", type=click.IntRange(1, NODES_MOST), help="Nodes of the machine [default: the trace's]."
)
@click.option(
    "--procs-per-node",
    type=click.IntRange(1, NODES_MOST),
    help="Processors of a node [default: the trace's].",
)
@click.option(
    "--unit",
    type=click.Choice(["node", "processor", "packed"]),
    help="Count the sizes of jobs in whole nodes, in processors, or in processors and memory packed on "
    "shared nodes [default: processors if at least half of the jobs are smaller than a node, else nodes].",
)
@click.option(
    "--node",
    type=resources,
    metavar="TRES",
    help="What each node that jobs share has, such as cpu=8,mem=12G,gres/gpu=2 [default: the trace's "
    "processors; for openb cpu=96,mem=384G,gres/gpu=8].",
)
@click.option(
    "--node-list",
    type=click.Path(path_type=Path),
    help="The nodes of an openb machine: its CSV file. With --nodes N only the first N.",
)
@click.option("--node-model", help="Only the listed nodes with GPUs of this model, such as V100M32.")
@click.option(
    "--packing",
    type=click.Choice(["dense", "least-loaded"]),
    default="dense",
    show_default=True,
    help="Where jobs share nodes: prefer those with the fewest CPUs unused, or the least loaded (CR_LLN).",
)
@click.option("--skip-bad", is_flag=True, help="Count damaged lines of the trace instead of refusing it.")
@click.option("--poll", type=duration, default="30s", show_default=True, help="The daemon's poll interval.")
@click.option("--no-poke", is_flag=True, help="Let urgent submissions wait for the next poll.")
@click.option("--no-check", is_flag=True, help="Do not verify the simulator's invariants at every instant.")
@click.option(
    "--journal", type=NAMED_FILE, help="Keep the decisions in this new file, for `makeway explain`."
)
@click.option("--report", type=NAMED_FILE, help="Write the HTML report there.")
@click.option(
    "--json", "json_path", type=FILE, help="Write the measures as JSON there; - is standard output."
)
@click.option("--csv", "csv_path", type=FILE, help="Write the measures as CSV there; - is standard output.")
def replay(**values: Any) -> None:
    """Replay TRACE on the simulated cluster and measure each policy.

    TRACE is an SWF file, a CSV file of openb pods, or `sample`. The last two have urgent jobs of their own.
    With --workload, --urgent or --class urgent, only the jobs that the option chooses are urgent.

    Policies: none (the scheduler alone), least-price (the daemon's default), eviction, P5's n-, cua- or cup-
    with paa or spaa, wcjs, ckpt-backfill, horizon; and any file that defines one, such as
    docs/examples/youngest.py.
    """
    from makeway.simharness.run.labels import policy_labels

    options = ReplayOptions(**values)
    base = experiment_of(options)
    chosen = tuple(dict.fromkeys(options.policies)) or ("none",)
    labels = policy_labels(chosen)
    experiments = [replace(with_policy(base, name, options.settings), label=labels[name]) for name in chosen]
    _check(options, chosen)
    if options.seeds is not None and options.seeds > 1:
        _replay_seeds(experiments, options, options.seeds)
        return
    records: list[ReplayRecord] = []
    try:
        _replay_once(experiments, records)
    except KeyboardInterrupt:
        click.echo(f"interrupted: {len(records)} of {len(experiments)} replays are finished", err=True)
        if records:
            show(records, options.start_within, options.json_path, options.csv_path)
        raise
    show(records, options.start_within, options.json_path, options.csv_path)
    if options.report is not None:
        title = f"makeway replay {Path(options.trace).name}"
        quiet = any(map(terminal.is_stdout, (options.json_path, options.csv_path)))
        write_page(options.report, records, title, measure_settings(options.start_within), quiet=quiet)


def _check(options: ReplayOptions, chosen: Sequence[str]) -> None:
    """Refuse what does not go together, and outputs that cannot be written. `chosen`: the policies."""
    from makeway.daemon.config.policy_finder import find_policy
    from makeway.daemon.errors import printable
    from makeway.simharness.run.experiment import ExperimentError

    journal, report = options.journal, options.report
    several = options.seeds is not None and options.seeds > 1
    if several and (journal is not None or report is not None):
        raise ExperimentError("--journal and --report are about one replay: leave --seeds away")
    active = [name for name in chosen if find_policy(name).active]
    if journal is not None and len(active) != 1:
        given = f"give one of {', '.join(active)}" if active else f"{chosen[0]} decides nothing"
        raise ExperimentError(f"--journal is about one policy: {given}")
    if options.settings and not active:
        raise ExperimentError(f"--set {options.settings[0]}: policy {chosen[0]} has no settings")
    outputs = {"--report": report, "--json": options.json_path, "--csv": options.csv_path}
    require_outputs(report, {**outputs, "--journal": journal}, _inputs(options))
    # Past evictions and losses of another run would count in this one.
    if journal is not None and journal.is_file() and journal.stat().st_size:
        raise ExperimentError(
            f"--journal {printable(str(journal))}: it is there already, and what it has would count in this "
            "replay; accepted: a new file"
        )


def _inputs(options: ReplayOptions) -> list[Path]:
    """The files that the replay reads."""
    from makeway.daemon.config.policy_finder import SUFFIX
    from makeway.simharness.run.experiment import SAMPLE

    policies = [Path(name) for name in options.policies if name.endswith(SUFFIX)]
    traces = [] if options.trace == SAMPLE else [Path(options.trace)]
    return [*traces, *policies, *filter(None, (options.node_list,))]


def experiment_of(options: ReplayOptions) -> "Experiment":
    """The experiment that the options describe, without a policy.

    Raises:
        ExperimentError: options that do not go together.
    """
    from makeway.policies.model import Resources
    from makeway.simharness.engine.scheduler import Backfill, Order
    from makeway.simharness.engine.shared.nodes import Packing
    from makeway.simharness.run.experiment import Experiment, ExperimentError
    from makeway.simharness.run.limits import ReplayLimits, limits_of
    from makeway.simharness.workloads.classes import parse_class
    from makeway.simharness.workloads.unit import TraceUnit

    if not options.poll > 0:
        raise ExperimentError(f"--poll {options.poll:g}: accepted: more than 0 seconds")
    if options.urgent_share is not None and not 0 <= options.urgent_share <= 1:  # click takes `nan`
        raise ExperimentError(f"--urgent {options.urgent_share:g}: accepted: a share from 0 to 1")
    if options.start_smaller and options.backfill == "conservative":
        raise ExperimentError(
            "--start-smaller with --backfill conservative: accepted: none, easy, easy-cqsim"
        )
    return Experiment(
        trace=options.trace,
        synthesis=options.synthesis,
        urgent_share=options.urgent_share,
        start_within_s=options.start_within,
        node_count=options.nodes,
        procs_per_node=options.procs_per_node,
        unit=None if options.unit is None else TraceUnit(options.unit),
        node=None if options.node is None else Resources.with_totals(options.node),
        node_list=options.node_list,
        node_model=options.node_model,
        packing=Packing(options.packing),
        classes=tuple(map(parse_class, options.classes)),
        skip_bad=options.skip_bad,
        backfill=Backfill(options.backfill),
        order=Order(options.order),
        start_smaller=options.start_smaller,
        poll_interval_s=options.poll,
        poke=not options.no_poke,
        check=not options.no_check,
        limits=None if options.limits == ReplayLimits.NONE else limits_of(ReplayLimits(options.limits)),
        seed=options.seed,
        journal=options.journal,
    )


def with_policy(base: "Experiment", name: str, settings: Sequence[str]) -> "Experiment":
    """The experiment with this policy and the settings of `--set`.

    Raises:
        ExperimentError: a setting is not KEY=VALUE, or the policy does not accept it.
        UnknownPolicy: there is no such policy.
    """
    from makeway.daemon.config.policy_finder import find_policy
    from makeway.simharness.run.experiment import ExperimentError, policy_config

    policy = find_policy(name)
    values: dict[str, object] = {}
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ExperimentError(f"--set {text}: accepted: KEY=VALUE")
        import yaml

        try:
            values[key] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise ExperimentError(f"--set {text}: the value cannot be read as YAML") from error
    if policy.active:
        policy_config(policy.name, policy.config_type, values)
    else:
        values = {}
    return replace(base, policy=name, policy_settings=values)


def _replay_once(experiments: "Sequence[Experiment]", records: "list[ReplayRecord]") -> None:
    """Replay the same workload once for each policy. Each record is added as soon as it is there."""
    from makeway.simharness.run.experiment import run
    from makeway.simharness.run.loading import load_workload

    workload = load_workload(experiments[0])
    warn(workload, experiments)
    for experiment in experiments:
        refused = 0

        def count(report: "CycleReport") -> None:
            nonlocal refused
            refused += sum(action.outcome == "refused" for action in report.actions)

        with progress(experiment.label, workload) as advance:
            records.append(run(experiment, workload, advance, count))
        if refused and not any(entry.evictions or entry.shrinks for entry in records[-1].jobs):
            text = (
                f"no job left its nodes, and actions of policy {experiment.label} were refused: {refused:,}"
            )
            click.echo(f"makeway: {text}; --journal FILE and `makeway explain` say why", err=True)


def measure_seed(experiment: "Experiment") -> "Measures":
    """Load a workload, replay it and measure: what one worker process does.

    Raises:
        PolicyFailed: a defect of the policy. The message names the seed.
    """
    from makeway.policies.contract import PolicyFailed
    from makeway.simharness.results.measures import measure
    from makeway.simharness.run.experiment import run
    from makeway.simharness.run.loading import load_workload

    try:
        record = run(experiment, load_workload(experiment))
    except PolicyFailed as error:
        raise PolicyFailed(f"seed {experiment.seed}: {error}") from error
    return measure(record, measure_settings(experiment.start_within_s))


def _replay_seeds(experiments: "Sequence[Experiment]", options: ReplayOptions, seeds: int) -> None:
    """Replay every policy with every seed, and print the averages."""
    from makeway.simharness.papers.reproduce import Interrupted, run_all
    from makeway.simharness.run.loading import load_workload

    warn(load_workload(experiments[0]), experiments)
    # Here, not after Ctrl-C: on a busy machine that takes seconds.
    for module in _SHOWS:
        import_module(module)
    grid = [
        replace(experiment, seed=experiment.seed + offset)
        for experiment in experiments
        for offset in range(seeds)
    ]
    try:
        measured = run_all(measure_seed, grid, workers=options.workers, label="replays")
    except Interrupted as interrupt:
        _show_averages(interrupt.finished, options, seeds)
        raise
    _show_averages(dict(enumerate(measured)), options, seeds)


def _show_averages(measured: "Mapping[int, Measures]", options: ReplayOptions, seeds: int) -> None:
    """Print and write the averages of each policy.

    Args:
        measured: what is finished, by its place: `seeds` places for each policy.
        options: of the command.
        seeds: how many replays each policy has if all are finished.
    """
    from makeway.simharness.results import exports, tables
    from makeway.simharness.results.averages import aggregate

    by_policy: dict[int, list[Measures]] = {}
    for place in sorted(measured):
        by_policy.setdefault(place // seeds, []).append(measured[place])
    if not by_policy:
        return
    averages = [aggregate(found) for found in by_policy.values()]
    terminal.write_text(options.json_path, lambda: exports.aggregates_to_json(averages))
    terminal.write_text(options.csv_path, lambda: exports.aggregates_to_csv(averages))
    if not any(map(terminal.is_stdout, (options.json_path, options.csv_path))):
        terminal.print_wide(tables.aggregate_table(averages))
