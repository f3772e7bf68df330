"""An endpoint that needs consent: declaration, callback, first delivery."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from datarecs_core.resources.resource import Kind
from datarecs_testing.api import BASE_URL, MemoryApiHouse, memory_api
from datarecs_testing.builders import A_TENANT
from datarecs_testing.webhook_house import WebhookHouse

HOOKS = "/api/v1/webhook-endpoints"
DECLARATION = {
    "apiVersion": "datarecs.io/v1",
    "kind": "WebhookEndpoint",
    "metadata": {"name": "erp"},
    "spec": {"url": "https://erp.example.com/hook", "validation": "handshake"},
}


@dataclass
class World:
    api: MemoryApiHouse
    service: WebhookHouse
    caller: TestClient

    @property
    def receiver(self) -> TestClient:
        """A client without a key, as a receiver is."""
        return TestClient(self.api.app, base_url=BASE_URL)

    def run(self) -> None:
        self.service.run(self.service.sending())

    def callbacks(self) -> list[str]:
        """Paths of the sent callbacks, the oldest first."""
        sent = [dict(one.headers) for one in self.service.client.sent if one.method == "OPTIONS"]
        name, host = "WebHook-Request-Callback", "https://recs.example.com"
        return [one[name].removeprefix(host) for one in sent]

    def conditions(self) -> dict[str, Any]:
        shown = self.caller.get(f"{HOOKS}/erp").json()["status"]["conditions"]
        return {one["type"]: one["reason"] for one in shown}

    def audited(self) -> list[str]:
        return [link.row.action for link in self.api.store.committed(A_TENANT).audit]


@pytest.fixture
def world() -> World:
    api = memory_api()
    service = WebhookHouse(clock=api.clock, shared=api.store)
    service.secrets = api.secrets
    world = World(api, service, api.caller())
    assert world.caller.post(HOOKS, json=DECLARATION).status_code == 201
    world.run()
    return world


@pytest.mark.case("W26")
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_callback_grants_and_its_rate_holds(world: World, method: str) -> None:
    world.service.publish()
    world.run()
    (callback,) = world.callbacks()
    assert [one.method for one in world.service.client.sent] == ["OPTIONS"]
    assert world.conditions()["Validated"] == "Pending"
    answer = world.receiver.request(method, callback, headers={"WebHook-Allowed-Rate": "60"})
    assert (answer.status_code, "60 requests per minute" in answer.text) == (200, True)
    world.run()
    assert [one.method for one in world.service.client.sent] == ["OPTIONS", "POST"]
    assert world.conditions() == {
        "Healthy": "Delivering",
        "Ready": "Enabled",
        "Validated": "Granted",
    }
    assert world.receiver.get(callback).status_code == 200
    assert world.audited().count("webhook.consent") == 1
    with world.api.unit.begin(A_TENANT, read_only=True) as tx:
        endpoint = tx.resources.get(Kind.WEBHOOK_ENDPOINT, "default", "erp")
    assert endpoint is not None
    state = world.api.store.committed(A_TENANT).delivery.endpoints[endpoint.uid]
    assert state.handshake is not None
    assert state.handshake.allowed_rate == 60


@pytest.mark.case("W26")
def test_enable_requests_consent_again_and_the_old_callback_is_invalid(world: World) -> None:
    world.receiver.get(world.callbacks()[0])
    assert world.caller.post(f"{HOOKS}/erp/disable").status_code == 200
    world.api.clock.advance(timedelta(seconds=1))
    assert world.caller.post(f"{HOOKS}/erp/enable").status_code == 200
    world.run()
    old, new = world.callbacks()
    assert world.conditions()["Validated"] == "Pending"
    assert world.receiver.get(old).status_code == 404
    assert world.receiver.get(new).status_code == 200


def test_an_altered_expired_or_foreign_callback_is_not_found(world: World) -> None:
    (callback,) = world.callbacks()
    place, _, token = callback.rpartition("/")
    for other in (token[::-1], token[:-4] + "AAAA", "x"):
        assert world.receiver.get(f"{place}/{other}").status_code == 404
    world.api.clock.advance(timedelta(hours=24))
    assert world.receiver.get(callback).status_code == 404
    assert "webhook.consent" not in world.audited()


def test_the_callback_of_a_deleted_endpoint_is_not_found(world: World) -> None:
    (callback,) = world.callbacks()
    etag = world.caller.get(f"{HOOKS}/erp").headers["ETag"]
    assert world.caller.delete(f"{HOOKS}/erp", headers={"If-Match": etag}).status_code < 300
    assert world.receiver.get(callback).status_code == 404
