import re

import pytest

from datarecs_application.metrics import (
    CATALOGUE,
    Metric,
    MetricKind,
    UnknownMetricError,
    metric,
)

SHAPE = re.compile(r"[a-z][a-z0-9_]*[a-z0-9]")
NEVER_LABELS = {"tenant", "tenant_id", "run_id", "job_id", "event_id", "endpoint", "endpoint_id"}


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=CATALOGUE)
def test_an_entry_is_named_for_its_kind_and_unit_and_has_a_meaning(entry: Metric) -> None:
    assert SHAPE.fullmatch(entry.name)
    assert entry.full_name == f"datarecs_{entry.name}"
    assert entry.name.endswith("_total") == (entry.kind is MetricKind.COUNTER)
    assert bool(entry.buckets) == entry.name.endswith("_seconds") * (
        entry.kind is MetricKind.HISTOGRAM
    )
    assert entry.meaning.endswith(".")
    assert entry.buckets == tuple(sorted(set(entry.buckets)))


@pytest.mark.case("R70")
@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=CATALOGUE)
def test_an_id_is_never_a_label(entry: Metric) -> None:
    assert NEVER_LABELS.isdisjoint(entry.labels)


# run-lifecycle 17 in full.
@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("runs_total", "mode status result code"),
        ("run_seconds", "phase"),
        ("runs_active", "status"),
        ("run_oldest_seconds", "status"),
        ("run_transitions_total", "from to"),
        ("run_facts_total", "disposition"),
        ("run_repairs_total", "reason"),
        ("cancels_total", "outcome"),
        ("submits_total", "backend outcome"),
        ("leases_lost_total", "reason"),
        ("lease_renew_seconds", ""),
        ("child_exits_total", "code"),
        ("outbox_unsent", ""),
        ("outbox_oldest_unsent_seconds", ""),
        ("outbox_publish_seconds", ""),
        ("outbox_published_total", "topic outcome"),
        ("outbox_parked", ""),
        ("inbox_duplicates_total", "group"),
        ("consumer_lag_records", "group topic"),
        ("consumer_handle_seconds", "group type outcome"),
        ("consumer_paused_partitions", "group"),
        ("kafka_unreadable_total", "group topic"),
        ("partition_default_rows", "table"),
        ("codec_refused_total", "group reason"),
        ("dlq_total", "group reason"),
        ("dlq_depth", "group"),
        ("tenant_mismatch_total", ""),
        ("offset_gaps_total", "group"),
        ("feed_connections", "kind"),
        ("feed_lag_seconds", ""),
    ],
)
def test_the_published_run_and_delivery_metrics_have_stable_labels(name: str, labels: str) -> None:
    assert CATALOGUE[name].labels == tuple(labels.split())


def test_a_call_with_the_right_kind_and_labels_finds_its_entry() -> None:
    entry = metric("run_transitions_total", MetricKind.COUNTER, {"to": "QUEUED", "from": "x"})
    assert entry is CATALOGUE["run_transitions_total"]


@pytest.mark.parametrize(
    ("name", "kind", "labels"),
    [
        ("runs_totl", MetricKind.COUNTER, {}),
        ("outbox_unsent", MetricKind.COUNTER, {}),
        ("run_seconds", MetricKind.HISTOGRAM, {}),
        ("run_seconds", MetricKind.HISTOGRAM, {"phase": "queue", "run_id": "1"}),
    ],
)
def test_anything_the_catalogue_does_not_have_is_refused(
    name: str, kind: MetricKind, labels: dict[str, str]
) -> None:
    with pytest.raises(UnknownMetricError, match=name):
        metric(name, kind, labels)
