"""The command `history`: what makeway would have done in a site's own past."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import click

from makeway.daemon.cli.options import NODES_MOST, duration, resources
from makeway.simharness.cli import terminal
from makeway.simharness.cli.options import FILE, NAMED_FILE, cache_options, scheduler_options
from makeway.simharness.cli.output import require_outputs, write_page

if TYPE_CHECKING:
    from makeway.simharness.history.loading import PastPeriod
    from makeway.simharness.history.source import HistorySource
    from makeway.simharness.history.study import HistoryOutcome, HistoryTrial
    from makeway.simharness.papers.common.cache import ResultCache
    from makeway.simharness.papers.common.page import TextGrid

_DAY = click.DateTime(formats=["%Y-%m-%d"])
_PATH = click.Path(path_type=Path)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOptions:
    """The options of the command, as click gives them."""

    files: tuple[Path, ...]
    how: bool
    first: datetime | None
    end: datetime | None
    zone: str | None
    machine: Path | None
    nodes: int | None
    node: Mapping[str, int] | None
    partition: str | None
    config: Path | None
    classes: tuple[str, ...]
    start_within: float | None
    policies: tuple[str, ...]
    ceilings: tuple[str, ...]
    backfill: str
    order: str
    poll: float
    salt: str | None
    workers: int
    report: Path | None
    replays: Path | None
    json_path: Path | None
    cache: Path | None
    no_cache: bool


@click.command()
@click.argument("files", nargs=-1, type=_PATH, metavar="[FILE...]")
@click.option("--how", is_flag=True, help="Print the commands that export a period, and exit.")
@click.option(
    "--from",
    "first",
    type=_DAY,
    help="First day of the period [--how: that of the last month; else: the first end of a job].",
)
@click.option(
    "--to", "end", type=_DAY, help="Day after the period [--how: the first of this month, else tomorrow]."
)
@click.option("--time-zone", "zone", help="Time zone of the days, and of times without one, such as UTC.")
@click.option("--machine", type=_PATH, help="What scontrol printed of the machine: see --how.")
@click.option(
    "--nodes",
    type=click.IntRange(1, NODES_MOST),
    help="A machine of this many equal nodes, instead of --machine.",
)
@click.option(
    "--node", type=resources, metavar="TRES", help="What each of --nodes has, where jobs share nodes."
)
@click.option("--partition", help="Only the jobs and the nodes of this partition.")
@click.option("--config", type=_PATH, help="Configuration file whose classes, limits and policy count.")
@click.option(
    "--class",
    "classes",
    multiple=True,
    metavar="CLASS:FIELD=VALUE",
    help="Without --config: which jobs are urgent and which may leave, by queue (the QOS), partition, user "
    "or group (the account): urgent:queue=urgent.",
)
@click.option("--start-within", type=duration, help="An urgent job that starts within this time is on time.")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    help="A policy; several are compared [default: the configuration's].",
)
@click.option(
    "--max-loss",
    "ceilings",
    multiple=True,
    metavar="NODE_HOURS",
    help="A ceiling of what evictions for one urgent job may lose, or `none`; several are compared "
    "[default: none, 100, 20, 5, 1, 0, and the configuration's].",
)
@scheduler_options
@click.option("--poll", type=duration, default="30s", show_default=True, help="The daemon's poll interval.")
@click.option(
    "--hash-names", "salt", metavar="SALT", help="Replace users and accounts by a hash with this key."
)
@click.option(
    "--jobs", "workers", type=click.IntRange(min=1), default=1, show_default=True, help="Replays at a time."
)
@click.option("--report", type=NAMED_FILE, help="Write the HTML page there.")
@click.option(
    "--replays",
    type=NAMED_FILE,
    help="Write the HTML report of the replays without makeway and as recommended.",
)
@click.option("--json", "json_path", type=FILE, help="Write the numbers as JSON there; - is standard output.")
@cache_options("makeway/history")
def history(**values: Any) -> None:
    """Replay what a site's accounting says of a past period: what if makeway had run?

    FILE is an export of sacct; --how prints the command. Several files are several periods.

    Every finished replay is stored at once: a run that was interrupted goes on where it was. A replay counts
    as long as the files, the options that concern it and makeway itself are the same.
    """
    from makeway.simharness.history.source import HistoryError

    options = HistoryOptions(**values)
    if options.first is not None and options.end is not None and options.end <= options.first:
        raise HistoryError(
            f"--to {options.end:%Y-%m-%d}: accepted: a day after --from {options.first:%Y-%m-%d}"
        )
    if not options.poll > 0:
        raise HistoryError(f"--poll {options.poll:g}: accepted: more than 0 seconds")
    if options.salt == "":
        raise HistoryError("--hash-names: empty; accepted: a key that only you know")
    if options.how:
        _print_how(options)
        return
    if not options.files:
        raise HistoryError(
            "no export is given; accepted: FILE..., which `makeway history --how` says how to get"
        )
    _study(options)


def _print_how(options: HistoryOptions) -> None:
    """The commands for the last month, or the days that were given."""
    from makeway.simharness.history.how import export_lines, period

    first, end = (None if day is None else day.date() for day in (options.first, options.end))
    for line in export_lines(*period(first, end, date.today()), options.config):
        click.echo(line)


def _study(options: HistoryOptions) -> None:
    from makeway.simharness.history import tables
    from makeway.simharness.history.loading import notes
    from makeway.simharness.history.report import outcomes_json
    from makeway.simharness.history.study import loaded, recommended, replay_history
    from makeway.simharness.papers.common.page import grid_table
    from makeway.simharness.papers.reproduce import run_all

    _require_outputs(options)
    _require_files(options)
    source = source_of(options)
    trials = trials_of(options, source)
    past = loaded(source)
    remarks = [*notes(past), *_deadline_remarks(past, trials)]
    for remark in remarks:
        click.echo(f"makeway: {remark}", err=True)
    outcomes = run_all(
        replay_history, trials, workers=options.workers, label="replays", cache=_cache(options)
    )
    base, chosen = outcomes[0], recommended(outcomes)
    configured = configured_ceilings(source)
    grids = (tables.outcome_grid(outcomes, configured), *tables.owner_grids(base, chosen))
    sentences = (tables.past_sentence(past, base), tables.recommendation(outcomes, past.rules.limits))
    terminal.write_text(options.json_path, lambda: outcomes_json(outcomes, chosen))
    if not terminal.is_stdout(options.json_path):
        terminal.print_wide(*map(grid_table, grids))
        for sentence in sentences:
            click.echo(sentence)
    if options.report is not None:
        _write_report(options, options.report, outcomes, grids, sentences, remarks)
    if options.replays is not None:
        picked = dict.fromkeys((0, outcomes.index(chosen)))
        _write_replays(options, options.replays, [trials[index] for index in picked])


def _deadline_remarks(past: "PastPeriod", trials: "Sequence[HistoryTrial]") -> list[str]:
    """Where a policy works towards another deadline than the one that is measured."""
    from makeway.policies.model import JobKind
    from makeway.simharness.history.study import settings_of
    from makeway.simharness.run.deadlines import deadline_remark

    limits_s = {job.start_within_s for job in past.workload.jobs if job.kind is JobKind.ON_DEMAND}
    if None not in limits_s:  # the classes say it for all jobs, and the configuration is as the site has it
        return []
    found = {
        one.policy: deadline_remark(
            one.policy,
            one.policy_settings,
            limits_s,
            settings_of(one.source).start_within_s,
            called=one.policy,
            sets_both="--start-within",
        )
        for one in trials
    }
    return [remark for remark in found.values() if remark is not None]


def _cache(options: HistoryOptions) -> "ResultCache | None":
    """Where finished replays are kept. None: nowhere. Raises `UserError` if nothing can be written there."""
    from makeway.simharness.papers.common.cache import ResultCache, default_directory

    if options.no_cache:
        return None
    cache = ResultCache(directory=options.cache or default_directory("history"))
    cache.require()
    return cache


def _require_outputs(options: HistoryOptions) -> None:
    """Raises `UserError` if an output cannot be written."""
    outputs = {"--report": options.report, "--replays": options.replays, "--json": options.json_path}
    inputs = [*options.files, *filter(None, (options.machine, options.config))]
    require_outputs(options.report or options.replays, outputs, inputs)


def _require_files(options: HistoryOptions) -> None:
    """Raises `HistoryError` for a pipe: what was read of it cannot be read again, and is no part of the key
    of a stored replay.
    """
    from makeway.simharness.history.source import HistoryError

    read_once = options.no_cache and options.workers == 1
    exports = {} if read_once else dict.fromkeys(options.files, ", or --no-cache and --jobs 1")
    for path, more in (exports | dict.fromkeys((options.machine, options.config), "")).items():
        if path is not None and path.exists() and not (path.is_file() or path.is_dir()):
            raise HistoryError(
                f"{path}: can be read only once; accepted: a file, also a compressed one{more}"
            )


def source_of(options: HistoryOptions) -> "HistorySource":
    """Where the history comes from.

    Raises:
        WorkloadError: a class that is none.
        HistoryError: a time zone that is none.
    """
    from makeway.simharness.history.source import HistorySource
    from makeway.simharness.workloads.classes import parse_class

    return HistorySource(
        exports=options.files,
        machine=options.machine,
        node_count=options.nodes,
        node=None if options.node is None else tuple(sorted(options.node.items())),
        config=options.config,
        classes=tuple(map(parse_class, options.classes)),
        start_within_s=options.start_within,
        partition=options.partition,
        from_s=_midnight_s(options.first, options.zone),
        to_s=_midnight_s(options.end, options.zone),
        zone=options.zone,
        salt=options.salt,
    )


def _midnight_s(day: datetime | None, zone: str | None) -> float | None:
    """The beginning of a day, in the time zone that was given, else in this machine's."""
    from makeway.simharness.history.source import HistoryError

    if day is None:
        return None
    try:
        place = None if zone is None else ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        raise HistoryError(f"--time-zone {zone}: accepted: a name such as Europe/Berlin or UTC") from None
    try:
        return day.replace(tzinfo=place).timestamp()
    except (ValueError, OverflowError):
        raise HistoryError(f"--from, --to {day.date()}: accepted: a day such as 2026-10-01") from None


