"""The worker as a process: it checks beside its slots, and ends with its child."""

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from datarecs_core.values import ResourceUid
from datarecs_postgres.database import Database
from datarecs_postgres.roles import API, RESOURCES, WORKER_RUN
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_runtime.clock import UuidV7Ids
from datarecs_testing.builders import A_TENANT, a_resource
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.service_process import running_service

pytestmark = pytest.mark.integration


def test_a_worker_process_checks_what_is_requested(
    database: PreparedDatabase, tmp_path: Path
) -> None:
    root = tmp_path / "data"
    root.mkdir()
    settings = {
        "DATARECS_PROFILE": "local",
        "DATARECS_DATABASE__URL": database.url(WORKER_RUN),
        "DATARECS_BLOB__URL": (tmp_path / "blobs").as_uri(),
        "DATARECS_WORKER__SCRATCH_DIR": str(tmp_path / "scratch"),
        "DATARECS_FILES__ROOTS": f'["{root}"]',
        "DATARECS_FILES__OWNER": str(A_TENANT),
        "DATARECS_JAVA__HOME": str(tmp_path),  # no Spark: checks need none
    }
    module = "datarecs_reconciliation_worker"
    with running_service(module, settings, log=tmp_path / "worker.log") as worker:
        uid = requested(database)
        wait_until(lambda: result(database, uid) is not None, worker.text)
        assert '"folder"' in str(result(database, uid))
        assert '"ok"' in str(result(database, uid))
        assert worker.stop() == 0


def requested(database: PreparedDatabase) -> ResourceUid:
    connection = a_resource(spec={"type": "files", "config": {"root": "."}})
    for role in (API, RESOURCES):
        with (
            closing(Database(database.url(role))) as opened,
            PostgresUnitOfWork(opened, UuidV7Ids()).begin(A_TENANT) as tx,
        ):
            if role == API:
                tx.resources.add(connection)
            else:
                tx.checks.request(connection.uid, subject="1")
    return connection.uid


def result(database: PreparedDatabase, uid: ResourceUid) -> object:
    ((steps,),) = database.query(
        "SELECT result::text FROM datarecs.resource_check WHERE resource_uid = %s", (uid,)
    )
    return steps


def wait_until(is_reached: Callable[[], bool], text: Callable[[], str]) -> None:
    ends = time.monotonic() + 60
    while not is_reached():
        assert time.monotonic() < ends, text()
        time.sleep(0.1)  # noqa: TID251  another process has no signal here
