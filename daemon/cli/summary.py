"""The command `summary`: the decisions of some days, and what became of them, on one screen."""

import json
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from makeway.daemon.cli.text import WAYS, console, hours, instant, plain, span
from makeway.daemon.errors import UserError, counted, printable
from makeway.daemon.estimate.actual_losses import Cost
from makeway.daemon.inspect.summary import summarise
from makeway.daemon.inspect.summary_values import (
    DecisionSummary,
    LenderTotals,
    MissedCheckpoints,
    UrgentAnswer,
    UrgentJobSummary,
)
from makeway.daemon.journal.store import Journal
from makeway.policies.safety.prices import hours_text

GROUPS_SHOWN = 15
URGENT_SHOWN = 30
REASONS_SHOWN = 5
_ANSWERS = {
    UrgentAnswer.FREE: "nodes that are or come free are enough for {}",
    UrgentAnswer.WAIT: "other jobs leave at the last moment for {} if there is no room before",
    UrgentAnswer.ROOM: "other jobs have to leave for {}",
    UrgentAnswer.LIMIT: "a limit keeps other jobs from leaving for {}",
    UrgentAnswer.NONE: "no job leaves for {}, see below why",
}


def show(path: Path, since_s: float | None, *, as_json: bool) -> None:
    """Print the summary of a journal.

    Args:
        path: the journal.
        since_s: how many seconds before its newest decision to start. None: at its beginning.
        as_json: JSON instead of text.

    Raises:
        UserError: it holds no decision.
        JournalError: it cannot be read.
    """
    with closing(Journal(path, read_only=True)) as journal:
        found = summarise(journal, since_s)
    if found is None:
        raise UserError(
            f"{printable(str(path))}: no decision is stored yet: no urgent job has asked for nodes"
        )
    if as_json:
        click.echo(json.dumps(as_values(found), indent=2))
    else:
        render(found, console())


def as_values(found: DecisionSummary) -> dict[str, Any]:
    """The summary as plain values for JSON."""
    return {
        **asdict(found),
        "expected_wait_s": found.expected_wait_s(),
        "actual_wait_s": found.actual_wait_s(),
        "expected_on_time": sum(1 for job in found.urgent if job.expected_on_time),
        "started_on_time": sum(1 for job in found.urgent if job.started_on_time),
    }


def render(found: DecisionSummary, out: Console) -> None:
    """The summary for a reader."""
    out.print(
        plain(
            f"{instant(found.from_s)} to {instant(found.to_s)} ({span(found.to_s - found.from_s)}): "
            f"{counted(found.decisions, 'decision')} by {', '.join(found.policies)}; "
            f"{counted(found.acted, 'operation')} {'was' if found.acted == 1 else 'were'} carried out, "
            f"{found.observed} only observed.",
            style="bold",
        )
    )
    _render_urgent(found, out)
    _render_lenders(found, out)
    _render_action_totals(found, out)


def _render_urgent(found: DecisionSummary, out: Console) -> None:
    urgent = found.urgent
    if not urgent:
        out.print("\nNo urgent job asked for nodes.")
        return
    counts = {answer: sum(1 for job in urgent if job.answer is answer) for answer in UrgentAnswer}
    found_answers = "; ".join(_ANSWERS[answer].format(count) for answer, count in counts.items() if count)
    out.print()
    out.print(plain(f"{counted(len(urgent), 'urgent job')} asked for nodes: {found_answers}."))
    expected = sum(1 for job in urgent if job.expected_on_time)
    on_time = sum(1 for job in urgent if job.started_on_time)
    waiting = sum(1 for job in urgent if job.still_waiting)
    by = "by plain Slurm" if not found.acted else "with makeway" if not found.observed else "in fact"
    out.print(
        plain(
            (
                f"On time by the decisions: {expected} of {len(urgent)}, nodes ready after "
                f"{_mean(found.expected_wait_s())} on average."
            ),
            f"On time {by}: {on_time} of {len(urgent)}, started after {_mean(found.actual_wait_s())} on "
            f"average{f'; {waiting} still waiting' if waiting else ''}.",
        )
    )
    table = _table("job", "user", "nodes", "decided", "answer", "ready after", "started after")
    for job in urgent[-URGENT_SHOWN:]:
        table.add_row(
            *map(plain, (job.job_id, job.user, str(job.node_count), instant(job.decided_s), job.answer)),
            "-" if job.ready_s is None else span(max(0.0, job.ready_s - job.waits_since_s)),
            _started(job.started_s, job.waits_since_s, still_waiting=job.still_waiting),
        )
    out.print(table)
    if len(urgent) > URGENT_SHOWN:
        out.print(f"and {len(urgent) - URGENT_SHOWN} earlier ones (--json prints all)")
    _render_reasons([job for job in urgent if job.why], out)