def trials_of(options: HistoryOptions, source: "HistorySource") -> "list[HistoryTrial]":
    """The replay without makeway, and one for each policy and ceiling.

    Raises:
        HistoryError, ExperimentError, UnknownPolicy: an option that cannot be used.
    """
    from makeway.daemon.config.policy_finder import find_policy
    from makeway.simharness.engine.scheduler import Backfill, Order
    from makeway.simharness.history.source import site_rules
    from makeway.simharness.history.study import DEFAULT_CEILINGS, DEFAULT_POLICY, NO_MAKEWAY, HistoryTrial
    from makeway.simharness.run.experiment import policy_config

    rules = site_rules(source.config)
    ceilings = [_ceiling(text) for text in options.ceilings]
    ceilings = ceilings or [*configured_ceilings(source), *DEFAULT_CEILINGS]
    chosen = list(dict.fromkeys(options.policies)) or [rules.policy or DEFAULT_POLICY]
    pairs: list[tuple[str, float | None]] = [(NO_MAKEWAY, None)]
    pairs += [(name, ceiling) for name in chosen if name != NO_MAKEWAY for ceiling in dict.fromkeys(ceilings)]
    trials: list[HistoryTrial] = []
    for name, ceiling in pairs:
        policy = find_policy(name)
        settings: Mapping[str, object] = rules.policy_settings if name == rules.policy else {}
        if policy.active:
            policy_config(policy.name, policy.config_type, settings)
        trials.append(
            HistoryTrial(
                source=source,
                policy=name,
                policy_settings=settings,
                max_loss_node_hours=ceiling,
                backfill=Backfill(options.backfill),
                order=Order(options.order),
                poll_interval_s=options.poll,
            )
        )
    return trials


