"""Captures over REST: wait for, list, read, cancel and release them, and who may."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from threading import Event, Thread
from typing import Any
from uuid import UUID

import pytest
from starlette.testclient import TestClient

from datarecs_application.capturing import maintaining, queue
from datarecs_application.capturing.control import LocalControl
from datarecs_application.ports.capturing import ClaimRequest
from datarecs_core.access.permissions import Permission, Role
from datarecs_core.captures.items import (
    CaptureJobId,
    RetryClass,
    WorkError,
    WorkItem,
    WorkKind,
    WorkState,
    WorkToken,
)
from datarecs_core.captures.outcomes import ConnectorPlanned
from datarecs_core.captures.request import ObjectName
from datarecs_core.captures.source_facts import SourceObjects
from datarecs_core.errors.captures import CaptureCode
from datarecs_core.resources.resource import Kind
from datarecs_core_api.capture_bodies import ended_within
from datarecs_specs.documents import StoredSpecs
from datarecs_testing.api import MemoryApiHouse, declare, memory_api, subject_of
from datarecs_testing.builders import A_TENANT, B_TENANT
from datarecs_testing.capture_api import (
    LAKE,
    METADATA,
    PLACE,
    TABLE,
    a_snapshot,
    a_table,
    caller_with_a_connection,
    faults,
    item_of,
    planned,
    shown_job,
    started,
    succeed,
    taken,
)


@pytest.fixture
def house() -> MemoryApiHouse:
    return memory_api()


@pytest.fixture
def client(house: MemoryApiHouse) -> TestClient:
    return caller_with_a_connection(house)


@contextmanager
def working(
    house: MemoryApiHouse, work: Callable[[MemoryApiHouse, WorkToken], None]
) -> Iterator[None]:
    """A worker in a thread that does this with every item."""
    is_over = Event()

    def loop() -> None:
        while not is_over.wait(0.01):
            for token in taken(house):
                work(house, token)

    worker = Thread(target=loop)
    worker.start()
    try:
        yield
    finally:
        is_over.set()
        worker.join()


class TestNow:
    def now(self, client: TestClient, **params: str) -> Mapping[str, Any]:
        answer = client.post(f"{PLACE}/now", json=METADATA, params=params)
        assert answer.status_code == 200, answer.text
        body: Mapping[str, Any] = answer.json()
        return body

    @pytest.mark.case("Q45")
    def test_a_capture_that_takes_too_long_is_cancelled_with_its_tree(
        self, house: MemoryApiHouse, client: TestClient
    ) -> None:
        held: list[WorkToken] = []

        def work(house: MemoryApiHouse, token: WorkToken) -> None:
            if item_of(house, str(token.item_id)).kind is WorkKind.PLAN_CONNECTOR:
                tables = [a_table(house, str(token.item_id), name) for name in "ab"]
                succeed(house, token, *tables)
            else:
                held.append(token)

        with working(house, work):
            body = self.now(client, max_wait="1")
        assert body["timed_out"]
        assert body["job"]["state"] == "CANCELLING"
        assert body["job"]["cancelled_by"] == subject_of(client)
        while maintaining.follow_cancels(house.unit, house.finder):
            pass
        for token in held:
            with house.unit.begin(A_TENANT) as tx:
                queue.end_stopped(tx, token, outcome_sha256="s")
        tree = client.get(f"{PLACE}/{body['job']['job_id']}/tree").json()["items"]
        assert [one["state"] for one in tree] == ["CANCELLED"] * 3

    def test_it_waits_for_the_whole_tree(self, house: MemoryApiHouse, client: TestClient) -> None:
        def work(house: MemoryApiHouse, token: WorkToken) -> None:
            item = item_of(house, str(token.item_id))
            children = (
                [a_table(house, str(item.id), "a")] if item.kind is WorkKind.PLAN_CONNECTOR else []
            )
            succeed(house, token, *children, tables_scanned=len(children))

        with working(house, work):
            body = self.now(client)
        assert not body["timed_out"]
        assert body["job"]["state"] == "SUCCEEDED"
        assert body["job"]["totals"] == {"tables_scanned": 1}

    def test_a_capture_of_another_request_goes_on(
        self, house: MemoryApiHouse, client: TestClient
    ) -> None:
        job_id = started(client)
        body = self.now(client, max_wait="1")
        assert (body["timed_out"], body["deduped"]) == (True, True)
        assert item_of(house, job_id).state is WorkState.QUEUED

    @pytest.mark.case("Q45")
    @pytest.mark.parametrize("max_wait", ["0", "-1", "61", "soon"])
    def test_a_wait_out_of_range_is_refused(self, client: TestClient, max_wait: str) -> None:
        answer = client.post(f"{PLACE}/now", json=METADATA, params={"max_wait": max_wait})
        assert answer.status_code == 422
        assert [one["pointer"] for one in answer.json()["errors"]] == ["/query/max_wait"]
        assert client.get(PLACE).json()["items"] == []

    @pytest.mark.case("Q45")
    def test_a_client_that_disconnects_ends_the_wait(
        self, house: MemoryApiHouse, client: TestClient
    ) -> None:
        job_id = CaptureJobId(UUID(started(client)))
        use = house.app.state.ports

        async def is_gone() -> bool:
            return True

        async def waited() -> WorkItem | None:
            limit = timedelta(seconds=60)
            return await ended_within(use, A_TENANT, job_id, limit=limit, is_gone=is_gone)

        item = asyncio.run(asyncio.wait_for(waited(), 5))
        assert item is not None
        assert item.state is WorkState.QUEUED

    def test_every_fault_is_that_of_a_start(self, client: TestClient) -> None:
        assert faults(client, {"connection": LAKE, "mode": "METADATA_ONLY"}, f"{PLACE}/now") == {
            ("DR1010", "/snapshots")
        }


class TestReading:
    def test_a_list_has_filters_and_pages(self, house: MemoryApiHouse, client: TestClient) -> None:
        declare(client, Kind.CONNECTION, name="other")
        first = started(client)
        planned(house, first, "a", "b")
        second = started(client, connection="other")
        ids = [one["job_id"] for one in client.get(PLACE).json()["items"]]
        assert len(ids) == 4
        assert {first, second} < set(ids)
        assert self.listed(client, roots_only="true") == [second, first]
        assert self.listed(client, connection="other") == [second]
        assert self.listed(client, state="WAITING") == [first]
        assert len(self.listed(client, kind="PLAN_TABLE")) == 2
        page = client.get(PLACE, params={"limit": 3})
        assert page.headers["Link"].endswith('rel="next"')
        rest = client.get(PLACE, params={"limit": 3, "cursor": page.json()["next"]}).json()
        assert [one["job_id"] for one in page.json()["items"] + rest["items"]] == ids
        assert rest["next"] is None
        bad = client.get(PLACE, params={"state": "WAITING", "cursor": page.json()["next"]})
        assert bad.json()["code"] == "DR4006"
        assert client.get(PLACE, params={"connection": "gone"}).status_code == 404

    @staticmethod
    def listed(client: TestClient, **params: str) -> list[str]:
        return [one["job_id"] for one in client.get(PLACE, params=params).json()["items"]]

    def test_a_tree_has_parents_before_children_on_every_page(
        self, house: MemoryApiHouse, client: TestClient
    ) -> None:
        root = started(client)
        planned(house, root, "a", "b", "c")
        for token in taken(house):
            succeed(house, token, *(a_snapshot(house, root, number) for number in (1, 2)))
        place = f"{PLACE}/{root}/tree"
        whole = client.get(place).json()["items"]
        assert [one["depth"] for one in whole] == [0, 1, 2, 2, 1, 2, 2, 1, 2, 2]
        assert {one["object"] for one in whole[1::3]} == {f"default.{name}" for name in "abc"}
        for limit in range(1, 11):
            paged: list[object] = []
            params: dict[str, str] = {"limit": str(limit)}
            while True:
                page = client.get(place, params=params).json()
                paged += page["items"]
                if page["next"] is None:
                    break
                params["cursor"] = page["next"]
            assert paged == whole
        part = client.get(f"{PLACE}/{whole[4]['job_id']}/tree").json()["items"]
        assert [one["depth"] for one in part] == [0, 1, 1]
        assert [one["job_id"] for one in part] == [one["job_id"] for one in whole[4:7]]

    def test_totals_are_the_sums_of_the_tree(
        self, house: MemoryApiHouse, client: TestClient
    ) -> None:
        root = started(client)
        planned(house, root, "a", "b")
        for token in taken(house):
            succeed(house, token, tables_scanned=2, stats_written=5)
        job = shown_job(client, root)
        assert job["state"] == "SUCCEEDED"
        assert job["counters"] == {"tables_scanned": 1}
        assert job["totals"] == {"tables_scanned": 5, "stats_written": 10}

    @pytest.mark.case("Q44")
    def test_a_table_that_the_catalogue_does_not_have_is_skipped(
        self, house: MemoryApiHouse, client: TestClient
    ) -> None:
        table = {"scope": {"tables": ["default.orders"]}, "outputs": ["TABLE_STATS"]}
        root = started(client, mode="CAPTURE_ONLY", **table)
        control = LocalControl(
            unit=house.unit,
            finder=house.finder,
            blobs=house.blobs,
            decode=StoredSpecs(),
            ids=house.ids,
            clock=house.clock,
            jitter=lambda: 1.0,
        )
        (token,) = control.claim(ClaimRequest(executor="worker-1", kinds=())).tokens
        assert control.begin(token) is not None
        name = ObjectName(namespace=("default",), name="orders")
        control.end(token, ConnectorPlanned(objects=SourceObjects(tables=(name,), views=())))
        job = shown_job(client, root)
        assert (job["state"], job["totals"]["tables_skipped"]) == ("SUCCEEDED", 1)

    @pytest.mark.case("Q31")
    def test_a_stored_request_that_cannot_be_read_degrades_the_answer(
        self, house: MemoryApiHouse, client: TestClient
    ) -> None:
        root = started(client)
        error = WorkError(
            code=CaptureCode.MISSING_DEFINITION.name,
            message="the stored definition cannot be read",
            retry=RetryClass.TERMINAL,
        )
        with house.unit.begin(A_TENANT) as tx:
            tx.capture_work.save(replace(item_of(house, root), error=error))
        job = shown_job(client, root)
        assert (job["detail"], job["request"]) == ("degraded", None)
        assert job["error"]["code"] == "MISSING_DEFINITION"
        assert client.get(f"{PLACE}/{root}/tree").status_code == 200

    @pytest.mark.case("Q31")
    def test_captures_are_read_after_their_connection_is_gone(self, client: TestClient) -> None:
        root = started(client)
        etag = client.get(f"/api/v1/connections/{LAKE}").headers["ETag"]
        client.delete(f"/api/v1/connections/{LAKE}", headers={"If-Match": etag})
        job = shown_job(client, root)
        assert (job["connection"], job["state"]) == (None, "QUEUED")
        assert client.get(f"{PLACE}/{root}/tree").status_code == 200


class TestCancelAndRelease:
    def test_a_cancel_ends_a_queued_capture(
        self, house: MemoryApiHouse, client: TestClient
    ) -> None:
        root = started(client)
        answer = client.post(f"{PLACE}/{root}/cancel", json={"reason": "the wrong tables"})
        assert answer.status_code == 200
        body = answer.json()
        assert (body["state"], body["cancel_reason"]) == ("CANCELLED", "the wrong tables")
        assert body["cancelled_by"] == subject_of(client)
        again = client.post(f"{PLACE}/{root}/cancel")
        assert (again.status_code, again.json()["code"]) == (409, "DR5864")
        actions = [one.row.action for one in house.store.committed(A_TENANT).audit]
        assert actions.count("capture.cancel") == 1

    def test_a_running_capture_is_cancelled_by_its_worker(
        self, house: MemoryApiHouse, client: TestClient
    ) -> None:
        root = started(client)
        taken(house)
        for _ in range(2):
            answer = client.post(f"{PLACE}/{root}/cancel")
            assert (answer.status_code, answer.json()["state"]) == (200, "CANCELLING")

    def test_a_released_job_is_queued_again(
        self, house: MemoryApiHouse, client: TestClient
    ) -> None:
        root = started(client)
        taken(house)
        answer = client.post(f"{PLACE}/{root}/release")
        assert (answer.status_code, answer.json()["state"]) == (200, "RUNNING")
        house.clock.advance(timedelta(seconds=6))
        assert maintaining.reclaim(house.unit, house.finder) == 1
        assert shown_job(client, root)["state"] == "QUEUED"
        client.post(f"{PLACE}/{root}/cancel")
        ended = client.post(f"{PLACE}/{root}/release")
        assert (ended.status_code, ended.json()["code"]) == (409, "DR5864")


OPERATIONS = [
    ("POST", "", Role.OPERATOR),
    ("POST", "/now", Role.OPERATOR),
    ("GET", "", Role.VIEWER),
    ("GET", "/{job}", Role.VIEWER),
    ("GET", "/{job}/tree", Role.VIEWER),
    ("POST", "/{job}/cancel", Role.OPERATOR),
    ("POST", "/{job}/release", Role.ADMIN),
]
RANKS = [Role.VIEWER, Role.OPERATOR, Role.EDITOR, Role.ADMIN]


class TestAccess:
    @pytest.mark.parametrize(("method", "path", "least"), OPERATIONS)
    def test_roles_below_the_least_one_are_refused(
        self, house: MemoryApiHouse, client: TestClient, method: str, path: str, least: Role
    ) -> None:
        for rank, role in enumerate(RANKS):
            job_id = started(client, execution={"lane": role.value})
            body = {**METADATA, "full_rescan": True} if path in {"", "/now"} else {}
            answer = house.caller(A_TENANT, role).request(
                method,
                f"{PLACE}{path.format(job=job_id)}",
                params={"max_wait": "1"} if path == "/now" else {},
                json=body if method == "POST" else None,
            )
            if rank >= RANKS.index(least):
                assert answer.status_code < 300, (role, answer.text)
            else:
                assert (answer.status_code, answer.json()["code"]) == (403, "DR6012"), role

    @pytest.mark.case("Q32")
    @pytest.mark.parametrize(("method", "path"), [one[:2] for one in OPERATIONS])
    def test_the_permission_of_workers_opens_nothing(
        self, house: MemoryApiHouse, client: TestClient, method: str, path: str
    ) -> None:
        job_id = started(client)
        worker = house.bearing(house.key(permissions=[Permission.QUEUE_WORK]))
        body = METADATA if path in {"", "/now"} else {}
        place = f"{PLACE}{path.format(job=job_id)}"
        answer = worker.request(method, place, json=body if method == "POST" else None)
        assert (answer.status_code, answer.json()["code"]) == (403, "DR6012")
        wanted = {"name": "worker", "scopes": [str(Permission.QUEUE_WORK)]}
        assert client.post("/api/v1/keys", json=wanted).status_code in {403, 422}

    @pytest.mark.parametrize(("method", "path"), [one[:2] for one in OPERATIONS[3:]])
    def test_a_job_of_another_tenant_is_404(
        self, house: MemoryApiHouse, client: TestClient, method: str, path: str
    ) -> None:
        job_id = started(client)
        foreign = house.caller(B_TENANT)
        seen = foreign.request(method, f"{PLACE}{path.format(job=job_id)}")
        unknown = foreign.request(method, f"{PLACE}{path.format(job=str(TABLE))}")
        upper = client.request(method, f"{PLACE}{path.format(job=job_id.upper())}")
        for answer in (seen, unknown, upper):
            assert (answer.status_code, answer.json()["code"]) == (404, "DR5863")
        assert seen.json()["detail"] == unknown.json()["detail"]
        assert foreign.get(PLACE).json()["items"] == []
        assert item_of(house, job_id).state is WorkState.QUEUED
