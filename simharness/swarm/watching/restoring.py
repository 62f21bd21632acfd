"""What the simulated cluster knows of what was taken from jobs, and what of it is still missing.

It does not use what is kept with the jobs (`JobRun.taken`): code that does not write that must be noticed.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import inf

from makeway.policies.model import Action, Cancel, Checkpoint, JobKind, Operation, Requeue, Shrink
from makeway.simharness.engine.job_run import TOLERANCE_S, JobRun
from makeway.simharness.engine.machine import SimMachine

_PATIENCE_S = 600.0
_PATIENCE_CYCLES = 3
"""What can be given back is given back within so many seconds or so many cycles, whatever is longer."""
_LEAST_LIMIT_S = 600.0
"""A time limit that ends within this time need not be lowered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ShrunkRun:
    """A run that was shrunk."""

    run: int
    node_count: int
    """Its size before."""
    kept_count: int
    fair_s: float
    """The time limit that would be right if it had its nodes back at `since_s`."""
    since_s: float
    grown_s: float | None = None
    """When it was first seen with all its nodes again."""
    unknown: bool = False
    """Whether it was shrunk before, and the clock was set back meanwhile: its time limit may be too long."""


class Restoring:
    """Watches one story.

    Args:
        machine: the simulated machine.
        clock_step_s: by how much the daemon's clock can step. The time without nodes is measured by it.
        clock_falls_s: when it is set back. A run that was shrunk before that, and grows after it, may keep
            its time limit: how long it had fewer nodes is unknown.
    """

    def __init__(self, machine: SimMachine, clock_step_s: float, clock_falls_s: Sequence[float]) -> None:
        self._machine = machine
        self._clock_step_s = clock_step_s
        self._clock_falls_s = clock_falls_s
        self._shrunk: dict[str, _ShrunkRun] = {}
        self._left_for: dict[str, str] = {}
        """The jobs that had to leave, and for which job."""
        self._raised: dict[str, int] = {}
        """The last run of each job in which its time limit may have been raised."""
        self._missing: dict[tuple[str, str], tuple[float, int]] = {}
        """Since when something of a job is missing, and for how many cycles."""

    def begin_anew(self) -> None:
        """Another daemon acts from now on: it has its own time to give back."""
        self._missing.clear()

    def before(self, action: Action) -> None:
        """A command is about to be carried out."""
        live = self._machine.live.get(action.job_id)
        if live is None or not live.nodes:
            return
        if isinstance(action, Checkpoint | Shrink):
            self._raised[action.job_id] = live.requeue_count
        if isinstance(action, Checkpoint) and action.walltime_s > live.walltime_s:
            self._raise(live, action.walltime_s - live.walltime_s)
        if isinstance(action, Requeue | Cancel):
            self._left_for[action.job_id] = action.for_job_id
        elif isinstance(action, Shrink) and len(action.keep_nodes) < live.size:
            self._shrunk[action.job_id] = self._shrunk_run(live, len(action.keep_nodes))

    def cycle_ends(self, now_s: float, operations: Collection[Operation]) -> list[tuple[bool, str]]:
        """What jobs miss that something was taken from: whether there was no time to give it back, and what.

        Args:
            now_s: the present instant.
            operations: the open ones; they give back what their jobs miss.
        """
        known = {task.action.job_id for operation in operations for task in operation.tasks}
        held = {name for operation in operations for name in operation.nodes}
        lenders = self._left_for.keys() | self._raised.keys()
        jobs = [live for job_id, live in self._machine.live.items() if job_id in lenders - known]
        missing = [(live.job.job_id, what) for live in jobs for what in self._of(live, now_s, held)]
        found = [(True, "")] * len(jobs)
        old, self._missing = self._missing, {}
        for key in missing:
            since_s, cycles = old.get(key, (now_s, 0))
            self._missing[key] = (since_s, cycles + 1)
            in_time = now_s < since_s + _PATIENCE_S or cycles < _PATIENCE_CYCLES
            found.append((in_time, f"job {key[0]} misses {key[1]} for {now_s - since_s:.0f} s"))
        return found

    def _raise(self, live: JobRun, raised_s: float) -> None:
        """What is raised for a checkpoint pays for that checkpoint and stays."""
        shrunk = self._shrunk.get(live.job.job_id)
        if shrunk is not None and shrunk.run == live.requeue_count:
            self._shrunk[live.job.job_id] = replace(shrunk, fair_s=shrunk.fair_s + raised_s)

    def _shrunk_run(self, live: JobRun, kept_count: int) -> _ShrunkRun:
        now_s, before = self._machine.now_s, self._shrunk.get(live.job.job_id)
        if before is None or before.run != live.requeue_count:
            return _ShrunkRun(
                run=live.requeue_count,
                node_count=live.size,
                kept_count=kept_count,
                fair_s=live.walltime_s,
                since_s=now_s,
            )
        return replace(
            before,
            kept_count=kept_count,
            fair_s=_fair_s(before, now_s),
            since_s=now_s,
            grown_s=None,
            unknown=before.unknown or self._clock_fell(before, before.grown_s or now_s),
        )

    def _of(self, live: JobRun, now_s: float, held: Collection[str]) -> list[str]:
        """What of a job is missing and could be given back."""
        found = ["its turn"] if self._misses_turn(live) else []
        shrunk = self._shrunk.get(live.job.job_id)
        run_s = now_s - live.start_s if live.nodes else 0.0
        fair_s = inf
        if self._raised.get(live.job.job_id, live.requeue_count) < live.requeue_count:
            fair_s = inf if self._waits_for_urgent(live) and not live.nodes else live.job.walltime_s
        elif live.nodes and shrunk is not None and shrunk.run == live.requeue_count:
            if live.size < shrunk.node_count:
                return ["its nodes"] if self._can_grow(held) else []
            if shrunk.grown_s is None:
                shrunk = self._shrunk[live.job.job_id] = replace(shrunk, grown_s=now_s)
            grown_s = shrunk.grown_s or now_s
            if not (shrunk.unknown or self._clock_fell(shrunk, grown_s)):
                fair_s = _fair_s(shrunk, grown_s + self._clock_step_s) + _PATIENCE_S
        late = max(fair_s, run_s + _LEAST_LIMIT_S) + TOLERANCE_S < live.walltime_s
        return [*found, "its time limit"] if late else found

    def _clock_fell(self, shrunk: _ShrunkRun, until_s: float) -> bool:
        """Whether the clock was set back while the run had fewer nodes."""
        return any(shrunk.since_s < fall_s <= until_s for fall_s in self._clock_falls_s)

    def _misses_turn(self, live: JobRun) -> bool:
        """Whether a job that had to leave waits behind others, although its urgent job does not wait, or is
        not urgent any more. One that was protected before that gets its turn only by the journal.
        """
        behind = not live.nodes and live.evicted and live.rank == 0
        return behind and live.job.preemptible and not self._waits_for_urgent(live)

    def _waits_for_urgent(self, live: JobRun) -> bool:
        urgent = self._machine.live.get(self._left_for.get(live.job.job_id, ""))
        return urgent is not None and not urgent.nodes and urgent.job.kind is JobKind.ON_DEMAND

    def _can_grow(self, held: Collection[str]) -> bool:
        """Whether nodes are free that nothing is about to use."""
        machine = self._machine
        if any(live.job.kind is JobKind.ON_DEMAND and not live.nodes for live in machine.live.values()):
            return False
        free = machine.names.of(machine.free & ~machine.reserved)
        return any(name not in held for name in free)


def _fair_s(shrunk: _ShrunkRun, now_s: float) -> float:
    """The time limit that is right for a shrunk run that has its nodes back at `now_s`."""
    return shrunk.fair_s + (now_s - shrunk.since_s) * (1.0 - shrunk.kept_count / shrunk.node_count)