def configured_ceilings(source: "HistorySource") -> tuple[float | None, ...]:
    """The ceiling that the configuration gives on this machine. Empty: there is no configuration.

    Raises:
        ConfigError, HistoryError: the configuration or the machine cannot be used.
    """
    from makeway.simharness.history.ceilings import daemon_ceiling
    from makeway.simharness.history.shape import machine_shape
    from makeway.simharness.history.source import site_rules

    limits = site_rules(source.config).limits
    return () if limits is None else (daemon_ceiling(limits, machine_shape(source).node_count),)


def _ceiling(text: str) -> float | None:
    from makeway.simharness.history.source import HistoryError

    if text == "none":
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise HistoryError(f"--max-loss {text}: accepted: node-hours from 0 on, or none")
    return value


def _write_report(
    options: HistoryOptions,
    path: Path,
    outcomes: "Sequence[HistoryOutcome]",
    grids: "Sequence[TextGrid]",
    sentences: Sequence[str],
    remarks: Sequence[str],
) -> None:
    from makeway.simharness.history.report import write_history_page

    measured = outcomes[0].measures
    facts = (f"{measured.node_count:,} nodes", f"{measured.group('all').jobs:,} jobs", sentences[1])
    write_history_page(
        path, outcomes, title=_title(options), facts=facts, notes=(sentences[0], *remarks), grids=grids
    )
    click.echo(f"Report: {path}", err=terminal.is_stdout(options.json_path))


def _write_replays(options: HistoryOptions, path: Path, trials: "Sequence[HistoryTrial]") -> None:
    from makeway.simharness.history.study import from_the_beginning, record_of, replay_remarks, settings_of

    records = [from_the_beginning(record_of(one)) for one in trials]
    write_page(
        path,
        records,
        _title(options),
        settings_of(trials[0].source),
        notes=replay_remarks(records),
        quiet=terminal.is_stdout(options.json_path),
    )


def _title(options: HistoryOptions) -> str:
    return f"makeway history {options.files[0].name}"
