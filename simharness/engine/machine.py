"""The simulated machine: which node has which job, and how starts, ends and reservations change that.

It takes no decisions: `cluster` moves the clock, `scheduler` starts jobs, `commands` carries out actions.
"""

from collections.abc import Callable, Sequence

from makeway.simharness.engine.event_queue import Change, ChangeKind, EventOrder, EventQueue
from makeway.simharness.engine.job_run import TOLERANCE_S, JobRun
from makeway.simharness.engine.partitioned import PartitionedScheduler, PartitionSettings
from makeway.simharness.engine.records import JobRecord, Mark, MarkKind, RunEnding, Segment
from makeway.simharness.engine.reservations import LeaseBook, SimHold, hold_of, releases_with_holds
from makeway.simharness.engine.scheduler import (
    Release,
    Scheduler,
    SchedulerSettings,
    insert_release,
    limit_s,
    remove_release,
)
from makeway.simharness.engine.shared.scheduler import SharedScheduler
from makeway.simharness.engine.storage import Storage, StorageSettings
from makeway.simharness.workloads.job import SimJob
from makeway.simharness.workloads.nodeset import NodeNames, lowest

FIRST_RANK = -(1 << 40)
"""The first rank of jobs that are moved to the front."""
PLANNED_RANK = -(1 << 39)
"""The first rank of jobs in a planned order. All other jobs have rank 0."""


