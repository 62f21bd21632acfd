"""Slurm by its commands: `squeue` and `scontrol` to read, `scontrol`, `scancel` and `salloc` to act.

One snapshot is two commands, whatever the number of jobs. A verb looks at its job first: Slurm takes some commands for a
job in another state than the one that is meant, and does something else with them (a `NodeList=` on a pending job pins it,
a `scancel --signal` waits for it to start, `scontrol requeue` runs a finished job again).
"""

import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from makeway.adapters.command import CompletedCommand, Runner
from makeway.adapters.protocol import Capabilities, Gone, Rejected, Unavailable, Unreadable, Unsupported
from makeway.adapters.slurm import build, parse
from makeway.adapters.slurm.access import known, new_token, runner_of
from makeway.adapters.slurm.errors import in_use, refusal, unknown_reservation
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.settings import Placing, SlurmSettings
from makeway.adapters.slurm.topology import placements
from makeway.adapters.slurm.translate import Translator, job_class, node, over, reservation, state
from makeway.policies.model import Cluster, JobKind, JobState, Placement, SignalTarget

_GRANTED = re.compile(r"Granted job allocation (\d+)")
_MOST_UNTOLD = 200
"""So many of them fit into one standard input."""
_LEAVING = frozenset({JobState.RUNNING, JobState.COMPLETING})
_HELD = ("JobHeldUser", "JobHeldAdmin", "job_requeued_in_held_state", "launch_failed_requeued_held")


