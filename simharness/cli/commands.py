"""The commands that need the simulated cluster: `replay` and `demo`.

What they load is imported inside, so that `makeway --help` stays quick.
"""

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from makeway.daemon.cli.options import duration
from makeway.simharness.cli import terminal

if TYPE_CHECKING:
    from makeway.simharness.engine.records import ReplayRecord
    from makeway.simharness.results.measures import Measures, MeasureSettings
    from makeway.simharness.run.experiment import Experiment, Workload

_FILE = click.Path(path_type=Path, dir_okay=False, writable=True, allow_dash=True)
_SHOWN_IMPOSSIBLE = 5


@click.command()
@click.argument("trace")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    help="A policy, or a Python file that defines one; several are compared [default: none].",
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of the policies.")
@click.option(
    "--backfill",
    type=click.Choice(["none", "easy", "easy-cqsim", "conservative"]),
    default="easy",
    show_default=True,
)
@click.option("--order", type=click.Choice(["fcfs", "wfp"]), default="fcfs", show_default=True)
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
@click.option("--start-within", type=duration, help="When the start of an urgent job is on time.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of all randomness."
)
@click.option(
    "--seeds", type=click.IntRange(min=1), help="Replay this many seeds, from --seed on, and average."
)
@click.option("--jobs", "workers", type=click.IntRange(min=1), default=1, help="Replays side by side.")
@click.option("--nodes", type=click.IntRange(min=1), help="Nodes of the machine [default: the trace's].")
@click.option(
    "--procs-per-node", type=click.IntRange(min=1), help="Processors of a node [default: the trace's]."
)
@click.option("--skip-bad", is_flag=True, help="Count damaged lines of the trace instead of refusing it.")
@click.option("--poll", type=duration, default="30s", show_default=True, help="The daemon's poll interval.")
@click.option("--no-poke", is_flag=True, help="Let urgent submissions wait for the next poll.")
@click.option("--no-check", is_flag=True, help="Do not verify the simulator's invariants at every instant.")
@click.option("--journal", type=_FILE, help="Keep the decisions there, for `makeway explain`.")
@click.option("--report", type=_FILE, help="Write the HTML report there.")
@click.option(
    "--json", "json_path", type=_FILE, help="Write the measures as JSON there; - is standard output."
)
@click.option("--csv", "csv_path", type=_FILE, help="Write the measures as CSV there; - is standard output.")
def replay(
    trace: str,
    policies: tuple[str, ...],
    settings: tuple[str, ...],
    backfill: str,
    order: str,
    start_smaller: bool,
    synthesis: str | None,
    urgent_share: float | None,
    start_within: float | None,
    seed: int,
    seeds: int | None,
    workers: int,
    nodes: int | None,
    procs_per_node: int | None,
    skip_bad: bool,
    poll: float,
    no_poke: bool,
    no_check: bool,
    journal: Path | None,
    report: Path | None,
    json_path: Path | None,
    csv_path: Path | None,
) -> None:
    """Replay TRACE (an SWF file, or `sample`) on the simulated cluster and measure each policy.

    Policies: none (the scheduler alone), eviction, P5's n-, cua- or cup- with paa or spaa, wcjs,
        ckpt-backfill, horizon; and
    any file that defines one, such as docs/examples/youngest.py.
    """
    from makeway.simharness.engine.scheduler import Backfill, Order
    from makeway.simharness.run.experiment import Experiment, ExperimentError

    if not poll > 0:
        raise ExperimentError(f"--poll {poll:g}: accepted: more than 0 seconds")
    if start_smaller and backfill == "conservative":
        raise ExperimentError(
            "--start-smaller with --backfill conservative: accepted: none, easy, easy-cqsim"
        )
    base = Experiment(
        trace=trace,
        synthesis=synthesis,
        urgent_share=urgent_share,
        start_within_s=start_within,
        node_count=nodes,
        procs_per_node=procs_per_node,
        skip_bad=skip_bad,
        backfill=Backfill(backfill),
        order=Order(order),
        start_smaller=start_smaller,
        poll_interval_s=poll,
        poke=not no_poke,
        check=not no_check,
        seed=seed,
        journal=journal,
    )
    chosen = tuple(dict.fromkeys(policies)) or ("none",)
    experiments = [with_policy(base, name, settings) for name in chosen]
    if seeds is not None and seeds > 1:
        if journal is not None or report is not None:
            raise ExperimentError("--journal and --report tell of one replay: leave --seeds away")
        _replay_seeds(experiments, seeds, workers, json_path, csv_path)
        return
    records = _replay_once(experiments)
    _show(records, start_within, json_path, csv_path)
    if report is not None:
        _write_report(report, records, f"makeway replay {Path(trace).name}", start_within)


@click.command()
@click.option("--policy", default="eviction", show_default=True, help="Who decides.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the workload."
)
@click.option("--report", type=_FILE, default="makeway-demo.html", show_default=True, help="The HTML report.")
def demo(policy: str, seed: int, report: Path) -> None:
    """Watch makeway make way on a simulated cluster, beside the same jobs without it.

    Sixty-four nodes, two and a half busy days, twenty urgent jobs. The daemon's own loop takes every
    decision, in virtual time.
    """
    from makeway.simharness.run.demo import tell
    from makeway.simharness.run.experiment import Experiment, load_workload, run

    base = Experiment(seed=seed)
    workload = load_workload(base)
    plain = run(base, workload)
    acted = tell(replace(base, policy=policy), workload, click.echo)
    records = [plain, acted]
    _show(records, None, None, None)
    _write_report(report, records, "makeway demo", None)


