"""A declared capture over PostgreSQL, each service with the login of production."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from threading import Thread

import pytest

from datarecs_application.capturing import queue
from datarecs_application.capturing.declared import CaptureController
from datarecs_application.loops.polling import Rhythm
from datarecs_application.loops.reconciling import Reconciling
from datarecs_application.ports.capturing import ClaimRequest
from datarecs_application.source_conditions import ConnectionController
from datarecs_application.stored_specs import StoredSpecs
from datarecs_core.captures.declared import Capture
from datarecs_core.captures.items import WorkKind
from datarecs_core.resources.resource import Kind
from datarecs_core_api.following import Pace
from datarecs_postgres.change_feed import PostgresChangeFeed, PostgresResourceFeed
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.queries import PostgresQueries
from datarecs_postgres.roles import API, CAPTURE, RESOURCES
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_runtime.clock import Latch, SystemClock, UuidV7Ids
from datarecs_specs.documents import decode_stored
from datarecs_storage.opening import open_blob_stores
from datarecs_testing.api import ApiHouse, declare
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.metrics import RecordedMetrics

pytestmark = pytest.mark.integration
PLACE, JOBS = "/api/v1/captures/exports-stats", "/api/v1/capture-jobs"
ANY = {"If-Match": "*"}
IDS = UuidV7Ids()


def read_capture(spec: Mapping[str, object]) -> Capture:
    capture = decode_stored(Kind.CAPTURE, "", spec)
    assert isinstance(capture, Capture)
    return capture


@dataclass(frozen=True)
class Platform:
    database: PreparedDatabase
    house: ApiHouse
    loops: tuple[Reconciling, Reconciling]
    """Of two controllers."""
    worker: PostgresUnitOfWork
    work: PostgresWorkFinder

    def reconcile(self) -> None:
        """Everything is due, and both controllers act at once until nothing is."""
        self.database.query("UPDATE datarecs.resource_work SET due_at = now() RETURNING 1")
        threads = [Thread(target=_drained, args=(loop,)) for loop in self.loops]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

    def end(self) -> None:
        """A worker ends the capture."""
        (token,) = self.work.claim_work(
            ClaimRequest(executor="w", kinds=[WorkKind.PLAN_CONNECTOR])
        ).tokens
        with self.worker.begin(token.tenant_id) as tx:
            assert queue.begin(tx, token) is not None
            counters = {"tables_scanned": 3}
            queue.end_succeeded(tx, IDS, token, outcome_sha256="1", counters=counters)


def _drained(loop: Reconciling) -> None:
    while loop.step():
        loop.drain()


@pytest.fixture
def platform(private_database: PreparedDatabase, tmp_path: Path) -> Iterator[Platform]:
    with ExitStack() as stack:

        def opened(role: str) -> Database:
            url = private_database.url(role)
            return stack.enter_context(closing(Database(url, limits=Limits(pool_size=4))))

        api, worker = opened(API), opened(CAPTURE)
        house = ApiHouse(
            unit=PostgresUnitOfWork(api, IDS),
            queries=PostgresQueries(api),
            changes=PostgresChangeFeed(api),
            resource_changes=PostgresResourceFeed(api),
            finder=PostgresWorkFinder(api),
            clock=SystemClock(),
            ids=IDS,
            blobs=open_blob_stores(f"file://{tmp_path}"),
            pace=Pace(poll=timedelta(milliseconds=100)),
        )
        first, second = (_controller(opened(RESOURCES)) for _ in range(2))
        yield Platform(
            private_database,
            house,
            (first, second),
            PostgresUnitOfWork(worker, IDS),
            PostgresWorkFinder(worker),
        )


def _controller(database: Database) -> Reconciling:
    captures = CaptureController(captures=StoredSpecs(read_capture), ids=IDS)
    controllers = (captures, ConnectionController())
    return Reconciling(
        unit=PostgresUnitOfWork(database, IDS),
        finder=PostgresWorkFinder(database),
        controllers={one.kind: one for one in controllers},
        metrics=RecordedMetrics(),
        rhythm=Rhythm(clock=SystemClock(), wake=Latch()),
        fraction=lambda: 0.5,
    )


@pytest.mark.case("R59", "R62")
def test_a_declared_capture_from_its_start_to_its_deletion(platform: Platform) -> None:
    ana = platform.house.caller()
    declare(ana, Kind.CONNECTION, name="exports-s3")
    declare(ana, Kind.CAPTURE)
    for _ in range(3):
        platform.reconcile()
    (job,) = ana.get(JOBS).json()["items"]
    assert ana.get(PLACE).json()["status"]["last_capture"]["job_id"] == job["job_id"]
    platform.end()
    platform.reconcile()
    status = ana.get(PLACE).json()["status"]
    assert status["phase"] == "Ready"
    assert status["last_capture"]["state"] == "SUCCEEDED"
    assert status["last_capture"]["counters"] == {"tables_scanned": 3}
    assert ana.post(f"{PLACE}/actions/reconcile", json={}).status_code == 202
    platform.reconcile()
    assert [one["state"] for one in ana.get(JOBS).json()["items"]] == ["QUEUED", "SUCCEEDED"]
    connection = "/api/v1/connections/exports-s3"
    assert ana.delete(connection, headers=ANY).status_code == 202
    platform.reconcile()
    assert ana.get(connection).status_code == 200
    assert ana.delete(PLACE, headers=ANY).status_code == 200
    assert [one["state"] for one in ana.get(JOBS).json()["items"]] == ["CANCELLED", "SUCCEEDED"]
    platform.reconcile()
    assert ana.get(connection).status_code == 404
    types = platform.database.query(
        "SELECT DISTINCT split_part(type, 'resource.capture.', 2) FROM datarecs.outbox"
        " WHERE type LIKE '%%resource.capture.%%' ORDER BY 1",
        (),
    )
    assert types == [("created",), ("deleted",), ("reconciled",), ("status_updated",), ("updated",)]
