import pytest

from datarecs_application.metrics import CATALOGUE, MetricKind, UnknownMetricError
from datarecs_runtime.metrics import PrometheusMetrics


def test_what_was_recorded_stands_in_the_exposition_under_its_published_name() -> None:
    metrics = PrometheusMetrics()
    metrics.count("run_transitions_total", 1, **{"from": "QUEUED", "to": "RUNNING"})
    metrics.count("run_transitions_total", 2, **{"from": "QUEUED", "to": "RUNNING"})
    metrics.gauge("outbox_unsent", 7)
    metrics.observe("lease_renew_seconds", 0.02)
    text = metrics.exposition().decode()
    assert 'datarecs_run_transitions_total{from="QUEUED",to="RUNNING"} 3.0' in text
    assert "datarecs_outbox_unsent 7.0" in text
    assert 'datarecs_lease_renew_seconds_bucket{le="0.025"} 1.0' in text
    assert "_created" not in text


def test_a_metric_the_catalogue_does_not_have_is_refused() -> None:
    with pytest.raises(UnknownMetricError):
        PrometheusMetrics().count("surprises_total")
    with pytest.raises(UnknownMetricError):
        PrometheusMetrics().count("runs_total", run_id="1")


def test_every_entry_of_the_catalogue_can_be_recorded() -> None:
    metrics = PrometheusMetrics()
    record = {
        MetricKind.COUNTER: metrics.count,
        MetricKind.GAUGE: metrics.gauge,
        MetricKind.HISTOGRAM: metrics.observe,
    }
    for entry in CATALOGUE.values():
        record[entry.kind](entry.name, 1, **dict.fromkeys(entry.labels, "x"))
    text = metrics.exposition().decode()
    assert all(entry.full_name in text for entry in CATALOGUE.values())


def test_two_processes_of_one_test_do_not_share_their_counts() -> None:
    one, other = PrometheusMetrics(), PrometheusMetrics()
    one.gauge("outbox_unsent", 7)
    assert "datarecs_outbox_unsent" not in other.exposition().decode()