def with_policy(base: "Experiment", name: str, settings: Sequence[str]) -> "Experiment":
    """The experiment with this policy and the settings of `--set`, refused early if they are wrong."""
    import yaml

    from makeway.daemon.config.policy_finder import find_policy
    from makeway.simharness.run.experiment import ExperimentError, policy_config

    policy = find_policy(name)
    values: dict[str, object] = {}
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ExperimentError(f"--set {text}: accepted: KEY=VALUE")
        try:
            values[key] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise ExperimentError(f"--set {text}: the value cannot be read as YAML") from error
    if policy.active:
        policy_config(policy.name, policy.config_type, values)
    else:
        values = {}
    return replace(base, policy=name, policy_settings=values)


def _replay_once(experiments: "Sequence[Experiment]") -> "list[ReplayRecord]":
    """One replay for each policy, all of the same workload."""
    from makeway.simharness.run.experiment import load_workload, run

    workload = load_workload(experiments[0])
    _tell_workload(workload, experiments)
    records: list[ReplayRecord] = []
    for experiment in experiments:
        with _progress(experiment.policy, workload) as progress:
            records.append(run(experiment, workload, progress))
    return records


def measure_seed(experiment: "Experiment") -> "Measures":
    """The measures of one replay, workload and all: the unit of work of another process."""
    from makeway.simharness.results.measures import measure
    from makeway.simharness.run.experiment import load_workload, run

    return measure(run(experiment, load_workload(experiment)), _measure_settings(experiment.start_within_s))


def _replay_seeds(
    experiments: "Sequence[Experiment]",
    seeds: int,
    workers: int,
    json_path: Path | None,
    csv_path: Path | None,
) -> None:
    """Every policy with every seed, averaged."""
    from makeway.simharness.papers.reproduce import run_all
    from makeway.simharness.results import exports, tables
    from makeway.simharness.results.averages import aggregate

    grid = [
        replace(experiment, seed=experiment.seed + offset)
        for experiment in experiments
        for offset in range(seeds)
    ]
    measured = run_all(measure_seed, grid, workers=workers, label="replays")
    averages = [aggregate(measured[start : start + seeds]) for start in range(0, len(grid), seeds)]
    terminal.write_text(json_path, lambda: exports.aggregates_to_json(averages))
    terminal.write_text(csv_path, lambda: exports.aggregates_to_csv(averages))
    if not any(map(terminal.is_stdout, (json_path, csv_path))):
        terminal.print_wide(tables.aggregate_table(averages))


def _show(
    records: "Sequence[ReplayRecord]",
    start_within_s: float | None,
    json_path: Path | None,
    csv_path: Path | None,
) -> None:
    """Summary on the terminal, and the files that were asked for."""
    from makeway.simharness.results import exports, tables
    from makeway.simharness.results.headline import headlines
    from makeway.simharness.results.measures import measure

    measured = [measure(record, _measure_settings(start_within_s)) for record in records]
    terminal.write_text(json_path, lambda: exports.to_json(measured))
    terminal.write_text(csv_path, lambda: exports.to_csv(measured))
    if any(map(terminal.is_stdout, (json_path, csv_path))):
        return
    terminal.print_wide(tables.summary_table(measured))
    click.echo()
    for headline in headlines(measured):
        click.echo(str(headline))


def _measure_settings(start_within_s: float | None) -> "MeasureSettings":
    from makeway.simharness.results.measures import MeasureSettings

    return MeasureSettings() if start_within_s is None else MeasureSettings(start_within_s=start_within_s)


def _write_report(
    path: Path, records: "Sequence[ReplayRecord]", title: str, start_within_s: float | None
) -> None:
    from makeway.simharness.results.report import write_report

    path.parent.mkdir(parents=True, exist_ok=True)
    write_report(path, records, title=title, settings=_measure_settings(start_within_s))
    click.echo(f"Report: {path}")


def _tell_workload(workload: "Workload", experiments: "Sequence[Experiment]") -> None:
    """What was left out of the trace, on standard error, and whether there is anything to make way for."""
    if workload.bad:
        click.echo(f"makeway: {workload.bad} damaged lines skipped", err=True)
    if workload.dropped:
        click.echo(f"makeway: {workload.dropped} jobs without a run time or a size left out", err=True)
    if workload.impossible:
        shown = ", ".join(f"{job} ({nodes} nodes)" for job, nodes in workload.impossible[:_SHOWN_IMPOSSIBLE])
        rest = len(workload.impossible) - _SHOWN_IMPOSSIBLE
        more = f" and {rest} more" if rest > 0 else ""
        count = len(workload.impossible)
        click.echo(
            f"makeway: {count} job{'' if count == 1 else 's'} larger than the machine of "
            f"{workload.node_count} nodes left out: {shown}{more}",
            err=True,
        )
    if not workload.urgent and any(experiment.policy != "none" for experiment in experiments):
        click.echo("makeway: no job of this workload is urgent: see --workload and --urgent", err=True)


@contextmanager
def _progress(label: str, workload: "Workload") -> "Generator[Callable[[float], None] | None]":
    """A bar that follows the virtual time; nothing where standard error is no terminal."""
    if not sys.stderr.isatty() or not workload.jobs:
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    first_s = min(job.submit_s for job in workload.jobs)
    last_s = max(job.submit_s for job in workload.jobs)
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=max(1.0, last_s - first_s))
        yield lambda now_s: bar.update(task, completed=min(now_s, last_s) - first_s)
