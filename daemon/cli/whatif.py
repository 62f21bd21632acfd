"""The command `whatif`: gets a snapshot, and prints the answer."""

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from makeway.adapters.protocol import Adapter, AdapterError, SubmissionReader
from makeway.daemon.cli.options import CONFIG_PATH
from makeway.daemon.cli.text import WAYS, accepted_parts, console, plain, protection, span
from makeway.daemon.config.load import AdapterFactory, Config, load, open_adapter
from makeway.daemon.control.joining import joined
from makeway.daemon.control.report import LoopSettings
from makeway.daemon.errors import UserError, counted, printable
from makeway.daemon.estimate.prices import with_class_reports
from makeway.daemon.inspect.loss_curves import Leaver, LossLevel
from makeway.daemon.inspect.whatif import WhatIfAnswer, WhatIfQuestion, question_like, what_if
from makeway.daemon.journal.store import Journal
from makeway.policies.eviction.policy import EvictionConfig
from makeway.policies.model import Cluster, Job, Resources
from makeway.policies.safety.prices import hours_text

BAR_WIDTH = 24
NAMES_SHOWN = 12
WALLTIME_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfOptions:
    """The options of the command, as click gives them."""

    nodes: int | None
    per_node: Mapping[str, int] | None
    like: str | None
    """The job whose request is meant. None: another request."""
    submission: tuple[str, ...]
    """Options of the command that submits jobs. Empty: another request."""
    deadline: float
    walltime: float | None
    """None: an hour, or that of the job `like`."""
    step: float | None
    shrink: bool | None
    """None: as policy `eviction` is configured."""
    config: Path | None
    journal: Path | None
    decision: int | None
    as_json: bool


def show(factories: Mapping[str, AdapterFactory], options: WhatIfOptions) -> None:
    """Answer the question on standard output.

    Raises:
        UserError: there is no such snapshot, the cluster does not answer, or the question has no answer.
        JournalError: the journal cannot be read.
    """
    if options.step is not None and options.step <= 0:
        raise UserError("--step: a duration above 0 is expected")
    requests = (options.nodes is not None, options.like is not None, bool(options.submission))
    if sum(requests) != 1:
        raise UserError(
            "accepted: one of --nodes (how many nodes), --like (a job whose request is meant), and options "
            "of sbatch after --"
        )
    if options.per_node is not None and options.nodes is None:
        raise UserError("--per-node needs --nodes, the number of nodes")
    shrink = options.shrink
    submitted: Job | None = None
    if options.journal is not None:
        if options.submission:
            raise UserError("options after -- need the present cluster: leave --journal out")
        cluster = _stored(options.journal, options.decision)
    elif options.decision is not None:
        raise UserError("--decision needs --journal, the journal that holds the decision")
    else:
        config = load(options.config or CONFIG_PATH)
        cluster, submitted = _present(factories, config, options)
        if shrink is None and isinstance(config.policy_config, EvictionConfig):
            shrink = config.policy_config.shrink
    answer = what_if(cluster, _question(options, cluster, submitted, shrink=bool(shrink)))
    if options.as_json:
        click.echo(json.dumps(as_values(answer), indent=2))
    else:
        render(answer, console())


def _question(
    options: WhatIfOptions, cluster: Cluster, submitted: Job | None, *, shrink: bool
) -> WhatIfQuestion:
    """What the options ask for. `submitted`: the job that options after -- would make."""
    if options.nodes is not None:
        return WhatIfQuestion(
            node_count=options.nodes,
            deadline_s=options.deadline,
            walltime_s=WALLTIME_S if options.walltime is None else options.walltime,
            step_s=options.step,
            shrink=shrink,
            demand=None if options.per_node is None else Resources.with_totals(options.per_node),
        )
    job = cluster.jobs_by_id().get(options.like or "") if submitted is None else submitted
    if job is None:
        like = options.like or ""
        # A snapshot has not every waiting task of a long array.
        parts = accepted_parts(like.partition("_")[0], cluster.jobs_by_id())
        raise UserError(f"--like: there is no job {printable(like)} that waits or runs{parts}")
    return question_like(
        job,
        deadline_s=options.deadline,
        walltime_s=options.walltime,
        step_s=options.step,
        shrink=shrink,
    )


