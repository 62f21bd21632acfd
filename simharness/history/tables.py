"""The answers about a past period as tables and sentences."""

from collections.abc import Sequence
from statistics import fmean

from makeway.daemon.errors import printable
from makeway.policies.model import JobKind, Limits
from makeway.simharness.history.ceilings import ceiling_settings, ceiling_text
from makeway.simharness.history.loading import PastPeriod
from makeway.simharness.history.study import (
    NEAR_BEST,
    NO_MAKEWAY,
    HistoryOutcome,
    OwnerCost,
    ceiling_order,
    recommended,
)
from makeway.simharness.papers.common.page import TextGrid
from makeway.simharness.results.formats import Unit, format_duration, format_number, format_percent
from makeway.simharness.results.measures import ALL
from makeway.simharness.results.tables import WITHOUT

_SHOWN = 20


def outcome_grid(outcomes: Sequence[HistoryOutcome], configured: Sequence[float | None] = ()) -> TextGrid:
    """One row a replay, the one without makeway first.

    `configured`: the ceiling that the configuration gives on this machine, if there is a configuration.
    """
    return TextGrid(
        heading="What makeway would have done",
        head=(
            "policy",
            "ceiling (node-h)",
            "urgent on time",
            "urgent wait, mean",
            "evictions",
            "work lost (node-h)",
            "overhead (node-h)",
            "turnaround of other jobs, mean",
        ),
        rows=tuple(_outcome_row(one, configured) for one in outcomes),
    )


def _outcome_row(one: HistoryOutcome, configured: Sequence[float | None]) -> tuple[str, ...]:
    urgent, total = one.measures.group(JobKind.ON_DEMAND), one.measures.group(ALL)
    without = one.policy == NO_MAKEWAY
    own = " (configured)" if one.max_loss_node_hours in configured else ""
    return (
        WITHOUT if without else one.policy,
        "-" if without else f"{ceiling_text(one.max_loss_node_hours)}{own}",
        f"{urgent.on_time:,} of {urgent.jobs:,}",
        format_number(urgent.wait_mean_s, Unit.SECONDS),
        f"{total.evictions:,}",
        format_number(total.lost_node_hours, Unit.NODE_HOURS),
        format_number(total.overhead_node_hours, Unit.NODE_HOURS),
        format_number(others_turnaround_s(one), Unit.SECONDS),
    )


def others_turnaround_s(one: HistoryOutcome) -> float | None:
    """Mean turnaround of the jobs that are not urgent. None: none of them completed."""
    groups = [one.measures.group(kind) for kind in (JobKind.RIGID, JobKind.MALLEABLE)]
    known = [(group.turnaround_mean_s, group.completed) for group in groups if group.completed]
    count = sum(completed for _, completed in known)
    return sum((mean_s or 0.0) * completed for mean_s, completed in known) / count if count else None


def owner_grids(base: HistoryOutcome, chosen: HistoryOutcome) -> tuple[TextGrid, ...]:
    """Who pays: by account, and by user."""
    before = {(one.user, one.account): one.turnaround_h for one in base.owners}
    users = [(one.account, one.user, one) for one in chosen.owners]
    accounts: dict[str, list[OwnerCost]] = {}
    for one in chosen.owners:
        accounts.setdefault(one.account, []).append(one)
    by_account = sorted(
        accounts.items(), key=lambda item: (-sum(one.cost_node_hours for one in item[1]), item[0])
    )
    head = ("jobs", "evicted or shrunk", "work lost (node-h)", "overhead (node-h)", "turnaround")
    return (
        TextGrid(
            heading="Cost by account",
            head=("account", *head),
            rows=tuple((_name(name), *_owner_cells(owners, before)) for name, owners in by_account[:_SHOWN]),
        ),
        TextGrid(
            heading="Cost by user",
            head=("user", "account", *head),
            rows=tuple(
                (_name(user), _name(account), *_owner_cells([one], before))
                for account, user, one in users[:_SHOWN]
            ),
        ),
    )


def _name(name: str) -> str:
    """A name of an export, in which anything may be, as a terminal may show it."""
    return printable(name) or "-"


def _owner_cells(owners: Sequence[OwnerCost], before: dict[tuple[str, str], float]) -> tuple[str, ...]:
    jobs = sum(one.jobs for one in owners)
    then_h = sum(before.get((one.user, one.account), 0.0) for one in owners)
    change_s = 3600.0 * (sum(one.turnaround_h for one in owners) - then_h) / max(1, jobs)
    sign = "+" if change_s > 0 else "−"
    return (
        f"{jobs:,}",
        f"{sum(one.evicted for one in owners):,}",
        format_number(sum(one.lost_node_hours for one in owners), Unit.NODE_HOURS),
        format_number(sum(one.overhead_node_hours for one in owners), Unit.NODE_HOURS),
        f"{sign}{format_duration(abs(change_s))} a job" if abs(change_s) >= 1.0 else "unchanged",
    )


