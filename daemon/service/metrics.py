"""The metrics for Prometheus: those of `control/metric_table.py`, and the ones that only the service
knows.
"""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar, assert_never

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from prometheus_client.process_collector import ProcessCollector

from makeway.daemon.config.mode import Mode
from makeway.daemon.control.metric_table import (
    CYCLE_BUCKETS_S,
    CYCLE_METRICS,
    RATIONALE_METRICS,
    CycleMetric,
    CycleSample,
    MetricKind,
)
from makeway.daemon.errors import UserError

if TYPE_CHECKING:
    from makeway.daemon.control.report import CycleReport


_Metric = TypeVar("_Metric", Counter, Gauge, Histogram)


class Metrics:
    """The metrics of one daemon, in a registry of their own.

    Args:
        version: shown by `makeway_build_info`.
        policy: name of the policy.
        adapter: type of the adapter.
        clock: a monotonic clock, in seconds.
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
        self._cycle = Histogram(
            "makeway_cycle_duration",
            "Duration of a whole cycle.",
            unit="seconds",
            buckets=CYCLE_BUCKETS_S,
            registry=self.registry,
        )
        declared = (*CYCLE_METRICS, *(metric.of_cycles() for metric in RATIONALE_METRICS))
        self._declared = [(metric, self._recorder(metric)) for metric in declared]
        self._mode = self._gauge("makeway_mode", "1 for the mode in use, 0 for the other.", "mode")
        self._breaker = self._gauge("makeway_breaker_open", "1 while the circuit breaker is open, else 0.")
        self._reload = self._gauge("makeway_config_reload_ok", "0 if the last reload was refused, else 1.")
        self._pokes = self._counter("makeway_pokes", "Requests for a cycle at once.")
        self._info = self._gauge("makeway_build_info", "Always 1.", "version", "policy", "adapter")
        age = self._gauge(
            "makeway_snapshot_age_seconds", "Time since the last whole snapshot, or since the start."
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
            self._seen_s = self._clock()
        for metric, record in self._declared:
            for sample in metric.read(report):
                record(sample)

    def count_crash(self, cycle_s: float) -> None:
        """Count one cycle that a defect ended after `cycle_s` seconds."""
        self._cycles.inc()
        self._failed.inc()
        self._cycle.observe(cycle_s)

    def set_mode(self, mode: Mode) -> None:
        """Export the mode."""
        for each in Mode:
            self._mode.labels(each.value).set(each is mode)

    def set_breaker(self, is_open: bool) -> None:
        """Export whether the circuit breaker is open."""
        self._breaker.set(is_open)

    def set_policy(self, policy: str) -> None:
        """Export the policy that decides from now on."""
        self._info.clear()
        self._info.labels(self._version, policy, self._adapter).set(1)

    def count_reload(self, accepted: bool) -> None:
        """Export whether the last reload of the configuration was accepted."""
        self._reload.set(accepted)

    def count_poke(self) -> None:
        """Count one request for a cycle at once."""
        self._pokes.inc()

    @property
    def snapshot_age_s(self) -> float:
        """Seconds since the last whole snapshot, or since the start if there was none."""
        return self._clock() - self._seen_s

    @contextmanager
    def serve(self, host: str, port: int) -> Generator[int]:
        """Answer scrapes on `host`:`port` until the block ends. Gives the port that was bound (0 asks for a
        free one).

        Raises:
            UserError: the address cannot be bound.
        """
        try:
            server, thread = start_http_server(port, addr=host, registry=self.registry)
        except OSError as error:
            raise UserError(
                f"metrics: cannot listen on {host} port {port}: {error.strerror or error}; choose another "
                "metrics.port, or set metrics.enabled to false"
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

    def _recorder(self, metric: CycleMetric) -> Callable[[CycleSample], None]:
        """Register a declared metric. Returns what records one of its samples."""
        match metric.kind:
            case MetricKind.COUNTER:
                counter = self._counter(metric.name, metric.help, *metric.labels)
                for values in metric.series:
                    counter.labels(*values)
                return lambda sample: _child(counter, sample).inc(sample.value)
            case MetricKind.GAUGE:
                gauge = self._gauge(metric.name, metric.help, *metric.labels)
                if not metric.labels:
                    gauge.set(metric.at_start)
                return lambda sample: _child(gauge, sample).set(sample.value)
            case MetricKind.HISTOGRAM:
                histogram = Histogram(
                    metric.name,
                    metric.help,
                    metric.labels,
                    unit=metric.unit,
                    buckets=metric.buckets,
                    registry=self.registry,
                )
                return lambda sample: _child(histogram, sample).observe(sample.value)
            case _:
                assert_never(metric.kind)


def _child(metric: _Metric, sample: CycleSample) -> _Metric:
    """The time series that a sample belongs to."""
    return metric.labels(*sample.labels) if sample.labels else metric
