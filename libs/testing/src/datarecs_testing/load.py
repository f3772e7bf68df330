"""Load on the platform's database: runs by the thousand, and work at a steady rate.

A separate module because benchmarks and the tests of the same figures must create the same load.
Rows are copied from one that the use cases wrote, so that they have the platform's content.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import LiteralString

from datarecs_application.ports.state import UnitOfWork
from datarecs_application.runs import trigger_run
from datarecs_core.runs.events import RunCompleted
from datarecs_core.runs.model import Run, RunResult
from datarecs_core.runs.start import TriggerRun
from datarecs_core.values import JobId, RunId
from datarecs_events.catalogue import Topic
from datarecs_postgres.database import Database
from datarecs_postgres.roles import API
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_runtime.clock import SystemClock, UuidV7Ids
from datarecs_testing.builders import A_TENANT
from datarecs_testing.database import PreparedDatabase

_COPY_RUNS: LiteralString = """
WITH made AS (
    INSERT INTO datarecs.run
    SELECT (jsonb_populate_record(r, jsonb_build_object(
        'run_id', gen_random_uuid(), 'status', %(status)s::text, 'submit_intent_at', now(),
        'queued_at', now(), 'started_at', now(), 'deadline_at', now() + interval '1 hour',
        'next_reconcile_at', NULL, 'attempt', %(attempt)s::int, 'last_sequence', 0,
        'wish', 'RUN', 'result', NULL, 'ended_at', NULL, 'closed_at', NULL,
        'submit_attempts', 1))).*
    FROM datarecs.run r, generate_series(1, %(count)s) WHERE r.run_id = %(template)s
    RETURNING tenant_id, run_id)
INSERT INTO datarecs.run_lease (tenant_id, run_id, due_at, priority, attempt, lease_epoch,
                                lease_owner, lease_until)
SELECT tenant_id, run_id, now(), 5, %(attempt)s::int, %(attempt)s::int, %(owner)s::text,
       CASE WHEN %(owner)s::text IS NOT NULL THEN now() + interval '1 hour' END
FROM made RETURNING run_id
"""


_FILL_OUTBOX: LiteralString = """
INSERT INTO datarecs.outbox (event_id, tenant_id, service, type, topic, partition_key, shard,
                             headers, data)
SELECT gen_random_uuid(), o.tenant_id, o.service, o.type, %(topic)s, 'key ' || g %% %(keys)s,
       (g %% %(keys)s) %% 16, o.headers, o.data
FROM datarecs.outbox o, generate_series(1, %(count)s) g WHERE o.partition_key = %(template)s
"""
_BETWEEN: LiteralString = """
SELECT extract(epoch FROM later.sent_at - first.{moment})::float8
FROM datarecs.outbox first JOIN datarecs.outbox later USING (partition_key)
WHERE first.type LIKE '%%.' || %(first)s AND later.type LIKE '%%.' || %(later)s
  AND first.created_at >= %(since)s AND later.sent_at IS NOT NULL
"""


def a_triggered_run(database: PreparedDatabase) -> Run:
    """One run, through the use case, under the API's login."""
    api, ids = Database(database.url(API)), UuidV7Ids()
    command = TriggerRun(
        tenant_id=A_TENANT,
        run_id=RunId(ids.new()),
        job_id=JobId(ids.new()),
        job_name="loaded",
        job_generation=1,
        spec_hash="sha256:" + 64 * "0",
        spec={},
        triggered_by="bench",
    )
    try:
        with PostgresUnitOfWork(api, ids).begin(A_TENANT, feed=8) as tx:
            return trigger_run(tx, command)
    finally:
        api.close()


def queue_runs(database: PreparedDatabase, count: int) -> list[RunId]:
    """`count` QUEUED runs that wait for a lease, and no others."""
    database.query("DELETE FROM datarecs.run_lease")
    database.query("UPDATE datarecs.tenant SET running_limit = 100000")
    return _copied(database, count, status="QUEUED", attempt=0, owner=None)


def running_runs(database: PreparedDatabase, count: int) -> list[RunId]:
    """`count` RUNNING runs, each with a live lease of epoch 1."""
    return _copied(database, count, status="RUNNING", attempt=1, owner="bench/0")


def fill_outbox(database: PreparedDatabase, count: int, *, keys: int) -> None:
    """Unsent events of so many keys over all shards, on a topic that no controller reads."""
    template = a_triggered_run(database)
    values = {
        "topic": Topic.NOTIFICATIONS.value,
        "keys": keys,
        "count": count,
        "template": str(template.run_id),
    }
    with database.connect() as connection:
        connection.execute(_FILL_OUTBOX, values)
        connection.execute("ANALYZE datarecs.outbox")


def end_run(unit: UnitOfWork, run_id: RunId) -> None:
    """A supervisor's last transaction: `run.completed` under the epoch of its lease."""
    with unit.begin(A_TENANT, feed=8) as tx:
        run = tx.runs.for_update(run_id)
        if run is None or not tx.leases.is_current(run_id, run.attempt):
            raise LookupError(f"run {run_id} is not under a lease")
        tx.leases.end(run_id)
        end = RunCompleted(
            run_id=run_id,
            job_id=run.job_id,
            tenant_id=run.tenant_id,
            attempt=run.attempt,
            workflow_name=run.execution_name,
            result=RunResult.MATCHED,
        )
        tx.outbox.append(end, traceparent=run.traceparent)


def seconds_between(
    database: PreparedDatabase, first: str, later: str, *, since: datetime, acked: bool
) -> list[float]:
    """From one event of a run, committed or acknowledged, to the ack of another one of it."""
    moment: LiteralString = "sent_at" if acked else "created_at"
    values = {"first": first, "later": later, "since": since}
    with database.connect() as connection:
        rows = connection.execute(_BETWEEN.format(moment=moment), values).fetchall()
    return [row[0] for row in rows]


def settled(database: PreparedDatabase, kind: str, *, since: datetime, count: int) -> None:
    """Return when `count` events of the kind are acknowledged; fails after two minutes."""
    clock = SystemClock()
    deadline = clock.monotonic() + 120
    while True:
        ((acks,),) = database.query(
            "SELECT count(*) FROM datarecs.outbox WHERE type LIKE %s"
            " AND created_at >= %s AND sent_at IS NOT NULL",
            (f"%.{kind}", since),
        )
        if acks >= count:
            return
        if clock.monotonic() > deadline:
            raise RuntimeError(f"{acks} of {count} events {kind} are acknowledged")
        clock.wait(timedelta(milliseconds=100))


def database_time(database: PreparedDatabase) -> datetime:
    ((now,),) = database.query("SELECT clock_timestamp()")
    if not isinstance(now, datetime):
        raise TypeError("a time is a time")
    return now


def _copied(
    database: PreparedDatabase, count: int, *, status: str, attempt: int, owner: str | None
) -> list[RunId]:
    template = a_triggered_run(database)
    values = {
        "count": count,
        "template": template.run_id,
        "status": status,
        "attempt": attempt,
        "owner": owner,
    }
    with database.connect() as connection:
        rows = connection.execute(_COPY_RUNS, values).fetchall()
        connection.execute("ANALYZE datarecs.run, datarecs.run_lease")
    return [RunId(row[0]) for row in rows]


def paced(act: Callable[[int], None], *, per_second: float, count: int) -> None:
    """Call `act` with 0, 1, 2 … at a steady rate; what comes late is made up for."""
    clock = SystemClock()
    began = clock.monotonic()
    for number in range(count):
        ahead = began + number / per_second - clock.monotonic()
        if ahead > 0:
            clock.wait(timedelta(seconds=ahead))
        act(number)
