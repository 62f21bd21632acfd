"""An adapter that shows what a test wrote down and remembers what it was asked."""

from dataclasses import replace

from makeway.adapters.protocol import AdapterError, Capabilities
from makeway.policies.model import Cluster, Reservation, SignalTarget


class FakeAdapter:
    """Shows `view`, fails with `errors[verb]` where there is one, and lists every verb in `calls`, and where signals went."""

    def __init__(self, view: Cluster) -> None:
        self.view = view
        self.calls: list[tuple[str, str]] = []
        self.signals: list[tuple[str, str, SignalTarget]] = []
        self.errors: dict[str, AdapterError] = {}

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(name="fake", expand=True, recomputes_priority=True)

    def snapshot(self) -> Cluster:
        if "snapshot" in self.errors:
            raise self.errors["snapshot"]
        return self.view

    def _call(self, verb: str, subject: str) -> None:
        self.calls.append((verb, subject))
        if verb in self.errors:
            raise self.errors[verb]

    def checkpoint(
        self, job_id: str, *, signal: str, walltime_s: float, signal_to: SignalTarget = SignalTarget.BATCH
    ) -> None:
        self.signals.append((job_id, signal, signal_to))
        self._call("checkpoint", job_id)

    def requeue(self, job_id: str) -> None:
        self._call("requeue", job_id)

    def requeue_again(self, job_id: str, *, requeue_count: int) -> None:
        self._call("requeue_again", job_id)

    def cancel(self, job_id: str) -> None:
        self._call("cancel", job_id)

    def shrink(self, job_id: str, *, keep_nodes: tuple[str, ...], walltime_s: float) -> None:
        self._call("shrink", job_id)

    def expand(self, job_id: str, *, nodes: tuple[str, ...], reservation: str | None) -> None:
        self._call("expand", job_id)

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
        self._call("reserve", name)
        made = Reservation(
            name=name, nodes=nodes, start_s=self.view.now_s, end_s=self.view.now_s + duration_s
        )
        others = tuple(found for found in self.view.reservations if found.name != name)
        jobs = tuple(
            replace(job, reservation=name) if job.job_id == job_id else job for job in self.view.jobs
        )
        self.view = replace(self.view, reservations=(*others, made), jobs=jobs)

    def release(self, name: str) -> None:
        self._call("release", name)
        kept = tuple(found for found in self.view.reservations if found.name != name)
        self.view = replace(self.view, reservations=kept)

    def prioritise(self, job_id: str, *, queue_position: int | None = None) -> None:
        self._call("prioritise", job_id)

    def restore_priority(self, job_id: str) -> None:
        self._call("restore_priority", job_id)

    def close(self) -> None:
        self.calls.append(("close", ""))
