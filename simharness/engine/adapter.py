"""The adapter of the simulated cluster: the daemon's actions, applied to a `SimCluster`, and faults where a
test wants them.
"""

from dataclasses import dataclass

from makeway.adapters.protocol import AdapterError, Capabilities, Gone, Rejected, Unavailable, Unreadable
from makeway.policies.model import VERBS, Action, Cluster, LeaderLease, Notice, Release, Reserve, Verb
from makeway.simharness.engine import commands
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.faults import NO_FAULTS, SNAPSHOT, Fault, FaultKind, FaultPlan
from makeway.simharness.engine.snapshot import SnapshotBuilder, notice_of


@dataclass(slots=True)
class Call:
    """One action that was sent, and what became of it."""

    at_s: float
    action: Action
    applied: bool = False
    """Whether the cluster has done it; a late one turns to True when it is."""
    fault: FaultKind | None = None
    """What was ordered to go wrong with it. None: nothing."""
    error: str | None = None
    """Class name of the error that the caller got, or that a late application met. None: it was accepted."""

    @property
    def verb(self) -> Verb:
        """The kind of its action."""
        return self.action.verb


class SimAdapter:
    """`Adapter` over a simulated cluster.

    Args:
        cluster: the cluster; jobs of kind rigid and malleable are open to preemption, urgent ones are not.
        faults: which calls go wrong.
        latency_s: virtual time between an action's acceptance and its effect.

    Attributes:
        calls: every action that was sent, in order.
        accepted: how many actions of each kind were accepted, by verb.
        snapshots: how many snapshots were taken or tried.
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
        self._picture = SnapshotBuilder(cluster.machine, cluster.storage_settings, cluster.admission)

    @property
    def capabilities(self) -> Capabilities:
        """What this cluster can do: everything."""
        return Capabilities(name="simulated cluster", actions=VERBS, recomputes_priority=True)

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
        return tuple(map(notice_of, self._cluster.announced.values()))

    def apply(self, action: Action) -> None:
        """Apply the action, or do to it what the plan of faults says, and write down how it went."""
        call = Call(self._cluster.now_s, action)
        self.calls.append(call)
        verb = action.verb
        self._verb_calls[verb] = self._verb_calls.get(verb, 0) + 1
        fault = self._faults.of_verb(verb, call=len(self.calls), verb_call=self._verb_calls[verb])
        try:
            if fault is None:
                self._send(call)
            else:
                call.fault = fault.kind
                self._go_wrong(call, fault)
        except AdapterError as error:
            call.error = type(error).__name__
            raise
        self.accepted[verb] = self.accepted.get(verb, 0) + 1

    @property
    def command_s(self) -> float:
        """See `LeaseKeeper`: commands about leases take no time."""
        return 0.0

    @property
    def saves_s(self) -> float:
        """See `LeaseKeeper`: the controller does not crash."""
        return 0.0

    def create_lease(self, lease: LeaderLease) -> None:
        """See `LeaseKeeper`."""
        self._machine.leases.create(lease, self._cluster.now_s)

    def renew_lease(self, lease: LeaderLease) -> None:
        """See `LeaseKeeper`."""
        self._machine.leases.renew(lease)

    def remove_lease(self, term: int) -> None:
        """See `LeaseKeeper`."""
        self._machine.leases.remove(term)

    def close(self) -> None:
        """Nothing is held."""

    def _send(self, call: Call) -> None:
        if self._latency_s:
            self._apply_later(call, self._latency_s)
        else:
            commands.apply(self._machine, call.action)
            call.applied = True

    def _apply_later(self, call: Call, delay_s: float) -> None:
        def late() -> None:
            try:
                commands.apply(self._machine, call.action)
                call.applied = True
            except AdapterError as error:  # it was accepted, and what has happened since makes it void
                call.error = type(error).__name__

        self._cluster.call_at(self._cluster.now_s + delay_s, late)

    def _go_wrong(self, call: Call, fault: Fault) -> None:
        unavailable = Unavailable(f"{call.verb}: no answer")
        match fault.kind:
            case FaultKind.NO_ANSWER:
                raise unavailable
            case FaultKind.LOST_ANSWER:
                self._send(call)
                raise unavailable
            case FaultKind.LATE_ANSWER:
                self._apply_later(call, fault.delay_s)
                raise unavailable
            case FaultKind.REFUSED:
                raise Rejected(
                    f"{call.verb}: Requested operation is presently disabled", retryable=fault.retryable
                )
            case FaultKind.GONE:
                self._end_by_itself(call.action)
                raise Gone(f"{call.verb}: Invalid job id specified")
            case FaultKind.DAMAGED:
                raise Unreadable(f"{call.verb}: the answer breaks off", command=(call.verb,), text="")

    def _end_by_itself(self, action: Action) -> None:
        """End what the action is about: the reservation of a release or of an announced job, else the job."""
        if isinstance(action, Release) or (isinstance(action, Reserve) and action.user is not None):
            hold = self._machine.holds.get(action.reservation)
            if hold is not None:
                self._machine.drop_hold(hold)
        else:
            commands.finish(self._machine, action.job_id)