def past_sentence(history: PastPeriod, base: HistoryOutcome) -> str:
    """What really happened, and what the replay without makeway says: how far the replay can be trusted."""
    measured = [job for job in history.workload.jobs if job.submit_s >= 0.0]
    urgent = [job for job in measured if job.kind is JobKind.ON_DEMAND]
    others = [job for job in measured if job.kind is not JobKind.ON_DEMAND]
    limit_s = base.measures.settings.start_within_s
    on_time = sum(history.past[job.job_id].wait_s <= (job.start_within_s or limit_s) for job in urgent)
    parts: list[str] = []
    if urgent:
        really_s = fmean(history.past[job.job_id].wait_s for job in urgent)
        replayed_s = base.measures.group(JobKind.ON_DEMAND).wait_mean_s
        parts.append(
            f"{on_time:,} of {len(urgent):,} urgent jobs really started on time, after "
            f"{format_duration(really_s)} on average; in the replay without makeway {base.on_time:,}, after "
            f"{format_number(replayed_s, Unit.SECONDS)}"
        )
    if others:
        really_s = fmean(history.past[job.job_id].wait_s for job in others)
        groups = [base.measures.group(kind) for kind in (JobKind.RIGID, JobKind.MALLEABLE)]
        waits = [(group.wait_mean_s, group.started) for group in groups if group.wait_mean_s is not None]
        total = sum(started for _, started in waits)
        replayed_s = sum(mean_s * started for mean_s, started in waits) / total if total else None
        parts.append(
            f"the other jobs really waited {format_duration(really_s)} on average, in the replay "
            f"{format_number(replayed_s, Unit.SECONDS)}"
        )
    requeued = sum(one.requeues for one in history.past.values())
    if requeued:
        hours = sum(one.requeued_node_s for one in history.past.values()) / 3600.0
        parts.append(
            f"{requeued:,} runs were really requeued after {format_number(hours, Unit.NODE_HOURS)} node-hours"
        )
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def recommendation(outcomes: Sequence[HistoryOutcome], limits: Limits | None) -> str:
    """Which policy and ceiling to choose, and what it costs, in one to three sentences.

    Args:
        outcomes: the one without makeway first.
        limits: those of the configuration. None: there is none.
    """
    base, chosen = outcomes[0], recommended(outcomes)
    if not base.urgent:
        return "No urgent job was measured, so no policy is recommended. See --from, --to and the classes."
    gained = chosen.on_time - base.on_time
    if chosen.policy == base.policy or gained <= 0:
        return f"Recommended: none. {_why_none(outcomes, limits)}"
    total = chosen.measures.group(ALL)
    useful = chosen.measures.held_node_hours - total.lost_node_hours - total.overhead_node_hours
    share = f" ({format_percent(chosen.cost_node_hours / useful)} of the useful work)" if useful > 0 else ""
    return (
        f"Recommended: {_choice(chosen, limits)}. It starts "
        f"{chosen.on_time:,} of {chosen.urgent:,} urgent jobs on time instead of {base.on_time:,}, for "
        f"{format_number(chosen.cost_node_hours, Unit.NODE_HOURS)} node-hours{share}, "
        f"{format_number(chosen.cost_node_hours / gained, Unit.NODE_HOURS)} for each start gained. No other "
        f"one within {format_percent(NEAR_BEST)} of the best on-time share is cheaper."
    )


def _why_none(outcomes: Sequence[HistoryOutcome], limits: Limits | None) -> str:
    """Why makeway is not recommended: nothing is better, or nothing is better by enough."""
    base = outcomes[0]
    best = min(outcomes, key=lambda one: (-one.on_time, one.cost_node_hours, ceiling_order(one)))
    if best.on_time <= base.on_time:
        return "No policy would have started more urgent jobs on time than Slurm alone."
    return (
        f"Slurm alone would have started {base.on_time:,} of {base.urgent:,} urgent jobs on time, which is "
        f"within {format_percent(NEAR_BEST)} of the best on-time share. The best is {_choice(best, limits)}: "
        f"{best.on_time:,} of them, for {format_number(best.cost_node_hours, Unit.NODE_HOURS)} node-hours."
    )


def _choice(one: HistoryOutcome, limits: Limits | None) -> str:
    """A policy and the settings of its ceiling, for people."""
    settings = ceiling_settings(one.max_loss_node_hours, limits, one.measures.node_count)
    return f"policy {one.policy} with {settings}"
