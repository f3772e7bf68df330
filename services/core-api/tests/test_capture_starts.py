"""Captures over REST: how one starts, and every refusal."""

from collections.abc import Mapping

import pytest
from starlette.testclient import TestClient

from datarecs_core.captures.items import (
    WorkKind,
)
from datarecs_core.captures.request import ObjectName
from datarecs_core_api.capture_bodies import CAPTURE_EXAMPLE
from datarecs_testing.api import MemoryApiHouse, memory_api, subject_of
from datarecs_testing.builders import A_TENANT, B_TENANT
from datarecs_testing.capture_api import (
    LAKE,
    METADATA,
    PLACE,
    caller_with_a_connection,
    faults,
    item_of,
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


class TestStart:
    def test_a_start_answers_with_the_job_and_its_place(
        self, house: MemoryApiHouse, client: TestClient
    ) -> None:
        answer = client.post(PLACE, json=METADATA)
        assert answer.status_code == 202
        job_id = answer.json()["job_id"]
        assert answer.headers["Location"] == f"{PLACE}/{job_id}"
        assert answer.json() == {"job_id": job_id, "state": "QUEUED", "deduped": False}
        item = item_of(house, job_id)
        assert (item.kind, item.requested_by) == (WorkKind.PLAN_CONNECTOR, subject_of(client))
        job = shown_job(client, job_id)
        assert (job["connection"], job["state"], job["detail"]) == (LAKE, "QUEUED", "complete")
        assert job["request"] == METADATA

    def test_an_equal_capture_that_has_not_ended_is_answered(
        self, house: MemoryApiHouse, client: TestClient
    ) -> None:
        job_id = started(client)
        again = client.post(PLACE, json=METADATA)
        assert again.status_code == 200
        assert again.json() == {"job_id": job_id, "state": "QUEUED", "deduped": True}
        assert started(client, full_rescan=True) != job_id
        for token in taken(house):
            succeed(house, token)
        assert started(client) != job_id

    def test_a_repetition_with_its_key_starts_nothing(self, client: TestClient) -> None:
        key = {"Idempotency-Key": "night-1"}
        first = client.post(PLACE, json=METADATA, headers=key)
        again = client.post(PLACE, json=METADATA, headers=key)
        assert again.status_code == 202
        assert again.content == first.content
        assert again.headers["Idempotency-Replayed"] == "true"
        other = client.post(PLACE, json={**METADATA, "full_rescan": True}, headers=key)
        assert other.json()["code"] == "DR4022"

    def test_names_with_dots_are_quoted(self, house: MemoryApiHouse, client: TestClient) -> None:
        scope = {"tables": ['"eu.sales"."orders 1"', {"namespace": ["a", "b.c"], "name": "t"}]}
        item = item_of(house, started(client, scope=scope))
        assert item.task.request.scope.tables == (
            ObjectName(namespace=("eu.sales",), name="orders 1"),
            ObjectName(namespace=("a", "b.c"), name="t"),
        )
        job = shown_job(client, str(item.id))
        assert job["request"]["scope"]["tables"] == ['"eu.sales"."orders 1"', 'a."b.c".t']

    def test_ids_of_snapshots_are_exact(self, house: MemoryApiHouse, client: TestClient) -> None:
        ids = ["9007199254740993", "9223372036854775807"]
        body = {"select": "EXPLICIT", "ids": [*ids, 7]}
        job_id = started(client, snapshots=body)
        selection = item_of(house, job_id).task.request.selection
        assert selection is not None
        assert selection.snapshot_ids == (9007199254740993, 9223372036854775807, 7)
        assert shown_job(client, job_id)["request"]["snapshots"]["ids"] == [*ids, "7"]

    def test_a_start_is_in_the_audit(self, house: MemoryApiHouse, client: TestClient) -> None:
        job_id = started(client)
        entry = house.store.committed(A_TENANT).audit[-1].row
        assert entry.action == "capture.start"
        assert (entry.resource_kind, entry.resource_uid) == ("CaptureJob", job_id)
        assert entry.detail == {
            "connection": LAKE,
            "namespace": "default",
            "mode": "METADATA_ONLY",
            "deduped": "false",
        }

    def test_the_published_example_is_accepted(self, client: TestClient) -> None:
        assert client.post(PLACE, json=CAPTURE_EXAMPLE).status_code == 202


def _two(code: str, at: str) -> set[tuple[str, str]]:
    return {(code, f"{at}/{index}") for index in range(2)}


@pytest.mark.case("Q43")
class TestRefusals:
    def test_a_body_without_fields_has_all_its_faults(self, client: TestClient) -> None:
        assert faults(client, {}) == {
            ("DR1010", "/connection"),
            ("DR1010", "/mode"),
            ("DR1010", "/snapshots"),
        }

    @pytest.mark.parametrize(
        ("changes", "expected"),
        [
            ({"mode": "METADATA_AND_CAPTURE"}, {("DR1010", "/outputs")}),
            ({"mode": "METADATA_AND_CAPTURE", "outputs": []}, {("DR1010", "/outputs")}),
            ({"outputs": ["TABLE_STATS"]}, {("DR1009", "/outputs")}),
            ({"mode": "EVERYTHING"}, {("DR1012", "/mode")}),
            (
                {"mode": "CAPTURE_ONLY", "outputs": ["TABLE_STATS"], "scope": {"view": "a.v"}},
                {
                    ("DR1009", "/scope/view"),
                    ("DR1010", "/scope/tables"),
                    ("DR1009", "/mode"),
                    ("DR1009", "/snapshots"),
                },
            ),
            (
                {"mode": "CAPTURE_ONLY", "outputs": ["FILE_STATS"], "scope": {"namespaces": ["a"]}},
                {("DR1009", "/scope/namespaces"), ("DR1010", "/scope/tables")},
            ),
            (
                {"mode": "CAPTURE_ONLY", "outputs": ["FILE_STATS"]},
                {("DR1010", "/scope/tables")},
            ),
            (
                {"scope": {"tables": ["a.t"], "namespaces": ["a"]}},
                {("DR1009", "/scope/tables")},
            ),
            (
                {"scope": {"view": "a.v", "namespaces": ["a"]}},
                {("DR1009", "/scope/view"), ("DR1009", "/snapshots")},
            ),
            (
                {"scope": {"view": "a.v", "tables": ["a.t"]}},
                {("DR1009", "/scope/view"), ("DR1009", "/snapshots")},
            ),
            (
                {"mode": "METADATA_AND_CAPTURE", "scope": {"view": "a.v"}, "snapshots": None},
                {("DR1009", "/mode"), ("DR1011", "/snapshots")},
            ),
            ({"scope": {"view": "a.v"}}, {("DR1009", "/snapshots")}),
            ({"snapshots": {}}, {("DR1010", "/snapshots/select")}),
            ({"snapshots": {"select": "LATEST_N"}}, {("DR1014", "/snapshots/latest")}),
            ({"snapshots": {"select": "LATEST_N", "latest": 0}}, {("DR1012", "/snapshots/latest")}),
            ({"snapshots": {"select": "EXPLICIT"}}, {("DR1010", "/snapshots/ids")}),
            (
                {"snapshots": {"select": "ALL", "latest": 2, "ids": ["1"]}},
                {("DR1009", "/snapshots/latest"), ("DR1009", "/snapshots/ids")},
            ),
            (
                {"snapshots": {"select": "EXPLICIT", "ids": ["9223372036854775808"]}},
                {("DR1012", "/snapshots/ids/0")},
            ),
            (
                {"mode": "METADATA_AND_CAPTURE", "outputs": ["FINGERPRINT"]},
                {("DR1012", "/outputs/0")},
            ),
            (
                {
                    "mode": "METADATA_AND_CAPTURE",
                    "outputs": ["COLUMN_STATS"],
                    "columns": {"choice": "EXPLICIT_ONLY"},
                },
                {("DR1010", "/columns/names")},
            ),
            ({"columns": {"first": 5}}, {("DR1009", "/columns")}),
            ({"scope": {"tables": ["orders"]}}, {("DR1013", "/scope/tables/0")}),
            ({"scope": {"tables": ["a..t", '"a.t']}}, _two("DR1013", "/scope/tables")),
            (
                {"execution": {"lane": "fast", "attributes": {}}},
                {("DR1004", "/execution/attributes")},
            ),
            ({"priority": 1}, {("DR1004", "/priority")}),
            ({"connection": "Not A Name"}, {("DR1013", "/connection")}),
        ],
    )
    def test_a_broken_rule_has_the_pointer_of_its_field(
        self, client: TestClient, changes: Mapping[str, object], expected: set[tuple[str, str]]
    ) -> None:
        assert faults(client, {**METADATA, **changes}) == expected

    def test_an_output_of_a_later_release_is_refused_by_name(self, client: TestClient) -> None:
        body = {**METADATA, "mode": "METADATA_AND_CAPTURE", "outputs": ["FINGERPRINT"]}
        (error,) = client.post(PLACE, json=body).json()["errors"]
        assert "FINGERPRINT" in error["message"]
        assert "incremental" in error["hint"]

    def test_a_connection_that_is_not_there_is_404(
        self, house: MemoryApiHouse, client: TestClient
    ) -> None:
        assert client.post(PLACE, json={**METADATA, "connection": "other"}).status_code == 404
        body = {"namespace": "books"}
        assert client.post(PLACE, json=METADATA, params=body).status_code == 404
        foreign = house.caller(B_TENANT)
        assert foreign.post(PLACE, json=METADATA).status_code == 404
        etag = client.get(f"/api/v1/connections/{LAKE}").headers["ETag"]
        client.delete(f"/api/v1/connections/{LAKE}", headers={"If-Match": etag})
        assert client.post(PLACE, json=METADATA).status_code == 404