def _stored(path: Path, decision_id: int | None) -> Cluster:
    """The snapshot of a decision; of the latest one if no number is given."""
    with closing(Journal(path, read_only=True)) as journal:
        if decision_id is None:
            latest = journal.decisions(1)
            if not latest:
                raise UserError(f"{printable(str(path))}: no decision is stored")
            decision_id = latest[0].decision_id
        stored = journal.decision(decision_id)
    if stored is None:
        raise UserError(f"{printable(str(path))}: there is no decision {decision_id}")
    if stored.cluster is None:
        raise UserError(
            f"{printable(str(path))}: decision {decision_id} was stored without its snapshot "
            f"(keep_snapshots: false)"
        )
    return stored.cluster


def _present(
    factories: Mapping[str, AdapterFactory], config: Config, options: WhatIfOptions
) -> tuple[Cluster, Job | None]:
    """The present cluster as the daemon's policy would see it if an urgent job waited, and the job that
    options after -- would make. Without a journal nothing is known of the past.
    """
    connection = open_adapter(config.settings.adapter, factories)
    with closing(connection.adapter):
        try:
            cluster = connection.adapter.snapshot()
            submitted = _submitted(connection.adapter, options) if options.submission else None
        except AdapterError as error:
            raise UserError(f"the cluster cannot be read: {error}") from error
    limits, asked_s = config.settings.limits.to_limits(), dict[str, float]()
    if _is_there(config.settings.journal):
        cycle = LoopSettings(
            mode=config.settings.mode, limits=limits, learn_durations=config.settings.learn_durations
        )
        with closing(Journal(config.settings.journal, read_only=True)) as journal:
            cluster = joined(cluster, journal.open_operations(), journal, cycle, config.policy)
            asked_s |= journal.asked_s()
    # The daemon leaves this out of a cycle in which no urgent job waits.
    jobs = with_class_reports(cluster.jobs, cluster.now_s, asked_s)
    return replace(cluster, jobs=jobs, limits=limits), submitted


def _is_there(journal: Path) -> bool:
    """Whether there may be a journal. Of one that cannot be looked at, the opening says why."""
    try:
        journal.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _submitted(adapter: Adapter, options: WhatIfOptions) -> Job:
    """The job that the options after -- would make."""
    if not isinstance(adapter, SubmissionReader):
        raise UserError(f"{adapter.capabilities.name} reads no options of sbatch: use --nodes and --per-node")
    walltime_s = WALLTIME_S if options.walltime is None else options.walltime
    try:
        return adapter.as_submitted(options.submission, walltime_s=walltime_s)
    except ValueError as error:
        raise UserError(f"after --: {printable(str(error))}") from None


def as_values(answer: WhatIfAnswer) -> dict[str, Any]:
    """The answer as plain values for JSON."""
    return {
        "now_s": answer.now_s,
        "nodes": answer.question.node_count,
        "per_node": None if answer.question.demand is None else dict(answer.question.demand.amounts),
        "blocked_by": answer.question.blocked_by or None,
        "nodes_up": answer.node_count_up,
        "nodes_free": answer.node_count_free,
        "shortage": answer.shortage,
        "deadline_s": answer.question.deadline_s,
        "step_s": answer.step_s,
        "curve": [
            {"deadline_s": index * answer.step_s, "loss_node_hours": None if loss is None else loss / 3600}
            for index, loss in enumerate(answer.losses_node_s)
        ],
        "levels": [_level_values(level) for level in answer.levels],
        "protected": [
            {"job_ids": group.job_ids, "nodes": group.node_count, "reason": group.reason}
            for group in answer.protected
        ],
    }


