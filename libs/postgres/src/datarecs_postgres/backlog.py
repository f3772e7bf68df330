"""The backlog: runs that are not terminal and events that are not sent, over all tenants.

Only numbers, for the gauges of run-controller; separate from `maintenance`, which changes data.
"""

from datetime import timedelta

from sqlalchemy import func, select

from datarecs_application.ports.outside import Metrics
from datarecs_postgres.database import Database
from datarecs_postgres.outbox_reader import PostgresOutboxReader

EVERY = timedelta(seconds=15)
"""Interval of gauges: half of the usual scrape interval."""
PATIENCE = timedelta(seconds=60)
"""Maximum age of the oldest unsent event of a ready relay."""


def report_run_gauges(database: Database, metrics: Metrics) -> None:
    """Runs by status. The database is of the login datarecs_controller."""
    backlog = func.datarecs.run_backlog().table_valued(
        "status", "runs", "oldest_seconds", "overdue"
    )
    overdue = 0
    for row in database.call(select(backlog)):
        metrics.gauge("runs_active", row.runs, status=row.status)
        metrics.gauge("run_oldest_seconds", row.oldest_seconds, status=row.status)
        overdue += row.overdue
    metrics.gauge("runs_overdue", overdue)


def report_outbox_gauges(reader: PostgresOutboxReader, metrics: Metrics) -> None:
    """The backlog of the whole outbox, for all relays, also while a relay is stuck."""
    backlog = reader.backlog()
    metrics.gauge("outbox_unsent", backlog.unsent)
    metrics.gauge("outbox_oldest_unsent_seconds", backlog.oldest_unsent.total_seconds())
    metrics.gauge("outbox_parked", backlog.parked)


def sending(reader: PostgresOutboxReader) -> str | None:
    """None while events are sent in time, else the reason; for `Process.ready_when`."""
    age = reader.backlog().oldest_unsent
    return None if age < PATIENCE else f"the oldest event waits for {int(age.total_seconds())} s"
