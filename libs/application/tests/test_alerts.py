"""Alerts as data: well-formed PromQL over metrics that exist, each with something to do."""

import re

import promql_parser
import pytest

from datarecs_application.alerts import ALERTS, Alert
from datarecs_application.metrics import CATALOGUE, MetricKind

SHOWN = {
    MetricKind.COUNTER: ("",),
    MetricKind.GAUGE: ("",),
    MetricKind.HISTOGRAM: ("_bucket", "_count", "_sum"),
}
SERIES = {
    entry.full_name + suffix: entry for entry in CATALOGUE.values() for suffix in SHOWN[entry.kind]
}
NAMED = re.compile(r"(datarecs_[a-z_]+)(?:\{([^}]*)\})?")


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_expression_is_promql(alert: Alert) -> None:
    promql_parser.parse(alert.expression)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_every_metric_of_an_alert_exists_with_its_labels(alert: Alert) -> None:
    named_metrics = NAMED.findall(alert.expression)
    assert named_metrics != []
    for name, selectors in named_metrics:
        assert name in SERIES
        labels = {part.partition("=")[0].strip() for part in selectors.split(",") if part}
        assert labels <= set(SERIES[name].labels)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_labels_an_alert_groups_by_are_those_of_its_metrics(alert: Alert) -> None:
    known = {label for name, _ in NAMED.findall(alert.expression) for label in SERIES[name].labels}
    for labels in re.findall(r"\bby \(([^)]*)\)", alert.expression):
        assert {label.strip() for label in labels.split(",")} <= known | {"instance"}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_has_a_summary_and_an_action(alert: Alert) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", alert.name)
    assert alert.means.endswith(".")
    assert alert.remedy.endswith(".")


def test_names_are_unique() -> None:
    assert len({alert.name for alert in ALERTS}) == len({alert.title for alert in ALERTS})
    assert len({alert.name for alert in ALERTS}) == len(ALERTS)


def test_a_metric_that_is_counted_for_the_first_time_alerts_too() -> None:
    """A counter's series begins with its first count, in which `increase` sees no rise."""
    rare = [alert for alert in ALERTS if alert.expression.startswith("increase(")]
    assert rare != []
    assert all(" unless " in alert.expression and " offset " in alert.expression for alert in rare)


# run-lifecycle 17 in full: what must be alerted on.
@pytest.mark.case("R56")
@pytest.mark.parametrize(
    "metric",
    [
        "outbox_oldest_unsent_seconds",
        "outbox_parked",
        "dlq_depth",
        "runs_overdue",
        'run_oldest_seconds{status="QUEUED"}',
        "kafka_unreadable_total",
        "partition_default_rows",
        "consumer_lag_records",
        "tenant_mismatch_total",
        "offset_gaps_total",
        "run_facts_total",
        "run_repairs_total",
    ],
)
def test_what_the_lifecycle_must_be_watched_for_has_an_alert(metric: str) -> None:
    assert any(f"datarecs_{metric}" in alert.expression for alert in ALERTS)
