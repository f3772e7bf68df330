"""API keys over REST: made, listed, revoked; never more than their maker, never shown twice."""

from datetime import timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from datarecs_core.access.permissions import Role, permissions_of
from datarecs_core.access.tokens import parse_key, secret_sha256
from datarecs_testing.api import MemoryApiHouse, memory_api
from datarecs_testing.builders import A_TENANT, B_TENANT
from datarecs_testing.clock import NOON


@pytest.fixture
def house() -> MemoryApiHouse:
    return memory_api()


@pytest.fixture
def ana(house: MemoryApiHouse) -> TestClient:
    return house.caller()


def made(caller: TestClient, **fields: object) -> dict[str, Any]:
    answer = caller.post("/api/v1/keys", json={"name": "ci", **fields})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


class TestANewKey:
    def test_works_at_once_and_is_stored_as_a_hash(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        key = made(ana)
        presented = parse_key(key["key"])
        assert presented is not None
        stored = house.store.committed(A_TENANT).api_keys[key["key_id"]]
        assert stored.secret_sha256 == secret_sha256(presented.secret)
        assert house.bearing(key["key"]).get("/api/v1/whoami").json()["key_id"] == key["key_id"]

    def test_belongs_to_its_maker(self, house: MemoryApiHouse, ana: TestClient) -> None:
        who = house.bearing(made(ana)["key"]).get("/api/v1/whoami").json()
        assert (who["subject"], who["tenant_id"]) == ("u-ana", str(A_TENANT))

    def test_lasts_as_long_as_it_was_made_for(self, house: MemoryApiHouse, ana: TestClient) -> None:
        assert made(ana)["expires_at"] == "2026-04-15T12:00:00.000000Z"
        key = made(ana, expires_days=1)["key"]
        house.clock.advance(timedelta(days=1) - timedelta(seconds=1))
        assert house.bearing(key).get("/api/v1/whoami").status_code == 200
        house.clock.advance(timedelta(seconds=1))
        assert house.bearing(key).get("/api/v1/whoami").status_code == 401

    @pytest.mark.case("X14")
    def test_holds_at_most_what_its_maker_holds(self, house: MemoryApiHouse) -> None:
        maker = house.bearing(house.key(permissions=["run.trigger", "read"]))
        assert made(maker)["scopes"] == ["read", "run.trigger"]
        assert made(maker, scopes=["read"])["scopes"] == ["read"]
        refused = maker.post("/api/v1/keys", json={"name": "more", "scopes": ["resource.write"]})
        assert (refused.status_code, refused.json()["code"]) == (403, "DR6012")
        line = house.store.committed(A_TENANT).audit[-1].row
        assert (line.action, line.outcome) == ("access.refuse", "refused")
        assert line.detail == {"permission": "resource.write", "route": "POST /api/v1/keys"}

    @pytest.mark.case("X14")
    def test_of_an_editor_cannot_manage_keys(self, house: MemoryApiHouse) -> None:
        editor = house.caller(A_TENANT, Role.EDITOR)
        answer = editor.post("/api/v1/keys", json={"name": "x", "scopes": ["key.manage"]})
        assert answer.status_code == 403

    @pytest.mark.parametrize(
        ("body", "pointer"),
        [
            ({}, "/name"),
            ({"name": "UPPER"}, "/name"),
            ({"name": ""}, "/name"),
            ({"name": 64 * "x"}, "/name"),
            ({"name": "x", "scopes": []}, "/scopes"),
            ({"name": "x", "scopes": ["read", "everything"]}, "/scopes/1"),
            ({"name": "x", "scopes": ["queue.work"]}, "/scopes/0"),
            ({"name": "x", "expires_days": 0}, "/expires_days"),
            ({"name": "x", "expires_days": 367}, "/expires_days"),
            ({"name": "x", "subject": "root"}, "/subject"),
            ({"name": "x", "tenant_id": str(B_TENANT)}, "/tenant_id"),
        ],
    )
    def test_names_what_is_not_allowed(
        self, ana: TestClient, body: dict[str, object], pointer: str
    ) -> None:
        answer = ana.post("/api/v1/keys", json=body)
        assert answer.status_code == 422
        assert [one["pointer"] for one in answer.json()["errors"]] == [pointer]

    def test_is_shown_once_also_under_a_repeated_key(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        body, header = {"name": "ci"}, {"Idempotency-Key": "k"}
        first = ana.post("/api/v1/keys", json=body, headers=header).json()
        again = ana.post("/api/v1/keys", json=body, headers=header)
        assert again.headers["Idempotency-Replayed"] == "true"
        assert again.json() == {name: value for name, value in first.items() if name != "key"}
        (kept,) = house.store.committed(A_TENANT).remembered.values()
        assert kept.answer is not None
        assert first["key"].encode() not in kept.answer.body


class TestTheList:
    def test_shows_the_callers_own_and_no_secret(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        house.key(subject="u-bob")
        key = made(ana)
        answer = ana.get("/api/v1/keys")
        assert {one["subject"] for one in answer.json()["items"]} == {"u-ana"}
        assert key["key"][17:] not in answer.text

    def test_shows_all_of_the_tenant_to_those_who_manage_keys(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        house.key(subject="u-bob")
        house.key(B_TENANT, subject="u-eve")
        found = ana.get("/api/v1/keys?all=1").json()["items"]
        assert {one["subject"] for one in found} == {"u-ana", "u-bob"}

    def test_of_all_is_refused_to_others(self, house: MemoryApiHouse) -> None:
        answer = house.caller(A_TENANT, Role.EDITOR).get("/api/v1/keys?all=1")
        assert (answer.status_code, answer.json()["code"]) == (403, "DR6012")


class TestRevoking:
    @pytest.mark.case("X12")
    def test_takes_effect_at_once(self, house: MemoryApiHouse, ana: TestClient) -> None:
        key = made(ana)
        bearer = house.bearing(key["key"])
        answer = ana.delete(f"/api/v1/keys/{key['key_id']}")
        assert answer.json()["revoked_at"] == "2026-01-15T12:00:00.000000Z"
        assert bearer.get("/api/v1/whoami").status_code == 401

    def test_may_be_repeated(self, house: MemoryApiHouse, ana: TestClient) -> None:
        path = f"/api/v1/keys/{made(ana)['key_id']}"
        ana.delete(path)
        house.clock.advance(timedelta(hours=1))
        assert ana.delete(path).json()["revoked_at"] == NOON.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def test_of_anothers_key_needs_key_manage(self, house: MemoryApiHouse) -> None:
        key_id = house.key(subject="u-bob")[4:16]
        editor = house.bearing(house.key(permissions=permissions_of([Role.EDITOR])))
        assert editor.delete(f"/api/v1/keys/{key_id}").status_code == 404
        assert house.caller().delete(f"/api/v1/keys/{key_id}").status_code == 200

    @pytest.mark.case("X03")
    @pytest.mark.parametrize("spelling", ["{}", "%00", "x", 300 * "y"])
    def test_of_a_foreign_or_unknown_key_is_404(
        self, house: MemoryApiHouse, ana: TestClient, spelling: str
    ) -> None:
        key_id = house.key(B_TENANT)[4:16]
        answer = ana.delete(f"/api/v1/keys/{spelling.format(key_id)}")
        assert (answer.status_code, answer.json()["detail"]) == (404, "there is no such key")
        assert house.store.committed(B_TENANT).api_keys[key_id].revoked_at is None
