"""Captures over REST with the login of production: rights, tenants, and requests at once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from datarecs_application.capturing import maintaining
from datarecs_core.access.permissions import Role
from datarecs_core.resources.resource import Kind
from datarecs_core_api.following import Pace
from datarecs_postgres.change_feed import PostgresChangeFeed, PostgresResourceFeed
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.queries import PostgresQueries
from datarecs_postgres.roles import API, CAPTURE
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_runtime.clock import SystemClock, UuidV7Ids
from datarecs_storage.opening import open_blob_stores
from datarecs_testing.api import ApiHouse, declare
from datarecs_testing.builders import A_TENANT, B_TENANT
from datarecs_testing.database import PreparedDatabase

pytestmark = pytest.mark.integration
PLACE = "/api/v1/capture-jobs"
BODY = {"connection": "lake", "mode": "METADATA_ONLY", "snapshots": {"select": "ALL"}}


@dataclass(frozen=True)
class Place:
    database: PreparedDatabase
    house: ApiHouse
    capture: PostgresUnitOfWork
    finder: PostgresWorkFinder
    """As the capture-worker has them."""


@pytest.fixture
def place(database: PreparedDatabase, tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        limits = Limits(pool_size=10)
        api = stack.enter_context(closing(Database(database.url(API), limits=limits)))
        capture = stack.enter_context(closing(Database(database.url(CAPTURE))))
        ids = UuidV7Ids()
        house = ApiHouse(
            unit=PostgresUnitOfWork(api, ids),
            queries=PostgresQueries(api),
            changes=PostgresChangeFeed(api),
            resource_changes=PostgresResourceFeed(api),
            finder=PostgresWorkFinder(api),
            clock=SystemClock(),
            ids=ids,
            blobs=open_blob_stores(f"file://{tmp_path}"),
            pace=Pace(poll=timedelta(milliseconds=100)),
        )
        unit = PostgresUnitOfWork(capture, ids)
        yield Place(database, house, unit, PostgresWorkFinder(capture))


@pytest.mark.case("Q03", "Q45")
def test_requests_at_once_start_one_capture_and_it_is_read_and_cancelled(place: Place) -> None:
    house = place.house
    ana = house.caller(A_TENANT, Role.ADMIN)
    declare(ana, Kind.CONNECTION, name="lake")
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: ana.post(PLACE, json=BODY), range(8)))
    assert sorted(one.status_code for one in answers) == [200] * 7 + [202]
    (job_id,) = {one.json()["job_id"] for one in answers}
    assert [one["job_id"] for one in ana.get(PLACE).json()["items"]] == [job_id]
    job = ana.get(f"{PLACE}/{job_id}").json()
    assert (job["request"], job["totals"]) == (BODY, {})
    assert len(ana.get(f"{PLACE}/{job_id}/tree").json()["items"]) == 1
    bob = house.caller(B_TENANT, Role.ADMIN)
    assert bob.get(f"{PLACE}/{job_id}").status_code == 404
    assert bob.post(f"{PLACE}/{job_id}/cancel").status_code == 404
    assert bob.get(PLACE).json()["items"] == []
    assert ana.post(f"{PLACE}/{job_id}/release").status_code == 200
    cancelled = ana.post(f"{PLACE}/{job_id}/cancel", json={"reason": "no"})
    assert (cancelled.status_code, cancelled.json()["state"]) == (200, "CANCELLED")
    assert ana.post(f"{PLACE}/{job_id}/cancel").status_code == 409
    late = ana.post(f"{PLACE}/now", json=BODY, params={"max_wait": "1"}).json()
    assert (late["timed_out"], late["job"]["state"]) == (True, "CANCELLED")
    maintaining.follow_cancels(place.capture, place.finder)


@pytest.mark.case("Q31")
def test_a_stored_request_that_cannot_be_read_degrades_the_answer(place: Place) -> None:
    ana = place.house.caller(A_TENANT, Role.ADMIN)
    declare(ana, Kind.CONNECTION, name="lake")
    job_id = ana.post(PLACE, json=BODY).json()["job_id"]
    place.database.query("UPDATE datarecs.capture_work SET task = '{}' RETURNING kind")
    job = ana.get(f"{PLACE}/{job_id}").json()
    assert (job["detail"], job["request"], job["state"]) == ("degraded", None, "QUEUED")
    assert ana.get(f"{PLACE}/{job_id}/tree").status_code == 200
    assert ana.get(PLACE).status_code == 200
