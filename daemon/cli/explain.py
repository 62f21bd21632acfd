"""The command `explain`: one decision as it is stored, what the arbiter says to it, and what became of it."""

import json
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from makeway.daemon.cli.text import console, instant, plain, span
from makeway.daemon.errors import UserError, printable
from makeway.daemon.journal.codec import StoredCommand, StoredDecision
from makeway.daemon.journal.store import Journal
from makeway.policies.model import Action, Candidate, Cluster, JobKind, Method, Rationale
from makeway.policies.safety.arbiter import arbitrate

LISTED = 20
CANDIDATES_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What became of one action of a decision."""

    action: Action
    verdict: str
    """What the arbiter says to it on the stored snapshot."""
    outcome: str
    """The answer to the last command for it, or that none was sent."""


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
            listed = journal.decisions(LISTED)
        else:
            stored = _find(journal, path, decision)
            fates = tuple(_fates(stored, journal))
    out = console()
    if decision is None:
        if as_json:
            click.echo(json.dumps([_listed_values(entry) for entry in listed], indent=2))
        else:
            _render_list(listed, out)
    elif as_json:
        click.echo(json.dumps(_values(stored, fates), indent=2))
    else:
        render(stored, fates, out)


def _find(journal: Journal, path: Path, text: str) -> StoredDecision:
    where = printable(str(path))
    if text == "last":
        latest = journal.decisions(1)
        number = latest[0].decision_id if latest else 0
    elif text.isascii() and text.isdigit() and len(text) < 19:
        number = int(text)
    else:
        raise UserError(f"{printable(text)!r} is no decision: a number of the log is expected, or `last`")
    stored = journal.decision(number)
    first = journal.first_decision_id()
    if stored is None and first is not None and 0 < number < first:
        raise UserError(
            f"{where}: decision {number} is no longer kept (journal_keep_days); the oldest that is has number {first}"
        )
    if stored is None:
        raise UserError(
            f"{where}: {'no decision is stored' if text == 'last' else f'there is no decision {number}'}"
        )
    return stored


def _fates(stored: StoredDecision, journal: Journal) -> list[Fate]:
    actions = stored.decision.actions
    if stored.cluster is None:
        verdicts = ["unknown: the snapshot was not kept"] * len(actions)
    else:
        verdicts = [
            "allowed" if verdict.refusal is None else f"refused: {verdict.refusal} ({verdict.detail})"
            for verdict in arbitrate(actions, stored.cluster)
        ]
    return [
        Fate(
            action=action,
            verdict=verdict,
            outcome=_outcome(action, journal.commands_of(action.job_id, stored.at_s)),
        )
        for action, verdict in zip(actions, verdicts, strict=True)
    ]


def _outcome(action: Action, commands: tuple[StoredCommand, ...]) -> str:
    sent = [command for command in commands if command.action == action]
    if not sent:
        return "not sent"
    last = sent[-1]
    words = last.outcome or "no answer was written down"
    return f"{words} ({last.detail})" if last.detail else words


def _listed_values(entry: StoredDecision) -> dict[str, Any]:
    return {
        "decision": entry.decision_id,
        "at_s": entry.at_s,
        "policy": entry.decision.policy,
        "actions": len(entry.decision.actions),
        "summaries": [why.summary for why in entry.decision.rationale],
    }


def _values(stored: StoredDecision, fates: tuple[Fate, ...]) -> dict[str, Any]:
    return {
        "decision": stored.decision_id,
        "at_s": stored.at_s,
        "policy": stored.decision.policy,
        "rationale": [asdict(why) for why in stored.decision.rationale],
        "actions": [
            {"action": asdict(fate.action), "verdict": fate.verdict, "outcome": fate.outcome}
            for fate in fates
        ],
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


def render(stored: StoredDecision, fates: tuple[Fate, ...], out: Console) -> None:
    """The decision for a reader: why, the candidates with their costs, the actions with what became of them."""
    decision = stored.decision
    out.print(
        plain(
            f"Decision {stored.decision_id} of policy {decision.policy} at {instant(stored.at_s)}",
            style="bold",
        )
    )
    for why in decision.rationale:
        _render_rationale(why, stored, out)
    if not fates:
        out.print("\nNo actions.")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("action", "job", "for", "reason", "how", "arbiter", "outcome"):
        table.add_column(heading)
    for fate in fates:
        action = fate.action
        cells = (
            action.verb,
            action.job_id,
            action.for_job_id,
            action.reason,
            _how(action),
            fate.verdict,
            fate.outcome,
        )
        table.add_row(*(plain(str(cell)) for cell in cells))
    out.print()
    out.print(table)


def _called(why: Rationale, stored: StoredDecision) -> str:
    """What a job is; a policy that acts for the whole queue acts for others than urgent ones."""
    job = None if stored.cluster is None else stored.cluster.jobs_by_id().get(why.for_job_id)
    return "Urgent job" if job is None or job.kind is JobKind.ON_DEMAND else "Job"


def _render_rationale(why: Rationale, stored: StoredDecision, out: Console) -> None:
    at_s = stored.at_s
    out.print()
    out.print(
        plain(
            f"{_called(why, stored)} {why.for_job_id}: {why.node_count} nodes, {why.free_node_count} free, "
            f"on time for another {span(max(0.0, why.deadline_s - at_s))}"
        )
    )
    out.print(plain(why.summary))
    if not why.candidates:
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("", "jobs", "how", "nodes", "node-hours lost", "free in", "note"):
        table.add_column(
            heading, justify="right" if heading in {"nodes", "node-hours lost", "free in"} else "left"
        )
    shown = sorted(
        why.candidates, key=lambda candidate: (not candidate.chosen, candidate.loss_node_s, candidate.job_ids)
    )
    for candidate in shown[:CANDIDATES_SHOWN]:
        table.add_row(*_cells(candidate, stored.cluster), style="bold" if candidate.chosen else None)
    out.print(table)
    if len(shown) > CANDIDATES_SHOWN:
        out.print(f"and {len(shown) - CANDIDATES_SHOWN} more (all of them with --json)")


def _cells(candidate: Candidate, cluster: Cluster | None) -> tuple[Text, ...]:
    stays = candidate.method is None
    cells = (
        "→" if candidate.chosen else "",
        "+".join(candidate.job_ids),
        candidate.method or "stays",
        str(candidate.node_count),
        "" if stays else f"{candidate.loss_node_s / 3600:.2f}",
        "" if stays else span(candidate.delay_s),
        candidate.note or _measured(candidate, cluster),
    )
    return tuple(plain(cell) for cell in cells)


def _measured(candidate: Candidate, cluster: Cluster | None) -> str:
    """Whether the time of a checkpoint was measured, as far as the snapshot tells. Empty: it is declared."""
    if candidate.method is not Method.SYSTEM or cluster is None:
        return ""
    jobs = cluster.jobs_by_id()
    specs = [jobs[job_id].checkpoint for job_id in candidate.job_ids if job_id in jobs]
    counts = [spec.measured_count for spec in specs if spec is not None and spec.measured_count]
    return f"time measured ×{min(counts)}" if counts else ""


def _how(action: Action) -> str:
    """What of an action is its own: the method, the nodes, the signal."""
    common = {"job_id", "for_job_id", "policy", "reason", "verb", "not_after_s"}
    own = {name: value for name, value in asdict(action).items() if name not in common}
    return ", ".join(f"{name} {_brief(value)}" for name, value in own.items())


def _brief(value: object) -> str:
    if isinstance(value, tuple) and len(value) > 4:
        return f"{value[0]}..{value[-1]} ({len(value)})"
    return " ".join(str(part) for part in value) if isinstance(value, tuple) else str(value)
