"""Figures of watchers, controllers and schedulers, summed over the processes that run.

The names are those of Source 003; each is a sum of metrics, so that Prometheus shows the same.
Figures are of the whole platform: no tenant is a label of a metric.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from uuid import UUID

from datarecs_application.loops.periodic import Periodic
from datarecs_application.metrics import PREFIX
from datarecs_application.ports.outside import Clock
from datarecs_application.ports.state import WorkFinder

REPORT_EVERY = timedelta(seconds=10)
"""A process that has not reported for 60 s no longer counts."""
Samples = Callable[[], Iterable[tuple[str, Mapping[str, str], float]]]
"""All values of a process now: full name, labels, value."""


@dataclass(frozen=True, slots=True)
class _Sum:
    """A sum over the series of a metric."""

    metric: str
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Only series with one of these values."""

    def of(self, name: str, labels: Mapping[str, str]) -> bool:
        if name != PREFIX + self.metric:
            return False
        return all(labels.get(label) in values for label, values in self.labels.items())


_COUNTERS: Mapping[str, _Sum] = MappingProxyType(
    {
        "watch_loop_iterations": _Sum("watch_polls_total"),
        "changes_detected": _Sum("watch_changes_total"),
        "events_published": _Sum(
            "outbox_published_total", {"topic": ("datarecs.resources",), "outcome": ("sent",)}
        ),
        "cache_hits": _Sum("cache_reads_total", {"hit": ("yes",)}),
        "cache_reads": _Sum("cache_reads_total"),
        "polls": _Sum("watch_poll_seconds_count"),
        "poll_seconds": _Sum("watch_poll_seconds_sum"),
        "reconciliations_total": _Sum("reconcile_total"),
        "reconciliations_successful": _Sum("reconcile_total", {"result": ("success",)}),
        "reconciliations_failed": _Sum(
            "reconcile_total", {"result": ("error", "timeout", "terminal")}
        ),
        "reconciliations_requeued": _Sum(
            "reconcile_total", {"result": ("requeue", "requeue_after", "conflict")}
        ),
        "reconciles": _Sum("reconcile_seconds_count"),
        "reconcile_seconds": _Sum("reconcile_seconds_sum"),
        "scheduler_loop_iterations": _Sum("scheduler_ticks_total"),
        "resources_processed": _Sum("scheduler_processed_total"),
        "state_transitions": _Sum("run_transitions_total"),
        "cleanup_operations": _Sum("cleanup_total"),
        "loops": _Sum("scheduler_tick_seconds_count"),
        "loop_seconds": _Sum("scheduler_tick_seconds_sum"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsReport:
    """Stores the counters of this process for those who read the figures of all."""

    finder: WorkFinder
    instance: UUID
    """Of this start of the process: its counters begin at 0."""
    samples: Samples

    def __call__(self) -> None:
        self.finder.report_stats(self.instance, counters_of(self.samples()))


def stats_loop(finder: WorkFinder, samples: Samples, *, instance: UUID, clock: Clock) -> Periodic:
    """Reports the counters of this process every 10 s."""
    report = StatsReport(finder=finder, instance=instance, samples=samples)
    return Periodic(name="stats", act=report, every=REPORT_EVERY, clock=clock)


def counters_of(samples: Iterable[tuple[str, Mapping[str, str], float]]) -> Mapping[str, float]:
    """The sums of one process."""
    counters = dict.fromkeys(_COUNTERS, 0.0)
    for name, labels, value in samples:
        for counter, wanted in _COUNTERS.items():
            if wanted.of(name, labels):
                counters[counter] += value
    return counters


def stats_of(processes: Sequence[Mapping[str, float]]) -> Mapping[str, Mapping[str, object]]:
    """The figures of all processes together.

    Averages are texts, such as `150ms` or `2.3s`; without anything to average, `0ms` and a ratio
    of 0.
    """
    total = {name: sum(one.get(name, 0.0) for one in processes) for name in _COUNTERS}

    def whole(*names: str) -> Mapping[str, object]:
        return {name: int(total[name]) for name in names}

    return {
        "watcher": {
            **whole("watch_loop_iterations", "changes_detected", "events_published"),
            "cache_hit_ratio": round(_ratio(total["cache_hits"], total["cache_reads"]), 2),
            "average_poll_duration": _average(total["poll_seconds"], total["polls"]),
        },
        "controller": {
            **whole(
                "reconciliations_total",
                "reconciliations_successful",
                "reconciliations_failed",
                "reconciliations_requeued",
            ),
            "average_reconciliation_time": _average(
                total["reconcile_seconds"], total["reconciles"]
            ),
        },
        "scheduler": {
            **whole(
                "scheduler_loop_iterations",
                "resources_processed",
                "state_transitions",
                "cleanup_operations",
            ),
            "average_loop_duration": _average(total["loop_seconds"], total["loops"]),
        },
    }


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _average(seconds: float, count: float) -> str:
    average = _ratio(seconds, count)
    return f"{average:.1f}s" if average >= 1 else f"{round(average * 1000, 1):g}ms"
