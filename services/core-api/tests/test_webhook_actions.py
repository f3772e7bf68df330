"""Actions over REST, expanded and sent by the webhook-service over the same store."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from datarecs_core.access.permissions import Role
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.webhooks.delivery import DeliveryState
from datarecs_testing.api import MemoryApiHouse, declare, memory_api
from datarecs_testing.builders import A_TENANT, B_TENANT
from datarecs_testing.clock import NOON
from datarecs_testing.deliveries import FINALISED
from datarecs_testing.webhook_house import WebhookHouse

SINCE = {"since": (NOON - timedelta(hours=1)).isoformat()}


@dataclass
class World:
    """core-api and the webhook-service, with one endpoint and two delivered events."""

    api: MemoryApiHouse
    service: WebhookHouse
    place: str
    endpoint: Resource

    @property
    def caller(self) -> TestClient:
        return self.api.caller()

    def act(self, tail: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        answer = self.caller.post(f"{self.place}/{tail}", json=body)
        assert answer.status_code == 202, answer.text
        self.service.expand()
        self.service.play_until_quiet(self.service.sending(), self.endpoint)
        done: dict[str, Any] = self.caller.get(answer.headers["Location"]).json()
        return done


@pytest.fixture
def world() -> World:
    api = memory_api()
    service = WebhookHouse(clock=api.clock, shared=api.store)
    service.secrets = api.secrets
    place = declare(api.caller(), Kind.WEBHOOK_ENDPOINT)
    with api.unit.begin(A_TENANT) as tx:
        endpoint = tx.resources.get(Kind.WEBHOOK_ENDPOINT, "default", "erp-hook")
    assert endpoint is not None
    for _ in range(2):
        service.publish()
    service.play_until_quiet(service.sending(), endpoint)
    api.clock.advance(timedelta(minutes=1))
    assert len(service.client.sent) == 2
    return World(api, service, place, endpoint)


@pytest.mark.case("W37")
def test_a_test_is_sent_and_its_delivery_can_be_read(world: World) -> None:
    action = world.act("test")
    assert (action["kind"], action["state"], action["made"]) == ("test", "DONE", 1)
    delivery = world.caller.get(f"/api/v1/webhook-deliveries/{action['first_delivery']}").json()
    assert (delivery["origin"], delivery["state"]) == ("test", "SUCCEEDED")
    assert delivery["action_id"] == action["action_id"]
    assert [one["reason"] for one in delivery["attempts"]] == ["test"]


def test_an_example_that_is_not_in_the_catalogue_is_refused(world: World) -> None:
    assert world.act("test", {"example": FINALISED})["example"] == FINALISED
    answer = world.caller.post(f"{world.place}/test", json={"example": "io.datarecs.nothing"})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/example"


@pytest.mark.case("W36")
def test_deliveries_are_resent_by_id(world: World) -> None:
    ids = [one.delivery_id for one in world.service.deliveries(world.endpoint)]
    one = world.caller.post(f"/api/v1/webhook-deliveries/{ids[0]}/resend")
    both = world.caller.post("/api/v1/webhook-resends", json={"ids": list(map(str, ids))})
    assert (one.status_code, both.status_code) == (202, 202)
    assert (one.json()["expected"], both.json()["expected"]) == (1, 2)
    world.service.expand()
    world.service.play_until_quiet(world.service.sending(), world.endpoint)
    assert len(world.service.client.sent) == 5


@pytest.mark.case("W35")
def test_a_preview_counts_and_changes_nothing(world: World) -> None:
    before = world.api.store.committed(A_TENANT)
    previews = {
        tail: world.caller.post(f"{world.place}/{tail}?dry_run=true", json=body).json()["count"]
        for tail, body in (("replay", SINCE), ("recover", SINCE), ("test", None))
    }
    (first, second) = (one.delivery_id for one in world.service.deliveries(world.endpoint))
    body = {"ids": [str(first), str(second), str(first)]}
    resend = world.caller.post("/api/v1/webhook-resends?dry_run=true", json=body)
    assert previews | {"resend": resend.json()["count"]} == {
        "replay": 2,
        "recover": 0,
        "test": 1,
        "resend": 2,
    }
    after = world.api.store.committed(A_TENANT)
    assert (after.delivery.actions, after.outbox) == (before.delivery.actions, before.outbox)
    assert world.act("replay", SINCE)["made"] == 2


@pytest.mark.case("W34")
def test_the_same_idempotency_key_means_the_same_action(world: World) -> None:
    caller, headers = world.caller, {"Idempotency-Key": "again"}
    first, second = (
        caller.post(f"{world.place}/replay", json=SINCE, headers=headers) for _ in range(2)
    )
    assert first.json() == second.json()
    assert second.headers["Idempotency-Replayed"] == "true"
    assert len(world.api.store.committed(A_TENANT).delivery.actions) == 1


def test_a_second_window_waits_for_the_first(world: World) -> None:
    caller = world.caller
    first = caller.post(f"{world.place}/replay", json=SINCE)
    second = caller.post(f"{world.place}/recover", json=SINCE)
    assert (second.status_code, second.json()["reason"]) == (409, "ACTION_OPEN")
    cancelled = caller.delete(first.headers["Location"]).json()
    assert (cancelled["state"], cancelled["made"]) == ("CANCELLED", 0)
    assert caller.post(f"{world.place}/recover", json=SINCE).status_code == 202


@pytest.mark.case("W35")
@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"since": (NOON - timedelta(days=15)).isoformat()}, "/since"),
        (SINCE | {"until": (NOON - timedelta(hours=2)).isoformat()}, "/since"),
        (SINCE | {"until": (NOON + timedelta(days=1)).isoformat()}, "/until"),
        (SINCE | {"types": ["Run"]}, "/types/0"),
    ],
)
def test_a_window_that_is_not_allowed_is_422(
    world: World, body: dict[str, Any], pointer: str
) -> None:
    answer = world.caller.post(f"{world.place}/replay", json=body)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, pointer)


@pytest.mark.case("W42")
def test_another_tenants_deliveries_and_actions_are_unknown(world: World) -> None:
    action = world.caller.post(f"{world.place}/test").json()["action_id"]
    delivery = world.service.deliveries(world.endpoint)[0].delivery_id
    bob = world.api.caller(B_TENANT)
    answers = [
        bob.get(f"/api/v1/webhook-deliveries/{delivery}"),
        bob.post(f"/api/v1/webhook-deliveries/{delivery}/resend"),
        bob.post("/api/v1/webhook-resends", json={"ids": [str(delivery)]}),
        bob.get(f"/api/v1/webhook-actions/{action}"),
        bob.delete(f"/api/v1/webhook-actions/{action}"),
        bob.post(f"{world.place}/test"),
    ]
    assert [one.status_code for one in answers] == [404] * len(answers)


def test_a_viewer_reads_and_sends_nothing(world: World) -> None:
    viewer = world.api.caller(A_TENANT, Role.VIEWER)
    delivery = world.service.deliveries(world.endpoint)[0]
    read = viewer.get(f"/api/v1/webhook-deliveries/{delivery.delivery_id}")
    assert read.json()["state"] == DeliveryState.SUCCEEDED
    assert read.json()["attempts"][0]["request_headers"] is None
    assert viewer.post(f"{world.place}/test").status_code == 403
    assert world.api.caller(A_TENANT, Role.OPERATOR).post(f"{world.place}/test").status_code == 202


def test_one_request_resends_for_one_endpoint(world: World) -> None:
    declare(world.caller, Kind.WEBHOOK_ENDPOINT, name="other-hook")
    world.service.publish()
    with world.api.unit.begin(A_TENANT) as tx:
        other = tx.resources.get(Kind.WEBHOOK_ENDPOINT, "default", "other-hook")
    assert other is not None
    ids = [str(world.service.deliveries(one)[0].delivery_id) for one in (world.endpoint, other)]
    answer = world.caller.post("/api/v1/webhook-resends", json={"ids": ids})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/ids")