class SlurmCliAdapter:
    """`Adapter` over Slurm's commands.

    Args:
        settings: where Slurm is, and the classes of its jobs.
        runner: what runs the commands. None: one that follows the settings.
        now: the clock of the snapshots.

    The first use reads the controller's version and configuration (and its topology, if asked to), and raises `Unavailable` if it does not answer.
    """

    def __init__(
        self,
        settings: SlurmSettings,
        *,
        runner: Runner | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._runner: Runner = runner if runner is not None else runner_of(settings)
        self._now = now
        self._known: tuple[Capabilities, tuple[int, int]] | None = None
        self._placements: tuple[Placement, ...] | None = None
        self._asked: dict[str, tuple[int, int]] = {}
        """Jobs that we shrank: their restarts and their size at that time."""

    @property
    def capabilities(self) -> Capabilities:
        """What this cluster can do: see `slurm_access.known`."""
        return self._cluster_known()[0]

    def snapshot(self) -> Cluster:
        """The whole cluster at one instant, by two commands."""
        capabilities, release = self._cluster_known()
        raw_jobs = [job for job in self._squeue() if not over(job)]
        now_s = self._now()
        token = new_token()
        untold = self._untold(raw_jobs) if release < build.KNOWS_EXCLUDED_NODES else []
        command = build.show_cluster()
        done = self._run(
            command, stdin=build.show_script(token, untold), environment={"SLURM_TIME_FORMAT": "%s"}
        )
        sections = parse.sections(done.stdout, token=token, command=command)
        nodes = parse.nodes(sections.get("nodes", []), command=command)
        partitions = parse.partitions(sections.get("partitions", []), command=command)
        reservations = parse.reservations(sections.get("reservations", []), command=command)
        excluded = {job_id: parse.excluded_nodes(sections.get(job_id, [])) for job_id in untold}
        told = [
            replace(job, excluded_nodes=excluded[job.job_id]) if job.job_id in excluded else job
            for job in raw_jobs
        ]
        translator = Translator(
            self._settings.classes,
            nodes,
            partitions,
            now_s,
            exclusive_shrink=release >= build.RESIZES_CLEANLY,
        )
        self._forget(raw_jobs)
        cluster = Cluster(
            now_s=now_s,
            nodes=tuple(node(one) for one in nodes),
            jobs=tuple(translator.job(raw, asked_node_count=self._asked_size(raw)) for raw in told),
            reservations=tuple(reservation(one) for one in reservations),
            can_expand=capabilities.expand,
            recomputes_priority=capabilities.recomputes_priority,
            placements=self._placing(),
        )
        _check_whole(cluster, command)
        return cluster

    def checkpoint(
        self, job_id: str, *, signal: str, walltime_s: float, signal_to: SignalTarget = SignalTarget.BATCH
    ) -> None:
        """Raise the running job's time limit to `walltime_s` if it is less, and signal its batch shell, steps or both.

        22.05 without accounting changes nothing more of a job that was shrunk: its checkpoint is worth more than its limit.
        """
        job = self._running(job_id)
        if walltime_s > job.limit_s:
            done = self._run(build.resize(job_id, None, build.minutes(walltime_s)))
            if done.returncode != 0 and not (
                isinstance(error := refusal(done), Rejected) and error.retryable
            ):
                raise error
        for command in build.signal_job(job_id, signal, signal_to):
            self._do(command)

    def requeue(self, job_id: str) -> None:
        """Put the running job back into the queue."""
        self._running(job_id)
        self._do(build.requeue(job_id))

    def requeue_again(self, job_id: str, *, requeue_count: int) -> None:
        """Put back a job that was requeued and then taken for ended.

        slurmctld saves its state some seconds late. If it dies before that, it forgets the requeue when it is started
        again, hears from the node that the job has ended by a signal, and takes that for the job's own end. The job may
        complete at any moment, so the command is the one that takes jobs which have ended.
        """
        job = next((one for one in self._squeue(job_id, ended=True) if one.job_id == job_id), None)
        same_run = job is not None and job.restarts == requeue_count
        if job is None or not same_run or not (over(job) or state(job) in _LEAVING):
            raise Gone(f"job {job_id} is over")
        self._do(build.requeue_any(job_id))

    def cancel(self, job_id: str) -> None:
        """End the job."""
        self._look(job_id)
        self._do(build.cancel(job_id))

    def shrink(self, job_id: str, *, keep_nodes: tuple[str, ...], walltime_s: float) -> None:
        """Leave the running job `keep_nodes` only and raise its time limit to `walltime_s`, in one command.

        Slurm refuses what is no part of the job's nodes, and to take the batch host away.
        """
        job = self._running(job_id)
        limit_min = build.minutes(walltime_s) if walltime_s > job.limit_s else None
        if set(keep_nodes) != set(job.nodes):
            if job.exclusive and self._cluster_known()[1] < build.RESIZES_CLEANLY:
                raise Rejected(
                    f"job {job_id} is exclusive: this Slurm would lose the nodes that it gives away"
                )
            self._do(build.resize(job_id, keep_nodes, limit_min))
            self._asked[job_id] = (job.restarts, self._asked_size(job) or len(job.nodes))
        elif limit_min is not None:
            self._do(build.resize(job_id, None, limit_min))

    def expand(self, job_id: str, *, nodes: tuple[str, ...], reservation: str | None) -> None:
        """Add `nodes` to the running job: allocate them as its user, then merge the allocation into the job."""
        if not self.capabilities.expand:
            raise Unsupported("jobs cannot grow here: that takes Slurm 24.11, permit_job_expansion and root")
        job = self._running(job_id)
        wanted = tuple(name for name in nodes if name not in job.nodes)
        if not wanted:
            return
        if reservation is not None:
            admitted = self._run(build.admit(reservation, job.user_id))
            if unknown_reservation(admitted):
                reservation = None  # it was released meanwhile: the nodes may be free yet
            elif admitted.returncode != 0:
                raise refusal(admitted)
        expander = self._left_expander(job, wanted) or self._allocate(job, wanted, reservation)
        done = self._run(build.merge_expander(expander))
        if done.returncode != 0:
            self._run(build.cancel(expander))
            raise refusal(done)

    def reserve(
        self,
        name: str,
        *,
        nodes: tuple[str, ...],
        duration_s: float,
        job_id: str | None,
        user: str | None = None,
        overlap: bool = False,
    ) -> None:
        """Keep exactly `nodes` until `duration_s` from now, and bind the pending job, if it is there, to them."""
        if job_id is None:
            self._keep(name, nodes, duration_s, build.user_name(user), purge=False, overlap=overlap)
            return
        job = self._pending(job_id)
        created = self._keep(name, nodes, duration_s, job.user_id, purge=True, overlap=overlap)
        bound = self._run(build.bind(job_id, name))
        # Slurm binds a running job just as readily, which would keep the reservation and its nodes in use.
        late = None if bound.returncode != 0 else self._started_elsewhere(job_id, nodes)
        if bound.returncode != 0 or late:
            self._run(build.bind(job_id, None))
            if created:
                self._run(build.delete_reservation(name))
            if late is not None:
                raise Gone(late)
            error = refusal(bound)
            # A controller that crashed in between has forgotten what it had just made.
            raise Rejected(str(error), retryable=True) if unknown_reservation(bound) else error

    def _keep(
        self,
        name: str,
        nodes: tuple[str, ...],
        duration_s: float,
        user: str,
        *,
        purge: bool,
        overlap: bool = False,
    ) -> bool:
        """Make the reservation, or change the one that is there. Returns whether it was made."""
        created = self._run(
            build.create_reservation(
                name, nodes=nodes, duration_s=duration_s, users=(user,), purge=purge, overlap=overlap
            )
        )
        if created.returncode == 0:
            return True
        # It may be there already; Slurm says so in several ways.
        updated = self._run(build.update_reservation(name, nodes=nodes, duration_s=duration_s, users=(user,)))
        if updated.returncode != 0:
            raise refusal(created if unknown_reservation(updated) else updated)
        return False

    def release(self, name: str) -> None:
        """End the reservation; the jobs that are bound to it are unbound first: pending ones wait, running ones run on.

        Slurm would end a running job together with its reservation, and does not unbind one that completes.
        """
        done = self._run(build.delete_reservation(name))
        if in_use(done):
            bound = self._squeue(reservation=name)
            if any(state(job) not in {JobState.PENDING, JobState.RUNNING} for job in bound):
                raise refusal(done)
            for job in bound:
                self._do(build.bind(job.job_id, None))
            done = self._run(build.delete_reservation(name))
        if unknown_reservation(done):
            raise Gone(refusal(done).args[0])
        if done.returncode != 0:
            raise refusal(done)

    def prioritise(self, job_id: str, *, queue_position: int | None = None) -> None:
        """Move the pending job to the front of the queue, any requeue delay lifted, or to its queue position in a planned order.

        22.05 requeues a job that was shrunk with its small size: it gets back the size that it was submitted with.
        """
        job = self._pending(job_id)
        _check_not_held(job)
        if queue_position is not None:
            self._do(build.to_queue_position(job_id, queue_position))
            return
        lost = job.restarts > 0 and job.requested_node_count > job.node_count
        self._do(
            build.to_front(
                job_id,
                requeued=job.restarts > 0,
                node_count=job.requested_node_count if lost else None,
            )
        )

    def restore_priority(self, job_id: str) -> None:
        """Let Slurm set the job's priority again: of a running one, or of one in a queue position; a user's hold would be lifted too."""
        job = self._look(job_id)
        if state(job) is JobState.PENDING:
            _check_not_held(job)
            if build.queue_position_of(job.priority) is None:
                raise Gone(f"job {job_id} waits, and has no queue position")
        else:
            self._running(job_id)
        self._do(build.restore_priority(job_id))

    def close(self) -> None:
        """Nothing is held."""

    def _cluster_known(self) -> tuple[Capabilities, tuple[int, int]]:
        """The capabilities and the release, read once."""
        if self._known is None:
            command = build.show_config()
            done = self._run(command)
            if done.returncode != 0:
                raise refusal(done)
            self._known = known(done, superuser=os.geteuid() == 0)
        return self._known

    def _placing(self) -> tuple[Placement, ...]:
        """The switches or blocks, read once; none where any nodes serve."""
        if self._placements is None:
            wanted = self._settings.placements is Placing.TOPOLOGY
            self._placements = placements(self._run(build.show_topology())) if wanted else ()
        return self._placements

    def _squeue(
        self, job_id: str | None = None, reservation: str | None = None, *, ended: bool = False
    ) -> tuple[RawJob, ...]:
        fields = build.job_fields(self._cluster_known()[1])
        token = new_token()
        command = build.squeue(job_id, reservation, ended=ended)
        done = self._run(command, environment=build.squeue_environment(fields, token))
        if done.returncode != 0:
            raise refusal(done)
        if "Invalid job format" in done.stderr:
            # It goes on all the same, with an empty field.
            raise Unreadable(f"this squeue lacks a field: {done.words}", command=command, text=done.stdout)
        return parse.jobs(done.stdout, fields=fields, token=token, command=command)

    def _look(self, job_id: str) -> RawJob:
        """The job as it is now. Raises `Gone` if it is over or was never there."""
        for job in self._squeue(job_id):
            if job.job_id == job_id and not over(job):
                return job
        raise Gone(f"job {job_id} is over")

    def _running(self, job_id: str) -> RawJob:
        job = self._look(job_id)
        if state(job) is not JobState.RUNNING:
            raise Gone(f"job {job_id} does not run: it is {job.state}")
        return job

    def _pending(self, job_id: str) -> RawJob:
        job = self._look(job_id)
        if state(job) is not JobState.PENDING:
            raise Gone(f"job {job_id} does not wait: it is {job.state}")
        return job

    def _started_elsewhere(self, job_id: str, nodes: tuple[str, ...]) -> str | None:
        """Why a job that was just bound has no use for its reservation. None: it waits, or runs in it."""
        try:
            job = self._look(job_id)
        except Gone as gone:
            return str(gone)
        if state(job) is JobState.PENDING or set(job.nodes) <= set(nodes):
            return None
        return f"job {job_id} does not wait: it is {job.state}"

    def _allocate(self, job: RawJob, nodes: tuple[str, ...], reservation: str | None) -> str:
        command = build.allocate_expander(
            job.job_id, nodes, reservation=reservation, user_id=job.user_id, group_id=job.group_id
        )
        done = self._run(command)
        if done.returncode != 0:
            raise refusal(done)
        granted = _GRANTED.search(done.stderr + done.stdout)
        if granted is None:
            raise Unreadable("salloc names no allocation", command=command, text=done.words)
        return granted.group(1)

    def _left_expander(self, job: RawJob, nodes: tuple[str, ...]) -> str | None:
        """An allocation that was made for the job and, its maker dead or unheard, never merged. None: there is none."""
        for other in self._squeue():
            if (
                (other.name, other.user_id) == (build.EXPANDER_NAME, job.user_id)
                and not other.batch
                and state(other) is JobState.RUNNING
                and set(other.nodes) == set(nodes)
            ):
                return other.job_id
        return None

    def _untold(self, jobs: list[RawJob]) -> list[str]:
        """The waiting urgent jobs, whose excluded nodes this squeue does not tell."""
        return [
            job.job_id
            for job in jobs
            if state(job) is JobState.PENDING
            and not job.heterogeneous
            and (found := job_class(job, self._settings.classes)) is not None
            and found.kind is JobKind.ON_DEMAND
        ][:_MOST_UNTOLD]

    def _asked_size(self, job: RawJob) -> int | None:
        restarts, size = self._asked.get(job.job_id, (-1, 0))
        return size if restarts == job.restarts else None

    def _forget(self, jobs: list[RawJob]) -> None:
        there = {job.job_id for job in jobs}
        self._asked = {job_id: asked for job_id, asked in self._asked.items() if job_id in there}

    def _do(self, argv: tuple[str, ...]) -> None:
        done = self._run(argv)
        if done.returncode != 0:
            raise refusal(done)

    def _run(
        self, argv: tuple[str, ...], *, stdin: bytes = b"", environment: Mapping[str, str] | None = None
    ) -> CompletedCommand:
        """Run one command. One that found nobody to ask raises `Unavailable`."""
        done = self._runner.run(
            argv, timeout_s=self._settings.timeout_s, stdin=stdin, environment=environment or {}
        )
        if done.returncode != 0 and isinstance(error := refusal(done), Unavailable):
            raise error
        return done


def _check_whole(cluster: Cluster, command: tuple[str, ...]) -> None:
    """Raise `Unreadable` if a job holds a node that is not listed: the two commands have seen two clusters."""
    known = {one.name for one in cluster.nodes}
    for job in cluster.jobs:
        if not known.issuperset(job.nodes):
            unknown = sorted(set(job.nodes) - known)
            raise Unreadable(
                f"job {job.job_id} holds nodes that are not listed", command=command, text=str(unknown)
            )


def _check_not_held(job: RawJob) -> None:
    """Raise `Rejected` for a job that its user or an administrator holds: to set its priority would lift the hold."""
    if job.reason.startswith(_HELD):
        raise Rejected(f"job {job.job_id} is held ({job.reason})")
