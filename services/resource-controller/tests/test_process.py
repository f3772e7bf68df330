"""The service as a process over PostgreSQL: kills at any moment start each time once."""

import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import LiteralString
from uuid import UUID

import pytest

from datarecs_core.resources.resource import Kind
from datarecs_core.values import ResourceUid
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.roles import API, RESOURCES
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_runtime.clock import UuidV7Ids
from datarecs_testing.builders import A_TENANT, B_TENANT, a_resource
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.service_process import ServiceProcess, running_service

pytestmark = pytest.mark.integration

JOB = {
    "sources": [
        {"name": "a", "kind": "csv", "connection": "here", "path": "a.csv"},
        {"name": "b", "kind": "csv", "connection": "here", "path": "b.csv"},
    ],
    "stages": [{"name": "rows", "type": "row", "dimensions": ["id"], "measures": "*"}],
}
SCHEDULES, TIMES = 150, 3


def settings(database: PreparedDatabase, blobs: Path) -> dict[str, str]:
    return {
        "DATARECS_PROFILE": "local",
        "DATARECS_DATABASE__URL": database.url(RESOURCES),
        "DATARECS_BLOB__URL": blobs.as_uri(),
        "DATARECS_LIMITS__WAITING_RUNS_PER_JOB": "100000",
        "DATARECS_LIMITS__WAITING_RUNS_PER_TENANT": "100000",
    }


REFUSE: LiteralString = """
DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I CONNECTION LIMIT 0', current_database()); END $$
"""
"""Superusers may still connect."""
ACCEPT: LiteralString = """
DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I CONNECTION LIMIT -1', current_database()); END $$
"""
SPEC = {
    "job": "books",
    "cron": "* * * * *",
    "catchup": "all",
    "max_catchup": TIMES,
    "concurrency_policy": "Allow",
}


def declare(database: PreparedDatabase) -> list[ResourceUid]:
    """Schedules of two tenants; each has missed many times and starts the newest of them."""
    opened = Database(database.url(API), limits=Limits(pool_size=1))
    unit, uids = PostgresUnitOfWork(opened, UuidV7Ids()), []
    for tenant in (A_TENANT, B_TENANT):
        with unit.begin(tenant) as tx:
            tx.resources.add(a_resource(name="here", tenant_id=tenant))
            tx.resources.add(
                a_resource(kind=Kind.RECONCILIATION_JOB, name="books", tenant_id=tenant, spec=JOB)
            )
        for number in range(SCHEDULES // 2):
            schedule = a_resource(
                kind=Kind.SCHEDULE, name=f"every-minute-{number}", tenant_id=tenant, spec=SPEC
            )
            with unit.begin(tenant) as tx:
                tx.resources.add(schedule)
                tx.schedules.decide_soon(schedule.uid)
            uids.append(schedule.uid)
    opened.close()
    return uids


def decided(database: PreparedDatabase) -> int:
    ((count,),) = database.query(
        "SELECT count(DISTINCT schedule_uid) FROM datarecs.schedule_tick WHERE outcome = 'FIRED'"
    )
    return int(str(count))


def wait_until_decided(database: PreparedDatabase, many: int) -> None:
    ends = time.monotonic() + 60
    while decided(database) < many:
        assert time.monotonic() < ends, decided(database)
        time.sleep(0.02)  # noqa: TID251  rows of another process have no signal here


def ledger(database: PreparedDatabase, uids: list[ResourceUid]) -> None:
    """Every started time has one run, one tick and one event; nothing else exists."""
    runs = database.query("SELECT schedule_uid, fire_time, run_id FROM datarecs.run")
    ticks = database.query(
        "SELECT schedule_uid, fire_time, run_id FROM datarecs.schedule_tick WHERE outcome = 'FIRED'"
    )
    events = database.query(
        "SELECT partition_key FROM datarecs.outbox WHERE type LIKE %s", ("%.run.triggered",)
    )
    assert sorted(runs) == sorted(ticks)
    assert sorted(UUID(str(key)) for (key,) in events) == sorted(run_id for *_, run_id in runs)
    times = Counter(uid for uid, *_ in runs)
    assert set(times) == set(uids)
    assert min(times.values()) >= TIMES
    assert len({(uid, fire_time) for uid, fire_time, _ in runs}) == len(runs)


def start(
    stack: ExitStack, database: PreparedDatabase, folder: Path, number: int
) -> ServiceProcess:
    log = folder / f"controller-{number}.log"
    values = settings(database, folder / "blobs")
    return stack.enter_context(running_service("datarecs_resource_controller", values, log=log))


@pytest.mark.slow
@pytest.mark.case("R34")
def test_processes_without_the_database_start_nothing_and_each_time_once_afterwards(
    private_database: PreparedDatabase, tmp_path: Path
) -> None:
    database = private_database
    uids = declare(database)
    with ExitStack() as stack:
        processes = [start(stack, database, tmp_path, one) for one in range(2)]
        wait_until_decided(database, SCHEDULES // 10)
        database.query(REFUSE)
        database.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND usename = %s",
            (RESOURCES,),
        )
        before = decided(database)
        assert before < SCHEDULES
        time.sleep(12)  # noqa: TID251  the outage of the case
        assert decided(database) == before
        assert [one.process.poll() for one in processes] == [None, None]
        database.query(ACCEPT)
        database.query("UPDATE datarecs.schedule_state SET due_at = now() RETURNING 1")
        wait_until_decided(database, SCHEDULES)
        assert [one.process.poll() for one in processes] == [None, None]
    ledger(database, uids)


@pytest.mark.case("R35")
def test_after_a_clean_shutdown_the_other_process_starts_what_is_due(
    private_database: PreparedDatabase, tmp_path: Path
) -> None:
    database = private_database
    uids = declare(database)
    opened = Database(database.url(API), limits=Limits(pool_size=1))
    late = a_resource(kind=Kind.SCHEDULE, name="late", spec=SPEC)
    with ExitStack() as stack:
        first, second = (start(stack, database, tmp_path, one) for one in range(2))
        wait_until_decided(database, SCHEDULES)
        first.process.terminate()
        began = time.monotonic()
        with PostgresUnitOfWork(opened, UuidV7Ids()).begin(A_TENANT) as tx:
            tx.resources.add(late)
            tx.schedules.decide_soon(late.uid)
        wait_until_decided(database, SCHEDULES + 1)
        took = time.monotonic() - began
        assert first.process.wait(30) == 0
        assert second.process.poll() is None
    opened.close()
    assert took < 2.4
    ledger(database, [*uids, late.uid])


def test_it_is_ready_with_its_login_and_refuses_another(
    database: PreparedDatabase, tmp_path: Path
) -> None:
    wrong = {**settings(database, tmp_path), "DATARECS_DATABASE__URL": database.admin_url}
    with running_service(
        "datarecs_resource_controller", wrong, log=tmp_path / "wrong.log"
    ) as service:
        assert service.process.wait(30) != 0
    assert "superuser" in service.text()
