"""API keys over REST: made, listed, revoked; never more than their maker, never shown twice."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from datarecs_core.access.permissions import Role, permissions_of
from datarecs_core.access.tokens import parse_key, secret_sha256
from datarecs_core.values import TenantId
from datarecs_memory.unit_of_work import MemoryTransaction, MemoryUnitOfWork
from datarecs_runtime.api_sections import Limits
from datarecs_testing.api import MemoryApiHouse, memory_api, subject_of
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
    body: dict[str, Any] = answer.json()
    return body


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

    def test_has_a_separate_subject_and_its_makers_owner(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        key = made(ana)
        who = house.bearing(key["key"]).get("/api/v1/whoami").json()
        assert (who["subject"], who["owner"]) == (f"key:{key['key_id']}", "u-ana")
        assert who["subject"] != subject_of(ana)
        assert f"key:{key['parent_key_id']}" == subject_of(ana)
        assert who["tenant_id"] == str(A_TENANT)

    def test_is_distinguished_in_the_audit(self, house: MemoryApiHouse, ana: TestClient) -> None:
        key = made(ana)
        made(house.bearing(key["key"]))
        lines = [link.row for link in house.store.committed(A_TENANT).audit]
        assert [line.actor for line in lines] == [subject_of(ana), f"key:{key['key_id']}"]

    @pytest.mark.case("X03")
    def test_has_separate_idempotency_keys(self, house: MemoryApiHouse, ana: TestClient) -> None:
        header = {"Idempotency-Key": "k"}
        other = house.bearing(made(ana)["key"])
        first = ana.post("/api/v1/keys", json={"name": "ci"}, headers=header).json()
        second = other.post("/api/v1/keys", json={"name": "ci"}, headers=header)
        assert "Idempotency-Replayed" not in second.headers
        assert second.json()["key_id"] != first["key_id"]

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
    def test_takes_a_whole_number_however_it_is_written(self, house: MemoryApiHouse) -> None:
        ana = house.caller()
        assert made(ana, expires_days=2.0)["expires_at"] == made(ana, expires_days=2)["expires_at"]
        half = ana.post("/api/v1/keys", json={"name": "ci", "expires_days": 2.5})
        assert half.json()["errors"][0]["pointer"] == "/expires_days"

    def test_expires_no_later_than_its_maker(self, house: MemoryApiHouse) -> None:
        maker = house.bearing(house.key(lasts=timedelta(days=10)))
        assert made(maker)["expires_at"] == "2026-01-25T12:00:00.000000Z"
        assert made(maker, expires_days=10)["expires_at"] == "2026-01-25T12:00:00.000000Z"
        later = maker.post("/api/v1/keys", json={"name": "ci", "expires_days": 11})
        assert later.status_code == 422
        assert later.json()["errors"][0]["pointer"] == "/expires_days"

    @pytest.mark.case("X14")
    def test_is_not_made_with_a_key_that_is_revoked_meanwhile(self, house: MemoryApiHouse) -> None:
        key = house.key()

        class RevokedMeanwhile(MemoryUnitOfWork):
            @contextmanager
            def begin(
                self, tenant: TenantId, *, feed: int = 0, read_only: bool = False
            ) -> Iterator[MemoryTransaction]:
                with house.unit.begin(tenant) as tx:
                    tx.api_keys.revoke(key[4:16])
                with super().begin(tenant, feed=feed, read_only=read_only) as tx:
                    yield tx

        late = memory_api(store=house.store, unit=RevokedMeanwhile(house.store), clock=house.clock)
        assert late.bearing(key).post("/api/v1/keys", json={"name": "ci"}).status_code == 401
        assert len(house.store.committed(A_TENANT).api_keys) == 1

    def test_is_made_at_most_twenty_times_an_hour_by_one_owner(self) -> None:
        house = memory_api(limits=Limits())
        ana = house.caller()
        keys = [made(ana)["key"] for _ in range(20)]
        for maker in (ana, house.bearing(keys[0]), house.caller(A_TENANT, Role.EDITOR)):
            answer = maker.post("/api/v1/keys", json={"name": "ci"})
            assert (answer.status_code, answer.headers["Retry-After"]) == (429, "180")
        made(house.caller(owner="u-bob"))
        house.clock.advance(timedelta(seconds=180))
        made(ana)

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
        (remembered,) = house.store.committed(A_TENANT).remembered.values()
        assert remembered.answer is not None
        assert first["key"].encode() not in remembered.answer.body


class TestTheList:
    def test_shows_the_callers_key_with_those_made_with_it_and_no_secret(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        house.key()
        key = made(ana)
        grandchild = made(house.bearing(key["key"]))
        answer = ana.get("/api/v1/keys")
        shown = {one["subject"] for one in answer.json()["items"]}
        assert shown == {subject_of(ana), key["subject"], grandchild["subject"]}
        assert key["key"][17:] not in answer.text

    def test_of_a_made_key_does_not_show_its_maker(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        key = made(ana, scopes=["read"])
        items = house.bearing(key["key"]).get("/api/v1/keys").json()["items"]
        assert [one["key_id"] for one in items] == [key["key_id"]]

    def test_shows_all_of_the_tenant_to_those_who_manage_keys(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        house.key(owner="u-bob")
        house.key(B_TENANT, owner="u-eve")
        items = ana.get("/api/v1/keys?all=1").json()["items"]
        assert {one["owner"] for one in items} == {"u-ana", "u-bob"}

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

    def test_revokes_every_key_made_with_it(self, house: MemoryApiHouse, ana: TestClient) -> None:
        child = made(ana)
        grandchild = made(house.bearing(child["key"]))
        ana.delete(f"/api/v1/keys/{child['key_id']}")
        for key in (child, grandchild):
            assert house.bearing(key["key"]).get("/api/v1/whoami").status_code == 401
        assert ana.get("/api/v1/whoami").status_code == 200
        lines = [link.row for link in house.store.committed(A_TENANT).audit][-2:]
        assert [(line.action, line.resource_uid, line.detail) for line in lines] == [
            ("key.revoke", child["key_id"], None),
            ("key.revoke", grandchild["key_id"], {"revoked_with": child["key_id"]}),
        ]

    def test_by_a_made_key_reaches_itself_and_never_its_maker(
        self, house: MemoryApiHouse, ana: TestClient
    ) -> None:
        sibling = made(ana)
        child = house.bearing(made(ana, scopes=["read"])["key"])
        for other in (subject_of(ana), sibling["subject"]):
            answer = child.delete(f"/api/v1/keys/{other.removeprefix('key:')}")
            assert answer.status_code == 404
        assert child.delete(f"/api/v1/keys/{subject_of(child).removeprefix('key:')}").is_success
        assert ana.get("/api/v1/whoami").status_code == 200

    def test_of_anothers_key_needs_key_manage(self, house: MemoryApiHouse) -> None:
        key_id = house.key(owner="u-bob")[4:16]
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
