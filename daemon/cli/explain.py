"""The command `explain`: one decision as it is stored, with what became of it."""

import json
from contextlib import closing
from dataclasses import asdict, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from makeway.daemon.cli.text import WAYS, accepted_parts, console, hours, instant, plain, protection, span
from makeway.daemon.errors import UserError, counted, printable
from makeway.daemon.estimate.actual_losses import RunLoss
from makeway.daemon.inspect.explain import (
    Explanation,
    explain,
    is_urgent,
    job_events,
    jobs_named,
    measured_count,
    numbers,
)
from makeway.daemon.inspect.losses import ExplainedLoss, total_cost
from makeway.daemon.inspect.now import decision_values
from makeway.daemon.journal.codec import StoredDecision
from makeway.daemon.journal.errors import JournalError
from makeway.daemon.journal.store import Journal
from makeway.policies.model import Action, Candidate, Cluster, Method, Rationale, RunIdentity
from makeway.policies.safety.prices import hours_text

DECISIONS_LISTED = 20
CANDIDATES_SHOWN = 60
INSTANTS = frozenset({"not_before_s", "saved_by_s", "until_s"})
"""The fields of actions that are instants; other seconds are durations."""


def show(path: Path, decision: str | None, *, as_json: bool) -> None:
    """Explain a decision on standard output, or list the latest ones.

    Args:
        path: the journal.
        decision: a number, or `last`. None: list.
        as_json: JSON instead of text.

    Raises:
        UserError: there is no such decision.
        JournalError: the journal cannot be read.
    """
    with closing(Journal(path, read_only=True)) as journal:
        if decision is None:
            _show_list(journal.decisions(DECISIONS_LISTED), as_json=as_json)
            return
        try:
            found = explain(journal, decision)
        except JournalError:
            raise  # it names the file itself
        except UserError as error:
            raise UserError(f"{printable(str(path))}: {error}") from None
    if as_json:
        click.echo(json.dumps(_values(found), indent=2))
    else:
        render(found, console())


def show_job(path: Path, job_id: str, *, as_json: bool) -> None:
    """What happened to a job, on standard output: the decisions about it and the commands for it.

    Raises:
        UserError: the journal has nothing about it.
        JournalError: the journal cannot be read.
    """
    with closing(Journal(path, read_only=True)) as journal:
        found = job_events(journal, job_id)
        parts = "" if found else accepted_parts(job_id, jobs_named(journal))
    if not found:
        raise UserError(f"{printable(str(path))}: nothing is stored about job {printable(job_id)}{parts}")
    if as_json:
        click.echo(json.dumps([asdict(event) for event in found], indent=2))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("at", "decision", "what", "for", "how", "outcome"):
        table.add_column(heading)
    for event in found:
        decision = "" if event.decision_id is None else str(event.decision_id)
        how = "" if event.action is None else _how(event.action)
        cells = (instant(event.at_s), decision, event.what, event.for_job_id, how, event.outcome)
        table.add_row(*map(plain, cells))
    console().print(table)


def _show_list(listed: tuple[StoredDecision, ...], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps([decision_values(entry) for entry in listed], indent=2))
    else:
        _render_list(listed, console())


def _values(found: Explanation) -> dict[str, Any]:
    stored = found.stored
    return {
        "decision": stored.decision_id,
        "at_s": stored.at_s,
        "policy": stored.decision.policy,
        "rationale": [
            {**asdict(why), "numbers": {metric.name: value for metric, value in numbers(why)}}
            for why in stored.decision.rationale
        ],
        "actions": [
            {"action": asdict(one.action), "verdict": one.verdict, "outcome": one.outcome}
            for one in found.actions
        ],
        "losses": [_loss_values(loss) for loss in found.losses],
    }


def _loss_values(loss: ExplainedLoss) -> dict[str, Any]:
    actual = loss.actual
    return {
        "job_id": loss.job_id,
        "for_job_id": loss.for_job_id,
        "method": loss.method,
        "expected": None if loss.expected is None else asdict(loss.expected),
        "actual": None
        if actual is None
        else {
            "evicted": actual.evicted,
            "left_s": actual.left_s,
            "lost": asdict(actual.lost),
            "overhead": asdict(actual.overhead),
        },
    }


def _render_list(listed: tuple[StoredDecision, ...], out: Console) -> None:
    if not listed:
        out.print("No decision is stored.")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("decision", "at", "policy", "actions", "why"):
        table.add_column(heading, justify="right" if heading in {"decision", "actions"} else "left")
    for entry in listed:
        decision = entry.decision
        why = [f"job {reason.for_job_id}: {reason.summary}" for reason in decision.rationale]
        table.add_row(
            str(entry.decision_id),
            instant(entry.at_s),
            plain(decision.policy),
            str(len(decision.actions)),
            plain(*why),
        )
    out.print(table)


def render(found: Explanation, out: Console) -> None:
    """The decision for a reader: why, the candidates with their costs, the actions with what became
    of them.
    """
    stored = found.stored
    out.print(
        plain(
            f"Decision {stored.decision_id} of policy {stored.decision.policy} at {instant(stored.at_s)}",
            style="bold",
        )
    )
    for why in stored.decision.rationale:
        _render_rationale(why, stored, out)
    out.print()
    if not found.actions:
        out.print("No actions.")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("action", "job", "for", "reason", "how", "arbiter", "outcome"):
        table.add_column(heading)
    for one in found.actions:
        action = one.action
        cells = (
            action.verb,
            action.job_id,
            action.for_job_id,
            action.reason,
            _how(action),
            one.verdict,
            one.outcome,
        )
        table.add_row(*(plain(str(cell)) for cell in cells))
    out.print(table)
    _render_losses(found.losses, out)


