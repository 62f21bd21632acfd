"""What Prometheus sees. Labels are values of enumerations alone: no text of a user ever becomes a label."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from prometheus_client.process_collector import ProcessCollector

from makeway.daemon.config.load import Mode
from makeway.daemon.errors import UserError

if TYPE_CHECKING:
    from makeway.daemon.control.report import CycleReport

CYCLE_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
DECISION_BUCKETS_S = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
START_BUCKETS_S = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0)


class Metrics:
    """The metrics of one daemon, in a registry of their own.

    Args:
        version: shown by `makeway_build_info`.
        policy: name of the policy, from the registry of policies.
        adapter: type of the adapter.
        clock: seconds that never run backwards.
    """

    def __init__(
        self, *, version: str, policy: str, adapter: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.registry = CollectorRegistry()
        self._clock = clock
        self._seen_s = clock()
        ProcessCollector(registry=self.registry)
        self._cycles = self._counter("makeway_cycles", "Cycles that were run.")
        self._failed = self._counter("makeway_cycles_failed", "Cycles that ended without a decision.")
        self._cycle = self._histogram("makeway_cycle_duration", "Whole cycle.", CYCLE_BUCKETS_S)
        self._snapshot = self._histogram("makeway_snapshot_duration", "Reading the cluster.", CYCLE_BUCKETS_S)
        self._decision = self._histogram("makeway_decision_duration", "Deciding.", DECISION_BUCKETS_S)
        self._actions = self._counter(
            "makeway_actions", "Actions, by what became of them this cycle.", "verb", "reason", "outcome"
        )
        self._refusals = self._counter("makeway_refusals", "Actions that the arbiter refused.", "refusal")
        self._operations = self._gauge("makeway_operations_open", "Operations that are not closed.")
        self._waiting = self._gauge("makeway_urgent_waiting", "Urgent jobs that wait.")
        self._start = self._histogram(
            "makeway_urgent_start_delay",
            "From the submission of an urgent job to its start.",
            START_BUCKETS_S,
        )
        self._lost = self._counter("makeway_lost_node_hours", "Node-hours of work that evictions have lost.")
        self._checkpoint = Histogram(
            "makeway_checkpoint",
            "From the command for a checkpoint to its acknowledgement, or to the end of its grace without one.",
            ("acknowledged",),
            unit="seconds",
            buckets=START_BUCKETS_S,
            registry=self.registry,
        )
        self._mode = self._gauge("makeway_mode", "1 for the mode that is on.", "mode")
        self._breaker = self._gauge(
            "makeway_breaker_open", "1 while the circuit breaker keeps us from taking."
        )
        self._reload = self._gauge("makeway_config_reload_ok", "0 if the last reload was refused.")
        self._pokes = self._counter("makeway_pokes", "Requests for a cycle at once.")
        self._info = self._gauge("makeway_build_info", "Always 1.", "version", "policy", "adapter")
        age = self._gauge(
            "makeway_snapshot_age_seconds", "Since the last whole snapshot, or since the start."
        )
        age.set_function(lambda: self._clock() - self._seen_s)
        self._reload.set(1)
        self._version, self._adapter = version, adapter
        self.set_policy(policy)

    def observe_cycle(self, report: "CycleReport", cycle_s: float) -> None:
        """Count one cycle that took `cycle_s` seconds."""
        self._cycles.inc()
        self._cycle.observe(cycle_s)
        if report.error is not None:
            self._failed.inc()
        else:
            self._snapshot.observe(report.snapshot_s)
            self._decision.observe(report.decision_s)
            self._seen_s = self._clock()
        for entry in report.actions:
            self._actions.labels(entry.action.verb, entry.action.reason.value, entry.outcome.value).inc()
            if entry.refusal is not None:
                self._refusals.labels(entry.refusal.value).inc()
        self._operations.set(report.operations_open)
        self._waiting.set(report.urgent_waiting)
        for delay_s in report.urgent_started:
            self._start.observe(delay_s)
        self._lost.inc(report.lost_node_s / 3600.0)
        for found in report.checkpoints:
            self._checkpoint.labels("yes" if found.acknowledged else "no").observe(found.duration_s)

    def count_crash(self, cycle_s: float) -> None:
        """Count one cycle that a defect ended after `cycle_s` seconds."""
        self._cycles.inc()
        self._failed.inc()
        self._cycle.observe(cycle_s)

    def set_mode(self, mode: Mode) -> None:
        """Show the mode."""
        for each in Mode:
            self._mode.labels(each.value).set(each is mode)

    def set_breaker(self, is_open: bool) -> None:
        """Show whether the circuit breaker is open."""
        self._breaker.set(is_open)

    def set_policy(self, policy: str) -> None:
        """Show the policy that decides from now on."""
        self._info.clear()
        self._info.labels(self._version, policy, self._adapter).set(1)

    def count_reload(self, accepted: bool) -> None:
        """Show whether the last reload of the configuration was accepted."""
        self._reload.set(accepted)

    def count_poke(self) -> None:
        """Count one request for a cycle at once."""
        self._pokes.inc()

    @property
    def snapshot_age_s(self) -> float:
        """Seconds since the last whole snapshot; since the start, if there was none."""
        return self._clock() - self._seen_s

    @contextmanager
    def serve(self, host: str, port: int) -> Iterator[int]:
        """Answer scrapes on `host`:`port` until the block ends; gives the port that was bound (0 asks for any).

        Raises:
            UserError: the address cannot be bound.
        """
        try:
            server, thread = start_http_server(port, addr=host, registry=self.registry)
        except OSError as error:
            raise UserError(
                f"metrics: cannot listen on {host} port {port}: {error.strerror or error}; "
                "choose another metrics.port, or set metrics.enabled to false"
            ) from error
        try:
            yield server.server_port
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, text, unit="seconds", buckets=buckets, registry=self.registry)