def _level_values(level: LossLevel) -> dict[str, Any]:
    return {
        "from_s": level.from_s,
        "until_s": level.until_s,
        "loss_node_hours": level.loss_node_s / 3600,
        "price_node_hours": level.price_node_s / 3600,
        "checkpoint_s": level.checkpoint_s,
        "nodes_freed": level.node_count,
        "served_on": level.nodes or None,
        "departures": [
            {
                "job_ids": leaver.job_ids,
                "method": leaver.method,
                "nodes": leaver.node_count,
                "loss_node_hours": leaver.loss_node_s / 3600,
                "on": leaver.nodes or None,
            }
            for leaver in level.leavers
        ],
    }


def render(answer: WhatIfAnswer, out: Console) -> None:
    """The answer for a reader: a sentence, the curve as bars, and the jobs that leave at each level."""
    question = answer.question
    wanted, free = "", "are free"
    if question.demand is not None:
        wanted, free = f" with {question.demand.text} on each", "have room"
    out.print(
        plain(
            f"{counted(question.node_count, 'node')}{wanted} within {span(question.deadline_s)}: "
            f"{answer.node_count_free} {free} ({counted(answer.node_count_up, 'node')} are up)."
        )
    )
    if question.blocked_by:
        out.print(plain(f"It would wait for {question.blocked_by}: until then no job leaves for it."))
    if answer.shortage <= 0:
        out.print("No job has to leave.")
        return
    if not answer.levels:
        out.print(f"{answer.shortage} more are needed, and no choice of jobs frees them in time.")
    else:
        evicted_before = any(level.price_node_s != level.loss_node_s for level in answer.levels)
        what = "The loss of work" if evicted_before else "The least loss of work"
        out.print(f"{answer.shortage} more are needed. {what}, by deadline:\n")
        out.print(_table(answer.levels, prices=evicted_before))
        if evicted_before:
            out.print(
                "\nJobs are compared by price: the loss of a job that was evicted before counts 4 times, and "
                "9 times after two evictions. So another choice may lose less."
            )
    if answer.protected:
        out.print(f"\nProtected, with {sum(group.node_count for group in answer.protected)} nodes:")
        for group in answer.protected[:NAMES_SHOWN]:
            which = f"{_jobs(group.job_ids)} ({counted(group.node_count, 'node')})"
            out.print(plain(f"  {which}: {protection(group.reason)}"))
        if len(answer.protected) > NAMES_SHOWN:
            out.print(f"  and {len(answer.protected) - NAMES_SHOWN} more")


def _table(levels: tuple[LossLevel, ...], *, prices: bool) -> Table:
    """A row for each level. `prices`: also by what the jobs are compared, where that is not the loss."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("deadline", justify="right", no_wrap=True)
    table.add_column("node-hours lost", justify="right", no_wrap=True)
    if prices:
        table.add_column("price (node-hours)", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("jobs that leave (nodes), and how")
    served = any(level.nodes for level in levels)
    if served:
        table.add_column("nodes for the request")
    most = max(level.loss_node_s for level in levels)
    for level in levels:
        loss = level.loss_node_s
        filled = round(BAR_WIDTH * loss / most) if most else 0
        table.add_row(
            span(level.from_s),
            hours_text(loss),
            *((hours_text(level.price_node_s),) if prices else ()),
            plain("█" * filled + "·" * (BAR_WIDTH - filled), style="red" if loss else "green"),
            plain(*_leavers(level)),
            *((plain(_shortened(level.nodes)),) if served else ()),
        )
    return table


def _leavers(level: LossLevel) -> list[str]:
    """A line for each way to leave: `killed: j1 (8), j2 (4)`."""
    lines: list[str] = []
    for method, way in WAYS.items():
        found = [leaver for leaver in level.leavers if leaver.method is method]
        if not found:
            continue
        lines.append(f"{way}: {_shortened([_leaver(leaver, level) for leaver in found])}")
    return lines


def _leaver(leaver: Leaver, level: LossLevel) -> str:
    """The job, with the nodes on which it makes room where these are a part of the choice, else how many."""
    where = " ".join(leaver.nodes) if level.nodes and len(leaver.nodes) <= NAMES_SHOWN else leaver.node_count
    return f"{_jobs(leaver.job_ids)} ({where})"


def _shortened(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


def _jobs(job_ids: tuple[str, ...]) -> str:
    return "+".join(job_ids)
