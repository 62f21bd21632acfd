"""What makeway did and what it cost, in sentences: the top of the report, and the last lines of a replay."""

from collections.abc import Sequence
from dataclasses import dataclass

from makeway.policies.model import JobKind
from makeway.simharness.results.formats import (
    Unit,
    format_count,
    format_duration,
    format_number,
    format_percent,
)
from makeway.simharness.results.measures import ALL, GroupMeasures, Measures
from makeway.simharness.results.tables import NO_MAKEWAY, column_names


def baseline_of(measured: Sequence[Measures]) -> Measures | None:
    """The replay without makeway, the first if there are several. None: there is none to compare with."""
    return next((one for one in measured if one.policy == NO_MAKEWAY), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """What one replay came to."""

    name: str
    """What the replay is called: `With eviction`, `Without makeway`."""
    lead: str
    """What became of the urgent jobs, in one sentence."""
    rest: tuple[str, ...]
    """A sentence each on the urgent jobs' waits, the cost, the other jobs, and the machine."""

    def __str__(self) -> str:
        return " ".join((f"{self.name}: {self.lead}", *self.rest))


def headlines(measured: Sequence[Measures]) -> tuple[Headline, ...]:
    """One headline a replay. Replays with makeway are compared with the one without, where there is one.

    That one gets a headline of its own only when it is alone.
    """
    base = baseline_of(measured)
    return tuple(
        _headline(name, one, base if base is not one else None)
        for name, one in zip(column_names(measured), measured, strict=True)
        if one.policy != NO_MAKEWAY or len(measured) == 1
    )


def _headline(name: str, measures: Measures, base: Measures | None) -> Headline:
    without = measures.policy == NO_MAKEWAY
    rest = (
        _waits(measures, base),
        "" if without else _cost(measures),
        _others(measures, base),
        _use(measures, base),
    )
    return Headline(
        name=name.capitalize() if without else f"With {name}",
        lead=_urgent(measures, base),
        rest=tuple(sentence for sentence in rest if sentence),
    )


def _urgent(measures: Measures, base: Measures | None) -> str:
    urgent = measures.group(JobKind.ON_DEMAND)
    if not urgent.jobs:
        return f"no job is urgent ({format_count(measures.group(ALL).jobs, 'job')})."
    before = "" if base is None else f" ({base.group(JobKind.ON_DEMAND).on_time:,} without makeway)"
    return f"{urgent.on_time:,} of {format_count(urgent.jobs, 'urgent job')} started on time{before}."


def _waits(measures: Measures, base: Measures | None) -> str:
    """How long the urgent jobs waited, or all jobs if none is urgent. Empty: none of them started."""
    urgent = measures.group(JobKind.ON_DEMAND).jobs > 0
    name, who = (JobKind.ON_DEMAND.value, "The urgent jobs") if urgent else (ALL, "All jobs")
    now_s = measures.group(name).wait_mean_s
    if now_s is None:
        return ""
    then_s = None if base is None else base.group(name).wait_mean_s
    before = "" if then_s is None else f" (without: {format_duration(then_s)})"
    return f"{who} waited {format_duration(now_s)} on average{before}."


def _cost(measures: Measures) -> str:
    total = measures.group(ALL)
    if not total.evictions and not total.shrinks:
        return "No job was evicted or shrunk."
    parts: list[str] = []
    if total.evictions:
        lost = "lost no work"
        if total.lost_node_hours:
            lost = f"lost {_node_hours(total.lost_node_hours, measures)}{_resource_hours(total)}"
        of = "" if total.preempted == total.evictions else f" of {format_count(total.preempted, 'job')}"
        parts.append(f"{format_count(total.evictions, 'eviction')}{of} {lost}")
    if total.shrinks:
        lenders = format_count(total.shrunk, "malleable job")
        parts.append(f"{format_count(total.shrinks, 'shrink')} took nodes from {lenders}")
    if total.overhead_node_hours:
        spent = _node_hours(total.overhead_node_hours, measures)
        parts.append(f"checkpoints and repeated setups took {spent}")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _node_hours(node_hours: float, measures: Measures) -> str:
    """So many node-hours, and what share of the useful work that is."""
    total = measures.group(ALL)
    useful = measures.held_node_hours - total.lost_node_hours - total.overhead_node_hours
    share = f" ({format_percent(node_hours / useful)} of the useful work)" if useful > 0 else ""
    return f"{format_number(node_hours, Unit.NODE_HOURS)} node-hours{share}"


def _resource_hours(total: GroupMeasures) -> str:
    """The loss in cores and GPUs, where the nodes have them."""
    named = ((total.lost_core_hours, "core"), (total.lost_gpu_hours, "GPU"))
    parts = [f"{format_number(hours, Unit.NODE_HOURS)} {name}-hours" for hours, name in named if hours]
    return f", {' and '.join(parts)}" if parts else ""


def _others(measures: Measures, base: Measures | None) -> str:
    if base is None:
        return ""
    changes: list[str] = []
    for kind in (JobKind.RIGID, JobKind.MALLEABLE):
        now_s, then_s = measures.group(kind).turnaround_mean_s, base.group(kind).turnaround_mean_s
        if now_s is None or then_s is None:
            continue
        change_s = now_s - then_s
        if abs(change_s) < 1.0:
            changes.append(f"{kind.value} jobs were done just as soon")
        else:
            when = "later" if change_s > 0 else "sooner"
            percent = f" ({format_percent(abs(change_s) / then_s)})" if then_s else ""
            changes.append(f"{kind.value} jobs were done {format_duration(abs(change_s))} {when}{percent}")
    text = ", ".join(changes)
    return f"On average, {text}." if changes else ""


def _use(measures: Measures, base: Measures | None) -> str:
    now, then = measures.useful_utilisation, None if base is None else base.useful_utilisation
    if now is None:
        return ""
    before = "" if then is None else f" (without: {format_number(then, Unit.SHARE)})"
    name = "Useful dominant shares" if measures.shared else "Useful utilisation"
    return f"{name} {format_number(now, Unit.SHARE)}{before}."