def _render_reasons(unserved: list[UrgentJobSummary], out: Console) -> None:
    """Why no job leaves for the latest of these urgent jobs."""
    if not unserved:
        return
    out.print("\nWhy no job leaves:")
    for job in unserved[-REASONS_SHOWN:]:
        out.print(plain(f"  {job.job_id}: {job.why}"))
    if len(unserved) > REASONS_SHOWN:
        out.print(f"  and {len(unserved) - REASONS_SHOWN} earlier ones (--json prints all)")


def _render_lenders(found: DecisionSummary, out: Console) -> None:
    all_lenders = found.all_lenders
    count = sum(all_lenders.departures.values())
    if found.unrecorded:
        out.print(
            f"\nAt the last moment jobs would have had to leave for {found.unrecorded} of the urgent jobs, if"
            " there had been no room before. The journal does not say which: their loss is not counted."
        )
    if not count:
        if not found.unrecorded:
            out.print("\nNo job had to leave." if found.acted else "\nNo job would have had to leave.")
        _render_not_made(found, out)
        return
    jobs = f"{counted(all_lenders.jobs, 'job')} {'had' if found.acted else 'would have had'}"
    out.print()
    out.print(
        plain(
            f"{jobs} to leave, or to shrink, {counted(count, 'time')}: a loss of "
            f"{hours(_expected(all_lenders))} of work was expected."
        )
    )
    if found.acted and found.only_observed:
        out.print(f"Departures of these that were only observed: {found.only_observed} (no job left).")
    _render_not_made(found, out)
    if all_lenders.postponed:
        out.print(
            f"{all_lenders.postponed} of these departures would have come at the last moment, and only if "
            "there had been no room before. Their loss is what they would have lost then."
        )
    measured = all_lenders.actual.departures > 0
    if measured:
        actual = all_lenders.actual
        out.print(
            plain(
                f"Measured of {actual.departures} of these departures: {hours(actual.lost)} of work lost; "
                f"{hours(actual.overhead)} of overhead (checkpoints and repeated setups)."
            )
        )
    actual_headings = ("lost", "overhead") if measured else ()
    for heading, groups in (("account", found.lenders), ("for urgent jobs of", found.urgent_users)):
        table = _table(heading, "jobs", *WAYS.values(), "node-hours expected", *actual_headings)
        for name, lenders in list(groups.items())[:GROUPS_SHOWN]:
            table.add_row(*_lender_cells(name, lenders, measured=measured))
        out.print(table)
        if len(groups) > GROUPS_SHOWN:
            out.print(f"and {len(groups) - GROUPS_SHOWN} more (--json prints all)")
    _render_missed(found.missed_checkpoints, out)


def _render_not_made(found: DecisionSummary, out: Console) -> None:
    """The departures that were decided, and are not counted among those that came about."""
    if found.to_come:
        out.print(f"Departures decided and still to come: {found.to_come} (not counted).")
    if found.called_off:
        why = "the command was never sent, or was refused"
        out.print(f"Departures decided and not made: {found.called_off} (not counted; {why}).")


def _render_missed(missed: tuple[MissedCheckpoints, ...], out: Console) -> None:
    """The jobs whose regular checkpoints did not come."""
    if not missed:
        return
    out.print("\nJobs that left without the regular checkpoint that makeway waited for:")
    for job in missed[:GROUPS_SHOWN]:
        whose = f"{job.job_id} of user {job.user}, account {job.account or '(none)'}"
        out.print(plain(f"  {whose}: {counted(job.times, 'time')}, {hours(job.lost)} of work lost"))
    if len(missed) > GROUPS_SHOWN:
        out.print(f"  and {len(missed) - GROUPS_SHOWN} more (--json prints all)")


def _render_action_totals(found: DecisionSummary, out: Console) -> None:
    if not found.actions:
        return
    table = _table("action", "reason", "decided", "commands", "accepted", "refused or unanswered")
    for totals in found.actions:
        counts = (totals.decided, totals.sent, totals.accepted, totals.refused)
        table.add_row(totals.verb, totals.reason, *map(str, counts))
    out.print()
    out.print(table)


def _expected(lenders: LenderTotals) -> Cost:
    return Cost(node_s=lenders.loss_node_s, core_s=lenders.loss_core_s, gpu_s=lenders.loss_gpu_s)


def _lender_cells(account: str, lenders: LenderTotals, *, measured: bool) -> tuple[Any, ...]:
    ways = (str(lenders.departures.get(method, 0)) for method in WAYS)
    node_s = [float(lenders.loss_node_s)]
    if measured:
        node_s += [lenders.actual.lost.node_s, lenders.actual.overhead.node_s]
    hours_of_each = map(hours_text, node_s)
    return plain(account or "(none)"), str(lenders.jobs), *ways, *hours_of_each


def _table(*headings: str) -> Table:
    words = {"job", "user", "decided", "answer", "account", "for urgent jobs of", "action", "reason"}
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in words else "right")
    return table


def _mean(duration_s: float | None) -> str:
    return "-" if duration_s is None else span(duration_s)


def _started(started_s: float | None, since_s: float, *, still_waiting: bool) -> str:
    if started_s is not None:
        return span(max(0.0, started_s - since_s))
    return "still waiting" if still_waiting else "not seen"
