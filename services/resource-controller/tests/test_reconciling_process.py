"""Two processes reconcile jobs over PostgreSQL: each once, also if one of them is stopped."""

import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from datarecs_core.resources.resource import Kind
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.roles import API, RESOURCES
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.work_finder import PostgresWorkFinder
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
JOBS, FEW = 1112, 200
LEASE = timedelta(seconds=76)


def declare(database: PreparedDatabase, count: int) -> None:
    """Jobs of two tenants, stored by core-api at once."""
    opened = Database(database.url(API), limits=Limits(pool_size=1))
    unit = PostgresUnitOfWork(opened, UuidV7Ids())
    for tenant in (A_TENANT, B_TENANT):
        with unit.begin(tenant, feed=count) as tx:
            for number in range(count // 2):
                job = a_resource(
                    kind=Kind.RECONCILIATION_JOB,
                    name=f"job-{number}",
                    tenant_id=tenant,
                    spec=JOB,
                    rv=tx.next_rv(),
                )
                tx.resources.add(job)
                tx.resource_work.reconcile_soon(job.uid, job.kind)
    opened.close()


def number(database: PreparedDatabase, where: str) -> int:
    ((count,),) = database.query(
        f"SELECT count(*) FROM datarecs.resource WHERE {where}"  # noqa: S608  a constant
    )
    return int(str(count))


def decided(database: PreparedDatabase) -> int:
    return number(database, "observed_generation = 1")


def is_decided(database: PreparedDatabase, count: int) -> bool:
    return decided(database) == count


def wait_until(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.02)  # noqa: TID251  rows of another process have no signal here


def started(
    stack: ExitStack, database: PreparedDatabase, folder: Path, count: int
) -> list[ServiceProcess]:
    settings = {
        "DATARECS_PROFILE": "local",
        "DATARECS_DATABASE__URL": database.url(RESOURCES),
        "DATARECS_BLOB__URL": (folder / "blobs").as_uri(),
    }
    return [
        stack.enter_context(
            running_service(
                "datarecs_resource_controller", settings, log=folder / f"controller-{one}.log"
            )
        )
        for one in range(count)
    ]


def events(database: PreparedDatabase) -> list[int]:
    """How many events of a reconcile each job has."""
    counts = database.query(
        "SELECT count(*) FROM datarecs.outbox WHERE type LIKE %s GROUP BY partition_key",
        ("%.reconciliationjob.reconciled",),
    )
    return [int(str(count)) for (count,) in counts]


@pytest.mark.case("R32")
def test_two_processes_reconcile_each_job_once(
    private_database: PreparedDatabase, tmp_path: Path
) -> None:
    database = private_database
    declare(database, JOBS)
    with ExitStack() as stack:
        started(stack, database, tmp_path, 2)
        wait_until(lambda: decided(database) == JOBS)
    assert events(database) == [1] * JOBS
    epochs = database.query("SELECT DISTINCT epoch FROM datarecs.resource_work")
    assert epochs == [(1,)]


@pytest.mark.case("R33")
def test_a_process_that_was_stopped_past_its_leases_changes_nothing(
    private_database: PreparedDatabase, tmp_path: Path
) -> None:
    database = private_database
    declare(database, FEW)
    second_folder = tmp_path / "second"
    second_folder.mkdir()
    with ExitStack() as stack:
        (first,) = started(stack, database, tmp_path, 1)
        wait_until(lambda: decided(database) >= FEW // 10)
        first.process.send_signal(signal.SIGSTOP)
        database.query(
            "UPDATE datarecs.resource_work SET lease_until = lease_until - %s"
            " WHERE lease_until IS NOT NULL RETURNING 1",
            (LEASE,),
        )
        (second,) = started(stack, database, second_folder, 1)
        wait_until(lambda: decided(database) >= FEW - 4)
        first.process.send_signal(signal.SIGCONT)
        wait_until(lambda: decided(database) == FEW)
        assert second.process.poll() is None
    assert events(database) == [1] * FEW


@pytest.mark.slow
@pytest.mark.case("R31")
def test_a_backlog_of_one_tenant_does_not_delay_another(private_database: PreparedDatabase) -> None:
    database = private_database
    jobs = (
        "INSERT INTO datarecs.resource (tenant_id, uid, kind, namespace, name, api_version,"
        " generation, rv, spec, spec_hash, created_at)"
        " SELECT %s, gen_random_uuid(), 'ReconciliationJob', 'default', 'job-' || number,"
        " 'datarecs.io/v1', 1, 1, '{}', '', now() FROM generate_series(1, %s) number RETURNING 1"
    )
    opened = Database(database.url(RESOURCES), limits=Limits(pool_size=1))
    finder, kinds = PostgresWorkFinder(opened), [Kind.RECONCILIATION_JOB]
    for tenant, count in ((A_TENANT, 100_000), (B_TENANT, 1)):
        database.query(jobs, (tenant, count))
        assert finder.adopt_resources(kinds) == count
    rounds = [finder.claim_resources(kinds, 4) for _ in range(2)]
    opened.close()
    assert B_TENANT in {claim.tenant_id for claims in rounds for claim in claims}


def test_a_stored_declaration_is_reconciled_without_waiting_for_a_poll(
    private_database: PreparedDatabase, tmp_path: Path
) -> None:
    database, edits = private_database, 8
    opened = Database(database.url(API), limits=Limits(pool_size=1))
    unit = PostgresUnitOfWork(opened, UuidV7Ids())
    with ExitStack() as stack:
        started(stack, database, tmp_path, 1)
        declare(database, 2)
        wait_until(lambda: decided(database) == 2)
        began = time.monotonic()
        for one in range(edits):
            job = a_resource(kind=Kind.RECONCILIATION_JOB, name=f"late-{one}", spec=JOB)
            with unit.begin(A_TENANT) as tx:
                tx.resources.add(job)
                tx.resource_work.reconcile_soon(job.uid, job.kind)
            wait_until(partial(is_decided, database, 3 + one))
        took = time.monotonic() - began
    opened.close()
    assert took < edits / 2, "each edit waited for the poll of a second"
