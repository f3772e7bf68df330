"""The same application over a real database, with the login of production."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from threading import Barrier

import psycopg
import pytest
from psycopg import sql

from datarecs_core.resources.resource import Kind
from datarecs_core.runs.model import RunResult, RunStatus
from datarecs_core_api.app import READY_S, routes
from datarecs_core_api.following import Pace
from datarecs_core_api.guarded import guarded_routes
from datarecs_core_api.request_examples import EXAMPLES
from datarecs_postgres.change_feed import PostgresChangeFeed, PostgresResourceFeed
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.listener import Listener
from datarecs_postgres.queries import PostgresQueries
from datarecs_postgres.roles import API, CONTROLLER
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.urls import conninfo, engine_url
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_runtime.clock import Latch, SystemClock, UuidV7Ids
from datarecs_specs.kinds import KINDS
from datarecs_storage.opening import open_blob_stores
from datarecs_testing.api import ApiHouse, change_run, declare
from datarecs_testing.builders import A_TENANT, B_TENANT, an_id
from datarecs_testing.database import PreparedDatabase

pytestmark = pytest.mark.integration
RUNS = "/api/v1/jobs/ledger-vs-exports/runs"
TRIGGERED = "io.datarecs.reconciliation.run.triggered"
STREAM = {"Accept": "text/event-stream"}
NEVER = timedelta(minutes=10)


@dataclass(frozen=True)
class Place:
    database: PreparedDatabase
    house: ApiHouse
    api: Database
    controller: PostgresUnitOfWork
    """Ends runs, as the run-controller does."""


def a_place(database: PreparedDatabase, folder: Path, stack: ExitStack) -> Place:
    api = stack.enter_context(closing(Database(database.url(API), limits=Limits(pool_size=10))))
    controller = stack.enter_context(closing(Database(database.url(CONTROLLER))))
    ids = UuidV7Ids()
    house = ApiHouse(
        unit=PostgresUnitOfWork(api, ids),
        queries=PostgresQueries(api),
        changes=PostgresChangeFeed(api),
        resource_changes=PostgresResourceFeed(api),
        finder=PostgresWorkFinder(api),
        clock=SystemClock(),
        ids=ids,
        blobs=open_blob_stores(f"file://{folder}"),
        ready_when={"database": api.ready},
        pace=Pace(poll=NEVER, ping=NEVER),
    )
    return Place(database, house, api, PostgresUnitOfWork(controller, ids))


@pytest.fixture
def place(database: PreparedDatabase, tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        yield a_place(database, tmp_path, stack)


@pytest.mark.case("L07", "U25")
def test_fifty_triggers_under_one_key_make_one_run(place: Place) -> None:
    ana = place.house.caller()
    declare(ana)
    start = threading.Barrier(50)
    headers = {"Authorization": ana.headers["Authorization"], "Idempotency-Key": "night-7"}

    def trigger(_: int) -> tuple[str, str]:
        caller = place.house.bearing(None)
        start.wait()
        while True:
            answer = caller.post(RUNS, json={"priority": 3}, headers=headers)
            if answer.status_code == 202:
                return answer.headers["Location"], answer.text
            # No request may fail for good: a loser has to repeat, with the same key.
            assert answer.status_code in {409, 503}, answer.text
            assert int(answer.headers["Retry-After"]) >= 1

    with ThreadPoolExecutor(50) as pool:
        answers = set(pool.map(trigger, range(50)))
    ((location, _),) = answers
    (row,) = place.database.query("SELECT run_id FROM datarecs.run")
    assert location == f"/api/v1/runs/{row[0]}"
    sent = place.database.query("SELECT count(*) FROM datarecs.outbox WHERE type = %s", [TRIGGERED])
    assert sent == [(1,)]
    other = ana.post(RUNS, json={"priority": 4}, headers={"Idempotency-Key": "night-7"})
    assert (other.status_code, other.json()["code"]) == (422, "DR4022")


@pytest.mark.case("X01")
def test_no_route_reveals_anything_of_another_tenant(place: Place) -> None:
    house = place.house
    bob = house.caller(B_TENANT, owner="u-bob")
    names = {kind: declare(bob, kind).rpartition("/")[2] for kind in Kind}
    run_id = bob.post(f"/api/v1/jobs/{names[Kind.RECONCILIATION_JOB]}/runs").json()["run_id"]
    key_id = house.key(B_TENANT, owner="u-bob")[4:16]
    job_id = bob.post("/api/v1/capture-jobs", json=capture_of(names[Kind.CONNECTION])).json()[
        "job_id"
    ]
    before = rows_of_b(place.database)
    kinds = {entry.path: kind for kind, entry in KINDS.items()}
    key, count = house.key(), 0
    for method, template in guarded_routes(routes()):
        if "{" not in template:
            continue
        kind = kinds.get(template.split("/")[3], Kind.CONNECTION)
        path = template.format(
            name=names[kind],
            run_id=run_id,
            key_id=key_id,
            stage="s",
            delivery_id=an_id(),
            action_id=an_id(),
            mail_id=an_id(),
            job_id=job_id,
            **{
                name: an_id()
                for name in ("catalog_id", "namespace_id", "table_id", "view_id", "connector_id")
            },
            snapshot_id=1,
            target_id="table",
            address="bob@example.com",
        )
        body = EXAMPLES[kind] if method == "PUT" else None
        if template.startswith("/api/v1/notification-rules/{name}/"):
            address = {} if template.endswith("/preview") else {"address": "finops@example.com"}
            body = {"run_id": run_id, **address}
        if template.endswith(("/recover", "/replay")):
            body = {"since": house.clock.now().isoformat()}
        if template.endswith("/accept-table"):
            body = {"table": "sales.orders", "records": "leave_out"}
        answer = house.bearing(key).request(method, path, headers={"If-Match": "*"}, json=body)
        assert answer.status_code == 404, (method, path, answer.text)
        count += 1
    assert count > 20
    assert rows_of_b(place.database) == before


def rows_of_b(database: PreparedDatabase) -> list[object]:
    return [
        database.query("SELECT * FROM datarecs.run WHERE tenant_id = %s", [B_TENANT]),
        database.query(
            "SELECT * FROM datarecs.resource WHERE tenant_id = %s ORDER BY 2", [B_TENANT]
        ),
        database.query(
            "SELECT * FROM datarecs.api_key WHERE tenant_id = %s ORDER BY 2", [B_TENANT]
        ),
        database.query("SELECT count(*) FROM datarecs.outbox WHERE tenant_id = %s", [B_TENANT]),
        database.query("SELECT * FROM datarecs.capture_work WHERE tenant_id = %s", [B_TENANT]),
    ]


def capture_of(connection: str) -> dict[str, object]:
    snapshots = {"select": "ALL"}
    return {"connection": connection, "mode": "METADATA_ONLY", "snapshots": snapshots}


@pytest.mark.case("L42")
def test_a_stream_is_woken_by_the_database(place: Place) -> None:
    """The streams of this house never poll: only the notification of a commit moves them."""
    stop = Latch()
    listener = Listener(
        place.database.url(API),
        lambda _, run_id: place.house.following.wake_followers(run_id),
        channels=("datarecs_run",),
    )
    thread = threading.Thread(target=listener.run, args=(stop,), daemon=True)
    thread.start()
    ana = place.house.caller()
    declare(ana)
    run = ana.post(RUNS).headers["Location"]
    with ana.stream("GET", f"{run}/events", headers=STREAM) as answer:
        lines = answer.iter_lines()
        assert any(line == "event: run" for line in lines)
        change_run(place.controller, run.rpartition("/")[2], status=RunStatus.RUNNING)
        assert any('"status":"RUNNING"' in line for line in lines)
        change_run(
            place.controller,
            run.rpartition("/")[2],
            status=RunStatus.COMPLETED,
            result=RunResult.MATCHED,
        )
        assert any(line == "event: end" for line in lines)
    stop.set()
    thread.join(timeout=10)


@pytest.mark.case("L26")
def test_a_cancel_is_requested_by_the_api_and_decided_elsewhere(place: Place) -> None:
    ana = place.house.caller()
    declare(ana)
    run = ana.post(RUNS).headers["Location"]
    assert ana.post(f"{run}/cancel", json={"reason": "x"}).status_code == 202
    assert ana.post(f"{run}/cancel").status_code == 202
    change_run(place.controller, run.rpartition("/")[2], status=RunStatus.CANCELLED)
    assert ana.post(f"{run}/cancel").status_code == 200
    done = ana.post(RUNS).headers["Location"]
    change_run(
        place.controller,
        done.rpartition("/")[2],
        status=RunStatus.COMPLETED,
        result=RunResult.MATCHED,
    )
    refused = ana.post(f"{done}/cancel")
    assert (refused.status_code, refused.json()["reason"]) == (409, "RUN_ALREADY_TERMINAL")


@pytest.mark.case("R01", "R09")
def test_resources_live_their_whole_life(place: Place) -> None:
    ana = place.house.caller()
    for kind in Kind:
        where = declare(ana, kind)
        etag = ana.get(where).headers["ETag"]
        assert ana.post(where.rpartition("/")[0], json=EXAMPLES[kind]).status_code == 409
        assert ana.get(where, headers={"If-None-Match": etag}).status_code == 304
        metadata = {"name": where.rpartition("/")[2], "labels": {"team": "x"}}
        body = {**EXAMPLES[kind], "metadata": metadata}
        assert ana.put(where, json=body, headers={"If-Match": etag}).status_code == 200
        assert ana.put(where, json=body, headers={"If-Match": etag}).status_code == 412
        uid = ana.get(where).json()["metadata"]["uid"]
        assert ana.get(f"{where.rpartition('/')[0]}/{uid}").status_code == 200
        # What a sink has read is committed first, which the resource-controller sees to.
        deleted, later = (202, 200) if kind is Kind.SINK_TABLE else (200, 404)
        assert ana.delete(where, headers={"If-Match": "*"}).status_code == deleted
        assert ana.get(where).status_code == later
    assert ana.get("/api/v1/jobs?namespace=*").json()["items"] == []


def test_lists_keys_deliveries_and_refusals_work_with_this_login(place: Place) -> None:
    ana = place.house.caller()
    declare(ana)
    hook = declare(ana, Kind.WEBHOOK_ENDPOINT)
    made = [ana.post(RUNS).json()["run_id"] for _ in range(5)]
    first = ana.get("/api/v1/runs?limit=3").json()
    rest = ana.get(f"/api/v1/runs?limit=3&cursor={first['next']}").json()
    assert [one["run_id"] for one in first["items"] + rest["items"]] == made[::-1]
    assert ana.get(f"/api/v1/runs?id_prefix={made[0]}").json()["items"][0]["run_id"] == made[0]
    assert ana.get(f"{hook}/deliveries").json() == {"items": [], "next": None}
    key = ana.post("/api/v1/keys", json={"name": "ci", "scopes": ["read"]}).json()
    reader = place.house.bearing(key["key"])
    assert reader.post(RUNS).status_code == 403
    assert ana.delete(f"/api/v1/keys/{key['key_id']}").status_code == 200
    assert reader.get("/api/v1/whoami").status_code == 401
    place.house.failures.write_waiting()
    actions = [row[0] for row in place.database.query("SELECT action FROM datarecs.audit_event")]
    assert {"key.create", "access.refuse", "key.revoke", "sign_in"} <= set(actions)


@pytest.mark.case("X29")
@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/jobs/a%00b",
        "/api/v1/jobs?namespace=a%00b",
        "/api/v1/runs?job=a%00b",
        "/api/v1/runs/a%00b",
        "/api/v1/runs?cursor=%00",
        "/api/v1/runs?id_prefix=--------",
        "/api/v1/webhook-endpoints/%00/deliveries",
        f"/api/v1/jobs/{5000 * 'x'}",
    ],
)
def test_nothing_that_a_database_cannot_hold_reaches_it(place: Place, path: str) -> None:
    ana = place.house.caller()
    assert ana.get(path).status_code < 500
    assert ana.delete("/api/v1/keys/a%00b").status_code == 404
    assert ana.post(f"/api/v1/jobs/{5000 * 'x'}/runs").status_code == 404


def test_without_a_database_nothing_is_promised(
    private_database: PreparedDatabase, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        place = a_place(private_database, tmp_path, stack)
        ana = place.house.caller()
        assert ana.get("/readyz").json() == {"status": "ready", "reasons": {}}
        forbid_connections(private_database)
        SystemClock().wait(timedelta(seconds=READY_S))  # what was answered is remembered so long
        ready = ana.get("/readyz")
        assert ready.status_code == 503
        assert ready.json()["reasons"] == {"database": "cannot be checked (StoreUnavailableError)"}
        answer = ana.get("/api/v1/runs")
        assert (answer.status_code, answer.json()["code"]) == (503, "DR4091")
        assert int(answer.headers["Retry-After"]) >= 1
        assert "127.0.0.1" not in answer.text
        assert ana.get("/livez").status_code == 200


def forbid_connections(database: PreparedDatabase) -> None:
    """From here on the database is gone for everybody."""
    name = engine_url(database.admin_url).database or ""
    maintenance = conninfo(database.admin_url, database="postgres")
    with psycopg.connect(maintenance, autocommit=True) as connection:
        connection.execute(
            sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(sql.Identifier(name))
        )
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
        )


def test_the_tenant_of_a_row_is_the_keys(place: Place) -> None:
    declare(place.house.caller())
    declare(place.house.caller(B_TENANT))
    rows = place.database.query("SELECT tenant_id, name FROM datarecs.resource ORDER BY 1")
    assert rows == [(A_TENANT, "ledger-vs-exports"), (B_TENANT, "ledger-vs-exports")]


@pytest.mark.case("X14")
def test_a_key_that_is_being_revoked_makes_no_other_one(place: Place) -> None:
    """Two transactions at once: whichever comes second sees what the first one did."""
    ana = place.house.caller()
    child = ana.post("/api/v1/keys", json={"name": "ci"}).json()
    maker = place.house.bearing(child["key"])
    start = Barrier(2)

    def revoke() -> int:
        start.wait()
        return int(ana.delete(f"/api/v1/keys/{child['key_id']}").status_code)

    def make() -> int:
        start.wait()
        return int(maker.post("/api/v1/keys", json={"name": "late"}).status_code)

    with ThreadPoolExecutor(2) as threads:
        revoked, made = threads.submit(revoke), threads.submit(make)
        assert revoked.result() == 200
        assert made.result() in {201, 401}
    left = place.database.query(
        "SELECT count(*) FROM datarecs.api_key WHERE parent_key_id IS NOT NULL"
        " AND revoked_at IS NULL"
    )
    assert left == [(0,)]