def _render_losses(losses: tuple[ExplainedLoss, ...], out: Console) -> None:
    """What was expected to be lost, and what was measured, of each job and in all."""
    if not losses:
        return
    measured = [loss.actual for loss in losses if loss.actual is not None]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("job", "how", "loss expected", *(("loss measured", "overhead") if measured else ())):
        table.add_column(heading)
    for loss in losses:
        expected = "unknown" if loss.expected is None else hours(loss.expected)
        cells = (
            loss.job_id,
            WAYS[loss.method],
            expected,
            *(_measured_cells(loss.actual) if measured else ()),
        )
        table.add_row(*map(plain, cells))
    out.print()
    out.print(table)
    if measured:
        lost = hours(total_cost([one.lost for one in measured]))
        overhead = hours(total_cost([one.overhead for one in measured]))
        out.print(plain(f"Measured in all: {lost} of work lost; {overhead} of overhead."))


def _measured_cells(actual: RunLoss | None) -> tuple[str, str]:
    if actual is None:
        return "not measured", ""
    return hours(actual.lost) if actual.evicted else "did not leave", hours(actual.overhead)


def _render_rationale(why: Rationale, stored: StoredDecision, out: Console) -> None:
    notices = () if stored.cluster is None else stored.cluster.notices
    job = "Urgent job" if is_urgent(why, stored.cluster) else "Job"
    if any(notice.notice_id == why.for_job_id for notice in notices):
        job = "Announced job"
    left_s = max(0.0, why.deadline_s - stored.at_s)
    out.print()
    out.print(
        plain(
            f"{job} {why.for_job_id}: {counted(why.node_count, 'node')}, {why.free_node_count} free, "
            f"on time for another {span(left_s)}"
        )
    )
    out.print(plain(why.summary))
    out.print(plain(", ".join(f"{metric.title}: {value:.0f}" for metric, value in numbers(why))))
    if not why.candidates:
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    priced = any(candidate.price_node_s is not None for candidate in why.candidates)
    prices = ("price (node-hours)",) if priced else ()
    for heading in ("", "jobs", "how", "nodes", "node-hours lost", *prices, "free in", "note"):
        table.add_column(heading, justify="left" if heading in {"", "jobs", "how", "note"} else "right")
    shown = sorted(why.candidates, key=_rank)
    for candidate in shown[:CANDIDATES_SHOWN]:
        cells = _cells(candidate, stored.cluster, priced=priced)
        table.add_row(*cells, style="bold" if candidate.chosen else None)
    out.print(table)
    if len(shown) > CANDIDATES_SHOWN:
        out.print(f"and {len(shown) - CANDIDATES_SHOWN} more (all of them with --json)")


def _rank(candidate: Candidate) -> tuple[bool, int, int, tuple[str, ...]]:
    """The chosen ones first, then the cheapest."""
    lost_node_s, price_node_s = candidate.loss_node_s, candidate.price_node_s
    first = lost_node_s if price_node_s is None else price_node_s
    return not candidate.chosen, first, lost_node_s, candidate.job_ids


def _cells(candidate: Candidate, cluster: Cluster | None, *, priced: bool) -> tuple[Text, ...]:
    """A line of the table; with `priced` also the price."""
    price_node_s = candidate.price_node_s
    stays = candidate.method is None
    measured = measured_count(candidate, cluster)
    cells = (
        "→" if candidate.chosen else "",
        "+".join(candidate.job_ids),
        "stays" if candidate.method is None else WAYS[candidate.method],
        str(candidate.node_count),
        "" if stays else hours_text(candidate.loss_node_s),
        *(("" if price_node_s is None else hours_text(price_node_s),) if priced else ()),
        "" if stays else span(candidate.delay_s),
        protection(candidate.note)
        if stays
        else candidate.note or (f"time measured ×{measured}" if measured else ""),
    )
    return tuple(plain(cell) for cell in cells)


def _how(action: Action) -> str:
    """The fields that only this kind of action has: the way, the nodes, the signal, the run."""
    common = {"job_id", "for_job_id", "policy", "reason", "verb", "not_after_s", "requeue_count"}
    own = {field.name: getattr(action, field.name) for field in fields(action) if field.name not in common}
    return ", ".join(
        _described(name, value)
        for name, value in own.items()
        if value is not None and value != () and value is not False
    )


def _described(name: str, value: object) -> str:
    """A field of an action in words: what it is called and what it is."""
    match value:
        case RunIdentity(start_s=None):
            return f"run {value.requeue_count + 1}"
        case RunIdentity(start_s=float(began_s)):
            return f"run since {instant(began_s)}"
        case Method():
            return WAYS[value]
        case _:
            return f"{name.removesuffix('_s').replace('_', ' ')} {_brief(name, value)}"


def _brief(name: str, value: object) -> str:
    if isinstance(value, float):
        if name in INSTANTS:
            return instant(value)
        return span(value) if name.endswith("_s") else f"{value:g}"
    if isinstance(value, StrEnum):
        return value.replace("_", " ")
    if value is True:
        return "yes"
    if not isinstance(value, tuple):
        return str(value)
    parts = [str(part) for part in cast("tuple[object, ...]", value)]
    return f"{parts[0]}..{parts[-1]} ({len(parts)})" if len(parts) > 4 else " ".join(parts)
