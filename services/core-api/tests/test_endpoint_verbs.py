"""Switching endpoints off and on, and rotating their secrets, up to the requests that are sent."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from datarecs_core.access.permissions import Role
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.webhooks.outcome import AttemptEnd, Outcome
from datarecs_core.webhooks.signature import new_secret, secret_key, sign
from datarecs_testing.api import MemoryApiHouse, memory_api
from datarecs_testing.builders import A_TENANT
from datarecs_testing.webhook_house import WebhookHouse

REFERENCE = "env:DATARECS_CONN_DEFAULT_HOOK"
HOOKS = "/api/v1/webhook-endpoints"
DECLARATION = {
    "apiVersion": "datarecs.io/v1",
    "kind": "WebhookEndpoint",
    "metadata": {"name": "erp"},
    "spec": {"url": "https://erp.example.com/hook"},
}


@dataclass
class World:
    api: MemoryApiHouse
    service: WebhookHouse
    caller: TestClient
    secret: str

    @property
    def endpoint(self) -> Resource:
        with self.api.unit.begin(A_TENANT, read_only=True) as tx:
            endpoint = tx.resources.get(Kind.WEBHOOK_ENDPOINT, "default", "erp")
        assert endpoint is not None
        return endpoint

    def send(self) -> None:
        self.service.run(self.service.sending())

    def rotate(self, grace: str, **body: Any) -> dict[str, Any]:  # noqa: ANN401  members of a body: JSON
        answer = self.caller.post(
            f"{HOOKS}/erp/secret/rotate", json={"grace_period": grace, **body}
        )
        assert answer.status_code == 200, answer.text
        document: dict[str, Any] = answer.json()
        self.api.clock.advance(timedelta(seconds=1))
        return document

    def signed_by(self, *secrets: str) -> bool:
        """Whether the newest request is signed by exactly these secrets, in this order."""
        sent = self.service.client.sent[-1]
        headers = dict(sent.headers)
        return headers["webhook-signature"] == sign(
            [secret_key(one) for one in secrets],
            event_id=headers["webhook-id"],
            timestamp=int(headers["webhook-timestamp"]),
            body=sent.body,
        )


@pytest.fixture
def world() -> World:
    api = memory_api(secret_uses={REFERENCE: ("signing:erp.example.com",)})
    service = WebhookHouse(clock=api.clock, shared=api.store)
    service.secrets = api.secrets
    caller = api.caller()
    secret = caller.post(HOOKS, json=DECLARATION).json()["generated_secret"]
    api.clock.advance(timedelta(seconds=1))
    return World(api, service, caller, secret)


@pytest.mark.case("W23")
def test_during_the_grace_period_both_secrets_sign_and_then_the_new_one_alone(
    world: World,
) -> None:
    rotated = world.rotate("PT1H")
    assert [one["expires_at"] is None for one in rotated["previous"]] == [False]
    world.service.publish()
    world.send()
    new = rotated["generated_secret"]
    assert world.signed_by(new, world.secret)
    world.api.clock.advance(timedelta(hours=1))
    world.service.publish()
    world.send()
    assert world.signed_by(new)


@pytest.mark.case("W23")
def test_a_retry_carries_the_secrets_that_are_live_at_its_start(world: World) -> None:
    world.service.answer = lambda _: AttemptEnd(outcome=Outcome.HTTP_5XX, status=500)
    new = world.rotate("PT1M")["generated_secret"]
    world.service.publish()
    world.send()
    assert world.signed_by(new, world.secret)
    world.api.clock.advance(timedelta(minutes=7))
    world.send()
    assert world.signed_by(new)


@pytest.mark.case("W23")
def test_without_a_grace_period_the_new_secret_signs_alone(world: World) -> None:
    imported = new_secret(bytes(32))
    world.rotate("P1D")
    answer = world.rotate("PT0S", secret=imported)
    assert (answer["generated_secret"], answer["previous"]) == (imported, [])
    world.service.publish()
    world.send()
    assert world.signed_by(imported)


@pytest.mark.case("W23")
def test_a_fifth_live_secret_is_refused(world: World) -> None:
    for _ in range(3):
        world.rotate("P7D")
    answer = world.caller.post(f"{HOOKS}/erp/secret/rotate")
    assert (answer.status_code, answer.json()["reason"]) == (409, "TOO_MANY_SECRETS")
    assert "PT0S" in answer.json()["detail"]
    assert world.rotate("PT0S")["previous"] == []


def test_a_secret_is_shown_once(world: World) -> None:
    headers = {"Idempotency-Key": "rotation"}
    first, second = (
        world.caller.post(f"{HOOKS}/erp/secret/rotate", headers=headers) for _ in range(2)
    )
    assert first.json()["key_id"] == second.json()["key_id"]
    assert "generated_secret" in first.json()
    assert "generated_secret" not in second.json()


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"grace_period": "P8D"}, "/grace_period"),
        ({"grace_period": "a day"}, "/grace_period"),
        ({"secret": "whsec_AAAA"}, "/secret"),
    ],
)
def test_a_rotation_that_is_not_allowed_is_422(
    world: World, body: dict[str, Any], pointer: str
) -> None:
    answer = world.caller.post(f"{HOOKS}/erp/secret/rotate", json=body)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, pointer)
    assert "AAAA" not in answer.text


def test_references_are_rotated_in_the_spec(world: World) -> None:
    signing = {"mode": "reference", "secret_refs": [REFERENCE]}
    spec = {"url": "https://erp.example.com/hook", "signing": signing}
    put = world.caller.put(
        f"{HOOKS}/erp", json={**DECLARATION, "spec": spec}, headers={"If-Match": "*"}
    )
    assert put.status_code == 200, put.text
    answer = world.caller.post(f"{HOOKS}/erp/secret/rotate")
    assert answer.status_code == 422
    assert "spec.signing.secret_refs" in answer.json()["detail"]


def test_an_operator_switches_and_only_an_editor_rotates(world: World) -> None:
    operator = world.api.caller(A_TENANT, Role.OPERATOR)
    assert operator.post(f"{HOOKS}/erp/disable").status_code == 200
    assert operator.post(f"{HOOKS}/erp/enable").status_code == 200
    assert operator.post(f"{HOOKS}/erp/secret/rotate").status_code == 403
    assert world.api.caller(A_TENANT, Role.VIEWER).post(f"{HOOKS}/erp/enable").status_code == 403


@pytest.mark.case("W34")
def test_what_a_disabled_endpoint_missed_is_counted_when_it_is_enabled(world: World) -> None:
    world.service.publish()
    world.send()
    disabled = world.caller.post(f"{HOOKS}/erp/disable").json()
    assert disabled["spec"]["enabled"] is False
    world.api.clock.advance(timedelta(hours=2))
    for _ in range(40):
        world.service.publish()
    world.api.clock.advance(timedelta(seconds=1))
    world.send()
    shown = world.caller.get(f"{HOOKS}/erp").json()["status"]
    assert shown["disabled"]["by"] == "user"
    assert len(world.service.client.sent) == 1
    enabled = world.caller.post(f"{HOOKS}/erp/enable").json()
    assert (enabled["recoverable"], enabled["endpoint"]["spec"]["enabled"]) == (40, True)
    body = {"since": enabled["missed_since"]}
    recovered = world.caller.post(f"{HOOKS}/erp/recover", json=body)
    assert recovered.json()["expected"] == 40
    world.service.expand()
    world.service.play_until_quiet(world.service.sending(), world.endpoint)
    assert len(world.service.client.sent) == 41
    assert "disabled" not in world.caller.get(f"{HOOKS}/erp").json()["status"]
    again = world.caller.post(f"{HOOKS}/erp/recover?dry_run=true", json=body)
    assert again.json()["count"] == 0


def test_an_endpoint_that_is_gone_is_enabled_without_a_change_of_its_spec(world: World) -> None:
    world.service.answer = lambda _: AttemptEnd(outcome=Outcome.HTTP_410, status=410)
    world.service.publish()
    world.send()
    generation = world.endpoint.generation
    assert world.caller.get(f"{HOOKS}/erp").json()["status"]["disabled"]["by"] == "gone"
    enabled = world.caller.post(f"{HOOKS}/erp/enable").json()
    assert enabled["endpoint"]["metadata"]["generation"] == generation
    world.service.answer = lambda _: AttemptEnd(outcome=Outcome.OK, status=200)
    world.service.publish()
    world.send()
    assert len(world.service.client.sent) == 2
