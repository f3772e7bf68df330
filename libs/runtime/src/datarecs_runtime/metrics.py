"""The Metrics port over prometheus-client, with the catalogue as its only source of names.

The client's default registry is global; here each process and each test has a separate one.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from datarecs_application.metrics import Metric, MetricKind, metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

M = TypeVar("M", Counter, Gauge, Histogram)


class _Made(Generic[M]):
    """The client's objects of one kind, each created at its first value."""

    def __init__(self, make: Callable[[Metric], M]) -> None:
        self._make: Callable[[Metric], M] = make
        self._made: dict[str, M] = {}
        self._lock = threading.Lock()

    def of(self, entry: Metric, labels: dict[str, str]) -> M:
        with self._lock:
            if entry.name not in self._made:
                self._made[entry.name] = self._make(entry)
            made = self._made[entry.name]
        return made.labels(**labels) if labels else made


class PrometheusMetrics:
    """Counts, observes and sets; `exposition` is the answer of `/metrics`."""

    def __init__(self) -> None:
        # It would be a second, unused series per counter.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # has no annotations
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._registry = registry
        self._counters = _Made(
            lambda entry: Counter(entry.full_name, entry.meaning, entry.labels, registry=registry)
        )
        self._gauges = _Made(
            lambda entry: Gauge(entry.full_name, entry.meaning, entry.labels, registry=registry)
        )
        self._histograms = _Made(
            lambda entry: Histogram(
                entry.full_name,
                entry.meaning,
                entry.labels,
                registry=registry,
                buckets=entry.buckets,
            )
        )

    def count(self, name: str, value: float = 1, **labels: str) -> None:
        self._counters.of(metric(name, MetricKind.COUNTER, labels), labels).inc(value)

    def observe(self, name: str, value: float, **labels: str) -> None:
        self._histograms.of(metric(name, MetricKind.HISTOGRAM, labels), labels).observe(value)

    def gauge(self, name: str, value: float, **labels: str) -> None:
        self._gauges.of(metric(name, MetricKind.GAUGE, labels), labels).set(value)

    def samples(self) -> list[tuple[str, Mapping[str, str], float]]:
        """All current values, as `exposition` has them: full name, labels, value."""
        return [
            (sample.name, sample.labels, sample.value)
            for family in self._registry.collect()
            for sample in family.samples
        ]

    def exposition(self) -> bytes:
        """All current values, in the text format of Prometheus."""
        return generate_latest(self._registry)
