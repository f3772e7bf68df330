"""Two processes reconcile jobs over PostgreSQL: each once, also if one of them is stopped."""

import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import text

from datarecs_application.controllers import Snapshot
from datarecs_application.loops.polling import Rhythm
from datarecs_application.loops.reconciling import Reconciling
from datarecs_core.resources.conditions import Condition, Truth
from datarecs_core.resources.reconciling import Result, success
from datarecs_core.resources.resource import Kind, Resource
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.roles import API, RESOURCES
from datarecs_postgres.unit_of_work import PostgresTransaction, PostgresUnitOfWork
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_runtime.clock import Latch, SystemClock, UuidV7Ids
from datarecs_testing.builders import A_TENANT, B_TENANT, a_resource
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.metrics import RecordedMetrics
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
LEASE = timedelta(seconds=13)


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


@dataclass(frozen=True, slots=True)
class BreaksAt:
    """A controller whose statement fails for one object, which ends the shared transaction."""

    name: str
    kind: Kind = Kind.RECONCILIATION_JOB
    resync: timedelta = timedelta(hours=1)

    def reconcile(self, seen: Snapshot, resource: Resource) -> Result:
        assert isinstance(seen.tx, PostgresTransaction)
        seen.tx.session.execute(text(f"SELECT 1 / {0 if resource.name == self.name else 1}"))
        return success(Condition(type="Ready", status=Truth.TRUE, reason="Done"))


def test_a_statement_that_fails_for_one_object_fails_for_no_other(
    private_database: PreparedDatabase,
) -> None:
    declare(private_database, 8)
    opened = Database(private_database.url(RESOURCES), limits=Limits(pool_size=4))
    metrics = RecordedMetrics()
    loop = Reconciling(
        unit=PostgresUnitOfWork(opened, UuidV7Ids()),
        finder=PostgresWorkFinder(opened),
        controllers={Kind.RECONCILIATION_JOB: BreaksAt("job-1")},
        metrics=metrics,
        rhythm=Rhythm(clock=SystemClock(), wake=Latch()),
        fraction=lambda: 0.99,
    )
    assert loop.step() == 8

    def counts() -> list[float]:
        return [
            metrics.total("reconcile_total", kind="ReconciliationJob", result=result)
            for result in ("error", "success")
        ]

    wait_until(lambda: sum(counts()) == 8)
    loop.drain()
    opened.close()
    assert counts() == [2, 6]
    assert decided(private_database) == 6


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
