"""What is to be said of a grid before it runs: its policies' deadlines, its traces, and its urgent jobs."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from makeway.daemon.errors import UserError
from makeway.simharness.results.measures import MeasureSettings
from makeway.simharness.run.deadlines import deadline_remark
from makeway.simharness.run.experiment import SAMPLE, Workload, require_scheduler
from makeway.simharness.run.loading import load_workload
from makeway.simharness.run.remarks import none_urgent, workload_remarks
from makeway.simharness.sweep.cell import SweepCell, experiment_of
from makeway.simharness.workloads.openb import is_openb
from makeway.simharness.workloads.sample import START_WITHIN_S

MAKES_URGENT = "workloads (W1 to W5) or settings.urgent_share"


def deadline_remarks(cells: Sequence[SweepCell]) -> list[str]:
    """Where a policy works towards another deadline than the one that is measured, in one sentence each."""
    found: dict[tuple[object, ...], str | None] = {}
    for cell in cells:
        key = (cell.label, cell.trace, cell.synthesis, cell.urgent_share, cell.start_within_s)
        if key not in found:
            found[key] = deadline_remark(
                cell.policy,
                cell.policy_settings,
                _limits_s(cell),
                MeasureSettings().start_within_s,
                called=cell.label,
                sets_both="settings.start_within_s",
            )
    return list(dict.fromkeys(filter(None, found.values())))


def trace_remarks(cells: Sequence[SweepCell]) -> Iterator[str]:
    """How each trace is read, what is left out of it, and where none of its jobs is urgent, in one sentence
    each. Every trace is read once for each machine that the grid has for it.

    Raises:
        UserError: a trace or a backfill cannot be used, or no cell has an urgent job.
    """
    said, urgent = set[str](), False
    machines: dict[tuple[object, ...], list[SweepCell]] = {}
    for cell in sorted(cells, key=lambda cell: cell.synthesis is None):
        machines.setdefault((cell.trace, cell.unit, cell.node_count), []).append(cell)
    for cell, *others in machines.values():
        workload = load_workload(experiment_of(cell))
        for backfill in {one.backfill for one in (cell, *others)}:
            require_scheduler(workload, backfill)
        urgent = urgent or workload.urgent > 0
        sentences = workload_remarks(workload)
        if (why := none_urgent(workload, cell.synthesis)) is not None:
            sentences.append(f"{why} (seed {cell.seed})")
        for sentence in sentences:
            if sentence not in said:
                said.add(sentence)
                yield f"{cell.trace_name}: {sentence}"
    if not (urgent or any(workload.urgent for workload in _others(cells))):
        raise UserError(
            f"no cell of the grid has an urgent job; accepted: {MAKES_URGENT}, or a trace with urgent jobs "
            "of its own (sample, openb pods)"
        )
    for name in dict.fromkeys(cell.trace_name for cell in cells if not _limits_s(cell)):
        yield f"{name}: cells without urgent jobs, which `compare` leaves out: see {MAKES_URGENT}"


def _others(cells: Sequence[SweepCell]) -> Iterator[Workload]:
    """Every workload of the cells that may have urgent jobs."""
    found: dict[tuple[object, ...], SweepCell] = {}
    for cell in filter(_limits_s, cells):
        key = (cell.trace, cell.unit, cell.node_count, cell.synthesis, cell.urgent_share, cell.seed)
        found.setdefault(key, cell)
    return (load_workload(experiment_of(cell)) for cell in found.values())


def _limits_s(cell: SweepCell) -> tuple[float | None, ...]:
    """The limits of the urgent jobs of a cell. Empty: it has no urgent jobs."""
    by_trace = cell.synthesis is None and cell.urgent_share is None
    if by_trace and cell.trace == SAMPLE:
        return (cell.start_within_s or START_WITHIN_S,)
    if cell.synthesis is None and not cell.urgent_share and not (by_trace and is_openb(Path(cell.trace))):
        return ()
    return (cell.start_within_s,)
