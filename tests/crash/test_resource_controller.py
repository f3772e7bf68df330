"""Kill both resource-controllers at every named place: each time starts once, each job is decided.

All work is due before the first kill. A storm kills both processes at one place after the other,
ends the claims of the dead as time does, and starts two new ones. `make crash` adds storms that
kill at later passes.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from threading import Event
from time import monotonic
from typing import LiteralString
from uuid import UUID

import pytest

from datarecs_core.crashing import CrashPoint
from datarecs_core.resources.reconciling import IN_USE
from datarecs_core.resources.resource import Kind
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.roles import API, RESOURCES
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_runtime.clock import SystemClock, UuidV7Ids
from datarecs_runtime.environment import process_environment
from datarecs_testing.builders import A_TENANT, B_TENANT, a_resource
from datarecs_testing.crashes import killing
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.service_process import ServiceProcess, running_service

pytestmark = [pytest.mark.integration, pytest.mark.crash, pytest.mark.slow]

MODULE = "datarecs_resource_controller"
LAUNCHER = "datarecs_testing.crashes.launcher"
OBJECTS = 1000
FIRE = (
    CrashPoint.FIRE_AFTER_CLAIM,
    CrashPoint.TRIGGER_IN_TX,
    CrashPoint.FIRE_IN_TX,
    CrashPoint.FIRE_AFTER_COMMIT,
)
RECONCILE = tuple(point for point in CrashPoint if point.startswith("reconcile."))
IS_WHOLE = process_environment().get("DATARECS_TEST_CRASH") == "all"
HITS = (1, 2, 7) if IS_WHOLE else (2,)
JOB = {
    "sources": [
        {"name": "a", "kind": "csv", "connection": "here", "path": "a.csv"},
        {"name": "b", "kind": "csv", "connection": "here", "path": "b.csv"},
    ],
    "stages": [{"name": "rows", "type": "row", "dimensions": ["id"], "measures": "*"}],
}
_CLAIMS_END: LiteralString = """
WITH schedules AS (
    UPDATE datarecs.schedule_state s SET due_at = now() WHERE NOT EXISTS (
        SELECT FROM datarecs.schedule_tick t WHERE t.schedule_uid = s.schedule_uid)
    RETURNING 1),
objects AS (
    UPDATE datarecs.resource_work SET lease_until = now() - interval '1 s'
    WHERE lease_until IS NOT NULL RETURNING 1)
SELECT (SELECT count(*) FROM schedules), (SELECT count(*) FROM objects)
"""


@dataclass(slots=True)
class Pair:
    """Two controllers, each in a working directory with orders of its own."""

    database: PreparedDatabase
    folders: tuple[Path, Path]
    orders: tuple[killing.Orders, killing.Orders] = field(init=False)

    def __post_init__(self) -> None:
        for folder in self.folders:
            (folder / killing.FOLDER).mkdir(parents=True)
        first, second = (killing.Orders(one / killing.FOLDER) for one in self.folders)
        self.orders = (first, second)

    @contextmanager
    def running(self) -> Iterator[list[ServiceProcess]]:
        settings = {
            "DATARECS_PROFILE": "local",
            "DATARECS_DATABASE__URL": self.database.url(RESOURCES),
            "DATARECS_BLOB__URL": (self.folders[0].parent / "blobs").as_uri(),
            "DATARECS_LIMITS__WAITING_RUNS_PER_JOB": "100000",
            "DATARECS_LIMITS__WAITING_RUNS_PER_TENANT": "100000",
        }
        with ExitStack() as stack:
            yield [
                stack.enter_context(
                    running_service(
                        LAUNCHER, settings, log=one / "log", arguments=(MODULE,), folder=one
                    )
                )
                for one in self.folders
            ]

    def killed_at(self, point: CrashPoint, *, hit: int) -> None:
        """Both die at this pass of this place; then their claims end."""
        tokens = [orders.place(MODULE, point, hit=hit) for orders in self.orders]
        with self.running() as processes:
            until(lambda: all(one.process.poll() is not None for one in processes))
            for one in processes:
                assert one.process.returncode == killing.EXIT, one.text()
        pairs = zip(self.orders, tokens, strict=True)
        assert all(orders.obeyed(token) for orders, token in pairs)
        self.database.query(_CLAIMS_END)


@pytest.fixture
def pair(private_database: PreparedDatabase, tmp_path: Path) -> Pair:
    return Pair(private_database, (tmp_path / "first", tmp_path / "second"))


def declare(database: PreparedDatabase, *, jobs: int, schedules: int) -> None:
    """Objects of two tenants, half of them each; all schedules share one time, two hours ago."""
    shared = SystemClock().now() - timedelta(hours=2)
    daily = {
        "job": "books",
        "cron": f"{shared.minute} {shared.hour} * * *",
        "concurrency_policy": "Allow",
    }
    opened = Database(database.url(API), limits=Limits(pool_size=1))
    unit = PostgresUnitOfWork(opened, UuidV7Ids())
    for tenant in (A_TENANT, B_TENANT):
        with unit.begin(tenant, feed=jobs) as tx:
            tx.resources.add(a_resource(name="here", tenant_id=tenant))
            for number in range(jobs // 2):
                job = a_resource(
                    kind=Kind.RECONCILIATION_JOB,
                    name=f"books-{number}" if number else "books",
                    tenant_id=tenant,
                    spec=JOB,
                    rv=tx.next_rv(),
                )
                tx.resources.add(job)
                tx.resource_work.reconcile_soon(job.uid, job.kind)
            for number in range(schedules // 2):
                schedule = a_resource(
                    kind=Kind.SCHEDULE,
                    name=f"daily-{number}",
                    tenant_id=tenant,
                    spec=daily,
                    created_at=shared - timedelta(hours=1),
                )
                tx.resources.add(schedule)
                tx.schedules.decide_soon(schedule.uid)
    opened.close()


def counted(database: PreparedDatabase, query: LiteralString) -> int:
    ((count,),) = database.query(query)
    return int(str(count))


def until(holds: Callable[[], bool]) -> None:
    ends = monotonic() + 40
    while not holds():
        assert monotonic() < ends
        Event().wait(0.05)


DUE_SCHEDULES: LiteralString = """
SELECT count(*) FROM datarecs.schedule_state s WHERE due_at <= now() + interval '1 h' OR NOT EXISTS
    (SELECT FROM datarecs.schedule_tick t WHERE t.schedule_uid = s.schedule_uid)
