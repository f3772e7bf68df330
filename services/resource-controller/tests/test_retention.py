"""Sweeps of the service over PostgreSQL and a folder: 10,000 runs, and kills at any moment."""

import time
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest

from datarecs_core.catalog.layout import run_document, run_prefix
from datarecs_core.resources.annotations import HOLD
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.values import ResourceUid, RunId
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.roles import API, RESOURCES
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_runtime.clock import UuidV7Ids
from datarecs_testing.builders import A_TENANT, a_resource
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.service_process import running_service

pytestmark = pytest.mark.integration

EXPIRED, STORE_LAST, KILLS = 10_000, 30, 6
SPEC = {
    "targets": {"runs": {"ttl": "P90D", "keep_last": STORE_LAST}},
    "job_labels": {},
    "deleted_jobs": False,
    "sweep_interval": "PT1H",
    "dry_run": False,
}


def settings(database: PreparedDatabase, blobs: Path) -> dict[str, str]:
    return {
        "DATARECS_PROFILE": "local",
        "DATARECS_DATABASE__URL": database.url(RESOURCES),
        "DATARECS_BLOB__URL": blobs.as_uri(),
    }


def declare(database: PreparedDatabase, *resources: Resource) -> None:
    with closing(Database(database.url(API), limits=Limits(pool_size=1))) as opened:
        unit = PostgresUnitOfWork(opened, UuidV7Ids())
        for resource in resources:
            with unit.begin(A_TENANT) as tx:
                tx.resources.add(resource)
                if resource.kind is Kind.RETENTION_POLICY:
                    tx.retention.sweep_soon(resource.uid)
                if resource.kind is Kind.SCHEDULE:
                    tx.schedules.decide_soon(resource.uid)


def a_job(name: str, **changes: object) -> Resource:
    return a_resource(kind=Kind.RECONCILIATION_JOB, name=name, spec={}, rv=0, **changes)


def a_policy(**spec: object) -> Resource:
    return a_resource(kind=Kind.RETENTION_POLICY, name="default", spec=SPEC | spec, rv=0)


def add_runs(
    database: PreparedDatabase, job: ResourceUid, count: int, *, days_ago: int, result: str
) -> None:
    """Ended runs a second apart."""
    database.query(
        """
        INSERT INTO datarecs.run (tenant_id, run_id, job_id, job_name, job_generation, spec_hash,
            spec, triggered_by, execution_name, status, result, created_at, closed_at)
        SELECT %s, gen_random_uuid(), %s, 'books', 1, 'sha256:0', '{}', 'test', 'none',
            'COMPLETED', %s, at, at FROM (
            SELECT now() - make_interval(days => %s) + n * interval '1 second' AS at
            FROM generate_series(1, %s) n) moments
        """,
        (A_TENANT, job, result, days_ago, count),
    )


def stored_runs(database: PreparedDatabase) -> set[UUID]:
    rows = database.query("SELECT run_id FROM datarecs.run")
    return {UUID(str(run_id)) for (run_id,) in rows}


def add_artefacts(database: PreparedDatabase, blobs: Path) -> None:
    for run_id in stored_runs(database):
        file = blobs / run_document(A_TENANT, RunId(run_id))
        file.parent.mkdir(parents=True)
        file.write_bytes(b"{}")


def runs_with_artefacts(blobs: Path) -> set[UUID]:
    folder = (blobs / run_prefix(A_TENANT, RunId(UUID(int=0)))).parent
    return {UUID(entry.name) for entry in folder.iterdir()}


def ended_sweeps(database: PreparedDatabase, policy: Resource) -> bool:
    rows = database.query(
        "SELECT status ? 'last_sweep_at' FROM datarecs.resource WHERE uid = %s", (policy.uid,)
    )
    return bool(rows[0][0])


def wait_until_swept(database: PreparedDatabase, policy: Resource) -> None:
    ends = time.monotonic() + 120
    while not ended_sweeps(database, policy):
        assert time.monotonic() < ends, len(stored_runs(database))
        time.sleep(0.02)  # noqa: TID251  rows of another process have no signal here


def deleted_by(database: PreparedDatabase, policy: Resource) -> object:
    ((status,),) = database.query(
        "SELECT status FROM datarecs.resource WHERE uid = %s", (policy.uid,)
    )
    assert isinstance(status, dict)
    return status.get("deleted") or status.get("would_delete")


