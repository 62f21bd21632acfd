"""The command `whatif`: gets a snapshot, and prints the answer."""

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from makeway.adapters.protocol import AdapterError
from makeway.daemon.cli.options import CONFIG_PATH
from makeway.daemon.cli.text import WAYS, console, plain, span
from makeway.daemon.config.load import AdapterFactory, Config, load, open_adapter
from makeway.daemon.errors import UserError, printable
from makeway.daemon.estimate.checkpoint_times import with_learned
from makeway.daemon.inspect.whatif import LossLevel, WhatIfAnswer, WhatIfQuestion, departures, what_if
from makeway.daemon.journal.store import Journal
from makeway.policies.eviction.policy import EvictionConfig
from makeway.policies.model import Cluster

BAR_WIDTH = 24
NAMES_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfOptions:
    """The options of the command, as click gives them."""

    nodes: int
    deadline: float
    walltime: float
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
    shrink = options.shrink
    if options.journal is not None:
        cluster = _stored(options.journal, options.decision)
    elif options.decision is not None:
        raise UserError("--decision needs --journal, the journal that holds the decision")
    else:
        config = load(options.config or CONFIG_PATH)
        cluster = _present(factories, config)
        if shrink is None and isinstance(config.policy_config, EvictionConfig):
            shrink = config.policy_config.shrink
    question = WhatIfQuestion(
        node_count=options.nodes,
        deadline_s=options.deadline,
        walltime_s=options.walltime,
        step_s=options.step,
        shrink=bool(shrink),
    )
    answer = what_if(cluster, question)
    if options.as_json:
        click.echo(json.dumps(as_values(answer), indent=2))
    else:
        render(answer, console())


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


def _present(factories: Mapping[str, AdapterFactory], config: Config) -> Cluster:
    """The present cluster, with the limits of the configuration and the open operations of the daemon."""
    connection = open_adapter(config.settings.adapter, factories)
    with closing(connection.adapter):
        try:
            cluster = connection.adapter.snapshot()
        except AdapterError as error:
            raise UserError(f"the cluster cannot be read: {error}") from error
    operations, jobs = cluster.operations, cluster.jobs
    if config.settings.journal.exists():
        with closing(Journal(config.settings.journal, read_only=True)) as journal:
            operations = journal.open_operations()
            if config.settings.learn_durations:
                jobs = with_learned(jobs, journal.learned())
    limits = config.settings.limits.to_limits()
    return replace(cluster, jobs=jobs, limits=limits, operations=operations)


def as_values(answer: WhatIfAnswer) -> dict[str, Any]:
    """The answer as plain values for JSON."""
    return {
        "now_s": answer.now_s,
        "nodes": answer.question.node_count,
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
        "loss_node_hours": level.plan.loss_node_s / 3600,
        "checkpoint_s": level.plan.checkpoint_s,
        "nodes_freed": level.plan.node_count,
        "departures": [
            {
                "job_ids": leaver.item.job_ids,
                "method": leaver.method,
                "nodes": leaver.node_count,
                "loss_node_hours": leaver.loss_node_s / 3600,
            }
            for leaver in departures(level.plan)
        ],
    }


def render(answer: WhatIfAnswer, out: Console) -> None:
    """The answer for a reader: a sentence, the curve as bars, and the jobs that leave at each level."""
    question = answer.question
    out.print(
        f"{question.node_count} nodes within {span(question.deadline_s)}: {answer.node_count_free} are free"
        f" ({answer.node_count_up} nodes are up)."
    )
    if answer.shortage <= 0:
        out.print("No job has to leave.")
        return
    if not answer.levels:
        out.print(f"{answer.shortage} more are needed, and no choice of jobs frees them in time.")
    else:
        out.print(f"{answer.shortage} more are needed. The least loss of work, by deadline:\n")
        out.print(_table(answer.levels))
    if answer.protected:
        out.print(f"\nProtected, with {sum(group.node_count for group in answer.protected)} nodes:")
        for group in answer.protected[:NAMES_SHOWN]:
            out.print(plain(f"  {_jobs(group.job_ids)} ({group.node_count} nodes): {group.reason}"))
        if len(answer.protected) > NAMES_SHOWN:
            out.print(f"  and {len(answer.protected) - NAMES_SHOWN} more")


def _table(levels: tuple[LossLevel, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("deadline", justify="right", no_wrap=True)
    table.add_column("node-hours lost", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("jobs that leave (nodes), and how")
    most = max(level.plan.loss_node_s for level in levels)
    for level in levels:
        loss = level.plan.loss_node_s
        filled = round(BAR_WIDTH * loss / most) if most else 0
        table.add_row(
            span(level.from_s),
            f"{loss / 3600:.2f}",
            plain("█" * filled + "·" * (BAR_WIDTH - filled), style="red" if loss else "green"),
            plain(*_leavers(level)),
        )
    return table


def _leavers(level: LossLevel) -> list[str]:
    """A line for each way to leave: `killed: j1 (8), j2 (4)`."""
    lines: list[str] = []
    for method, way in WAYS.items():
        found = [leaver for leaver in departures(level.plan) if leaver.method is method]
        if not found:
            continue
        shown = ", ".join(
            f"{_jobs(leaver.item.job_ids)} ({leaver.node_count})" for leaver in found[:NAMES_SHOWN]
        )
        more = f" and {len(found) - NAMES_SHOWN} more" if len(found) > NAMES_SHOWN else ""
        lines.append(f"{way}: {shown}{more}")
    return lines


def _jobs(job_ids: tuple[str, ...]) -> str:
    return "+".join(job_ids)
