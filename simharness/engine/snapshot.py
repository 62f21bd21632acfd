"""Snapshots of the simulated cluster, in which only what changed is built again."""

from heapq import heappop, heappush
from math import inf

from makeway.policies.model import (
    CheckpointSpec,
    Cluster,
    Job,
    JobKind,
    JobState,
    Node,
    NodeState,
    Notice,
    Reservation,
    changed,
    memoise_each,
)
from makeway.simharness.engine.cluster import Admission
from makeway.simharness.engine.job_run import TOLERANCE_S, JobRun
from makeway.simharness.engine.machine import PLANNED_RANK, SimMachine
from makeway.simharness.engine.reservations import SimHold
from makeway.simharness.engine.shared.machine import SharedMachine
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.workloads.job import SimJob

LEAST_GRACE_S = 300.0
"""A job is given this long to acknowledge a checkpoint, or twice what the checkpoint takes."""


def notice_id(job: SimJob) -> str:
    """The id of a job's announcement, as the daemon and the job use it."""
    return f"notice-{job.job_id}"


@memoise_each
def notice_of(job: SimJob) -> Notice:
    """The announcement of a job that was announced, as the daemon gets it."""
    return Notice(
        notice_id=notice_id(job),
        user=job.user,
        node_count=job.node_count,
        walltime_s=job.walltime_s,
        announced_s=job.submit_s if job.announced_s is None else job.announced_s,
        expected_s=job.submit_s if job.expected_s is None else job.expected_s,
        demand=job.demand,
    )