@pytest.mark.case("R58")
def test_10_000_expired_runs_go_in_batches_while_schedules_are_decided(
    private_database: PreparedDatabase, tmp_path: Path
) -> None:
    database, blobs = private_database, tmp_path / "blobs"
    big, matched = a_job("big"), a_job("matched")
    held = a_job("held", annotations={HOLD: "true"})
    policy = a_policy()
    schedule = a_resource(
        kind=Kind.SCHEDULE, rv=0, spec={"job": "nothere", "cron": "* * * * *", "catchup": "latest"}
    )
    declare(database, big, matched, held)
    add_runs(database, matched.uid, 1, days_ago=400, result="MATCHED")
    add_runs(database, matched.uid, STORE_LAST, days_ago=399, result="UNMATCHED")
    add_runs(database, held.uid, 50, days_ago=399, result="UNMATCHED")
    stored = stored_runs(database)
    add_runs(database, big.uid, EXPIRED, days_ago=300, result="UNMATCHED")
    newest = STORE_LAST
    add_artefacts(database, blobs)
    with running_service(
        "datarecs_resource_controller", settings(database, blobs), log=tmp_path / "log"
    ):
        declare(database, policy)
        while len(stored_runs(database)) > EXPIRED:
            time.sleep(0.01)  # noqa: TID251  rows of another process have no signal here
        delay = time_of_a_decision(database, schedule)
        during = not ended_sweeps(database, policy)
        wait_until_swept(database, policy)
    assert during
    assert delay < 1
    left = stored_runs(database)
    assert stored <= left
    assert len(left - stored) == newest
    assert runs_with_artefacts(blobs) == left
    assert deleted_by(database, policy) == {"runs": EXPIRED - newest}


def time_of_a_decision(database: PreparedDatabase, schedule: Resource) -> float:
    """Seconds until a due schedule is decided."""
    declare(database, schedule)
    begins = time.monotonic()
    pending = "SELECT 1 FROM datarecs.schedule_state WHERE times = ''"
    while database.query(pending):
        time.sleep(0.005)  # noqa: TID251  rows of another process have no signal here
    return time.monotonic() - begins


@pytest.mark.case("R58")
def test_kills_during_a_sweep_leave_no_artefact_without_a_row(
    private_database: PreparedDatabase, tmp_path: Path
) -> None:
    database, blobs = private_database, tmp_path / "blobs"
    job, policy, expired = a_job("books"), a_policy(), 3000
    declare(database, job, policy)
    add_runs(database, job.uid, expired, days_ago=300, result="UNMATCHED")
    add_artefacts(database, blobs)
    for kill in range(KILLS):
        due = "UPDATE datarecs.retention_state SET due_at = now() RETURNING 1"
        database.query(due)
        log = tmp_path / f"log-{kill}"
        with running_service(
            "datarecs_resource_controller", settings(database, blobs), log=log
        ) as service:
            # At another moment of a step each time.
            wait_for_fewer(blobs, expired - (kill + 1) * 370 - kill * 17)
            service.kill()
        left = stored_runs(database)
        assert runs_with_artefacts(blobs) <= left
    database.query("UPDATE datarecs.retention_state SET due_at = now() RETURNING 1")
    with running_service(
        "datarecs_resource_controller", settings(database, blobs), log=tmp_path / "last"
    ):
        wait_until_swept(database, policy)
    left = stored_runs(database)
    assert len(left) == STORE_LAST
    assert runs_with_artefacts(blobs) == left
    assert deleted_by(database, policy) == {"runs": expired - STORE_LAST}


def wait_for_fewer(blobs: Path, count: int) -> None:
    ends = time.monotonic() + 60
    while len(runs_with_artefacts(blobs)) > count:
        assert time.monotonic() < ends
        time.sleep(0.002)  # noqa: TID251  files of another process have no signal here


@pytest.mark.case("R58")
def test_a_dry_run_of_the_service_removes_nothing(
    private_database: PreparedDatabase, tmp_path: Path
) -> None:
    database, blobs = private_database, tmp_path / "blobs"
    job, policy = a_job("books"), a_policy(dry_run=True)
    declare(database, job)
    add_runs(database, job.uid, 500, days_ago=300, result="UNMATCHED")
    add_artefacts(database, blobs)
    before = stored_runs(database)
    with running_service(
        "datarecs_resource_controller", settings(database, blobs), log=tmp_path / "log"
    ):
        declare(database, policy)
        wait_until_swept(database, policy)
    assert stored_runs(database) == before == runs_with_artefacts(blobs)
    assert deleted_by(database, policy) == {"runs": 500 - STORE_LAST}
