"""The adapter of the simulated cluster: the daemon's verbs, applied to a `SimCluster`, with faults on order."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from makeway.adapters.protocol import AdapterError, Capabilities, Gone, Rejected, Unavailable, Unreadable
from makeway.policies.model import Cluster, Notice, SignalTarget
from makeway.simharness.engine import commands as control
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.faults import NO_FAULTS, SNAPSHOT, Fault, FaultKind, FaultPlan
from makeway.simharness.engine.snapshot import SnapshotBuilder, notice_id


@dataclass(slots=True)
class Call:
    """One call of a verb, as it went."""

    at_s: float
    verb: str
    arguments: tuple[object, ...]
    applied: bool = False
    """Whether the cluster has done it; a late one turns to True when it is."""
    fault: FaultKind | None = None
    """What was ordered to go wrong with it. None: nothing."""
    error: str | None = None
    """Class name of the error that the caller got, or that a late application met. None: it was accepted."""


class SimAdapter:
    """`Adapter` over a simulated cluster.

    Args:
        cluster: the cluster; jobs of kind rigid and malleable are open to preemption, urgent ones are not.
        faults: which calls go wrong.
        latency_s: virtual time between a verb's acceptance and its effect.

    Attributes:
        calls: every call of a verb, in order.
        accepted: how many calls of each verb were accepted.
        snapshots: how many snapshots were asked for.
    """

    def __init__(self, cluster: SimCluster, *, faults: FaultPlan = NO_FAULTS, latency_s: float = 0.0) -> None:
        if not latency_s >= 0:
            raise ValueError(f"latency_s is {latency_s}: it must be 0 or more")
        self.calls: list[Call] = []
        self.accepted: dict[str, int] = {}
        self.snapshots = 0
        self._cluster = cluster
        self._machine = cluster.machine
        self._faults = faults
        self._latency_s = latency_s
        self._verb_calls: dict[str, int] = {}
        self._picture = SnapshotBuilder(cluster.machine, cluster.storage_settings)

    @property
    def capabilities(self) -> Capabilities:
        """What this cluster can do: everything."""
        return Capabilities(name="simulated cluster", expand=True, recomputes_priority=True)

    def snapshot(self) -> Cluster:
        """The whole cluster at this instant. Raises `Unavailable` or `Unreadable` where a fault says so."""
        self.snapshots += 1
        fault = self._faults.of_snapshot(self.snapshots)
        if fault is not None:
            if fault.kind is FaultKind.DAMAGED:
                raise Unreadable("the snapshot breaks off", command=(SNAPSHOT,), text="JOBID|STA")
            raise Unavailable("no answer to the snapshot")
        return self._picture.take()

    def notices(self) -> tuple[Notice, ...]:
        """The jobs that were announced and have not arrived, in the order of their announcements."""
        return tuple(
            Notice(
                notice_id=notice_id(job),
                user=job.user,
                node_count=job.node_count,
                walltime_s=job.walltime_s,
                announced_s=job.submit_s if job.announced_s is None else job.announced_s,
                expected_s=job.submit_s if job.expected_s is None else job.expected_s,
            )
            for job in self._cluster.announced.values()
        )

    def checkpoint(
        self, job_id: str, *, signal: str, walltime_s: float, signal_to: SignalTarget = SignalTarget.BATCH
    ) -> None:
        """Send `signal` to the running job; whatever signal to whichever process, it asks for a checkpoint."""
        apply = partial(control.checkpoint, self._machine, job_id, walltime_s)
        self._call("checkpoint", (job_id, signal, walltime_s), job_id, apply)

    def requeue(self, job_id: str) -> None:
        """Put the running job back into the queue."""
        self._call("requeue", (job_id,), job_id, partial(control.requeue, self._machine, job_id))

    def requeue_again(self, job_id: str, *, requeue_count: int) -> None:
        """This cluster forgets nothing: whoever is over is over."""
        apply = partial(control.requeue_again, self._machine, job_id, requeue_count)
        self._call("requeue_again", (job_id, requeue_count), job_id, apply)

    def cancel(self, job_id: str) -> None:
        """End the job."""
        self._call("cancel", (job_id,), job_id, partial(control.cancel, self._machine, job_id))

    def shrink(self, job_id: str, *, keep_nodes: tuple[str, ...], walltime_s: float) -> None:
        """Leave the running job `keep_nodes` only and raise its time limit to `walltime_s`."""
        apply = partial(control.shrink, self._machine, job_id, keep_nodes, walltime_s)
        self._call("shrink", (job_id, keep_nodes, walltime_s), job_id, apply)

    def expand(self, job_id: str, *, nodes: tuple[str, ...], reservation: str | None) -> None:
        """Add `nodes`, free or kept by `reservation`, to the running job."""
        apply = partial(control.expand, self._machine, job_id, nodes, reservation)
        self._call("expand", (job_id, nodes, reservation), job_id, apply)

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
        """Keep exactly `nodes` until `duration_s` from now, and bind the pending job, if there is one, to them."""
        apply = partial(control.reserve, self._machine, name, nodes, duration_s, job_id, overlap=overlap)
        self._call("reserve", (name, nodes, duration_s, job_id, user), job_id, apply)

    def release(self, name: str) -> None:
        """End the reservation; its pending job goes back to the common queue."""
        self._call("release", (name,), None, partial(control.release, self._machine, name))

    def prioritise(self, job_id: str, *, queue_position: int | None = None) -> None:
        """Move the pending job to the front of the queue, any requeue delay lifted, or to its queue position in a planned order."""
        apply = partial(control.prioritise, self._machine, job_id, queue_position)
        self._call(
            "prioritise", (job_id,) if queue_position is None else (job_id, queue_position), job_id, apply
        )

    def restore_priority(self, job_id: str) -> None:
        """Give the job the priority again that the cluster sets by itself: a running one, or one in a planned order's queue position."""
        apply = partial(control.restore_priority, self._machine, job_id)
        self._call("restore_priority", (job_id,), job_id, apply)

    def close(self) -> None:
        """Nothing is held."""

    def _call(
        self, verb: str, arguments: tuple[object, ...], job_id: str | None, apply: Callable[[], None]
    ) -> None:
        """Apply the verb, or do to it what the plan of faults says, and write down how it went."""
        call = Call(self._cluster.now_s, verb, arguments)
        self.calls.append(call)
        self._verb_calls[verb] = self._verb_calls.get(verb, 0) + 1
        fault = self._faults.of_verb(verb, call=len(self.calls), verb_call=self._verb_calls[verb])
        try:
            if fault is None:
                self._apply(call, apply)
            else:
                call.fault = fault.kind
                self._go_wrong(call, fault, job_id, apply)
        except AdapterError as error:
            call.error = type(error).__name__
            raise
        self.accepted[verb] = self.accepted.get(verb, 0) + 1

    def _apply(self, call: Call, apply: Callable[[], None]) -> None:
        if self._latency_s:
            self._apply_later(call, self._latency_s, apply)
        else:
            apply()
            call.applied = True

    def _apply_later(self, call: Call, delay_s: float, apply: Callable[[], None]) -> None:
        def late() -> None:
            try:
                apply()
                call.applied = True
            except AdapterError as error:  # it was accepted, and what has happened since makes it void
                call.error = type(error).__name__

        self._cluster.call_at(self._cluster.now_s + delay_s, late)

    def _go_wrong(self, call: Call, fault: Fault, job_id: str | None, apply: Callable[[], None]) -> None:
        unavailable = Unavailable(f"{call.verb}: no answer")
        match fault.kind:
            case FaultKind.NO_ANSWER:
                raise unavailable
            case FaultKind.LOST_ANSWER:
                self._apply(call, apply)
                raise unavailable
            case FaultKind.LATE_ANSWER:
                self._apply_later(call, fault.delay_s, apply)
                raise unavailable
            case FaultKind.REFUSED:
                raise Rejected(
                    f"{call.verb}: Requested operation is presently disabled", retryable=fault.retryable
                )
            case FaultKind.GONE:
                self._end_by_itself(job_id, str(call.arguments[0]))
                raise Gone(f"{call.verb}: Invalid job id specified")
            case FaultKind.DAMAGED:
                raise Unreadable(f"{call.verb}: the answer breaks off", command=(call.verb,), text="")

    def _end_by_itself(self, job_id: str | None, name: str) -> None:
        if job_id is not None:
            control.finish(self._machine, job_id)
        elif (hold := self._machine.holds.get(name)) is not None:
            self._machine.drop_hold(hold)