class SimMachine:
    """Nodes, the jobs that have not ended, reservations, the queue, and the record of what happened to them.

    Sets of nodes are integers (`nodeset`). Times are those of the clock, which only `SimCluster` moves.
    """

    taken_clock: Callable[[], float] | None = None
    """By which clock what is taken from jobs is kept with them. None: it is not, as no journal is lost."""

    def __init__(
        self,
        node_count: int,
        jobs: Sequence[SimJob],
        *,
        scheduler: SchedulerSettings,
        storage: StorageSettings,
        requeue_delay_s: float,
        placed: PartitionSettings | None = None,
    ) -> None:
        self.now_s, self.node_count = 0.0, node_count
        self.jobs = list(jobs)
        self.requeue_delay_s = requeue_delay_s
        self.scheduler: Scheduler | PartitionedScheduler | SharedScheduler = (
            Scheduler(scheduler) if placed is None else PartitionedScheduler(scheduler, placed)
        )
        self.storage = Storage(storage)
        self.names = NodeNames(node_count)
        self.placements = () if placed is None else placed.partitions.placements(self.names)
        self.events = EventQueue()
        self.records = [JobRecord(job) for job in jobs]
        self.segments: list[Segment] = []
        self.marks: list[Mark] = []
        self.free = (1 << node_count) - 1  # nodes that are up and held by no job
        self.down = self.drained = 0  # no job starts on a drained node any more; an idle one is down, too
        self.reserved = 0
        """Nodes of all reservations."""
        self.live: dict[str, JobRun] = {}
        """Every job that is pending or holds nodes, by id, in order of arrival."""
        self.running: dict[int, JobRun] = {}
        """The jobs that hold nodes, by index."""
        self.bound: dict[int, JobRun] = {}
        """The jobs, pending or running, that are bound to a reservation, by index."""
        self.het_jobs: dict[str, list[JobRun]] = {}  # the components that have not ended, by their job
        self.holds: dict[str, SimHold] = {}
        self.leases = LeaseBook()
        self.taken_for_ended: dict[str, JobRun] = {}  # a requeue was forgotten
        self.pass_due = False
        """Whether the scheduler is to look at the queue before time goes on."""
        self.interference = 0
        """Counts what may rightly delay the first job of the queue: commands, failures, reservations."""
        self.nodes_version = 0  # goes up when a node changes its state
        self.touched: set[str] | None = None
        """Ids of the jobs that changed or ended since the last snapshot. None: no snapshot is kept."""
        self.changes: list[Change] | None = []
        """What has happened since the last step of the clock. None: it is not collected."""
        self._releases: list[Release] = []
        self._front = FIRST_RANK
        self._storage_version = 0

    # What the scheduler sees

    def available(self) -> int:
        """How many nodes are free for jobs of the common queue."""
        return (self.free & ~self.reserved if self.reserved else self.free).bit_count()

    def releases(self) -> Sequence[Release]:
        """When each node comes free at the latest: see `reservations.releases_with_holds`."""
        holds = self.holds.values()
        return releases_with_holds(holds, self.running.values(), self.free) if holds else self._releases

    def start(self, live: JobRun, node_count: int) -> None:
        """Start a job of the common queue on the lowest-numbered available nodes, with a longer time limit if
        they are fewer than it asked for.
        """
        if node_count != live.size:
            live.usual_walltime_s = live.walltime_s
            live.walltime_s = limit_s(live.walltime_s, live.size, node_count)
            live.size = node_count
        self.start_on(live, lowest(self.free & ~self.reserved, node_count))

    # Jobs

    def add(self, job: SimJob) -> int:
        """Add a job to the workload; it has not arrived. Returns its index."""
        self.jobs.append(job)
        self.records.append(JobRecord(job))
        return len(self.jobs) - 1

    def submit(self, index: int) -> None:
        """The job of that index arrives."""
        job = self.jobs[index]
        live = JobRun(index, job, self.records[index])
        self.live[job.job_id] = live
        if job.het_job_id:
            self.het_jobs.setdefault(job.het_job_id, []).append(live)
        self.enqueue(live)
        self.note(ChangeKind.SUBMITTED, live)

    def start_on(self, live: JobRun, nodes: int) -> None:
        """Start a run on exactly these free nodes. The job is out of the queue already."""
        self.running[live.index] = live
        live.begin(nodes, self.now_s)
        self._occupy(live)
        self.schedule_end(live)
        if live.record.start_s is None:
            live.record.start_s = self.now_s
        elif live.evicted:
            live.evicted = False
            self.mark(MarkKind.RETURNED, live, nodes)
        self.note(ChangeKind.STARTED, live)

    def enqueue(self, live: JobRun) -> None:
        """Put an eligible job into the queue. Components of heterogeneous jobs start apart from it."""
        if not live.job.het_job_id:
            self.scheduler.add(live)

    def schedule_end(self, live: JobRun) -> None:
        """Set the end of the present run: its completion or its time limit, whichever comes first."""
        completion_s = live.completion_s()
        live.completes = completion_s <= live.limit_s + TOLERANCE_S
        self.events.end_run(min(completion_s, live.limit_s), live)

    def run_ends(self, live: JobRun) -> None:
        """The run ends: its work is done, or its time limit is reached and the job never completes."""
        self.end(live, RunEnding.COMPLETED if live.completes else RunEnding.CANCELLED)

    def end(self, live: JobRun, ending: RunEnding) -> None:
        """End the job finally, wherever it is. Unless it is complete, all its work is lost."""
        if live.nodes:
            self._leave(live, ending)
            if ending is RunEnding.COMPLETED:
                live.complete(self.now_s)
            else:
                live.abandon(self.now_s, safe=False)
        else:
            live.eligible_s = None
            live.forfeit()
            self.scheduler.remove(live)
        self.bound.pop(live.index, None)
        del self.live[live.job.job_id]
        if live.job.het_job_id:
            self.het_jobs[live.job.het_job_id].remove(live)
        self.note(ChangeKind.ENDED, live)

    def requeue(self, live: JobRun, ending: RunEnding) -> None:
        """Take the running job off its nodes; it is pending again, and eligible after the requeue delay."""
        self.interfere()
        self._leave(live, ending)
        live.abandon(self.now_s, safe=True)
        self.make_wait(live)

    def make_wait(self, live: JobRun) -> None:
        """Put a job into the queue again whose run is over."""
        live.requeue_count += 1
        at_s = self.now_s + self.requeue_delay_s
        live.eligible_s = live.eligible_since_s = at_s
        self.events.add(
            at_s, EventOrder.ELIGIBLE, lambda: self.make_eligible(live), lambda: live.eligible_s == at_s
        )
        self.note(ChangeKind.REQUEUED, live)

    def make_eligible(self, live: JobRun) -> None:
        """The pending job may start from now on."""
        self.interfere()
        live.eligible_s = None
        if live.reservation is None:
            self.enqueue(live)
        self.note(ChangeKind.ELIGIBLE, live)

    def move_to_front(self, live: JobRun) -> None:
        """Serve the pending job before all others, but after those that were moved to the front before."""
        self.interfere()
        self.scheduler.remove(live)
        self._front += 1
        live.rank = self._front
        if live.eligible_s is not None:
            live.eligible_s, live.eligible_since_s = None, self.now_s
        if live.reservation is None:
            self.enqueue(live)
        self.note(ChangeKind.PRIORITISED, live)

    def give_queue_position(self, live: JobRun, queue_position: int | None) -> None:
        """Serve the pending job in the planned order, after the front and before the common queue. None: put
        it back into that.
        """
        self.interfere()
        self.scheduler.remove(live)
        live.rank = 0 if queue_position is None else PLANNED_RANK + queue_position
        if live.reservation is None and live.eligible_s is None:
            self.enqueue(live)
        self.note(ChangeKind.PRIORITISED, live)

    def resize(self, live: JobRun, nodes: int, *, walltime_s: float) -> None:
        """Continue the running job on these nodes, its own or free ones, with that time limit."""
        self.interfere()
        self.close_segment(live, RunEnding.RESIZED)
        self._vacate(live)
        live.resize(nodes, self.now_s)
        self._stay(live, walltime_s)
        self.note(ChangeKind.RESIZED, live)

    def set_limit(self, live: JobRun, walltime_s: float) -> None:
        """Let the running job run until `walltime_s` from its start."""
        self.interfere()
        self._vacate(live)
        self._stay(live, walltime_s)
        self.touch(live)

    def close_segment(self, live: JobRun, ending: RunEnding) -> None:
        """Record the time spent on the present nodes, unless it is zero."""
        since_s = live.segment_start_s
        if since_s < self.now_s:
            self.segments.append(Segment(live.index, since_s, self.now_s, live.nodes, ending, live.share))
        live.segment_start_s = self.now_s

    def _leave(self, live: JobRun, ending: RunEnding) -> None:
        if live.checkpointing_since_s is not None and live.job.save_s is None:
            self.storage.abort(live.index, self.now_s)
            self._watch_storage()
        self.close_segment(live, ending)
        self._vacate(live)
        del self.running[live.index]
        self.scheduler.disturb()

    # Nodes of jobs

    def _occupy(self, live: JobRun) -> None:
        """The job holds its nodes until its limit."""
        self.free &= ~live.nodes
        insert_release(self._releases, (live.limit_s, live.index, live.size))

    def _vacate(self, live: JobRun) -> None:
        """The job holds its nodes no more; it still knows which they are."""
        remove_release(self._releases, (live.limit_s, live.index, live.size))
        self.free |= live.nodes & ~self.down

    def _stay(self, live: JobRun, walltime_s: float) -> None:
        """The running job has these nodes, and this time limit, from now on."""
        live.walltime_s = walltime_s
        live.limit_s = live.start_s + walltime_s
        self._occupy(live)
        self.schedule_end(live)

    def serving(self, live: JobRun, among: int) -> int:
        """The nodes of `among` on which a job can start now. 0: they do not suffice."""
        nodes = among & self.free
        return lowest(nodes, live.size) if nodes.bit_count() >= live.size else 0

    # Checkpoints on demand

    def begin_checkpoint(self, live: JobRun) -> None:
        """The running job stops working and saves its state; it must know how."""
        job, now_s = live.job, self.now_s
        token = live.checkpoint_token = self.events.token()
        live.checkpointing_since_s = now_s
        if job.save_s is not None:
            self.events.add(
                now_s + job.save_s,
                EventOrder.CHECKPOINT,
                lambda: self._checkpoint_done(live),
                lambda: live.checkpoint_token == token,
            )
        elif job.system_gb_per_node is not None:
            gb_per_node = job.system_gb_per_node
            self.storage.begin(live.index, gb_per_node=gb_per_node, node_count=live.size, now_s=now_s)
            self._watch_storage()
        self.schedule_end(live)
        self.note(ChangeKind.SIGNALLED, live)

    def _watch_storage(self) -> None:
        self._storage_version += 1
        version = self._storage_version
        next_s = self.storage.next_end_s()
        if next_s is not None:
            self.events.add(
                next_s, EventOrder.CHECKPOINT, self._stored, lambda: self._storage_version == version
            )

    def _stored(self) -> None:
        for index in self.storage.finish(self.now_s):
            self._checkpoint_done(self.running[index])
        self._watch_storage()

    def _checkpoint_done(self, live: JobRun) -> None:
        live.end_checkpoint(self.now_s, complete=True)
        self.schedule_end(live)
        self.mark(MarkKind.CHECKPOINTED, live, live.nodes)
        self.note(ChangeKind.ACKNOWLEDGED, live)

    # Reservations and nodes

    def hold(self, name: str, nodes: int, end_s: float) -> None:
        """Make the reservation, or change the one of that name."""
        self.interfere()
        hold = self.holds[name] = hold_of(self.holds.get(name), name, nodes, self.now_s, end_s)
        self._count_reserved()
        self.events.add(
            end_s, EventOrder.HOLD_END, lambda: self.drop_hold(hold), lambda: self.holds.get(name) is hold
        )

    def drop_hold(self, hold: SimHold) -> None:
        """The reservation is over; its pending jobs go back to the common queue, its running ones run on."""
        self.interfere()
        del self.holds[hold.name]
        self._count_reserved()
        for live in [live for live in self.bound.values() if live.reservation == hold.name]:
            live.reservation = None
            del self.bound[live.index]
            if not live.nodes and live.eligible_s is None:
                self.enqueue(live)
            self.touch(live)
        self.note(ChangeKind.RESERVATION_ENDED, None)

    def _count_reserved(self) -> None:
        self.reserved = 0
        for hold in self.holds.values():
            self.reserved |= hold.nodes

    def bind(self, live: JobRun, name: str) -> None:
        """Let the pending job start in that reservation only."""
        self.scheduler.remove(live)
        live.reservation = name
        self.bound[live.index] = live
        self.note(ChangeKind.RESERVED, live)

    def node_down(self, node: int) -> None:
        """The node fails: the job on it is requeued."""
        bit = 1 << node
        self.interfere()
        self.nodes_version += 1
        self.down |= bit
        self.free &= ~bit
        self.marks.append(Mark(self.now_s, MarkKind.NODE_DOWN, None, bit))
        for live in [live for live in self.running.values() if live.nodes & bit]:
            self.requeue(live, RunEnding.NODE_FAILED)
        self.note(ChangeKind.NODE_DOWN, None)

    def node_up(self, node: int) -> None:
        """The node is repaired."""
        self.interfere()
        self.nodes_version += 1
        self.down &= ~(1 << node)
        self.free |= 1 << node
        self.note(ChangeKind.NODE_UP, None)

    # What others read

    def interfere(self) -> None:
        """Something has happened that the scheduler did not plan: it looks at the whole queue again."""
        self.interference += 1
        self.scheduler.disturb()
        self.pass_due = True

    def note(self, kind: ChangeKind, live: JobRun | None) -> None:
        """Record that this has happened."""
        if self.changes is not None:
            self.changes.append(Change(self.now_s, kind, None if live is None else live.job.job_id))
        if live is not None and self.touched is not None:
            self.touched.add(live.job.job_id)

    def touch(self, live: JobRun) -> None:
        """Mark the job as changed since the last snapshot."""
        if self.touched is not None:
            self.touched.add(live.job.job_id)

    def mark(self, kind: MarkKind, live: JobRun, nodes: int) -> None:
        """Put a mark on the job into the record."""
        self.marks.append(Mark(self.now_s, kind, live.index, nodes))
