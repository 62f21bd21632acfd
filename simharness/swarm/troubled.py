"""The simulated cluster's adapter when things go wrong: what a story's troubles do to reads and commands."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from random import Random

from makeway.adapters.protocol import Capabilities, Gone, Rejected, Unavailable, Unreadable
from makeway.policies.model import (
    VERBS,
    Action,
    Checkpoint,
    Cluster,
    LeaderLease,
    Node,
    NodeState,
    Requeue,
    Reserve,
)
from makeway.simharness.engine import commands
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.event_queue import Change
from makeway.simharness.engine.snapshot import SnapshotBuilder
from makeway.simharness.swarm.laws import Laws
from makeway.simharness.swarm.story import Story, Trouble, TroubleKind

_READ_ANSWERS = (TroubleKind.NOT_SENT, TroubleKind.GARBAGE, TroubleKind.STALE_VIEW)
_COMMAND_ANSWERS = (
    TroubleKind.NOT_SENT,
    TroubleKind.ANSWER_LOST,
    TroubleKind.ANSWER_LATE,
    TroubleKind.REFUSED,
    TroubleKind.TRY_AGAIN,
    TroubleKind.ENDS_FIRST,
)

_LEASE_ANSWERS = (
    TroubleKind.NOT_SENT,
    TroubleKind.ANSWER_LOST,
    TroubleKind.ANSWER_LATE,
    TroubleKind.REFUSED,
)


class Weather:
    """Which troubles of a story there are at an instant, and what chance says of each call.

    Attributes:
        met: how often each kind of trouble had an effect.
    """

    def __init__(self, story: Story) -> None:
        self.met: Counter[TroubleKind] = Counter()
        self._seed = story.seed
        self._by_kind: dict[TroubleKind, list[tuple[float, float, Trouble]]] = {}
        for trouble in story.troubles:
            span = (trouble.at_s, trouble.end_s, trouble)
            self._by_kind.setdefault(trouble.kind, []).append(span)
        self._harmful = [
            (trouble.at_s, trouble.end_s)
            for trouble in story.troubles
            if trouble.kind is not TroubleKind.SECOND_DAEMON
        ]
        self._calls = 0

    def has(self, kind: TroubleKind) -> bool:
        """Whether the story has any trouble of that kind."""
        return kind in self._by_kind

    def now(self, kind: TroubleKind, at_s: float) -> Trouble | None:
        """The first trouble of that kind that there is at `at_s`. None: none."""
        for begin_s, end_s, trouble in self._by_kind.get(kind, ()):
            if begin_s <= at_s < end_s:
                return trouble
        return None

    def any_now(self, at_s: float) -> bool:
        """Whether there is any trouble at `at_s` that may keep a daemon from its duties."""
        return any(begin_s <= at_s < end_s for begin_s, end_s in self._harmful)

    def meet(self, kind: TroubleKind, at_s: float) -> Trouble | None:
        """The same as `now`, counted as one that had an effect."""
        trouble = self.now(kind, at_s)
        if trouble is not None:
            self.met[kind] += 1
        return trouble

    def of_job(self, kind: TroubleKind, job_id: str) -> bool:
        """Whether the story has a trouble of that kind for that job, at any instant; counted if so."""
        found = any(trouble.subject == job_id for _, _, trouble in self._by_kind.get(kind, ()))
        self.met[kind] += found
        return found

    def drawn(self, kinds: tuple[TroubleKind, ...], at_s: float) -> Trouble | None:
        """The first trouble of these kinds that chance gives to the next call. None: none."""
        self._calls += 1
        for kind in kinds:
            trouble = self.now(kind, at_s)
            if trouble is not None and self.chance(kind) < trouble.chance:
                self.met[kind] += 1
                return trouble
        return None

    def chance(self, purpose: str) -> float:
        """A random number from 0 to 1 for this call and that purpose."""
        return Random(f"{self._seed}:{self._calls}:{purpose}").random()


class TroubledAdapter:
    """`Adapter` over a simulated cluster in a story's troubles.

    A call that takes time moves the clock, and the cluster lives on meanwhile.

    Args:
        cluster: the cluster.
        weather: what goes wrong.
        laws: is shown every read and every command.
        name: whose adapter it is.

    Attributes:
        changes: what has happened on the cluster during the calls, until the caller takes it.
    """

    def __init__(self, cluster: SimCluster, weather: Weather, laws: Laws, name: str) -> None:
        self._name = name
        self.changes: list[Change] = []
        self._cluster = cluster
        self._weather = weather
        self._laws = laws
        self._leases = cluster.machine.leases
        self._builder = SnapshotBuilder(cluster.machine, cluster.storage_settings, cluster.admission)
        self._seen: list[tuple[float, Cluster]] = []
        self._keeps = weather.has(TroubleKind.STALE_VIEW)

    @property
    def capabilities(self) -> Capabilities:
        """What this cluster can do: everything."""
        return Capabilities(name="simulated cluster in trouble", actions=VERBS, recomputes_priority=True)

    def clock_s(self) -> float:
        """The daemon's clock."""
        now_s = self._cluster.now_s
        trouble = self._weather.now(TroubleKind.CLOCK, now_s)
        return now_s + (0.0 if trouble is None else trouble.amount)

    def snapshot(self) -> Cluster:
        """See `Adapter`."""
        began_s = self._cluster.now_s
        self._spend("snapshot")
        trouble = self._weather.drawn(_READ_ANSWERS, self._cluster.now_s)
        if trouble is not None and trouble.kind is TroubleKind.NOT_SENT:
            raise Unavailable("no answer to the snapshot")
        if trouble is not None and trouble.kind is TroubleKind.GARBAGE:
            raise Unreadable("the snapshot breaks off", command=("snapshot",), text="JOBID|STA")
        view = self._builder.take()
        if self._keeps:
            self._seen.append((self._cluster.now_s, view))
            if trouble is not None:
                before_s = self._cluster.now_s - trouble.amount
                view = next((old for at_s, old in reversed(self._seen) if at_s <= before_s), view)
        if self._weather.meet(TroubleKind.CLOCK, began_s) is not None or view.now_s != began_s:
            view = replace(view, now_s=self.clock_s())
        if self._weather.meet(TroubleKind.SILENT, began_s) is not None:
            view = replace(view, nodes=tuple(map(_silent, view.nodes)))
        asleep = self._weather.meet(TroubleKind.ASLEEP, began_s)
        if asleep is not None:
            view = replace(view, nodes=_half_asleep(view, asleep.amount))
        self._laws.looked(view, began_s)
        return view

    def apply(self, action: Action) -> None:
        """See `Adapter`."""
        self._laws.sent(action, self._cluster.now_s, self._name)
        self._spend(action.verb, action)
        trouble = self._weather.drawn(_COMMAND_ANSWERS, self._cluster.now_s)
        if trouble is None:
            self._carry_out(action)
        else:
            self._go_wrong(action, trouble)

    @property
    def command_s(self) -> float:
        """See `LeaseKeeper`: as long as the longest trouble of this kind."""
        return 30.0

    @property
    def saves_s(self) -> float:
        """See `LeaseKeeper`: more than the longest memory that is lost."""
        return 31.0

    def create_lease(self, lease: LeaderLease) -> None:
        """See `LeaseKeeper`."""
        began_s = self._cluster.now_s
        self._write_lease("create", lambda: self._leases.create(lease, self._cluster.now_s))
        self._laws.leading.made(self._name, began_s)

    def renew_lease(self, lease: LeaderLease) -> None:
        """See `LeaseKeeper`."""
        began_s = self._cluster.now_s
        if lease.mark is None:
            self._laws.leading.gave_up(self._name)
        self._write_lease("renew", lambda: self._leases.renew(lease))
        if lease.mark is not None:
            self._laws.leading.renewed(self._name, began_s)

    def remove_lease(self, term: int) -> None:
        """See `LeaseKeeper`."""
        self._write_lease("remove", lambda: self._leases.remove(term))

    def _write_lease(self, what: str, write: Callable[[], None]) -> None:
        """Write a lease, unless a trouble comes in between."""
        self._spend(f"{what} lease")
        trouble = self._weather.drawn(_LEASE_ANSWERS, self._cluster.now_s)
        kind = None if trouble is None else trouble.kind
        if trouble is not None and kind is TroubleKind.ANSWER_LATE:
            self._cluster.call_at(self._cluster.now_s + trouble.amount, lambda: _if_possible(write))
        if kind is TroubleKind.REFUSED:
            raise Rejected(f"{what} lease: Requested operation is presently disabled")
        if kind is None or kind is TroubleKind.ANSWER_LOST:
            write()
        if kind is not None:
            raise Unavailable(f"{what} lease: no answer")

    def close(self) -> None:
        """Nothing is held."""

    def take_changes(self) -> list[Change]:
        """What has happened during the calls since the last time."""
        changes, self.changes = self.changes, []
        return changes

    def _spend(self, what: str, action: Action | None = None) -> None:
        """The time that a call takes. Raises `Unavailable` where the controller is not there."""
        now_s = self._cluster.now_s
        flaps = self._weather.now(TroubleKind.FLAPS, now_s)
        if self._weather.meet(TroubleKind.AWAY, now_s) is not None:
            raise Unavailable(f"{what}: no controller")
        if flaps is not None and int((now_s - flaps.at_s) / flaps.amount) % 2 == 0:
            self._weather.met[TroubleKind.FLAPS] += 1
            raise Unavailable(f"{what}: no controller")
        hangs = self._weather.meet(TroubleKind.HANGS, now_s)
        slow = hangs or self._weather.meet(TroubleKind.SLOW, now_s)
        if slow is None:
            return
        self.changes += self._cluster.advance(now_s + slow.amount)
        if hangs is not None:
            if action is not None and self._weather.chance("hangs") < 0.5:
                self._carry_out_if_possible(action)
            raise Unavailable(f"{what}: no answer in {hangs.amount} s")

    def _go_wrong(self, action: Action, trouble: Trouble) -> None:
        unanswered = Unavailable(f"{action.verb}: no answer")
        match trouble.kind:
            case TroubleKind.ANSWER_LOST:
                self._carry_out(action)
            case TroubleKind.ANSWER_LATE:
                self._cluster.call_at(
                    self._cluster.now_s + trouble.amount, lambda: self._carry_out_if_possible(action)
                )
            case TroubleKind.REFUSED:
                self._laws.refused(action)
                if isinstance(action, Requeue):  # the controller never puts such a job back
                    self._cluster.machine.taken_for_ended.pop(action.job_id, None)
                raise Rejected(f"{action.verb}: Requested operation is presently disabled")
            case TroubleKind.TRY_AGAIN:
                raise Rejected(f"{action.verb}: try again", retryable=True)
            case TroubleKind.ENDS_FIRST:
                commands.finish(self._cluster.machine, action.job_id)
                self._carry_out(action)
                return
            case _:
                pass
        raise unanswered

    def _carry_out(self, action: Action) -> None:
        """Do it. Raises what the cluster answers if it cannot be done."""
        self._refuse_held(action)
        before = self._laws.before(action)
        ignored = isinstance(action, Checkpoint) and self._weather.of_job(TroubleKind.IGNORES, action.job_id)
        if not ignored:
            commands.apply(self._cluster.machine, action)
        elif before.run is None:
            raise Gone(f"job {action.job_id}: Invalid job id specified")
        self._laws.done(action, before)

    def _refuse_held(self, action: Action) -> None:
        """Raise `Rejected` for a hold that contains a node which the controller refuses to reserve now."""
        if not isinstance(action, Reserve):
            return
        now_s, names = self._cluster.now_s, self._cluster.machine.names
        trouble = self._weather.now(TroubleKind.REFUSES, now_s)
        if trouble is not None and names.set_of(action.nodes) >> int(trouble.amount) & 1:
            self._weather.meet(TroubleKind.REFUSES, now_s)
            self._laws.refused(action)
            raise Rejected(f"{action.verb}: Requested node configuration is not available")

    def _carry_out_if_possible(self, action: Action) -> None:
        """Do it if that is possible: its answer is not waited for."""
        with suppress(Gone, Rejected):
            self._carry_out(action)


def _silent(node: Node) -> Node:
    """The node before it has answered the controller."""
    return replace(node, state=NodeState.SILENT) if node.state is NodeState.UP else node


def _half_asleep(view: Cluster, wake_s: float) -> tuple[Node, ...]:
    """The nodes where every other one that no job holds sleeps."""
    held = view.held_nodes()
    return tuple(
        replace(node, wake_s=wake_s) if number % 2 and node.name not in held else node
        for number, node in enumerate(view.nodes)
    )


def _if_possible(write: Callable[[], None]) -> None:
    """Write a lease if that is possible: its answer is not waited for."""
    with suppress(Gone, Rejected):
        write()
