"""Figures of the platform: the names of Source 003, as sums of the metrics of each process."""

from datetime import timedelta
from uuid import UUID

import pytest
from prometheus_client.parser import text_string_to_metric_families

from datarecs_application.stats import StatsReport, counters_of, stats_of
from datarecs_memory.lease_queue import MemoryWorkFinder
from datarecs_memory.store import MemoryStore
from datarecs_runtime.metrics import PrometheusMetrics
from datarecs_testing.clock import FixedIds, ManualClock

KEYS = {
    "watcher": [
        "watch_loop_iterations",
        "changes_detected",
        "events_published",
        "cache_hit_ratio",
        "average_poll_duration",
    ],
    "controller": [
        "reconciliations_total",
        "reconciliations_successful",
        "reconciliations_failed",
        "reconciliations_requeued",
        "average_reconciliation_time",
    ],
    "scheduler": [
        "scheduler_loop_iterations",
        "resources_processed",
        "state_transitions",
        "cleanup_operations",
        "average_loop_duration",
    ],
}


def process() -> PrometheusMetrics:
    """Metrics of a process that has done something of everything."""
    metrics = PrometheusMetrics()
    metrics.count("watch_polls_total", 3)
    metrics.count("watch_changes_total", 7)
    metrics.observe("watch_poll_seconds", 0.1)
    metrics.observe("watch_poll_seconds", 0.2)
    metrics.count("outbox_published_total", 5, topic="datarecs.resources", outcome="sent")
    metrics.count("outbox_published_total", 90, topic="datarecs.resources", outcome="failed")
    metrics.count("outbox_published_total", 90, topic="datarecs.runs", outcome="sent")
    metrics.count("cache_reads_total", 19, hit="yes")
    metrics.count("cache_reads_total", 1, hit="no")
    for number, result in enumerate(
        ["success", "error", "timeout", "terminal", "requeue", "requeue_after", "conflict"], 1
    ):
        metrics.count("reconcile_total", number, kind="Connection", result=result)
    metrics.count("reconcile_total", 10, kind="ReconciliationJob", result="success")
    metrics.observe("reconcile_seconds", 2.3, kind="Connection")
    metrics.count("scheduler_ticks_total", 4, phase="schedules")
    metrics.count("scheduler_ticks_total", 5, phase="timing")
    metrics.count("scheduler_processed_total", 6, phase="schedules")
    metrics.observe("scheduler_tick_seconds", 0.004, phase="schedules")
    metrics.count("run_transitions_total", 8, **{"from": "TRIGGERED", "to": "QUEUED"})
    metrics.count("cleanup_total", 9, what="runs")
    return metrics


@pytest.mark.case("R69")
def test_the_keys_are_those_of_source_003_also_when_nothing_runs() -> None:
    assert {name: list(part) for name, part in stats_of([]).items()} == KEYS
    assert stats_of([])["watcher"]["average_poll_duration"] == "0ms"


@pytest.mark.case("R69")
def test_the_figures_are_the_sums_of_all_processes() -> None:
    counters = counters_of(process().samples())
    assert stats_of([counters, counters]) == {
        "watcher": {
            "watch_loop_iterations": 6,
            "changes_detected": 14,
            "events_published": 10,
            "cache_hit_ratio": 0.95,
            "average_poll_duration": "150ms",
        },
        "controller": {
            "reconciliations_total": 76,
            "reconciliations_successful": 22,
            "reconciliations_failed": 18,
            "reconciliations_requeued": 36,
            "average_reconciliation_time": "2.3s",
        },
        "scheduler": {
            "scheduler_loop_iterations": 18,
            "resources_processed": 12,
            "state_transitions": 16,
            "cleanup_operations": 18,
            "average_loop_duration": "4ms",
        },
    }


@pytest.mark.case("R69")
def test_a_figure_is_what_prometheus_shows() -> None:
    metrics = process()
    shown = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics.exposition().decode())
        for sample in family.samples
    }
    counters = counters_of(metrics.samples())
    total = sum(value for (name, *_), value in shown.items() if name == "datarecs_reconcile_total")
    assert counters["reconciliations_total"] == total == 38
    assert counters["poll_seconds"] == shown[("datarecs_watch_poll_seconds_sum",)]


@pytest.mark.case("R69")
def test_a_process_that_is_silent_for_a_minute_no_longer_counts() -> None:
    clock = ManualClock()
    finder = MemoryWorkFinder(MemoryStore(clock, FixedIds()))
    reports = [
        StatsReport(finder=finder, instance=UUID(int=one), samples=process().samples)
        for one in (1, 2)
    ]
    for report in reports:
        report()
        report()
    assert len(finder.read_stats()) == 2
    clock.advance(timedelta(seconds=59))
    reports[0]()
    assert len(finder.read_stats()) == 2
    clock.advance(timedelta(seconds=1))
    assert finder.read_stats() == [counters_of(process().samples())]