"""
DUE_JOBS: LiteralString = """
SELECT count(*) FROM datarecs.resource_work
WHERE due_at <= now() OR lease_until IS NOT NULL OR generation <> 1
"""


@pytest.mark.case("R46", "R72")
@pytest.mark.parametrize("hit", HITS)
def test_fires_that_were_killed_start_each_time_once(pair: Pair, hit: int) -> None:
    database = pair.database
    declare(database, jobs=2, schedules=OBJECTS)
    for point in FIRE:
        is_shared = point in {CrashPoint.FIRE_AFTER_CLAIM, CrashPoint.FIRE_AFTER_COMMIT}  # by fifty
        pair.killed_at(point, hit=min(hit, 2) if is_shared else hit)
    assert counted(database, DUE_SCHEDULES) > OBJECTS // 4, "the kills came too late"
    with pair.running():
        until(lambda: not counted(database, DUE_SCHEDULES))
    runs = database.query("SELECT schedule_uid, fire_time, run_id FROM datarecs.run")
    ticks = database.query(
        "SELECT schedule_uid, fire_time, run_id FROM datarecs.schedule_tick WHERE outcome = 'FIRED'"
    )
    events = database.query(
        "SELECT partition_key FROM datarecs.outbox WHERE type LIKE %s", ("%.run.triggered",)
    )
    assert sorted(runs) == sorted(ticks)
    assert sorted(UUID(str(key)) for (key,) in events) == sorted(run_id for *_, run_id in runs)
    assert len({uid for uid, *_ in runs}) == len(runs) == OBJECTS
    assert len({fire_time for _, fire_time, _ in runs}) == 1


@pytest.mark.case("R25", "R72")
@pytest.mark.parametrize("hit", HITS)
def test_reconciles_that_were_killed_change_each_status_once(pair: Pair, hit: int) -> None:
    database = pair.database
    declare(database, jobs=OBJECTS, schedules=0)
    for point in RECONCILE:
        pair.killed_at(point, hit=hit)
    assert counted(database, DUE_JOBS) > OBJECTS // 4, "the kills came too late"
    with pair.running():
        until(lambda: not counted(database, DUE_JOBS))
    events = database.query(
        "SELECT count(*) FROM datarecs.outbox WHERE type LIKE %s GROUP BY partition_key",
        ("%.reconciliationjob.reconciled",),
    )
    assert events == [(1,)] * OBJECTS
    assert counted(
        database,
        "SELECT count(*) FROM datarecs.resource WHERE observed_generation = 1"
        " AND kind = 'ReconciliationJob' AND status -> 'conditions' IS NOT NULL",
    ) == (OBJECTS)
    # A check is requested before the result is recorded: also the second reconcile finds it. The
    # connection of each tenant has one, too.
    checks: LiteralString = (
        "SELECT count(*) FROM datarecs.resource_check WHERE epoch = 0 AND due_at IS NOT NULL"
    )
    assert counted(database, checks) == OBJECTS + 2


@pytest.mark.case("R28")
@pytest.mark.parametrize("hit", HITS)
def test_deletions_that_were_killed_end_once(pair: Pair, hit: int) -> None:
    database = pair.database
    connections = declare_deleted(database)
    for point in RECONCILE:
        pair.killed_at(point, hit=hit)
    left: LiteralString = "SELECT count(*) FROM datarecs.resource"
    assert counted(database, left) > connections // 4, "the kills came too late"
    with pair.running():
        until(lambda: not counted(database, left))
    changes = database.query(
        "SELECT count(*) FROM datarecs.resource_change WHERE op = 'DELETED' GROUP BY uid"
    )
    assert changes == [(1,)] * connections
    for verb in ("deleted", "finalized"):
        events = database.query(
            "SELECT count(*) FROM datarecs.outbox WHERE type LIKE %s GROUP BY partition_key",
            (f"%.connection.{verb}",),
        )
        assert events == [(1,)] * connections


def declare_deleted(database: PreparedDatabase) -> int:
    """Connections that users have deleted, and that no job names any more."""
    opened, count = Database(database.url(API), limits=Limits(pool_size=1)), OBJECTS // 4
    with PostgresUnitOfWork(opened, UuidV7Ids()).begin(A_TENANT, feed=count) as tx:
        for number in range(count):
            connection = a_resource(
                name=f"ledger-{number}",
                finalizers=(IN_USE,),
                deletion_at=tx.now,
                rv=tx.next_rv(),
            )
            tx.resources.add(connection)
            tx.resource_work.reconcile_soon(connection.uid, connection.kind)
    opened.close()
    return count


CAPTURES = OBJECTS // 4
DUE_CAPTURES: LiteralString = """
SELECT count(*) FROM datarecs.resource_work w JOIN datarecs.resource r USING (tenant_id, uid)
WHERE w.kind = 'Capture' AND (w.lease_until IS NOT NULL OR w.generation <> 1
    OR r.status #>> '{last_capture,state}' IS DISTINCT FROM 'QUEUED')
"""
_AN_HOUR_LATER: LiteralString = """
WITH ended AS (
    UPDATE datarecs.capture_work SET state = 'SUCCEEDED', started_at = now(), finished_at = now(),
        children_final = true WHERE state = 'QUEUED' RETURNING 1),
captures AS (
    UPDATE datarecs.resource SET status = jsonb_set(status, '{last_capture,requested_at}',
        to_jsonb(to_char(now() AT TIME ZONE 'UTC' - interval '1 h', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')))
    WHERE kind = 'Capture' RETURNING 1),
due AS (
    UPDATE datarecs.resource_work SET due_at = now() - interval '1 s' WHERE kind = 'Capture'
    RETURNING 1)
SELECT (SELECT count(*) FROM ended), (SELECT count(*) FROM captures), (SELECT count(*) FROM due)
"""
"""Every capture has succeeded, and the next ones are due."""


@pytest.mark.case("R62", "R72")
@pytest.mark.parametrize("hit", HITS)
def test_captures_that_were_killed_start_once_per_due_time(pair: Pair, hit: int) -> None:
    database = pair.database
    declare_captures(database)
    for due_times in (1, 2):
        for point in RECONCILE if IS_WHOLE or due_times == 2 else ():
            pair.killed_at(point, hit=hit)
        assert counted(database, DUE_CAPTURES) > CAPTURES // 4, "the kills came too late"
        with pair.running():
            until(lambda: not counted(database, DUE_CAPTURES))
        jobs = database.query(
            "SELECT count(*) FROM datarecs.capture_work GROUP BY requested_by, tenant_id"
        )
        assert jobs == [(due_times,)] * CAPTURES
        followed = database.query(
            "SELECT count(*) FROM datarecs.resource r JOIN datarecs.capture_work w"
            " ON w.tenant_id = r.tenant_id AND w.id::text = r.status #>> '{last_capture,job_id}'"
            " AND w.requested_by = 'Capture default/' || r.name AND w.state = 'QUEUED'"
        )
        assert followed == [(CAPTURES,)]
        assert database.query(_AN_HOUR_LATER) == [(CAPTURES, CAPTURES, CAPTURES)]


def declare_captures(database: PreparedDatabase) -> None:
    """Captures of two tenants, each of a table of its own, and the connection of each tenant."""
    opened = Database(database.url(API), limits=Limits(pool_size=1))
    unit = PostgresUnitOfWork(opened, UuidV7Ids())
    for tenant in (A_TENANT, B_TENANT):
        with unit.begin(tenant, feed=CAPTURES) as tx:
            tx.resources.add(a_resource(name="here", tenant_id=tenant))
            for number in range(CAPTURES // 2):
                spec = {
                    "connection": "here",
                    "mode": "METADATA_ONLY",
                    "scope": {"tables": [f"default.t{number}"]},
                    "snapshots": {"select": "CURRENT"},
                    "interval": "PT1H",
                }
                capture = a_resource(
                    kind=Kind.CAPTURE,
                    name=f"t{number}",
                    tenant_id=tenant,
                    spec=spec,
                    rv=tx.next_rv(),
                )
                tx.resources.add(capture)
                tx.resource_work.reconcile_soon(capture.uid, capture.kind)
    opened.close()


def test_every_place_of_the_controller_is_in_a_storm() -> None:
    """A new place would be in neither this matrix nor that of the platform."""
    rows = {point for point in CrashPoint if point.partition(".")[0] in ("fire", "reconcile")}
    assert rows <= {*FIRE, *RECONCILE}