class SnapshotBuilder:
    """Builds snapshots, and keeps the values of the last one.

    What no scheduler can know of a job (its run time) is not in them.
    """

    def __init__(self, machine: SimMachine, storage: StorageSettings, admission: Admission) -> None:
        self._machine = machine
        self._admission = admission
        self._shared = machine if isinstance(machine, SharedMachine) else None
        self._storage = storage
        self._jobs: dict[str, Job] = {}
        self._all_jobs: tuple[Job, ...] = ()
        self._specs: dict[tuple[int, int], CheckpointSpec | None] = {}
        self._due: list[tuple[float, str]] = []
        """When each running job completes its next regular checkpoint: a heap.

        Entries may be too early.
        """
        self._nodes: tuple[Node, ...] = ()
        self._nodes_version = -1
        self._holds: dict[str, tuple[SimHold, Reservation]] = {}
        self._touched: set[str] = set()

    def take(self) -> Cluster:
        """The cluster at this instant."""
        nodes = self._node_values()
        self._update_jobs()
        machine = self._machine
        return Cluster(
            now_s=machine.now_s,
            nodes=nodes,
            jobs=self._all_jobs,
            reservations=self._reservations() if machine.holds else (),
            recomputes_priority=True,
            placements=machine.placements,
            leader_leases=machine.leases.all(),
        )

    def _update_jobs(self) -> None:
        machine = self._machine
        stale = self._touched
        if machine.touched is not stale:  # the first snapshot, or another builder was used since
            self._jobs.clear()
            self._all_jobs = ()
            stale = set(machine.live)
        due: set[str] = set()
        while self._due and self._due[0][0] <= machine.now_s + TOLERANCE_S:
            due.add(heappop(self._due)[1])
        self._touched = machine.touched = set()
        if not (stale or due):
            return
        jobs = self._jobs
        for job_id in due - stale:
            live = machine.live.get(job_id)
            if live is not None and live.nodes:  # it has saved its work, and runs on
                jobs[job_id] = changed(jobs[job_id], last_checkpoint_s=_saved_s(live, machine.now_s))
                self._expect_checkpoint(live)
        for job_id in stale:
            live = machine.live.get(job_id)
            if live is None:
                jobs.pop(job_id, None)
                continue
            jobs[job_id] = self._job(live)
            if live.nodes:
                self._expect_checkpoint(live)
        self._all_jobs = tuple(map(jobs.__getitem__, machine.live))  # in order of arrival

    def _expect_checkpoint(self, live: JobRun) -> None:
        """Note when a running job completes its next regular checkpoint."""
        next_s = live.next_checkpoint_s(self._machine.now_s)
        if next_s < inf:
            heappush(self._due, (max(next_s, self._machine.now_s), live.job.job_id))

    def _job(self, live: JobRun) -> Job:
        job, now_s = live.job, self._machine.now_s
        running = live.nodes != 0
        shared = self._shared
        malleable = job.kind is JobKind.MALLEABLE
        lost = live.reservation is not None and live.reservation not in self._machine.holds
        return Job(
            job_id=job.job_id,
            kind=job.kind,
            state=JobState.RUNNING if running else JobState.PENDING,
            node_count=live.size,
            walltime_s=live.walltime_s,
            submit_s=job.submit_s,
            user=job.user,
            account=job.account,
            qos=job.queue,
            partition=job.partition,
            node_count_min=job.node_count_min if malleable else None,
            node_count_max=job.node_count if malleable else None,
            nodes=self._names(live) if running else (),
            allocation=None if shared is None else shared.allocation(live),
            demand=None if running else job.demand,
            # As on Slurm, which tells the sizes of the nodes.
            eligible_nodes=None if running or shared is None else shared.able_nodes(job.demand),
            blocked_by="" if running else self._admission.blocked_by(live),
            quotas=() if running else self._admission.quotas(live),
            node_equivalents=live.share * live.size if running and shared is not None else None,
            start_s=live.start_s if running else None,
            eligible_s=live.eligible_s,
            eligible_since_s=live.eligible_since_s if job.kind is JobKind.ON_DEMAND else None,
            setup_s=job.setup_s,
            het_job_id=job.het_job_id,
            checkpoint=self._spec(live),
            last_checkpoint_s=_saved_s(live, now_s) if running else None,
            checkpointing_since_s=live.checkpointing_since_s,
            requeue_count=live.requeue_count,
            taken=live.taken,
            past_sizes=live.past_sizes if running else (),
            # As on Slurm: the components of a heterogeneous job end together, so that none is made to leave.
            preemptible=job.preemptible and job.kind is not JobKind.ON_DEMAND and not job.het_job_id,
            reservation=None if lost else live.reservation,
            reservation_lost=lost and not running,
            last_hold=live.last_hold if lost and not running else None,
            start_within_s=job.start_within_s,
            prioritised=live.rank < 0,
            queue_position=live.rank - PLANNED_RANK if PLANNED_RANK < live.rank < 0 else None,
            notice_id=notice_id(job) if job.announced_s is not None else None,
            priority=-live.rank,
            saved_s=live.saved_before_s(),
        )

    def _names(self, live: JobRun) -> tuple[str, ...]:
        names = self._machine.names
        if live.nodes & -live.nodes == live.batch_host:
            return names.of(live.nodes)
        found = names.of(live.batch_host) + names.of(live.nodes & ~live.batch_host)
        if names.kept is not None:
            names.kept.keep(found, live.nodes)
        return found

    def _spec(self, live: JobRun) -> CheckpointSpec | None:
        key = (live.index, live.size)
        if key not in self._specs:
            self._specs[key] = self._new_spec(live)
        return self._specs[key]

    def _new_spec(self, live: JobRun) -> CheckpointSpec | None:
        job = live.job
        system_s = job.save_s
        if system_s is None and job.system_gb_per_node is not None:
            system_s = self._storage.alone_s(job.system_gb_per_node, live.size)
        interval_s = None if live.malleable else job.checkpoint_interval_s
        if system_s is None and interval_s is None:
            return None
        return CheckpointSpec(
            interval_s=interval_s,
            application_s=None if interval_s is None else job.checkpoint_cost_s,
            system_s=system_s,
            grace_s=max(LEAST_GRACE_S, 2 * (system_s or 0.0)),
        )

    def _node_values(self) -> tuple[Node, ...]:
        machine = self._machine
        if self._nodes_version != machine.nodes_version:
            self._nodes_version = machine.nodes_version
            self._nodes = tuple(
                Node(
                    name=name,
                    state=self._state(number),
                    capacity=None if self._shared is None else self._shared.capacities[number],
                )
                for number, name in enumerate(machine.names.names)
            )
            machine.names.kept = Cluster(now_s=machine.now_s, nodes=self._nodes, jobs=()).node_sets()
        return self._nodes

    def _state(self, number: int) -> NodeState:
        if self._machine.drained >> number & 1:
            return NodeState.DRAINED
        return NodeState.DOWN if self._machine.down >> number & 1 else NodeState.UP

    def _reservations(self) -> tuple[Reservation, ...]:
        kept, self._holds = self._holds, {}
        for name, hold in self._machine.holds.items():
            known = kept.get(name)
            if known is None or known[0] is not hold:
                names = self._machine.names.of(hold.nodes)
                value = Reservation(name=name, nodes=names, start_s=hold.start_s, end_s=hold.end_s)
                known = (hold, value)
            self._holds[name] = known
        return tuple(value for _, value in self._holds.values())


def _saved_s(live: JobRun, now_s: float) -> float | None:
    """When the last checkpoint of a run was complete: not in the future by rounding. None: there was none."""
    saved_s = live.last_checkpoint_s(now_s)
    return None if saved_s is None else min(saved_s, now_s)
