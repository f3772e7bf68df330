"""Metrics that a test can read back, checked against the same catalogue as in production."""

import threading
from collections import defaultdict

from datarecs_application.metrics import MetricKind, metric

_Key = tuple[str, frozenset[tuple[str, str]]]


class RecordedMetrics:
    """The Metrics port in memory. Raises UnknownMetricError like the real one."""

    def __init__(self) -> None:
        self._values: dict[_Key, list[float]] = defaultdict(list)
        self._lock = threading.Lock()

    def count(self, name: str, value: float = 1, **labels: str) -> None:
        self._record(name, MetricKind.COUNTER, value, labels)

    def observe(self, name: str, value: float, **labels: str) -> None:
        self._record(name, MetricKind.HISTOGRAM, value, labels)

    def gauge(self, name: str, value: float, **labels: str) -> None:
        self._record(name, MetricKind.GAUGE, value, labels)

    def total(self, name: str, **labels: str) -> float:
        """Sum of all counts or observations with exactly these labels; 0 without any."""
        return sum(self._values[name, frozenset(labels.items())])

    def times(self, name: str, **labels: str) -> int:
        """Number of observations with exactly these labels."""
        return len(self._values[name, frozenset(labels.items())])

    def values(self, name: str, **labels: str) -> list[float]:
        """All observations with exactly these labels, in order."""
        return list(self._values[name, frozenset(labels.items())])

    def last(self, name: str, **labels: str) -> float | None:
        """The value of a gauge."""
        values = self._values[name, frozenset(labels.items())]
        return values[-1] if values else None

    def _record(self, name: str, kind: MetricKind, value: float, labels: dict[str, str]) -> None:
        metric(name, kind, labels)
        with self._lock:
            self._values[name, frozenset(labels.items())].append(value)
