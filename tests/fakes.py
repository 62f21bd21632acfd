"""An adapter that shows the cluster that a test wrote down and records the actions that it gets."""

from collections.abc import Callable
from dataclasses import replace

from makeway.adapters.protocol import AdapterError, Capabilities
from makeway.policies.model import VERBS, Action, Cluster, LeaderLease, Release, Reservation, Reserve
from makeway.simharness.engine.reservations import LeaseBook


class FakeAdapter:
    """Shows `view`, fails with `errors[verb]` where there is one, and lists every action in `actions` and
    `calls`.
    """

    def __init__(self, view: Cluster) -> None:
        self.view = view
        self.calls: list[tuple[str, str]] = []
        self.actions: list[Action] = []
        self.errors: dict[str, AdapterError] = {}

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(name="fake", actions=VERBS, recomputes_priority=True)

    def snapshot(self) -> Cluster:
        if "snapshot" in self.errors:
            raise self.errors["snapshot"]
        return self.view

    def apply(self, action: Action) -> None:
        subject = action.reservation if isinstance(action, Reserve | Release) else action.job_id
        self.calls.append((action.verb, subject))
        self.actions.append(action)
        if action.verb in self.errors:
            raise self.errors[action.verb]
        if isinstance(action, Reserve):
            self._hold(action)
        elif isinstance(action, Release):
            kept = tuple(found for found in self.view.reservations if found.name != action.reservation)
            self.view = replace(self.view, reservations=kept)

    def close(self) -> None:
        self.calls.append(("close", ""))

    def _hold(self, action: Reserve) -> None:
        now_s, name = self.view.now_s, action.reservation
        made = Reservation(name=name, nodes=action.nodes, start_s=now_s, end_s=now_s + action.duration_s)
        others = tuple(found for found in self.view.reservations if found.name != name)
        bound = action.job_id if action.user is None else None
        jobs = tuple(replace(job, reservation=name) if job.job_id == bound else job for job in self.view.jobs)
        self.view = replace(self.view, reservations=(*others, made), jobs=jobs)


class LeasedAdapter(FakeAdapter):
    """Keeps leases, and remembers what it is to ask before its commands."""

    command_s = 1.0
    saves_s = 0.0

    def __init__(self, view: Cluster) -> None:
        super().__init__(view)
        self.book = LeaseBook()
        self.may_send: Callable[[], bool] | None = None

    def snapshot(self) -> Cluster:
        return replace(super().snapshot(), leader_leases=self.book.all())

    def create_lease(self, lease: LeaderLease) -> None:
        self.book.create(lease, self.view.now_s)

    def renew_lease(self, lease: LeaderLease) -> None:
        self.book.renew(lease)

    def remove_lease(self, term: int) -> None:
        self.book.remove(term)

    def ask_before_commands(self, may_send: Callable[[], bool]) -> None:
        self.may_send = may_send
