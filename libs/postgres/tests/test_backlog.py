"""The backlog in the controller's metrics, on the real server."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest

from datarecs_core.runs.model import Run
from datarecs_postgres import backlog
from datarecs_postgres.database import Database
from datarecs_postgres.outbox_reader import PostgresOutboxReader
from datarecs_testing.builders import B_TENANT
from datarecs_testing.conformance.stores import Stores
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.metrics import RecordedMetrics

pytestmark = pytest.mark.integration


@pytest.fixture
def metrics() -> RecordedMetrics:
    return RecordedMetrics()


@pytest.fixture
def reader(database: PreparedDatabase) -> Iterator[PostgresOutboxReader]:
    with closing(Database(database.url("datarecs_relay"))) as relay:
        yield PostgresOutboxReader(relay)


@pytest.fixture
def controller(database: PreparedDatabase) -> Iterator[Database]:
    with closing(Database(database.url("datarecs_controller"))) as opened:
        yield opened


def _watched(stores: Stores, run: Run) -> None:
    """With a timer, as every open run has one."""
    with stores.controller.unit.begin(run.tenant_id) as tx:
        tx.runs.for_update(run.run_id)
        tx.timers.put(run.run_id, "observe", tx.now + timedelta(hours=9))


def test_open_runs_of_all_tenants_are_counted_by_status(
    stores: Stores, controller: Database, metrics: RecordedMetrics
) -> None:
    for run in (stores.triggered(), stores.queued(), stores.queued(tenant_id=B_TENANT)):
        _watched(stores, run)
    backlog.report_run_gauges(controller, metrics)
    counts = {
        status: metrics.last("runs_active", status=status)
        for status in ("TRIGGERED", "QUEUED", "RUNNING")
    }
    assert counts == {"TRIGGERED": 1, "QUEUED": 2, "RUNNING": 0}
    assert metrics.last("run_oldest_seconds", status="RUNNING") == 0
    oldest = metrics.last("run_oldest_seconds", status="QUEUED")
    assert oldest is not None
    assert oldest > 0
    assert metrics.last("runs_overdue") == 0


def test_a_run_that_nobody_closes_after_its_deadline_is_overdue(
    stores: Stores, controller: Database, metrics: RecordedMetrics
) -> None:
    _watched(stores, stores.queued())
    stores.worker.finder.lease_run("worker-1")
    stores.pass_time(timedelta(hours=1, seconds=90))
    backlog.report_run_gauges(controller, metrics)
    assert metrics.last("runs_overdue") == 0
    stores.pass_time(timedelta(seconds=60))
    backlog.report_run_gauges(controller, metrics)
    assert metrics.last("runs_overdue") == 1
    assert metrics.last("runs_active", status="RUNNING") == 1


def test_unsent_and_parked_events_are_counted_and_the_oldest_is_aged(
    stores: Stores,
    reader: PostgresOutboxReader,
    metrics: RecordedMetrics,
    database: PreparedDatabase,
) -> None:
    for _ in range(3):
        stores.triggered()
    ids = [row[0] for row in database.query("SELECT event_id FROM datarecs.outbox")]
    reader.mark_sent([ids[0]])
    reader.mark_failed(ids[1], "too large", park=True)
    database.query("UPDATE datarecs.outbox SET created_at = created_at - interval '90 seconds'")
    backlog.report_outbox_gauges(reader, metrics)
    oldest = metrics.last("outbox_oldest_unsent_seconds")
    assert oldest is not None
    assert 90 <= oldest < 150
    assert metrics.last("outbox_parked") == 1
    assert metrics.last("outbox_unsent") == 1


def test_a_relay_is_not_ready_while_an_event_waits_for_more_than_a_minute(
    stores: Stores, reader: PostgresOutboxReader, database: PreparedDatabase
) -> None:
    stores.triggered()
    assert backlog.sending(reader) is None
    database.query("UPDATE datarecs.outbox SET created_at = created_at - interval '61 seconds'")
    assert backlog.sending(reader) == "the oldest event waits for 61 s"
