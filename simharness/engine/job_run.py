"""A job between submission and end: where it runs, and how much of its work is done.

Work is counted in seconds at the job's full size. A rigid job does a second of it each second, setup, regular
checkpoints and checkpoints on demand apart; a malleable job on half its nodes does half a second.
"""

from math import ceil, inf

from makeway.policies.model import JobKind, LastHold, PastSize, TakenFromJob
from makeway.simharness.engine.records import JobRecord
from makeway.simharness.workloads.job import SimJob

TOLERANCE_S = 1e-6
"""Instants nearer than this are one: what rounding may do to sums of times."""


class JobRun:
    """One job between its submission and its end. The cluster changes it; this class has the arithmetic.

    `nodes` is the set that it holds, 0 while pending. `reservation` is what it is bound to: if there is none
    of that name, the cluster has lost it, and keeps the job from starting. `past_sizes` are those that the
    present run had before. `elapsed` times are seconds of the present run without the time spent in
    checkpoints on demand.

    Three values say how the time limit of the present run came about. `unshrunk_walltime_s` is what it was at
    the full size, before anything was added to it; None: the run has not been shrunk. `raised_s` is what
    checkpoints have added to it. `short_s` is the time that the run has lost by having fewer nodes than the
    job asked for, as far as settled.
    """

    __slots__ = (
        "anchor_elapsed_s",
        "anchor_work_s",
        "batch_host",
        "checkpoint_token",
        "checkpointing_since_s",
        "completes",
        "cpus",
        "eligible_s",
        "eligible_since_s",
        "end_token",
        "evicted",
        "gpus",
        "index",
        "job",
        "last_hold",
        "limit_s",
        "malleable",
        "nodes",
        "past_sizes",
        "paused_s",
        "raised_s",
        "rank",
        "record",
        "requeue_count",
        "reservation",
        "saved_checkpoints_s",
        "saved_elapsed_s",
        "saved_s",
        "saved_work_s",
        "segment_start_s",
        "settled_elapsed_s",
        "settled_s",
        "setup_node_s",
        "setup_s",
        "share",
        "short_s",
        "size",
        "start_s",
        "taken",
        "unshrunk_walltime_s",
        "usual_walltime_s",
        "walltime_s",
    )

    def __init__(self, index: int, job: SimJob, record: JobRecord) -> None:
        self.index = index
        self.job = job
        self.record = record
        self.malleable = job.kind is JobKind.MALLEABLE
        self.setup_s = job.setup_s
        """What this run spends before it does any work: its setup, and a restart where there is saved work.
        """
        self.size = job.node_count
        self.past_sizes: tuple[PastSize, ...] = ()
        self.walltime_s = job.walltime_s
        self.usual_walltime_s: float | None = None
        """The time limit that it has when it is requeued. None: the present one, without shrinks."""
        self.unshrunk_walltime_s: float | None = None
        self.raised_s = self.short_s = 0.0
        self.taken: TakenFromJob | None = None
        self.nodes = 0
        self.share = 1.0
        """The mean share that it has, or last had, of its nodes: below 1 where jobs share nodes."""
        self.cpus = self.gpus = 0
        """CPUs and GPUs that it has, or last had, where nodes have resources; else 0."""
        self.batch_host = 0
        self.rank = 0
        """Below 0: moved to the front of the queue, the lowest first."""
        self.eligible_s: float | None = None
        self.eligible_since_s: float | None = None
        """When its owner released it from a hold. None: at no time."""
        self.reservation: str | None = None
        self.last_hold: LastHold | None = None
        self.requeue_count = 0
        self.evicted = False
        """Evicted by a command, and not running again yet."""
        self.start_s = self.limit_s = self.segment_start_s = inf
        self.end_token = self.checkpoint_token = -1
        self.completes = False
        """Whether the run's end, as scheduled, completes the job; else its time limit ends it."""
        self.anchor_work_s = 0.0
        """Work done when `anchor_elapsed_s` of this run had elapsed: at its start, or at the last resize."""
        self.anchor_elapsed_s = self.paused_s = 0.0
        self.checkpointing_since_s: float | None = None
        self.saved_work_s = 0.0
        """Work that is safe in a checkpoint on demand, or was safe when this run began."""
        self.saved_s: float | None = None
        """When the last checkpoint on demand of this run was complete."""
        self.saved_elapsed_s = -1.0
        self.saved_checkpoints_s = 0.0
        """What earlier runs spent in the regular checkpoints that they completed."""
        self.settled_s = self.settled_elapsed_s = 0.0
        self.setup_node_s = 0.0
        """Node-seconds of setup in this run, as far as settled."""

    def begin(self, nodes: int, now_s: float) -> None:
        """Start a run on `nodes`, from the work that is safe."""
        self.nodes = nodes
        self.start_s = self.segment_start_s = now_s
        self.limit_s = now_s + self.walltime_s
        self.batch_host = nodes & -nodes
        self.rank = 0
        if self.requeue_count:
            self.setup_s = self._next_setup_s()
            self.anchor_work_s = self.saved_work_s
            self.anchor_elapsed_s = 0.0
            self.paused_s = 0.0
            self.saved_s = None
            self.saved_elapsed_s = -1.0
            self.settled_elapsed_s = 0.0
            self.setup_node_s = 0.0
            self.past_sizes = ()
        self.settled_s = now_s

    def elapsed_s(self, now_s: float) -> float:
        """Seconds of the present run by `now_s`, without those spent in checkpoints on demand."""
        until_s = now_s if self.checkpointing_since_s is None else self.checkpointing_since_s
        return until_s - self.start_s - self.paused_s

    def total_work_s(self) -> float:
        """The whole job's work: its runtime without setup and regular checkpoints."""
        return self._work_in(self.job.runtime_s - self.job.setup_s)

    def work_s(self, now_s: float) -> float:
        """Work done by `now_s`, that of earlier runs included as far as it was safe."""
        elapsed_s = self.elapsed_s(now_s)
        if not self.malleable:
            return self.anchor_work_s + self._work_in(elapsed_s - self.setup_s)
        since_s = max(self.anchor_elapsed_s, self.setup_s)
        return self.anchor_work_s + max(0.0, elapsed_s - since_s) * self.size / self.job.node_count

    def run_s(self, node_count: int) -> float:
        """How long a run on `node_count` nodes takes that starts now.

        It continues from the work that is saved, and nothing interrupts it.
        """
        if not self.saved_work_s and node_count == self.job.node_count:
            return self.job.runtime_s
        left_s = max(0.0, self.total_work_s() - self.saved_work_s)
        if self.malleable:
            return self._next_setup_s() + left_s * self.job.node_count / node_count
        return self._next_setup_s() + left_s + self._checkpoints_of(left_s) * self.job.checkpoint_cost_s

    def completion_s(self) -> float:
        """When the work will be done if nothing happens. Infinite during a checkpoint on demand."""
        if self.checkpointing_since_s is not None:
            return inf
        if self.anchor_work_s == 0.0 and self.anchor_elapsed_s == 0.0 and self.size == self.job.node_count:
            return self.start_s + (self.paused_s + self.job.runtime_s)
        left_s = max(0.0, self.total_work_s() - self.anchor_work_s)
        if self.malleable:
            since_s = max(self.anchor_elapsed_s, self.setup_s)
            return self.start_s + (self.paused_s + since_s + left_s * self.job.node_count / self.size)
        cost_s = self._checkpoints_of(left_s) * self.job.checkpoint_cost_s
        return self.start_s + (self.paused_s + self.setup_s + left_s + cost_s)

    def safe_work_s(self, now_s: float) -> float:
        """Work that an eviction at `now_s` would not lose."""
        count = self._regular_checkpoints(now_s)
        if count == 0:
            return self.saved_work_s
        regular_s = self.anchor_work_s + count * (self.job.checkpoint_interval_s or 0.0)
        return max(self.saved_work_s, min(regular_s, self.total_work_s()))

    def last_checkpoint_s(self, now_s: float) -> float | None:
        """When the last checkpoint of this run, of either sort, was complete. None: there was none."""
        count = self._regular_checkpoints(now_s)
        if count:
            elapsed_s = self._regular_elapsed_s(count)
            if elapsed_s > self.saved_elapsed_s:
                return self.start_s + (self.paused_s + elapsed_s)
        return self.saved_s

    def saved_before_s(self) -> float:
        """Work that earlier runs have saved for the present or next one."""
        if not self.requeue_count:
            return 0.0
        return self.anchor_work_s if self.nodes else self.saved_work_s

    def next_checkpoint_s(self, now_s: float) -> float:
        """When the next regular checkpoint will be complete if nothing happens. Infinite: never."""
        if self._takes_none() or self.checkpointing_since_s is not None:
            return inf
        return self.start_s + (self.paused_s + self._regular_elapsed_s(self._regular_checkpoints(now_s) + 1))

    def settle(self, now_s: float) -> None:
        """Account for the time since the last call: checkpoints on demand, setup, and missing nodes.

        Called while `size` is still what it was in between.
        """
        elapsed_s = self.elapsed_s(now_s)
        before_s, setup_s = self.settled_elapsed_s, self.setup_s
        paused_s = (now_s - self.settled_s) - (elapsed_s - before_s)
        self.record.overhead_node_s += paused_s * self.size * self.share
        self.setup_node_s += (min(elapsed_s, setup_s) - min(before_s, setup_s)) * self.size * self.share
        self.short_s += (now_s - self.settled_s) * (1.0 - self.size / self.job.node_count)
        self.settled_s = now_s
        self.settled_elapsed_s = elapsed_s

    def resize(self, nodes: int, now_s: float) -> None:
        """Continue on `nodes`, without loss of the work done so far."""
        self.settle(now_s)
        work_s = self.work_s(now_s)
        self.anchor_elapsed_s = self.elapsed_s(now_s)
        self.anchor_work_s = work_s
        self.past_sizes += (PastSize(node_count=self.size, until_s=now_s),)
        self.nodes = nodes
        self.size = nodes.bit_count()

    def note_raise(self, walltime_s: float) -> None:
        """The time limit rises to that for a checkpoint, and stays raised."""
        self.raised_s += walltime_s - self.walltime_s

    def note_shrink(self) -> None:
        """The run is about to be shrunk, and its time limit to rise for that."""
        if self.unshrunk_walltime_s is None:
            own_s = self.walltime_s - self.raised_s
            self.unshrunk_walltime_s = own_s if self.usual_walltime_s is None else self.usual_walltime_s

    def grown_walltime_s(self, node_count: int, now_s: float) -> float:
        """The time limit of a shrunk run that grows to that many nodes now: what is left falls in proportion.

        With all its nodes it keeps the time that shrinks have cost, and what checkpoints have added.
        """
        if self.unshrunk_walltime_s is None:
            return self.walltime_s
        self.settle(now_s)
        run_s = now_s - self.start_s
        left_s = max(0.0, self.unshrunk_walltime_s + self.raised_s + self.short_s - run_s)
        return min(self.walltime_s, run_s + left_s * self.job.node_count / node_count)

    def end_checkpoint(self, now_s: float, *, complete: bool) -> None:
        """The checkpoint on demand is over. Incomplete: nothing is safe that was not before."""
        since_s = self.checkpointing_since_s
        if since_s is None:
            return
        if complete:
            self.saved_work_s = max(self.saved_work_s, self.work_s(now_s))
            self.saved_s = now_s
            self.saved_elapsed_s = self.elapsed_s(now_s)
        self.checkpointing_since_s = None
        self.checkpoint_token = -1
        self.paused_s += now_s - since_s

    def complete(self, now_s: float) -> None:
        """The work is done."""
        restart_s = self.setup_s - self.job.setup_s
        if restart_s and self.malleable:
            self.settle(now_s)  # it can have been shrunk meanwhile
            self.record.overhead_node_s += self.setup_node_s * restart_s / self.setup_s
        else:
            self.record.overhead_node_s += restart_s * self.size * self.share
        if self.paused_s or self.checkpointing_since_s is not None:
            self.settle(now_s)
            self.end_checkpoint(now_s, complete=False)
        self.record.end_s = now_s
        self.nodes = 0
        self.end_token = -1

    def abandon(self, now_s: float, *, safe: bool) -> None:
        """Account for a run that ends unfinished: its setup, its lost work and what it spent in a regular
        checkpoint that is not complete.

        Saved work survives if `safe`, else none does.
        """
        self.settle(now_s)
        self.record.overhead_node_s += self.setup_node_s
        node_count = self.job.node_count
        self.cpus, self.gpus = self.cpus * node_count // self.size, self.gpus * node_count // self.size
        work_s, regular_s = self.work_s(now_s), self._checkpoints_s(self.elapsed_s(now_s))
        if safe:
            kept_s = self.safe_work_s(now_s)
            complete_s = self._regular_checkpoints(now_s) * self.job.checkpoint_cost_s
            # A later checkpoint on demand was complete before the regular one, which was written in vain.
            in_vain_s = max(0.0, self._checkpoints_s(self.saved_elapsed_s) - complete_s)
            self.record.overhead_node_s += in_vain_s * node_count * self.share
            self._lose(max(0.0, work_s - kept_s) + max(0.0, regular_s - complete_s - in_vain_s))
            self.saved_work_s = kept_s
            self.saved_checkpoints_s += complete_s
        else:
            self._lose(work_s + regular_s + self.saved_checkpoints_s)
            self.saved_work_s = self.saved_checkpoints_s = 0.0
        self.end_checkpoint(now_s, complete=False)
        self.nodes = self.batch_host = 0
        self.end_token = -1
        self.size = node_count
        self._next_limit()

    def forfeit(self) -> None:
        """The job ends while it waits: what earlier runs have saved is lost."""
        self._lose(self.saved_work_s + self.saved_checkpoints_s)

    def _lose(self, lost_s: float) -> None:
        """Count seconds at the full size as lost."""
        self.record.lost_node_s += lost_s * self.job.node_count * self.share
        self.record.lost_cpu_s += lost_s * self.cpus
        self.record.lost_gpu_s += lost_s * self.gpus

    def _next_limit(self) -> None:
        """The next run has the time limit without what this run's size has added."""
        if self.usual_walltime_s is not None:
            self.walltime_s = self.usual_walltime_s
        elif self.unshrunk_walltime_s is not None:
            self.walltime_s = self.unshrunk_walltime_s + self.raised_s
        self.usual_walltime_s = self.unshrunk_walltime_s = None
        self.raised_s = self.short_s = 0.0

    def _next_setup_s(self) -> float:
        return self.job.setup_s + (self.job.restart_s if self.saved_work_s > 0.0 else 0.0)

    def _takes_none(self) -> bool:
        return self.malleable or self.job.checkpoint_interval_s is None

    def _work_in(self, useful_s: float) -> float:
        """Work done in `useful_s` seconds after the setup: all but the regular checkpoints."""
        interval_s = self.job.checkpoint_interval_s
        if useful_s <= 0.0:
            return 0.0
        if interval_s is None or self.malleable:
            return useful_s
        cycles, rest_s = divmod(useful_s, interval_s + self.job.checkpoint_cost_s)
        return cycles * interval_s + min(rest_s, interval_s)

    def _checkpoints_s(self, elapsed_s: float) -> float:
        """How much of the first `elapsed_s` of this run was spent in regular checkpoints."""
        useful_s = elapsed_s - self.setup_s
        return max(0.0, useful_s) - self._work_in(useful_s)

    def _checkpoints_of(self, work_s: float) -> int:
        """How many regular checkpoints so much work takes: one after each interval, none at the very end."""
        interval_s = self.job.checkpoint_interval_s
        if interval_s is None or work_s <= 0.0:
            return 0
        return max(0, ceil((work_s - TOLERANCE_S) / interval_s) - 1)

    def _regular_checkpoints(self, now_s: float) -> int:
        """How many regular checkpoints of this run are complete at `now_s`."""
        if self._takes_none():
            return 0
        useful_s = self.elapsed_s(now_s) - self.setup_s + TOLERANCE_S
        cycle_s = (self.job.checkpoint_interval_s or 0.0) + self.job.checkpoint_cost_s
        return max(0, int(useful_s // cycle_s))

    def _regular_elapsed_s(self, count: int) -> float:
        cycle_s = (self.job.checkpoint_interval_s or 0.0) + self.job.checkpoint_cost_s
        return self.setup_s + count * cycle_s
