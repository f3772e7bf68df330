"""Endpoints that need consent, end to end in memory: request, answer, callback, deliveries."""

from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from datarecs_application.endpoint_verbs import record_enabled
from datarecs_application.ports.delivery import OutgoingWebhook
from datarecs_application.webhook_consent import claim_soon, grant_by_callback
from datarecs_core.webhooks.actions import WebhookAction
from datarecs_core.webhooks.delivery import DeliveryState, Origin
from datarecs_core.webhooks.endpoint import Limits, SecretRef, Validation, WebhookEndpoint
from datarecs_core.webhooks.handshake import read_callback_token
from datarecs_core.webhooks.matching import EndpointFacts
from datarecs_core.webhooks.outcome import AttemptEnd, Outcome
from datarecs_testing.builders import A_TENANT
from datarecs_testing.deliveries import an_endpoint
from datarecs_testing.scripted_delivery import OK
from datarecs_testing.webhook_house import WebhookHouse

SPEC = WebhookEndpoint(
    url="https://a.example.com/hook",
    validation=Validation.HANDSHAKE,
    limits=Limits(rate_per_minute=600),
)
CALLBACK = "https://recs.example.com/api/v1/public/webhook-consent/"
CONSENT = (("WebHook-Allowed-Origin", "recs.example.com"),)
DAY = timedelta(days=1)


@dataclass
class Asking:
    """A house with an endpoint that needs consent, and its sending loop."""

    spec: WebhookEndpoint = SPEC
    house: WebhookHouse = field(default_factory=WebhookHouse)

    def __post_init__(self) -> None:
        self.endpoint = self.house.declare(self.spec)
        with self.house.unit.begin(A_TENANT, feed=8) as tx:
            claim_soon(tx, self.endpoint)
        self.loop = self.house.sending()

    def turn(self) -> None:
        self.house.run(self.loop)

    def requests(self, method: str) -> list[OutgoingWebhook]:
        return [one for one in self.house.client.sent if one.method == method]

    def call_back(self, request: OutgoingWebhook, rate: str | None = None) -> bool:
        address = dict(request.headers)["WebHook-Request-Callback"]
        token = read_callback_token(address.removeprefix(CALLBACK))
        assert token is not None
        with self.house.unit.begin(token.tenant_id) as tx:
            return grant_by_callback(tx, token, rate=rate) is not None

    def condition(self, kind: str = "Validated") -> str | None:
        stored = self.house.store.committed(A_TENANT).resources[self.endpoint.uid]
        conditions = stored.status.get("conditions", [])
        assert isinstance(conditions, list)
        return next((one["reason"] for one in conditions if one["type"] == kind), None)

    def declare(self, spec: WebhookEndpoint) -> None:
        with self.house.unit.begin(A_TENANT, feed=1) as tx:
            stored = tx.resources.get_by_uid(self.endpoint.uid)
            assert stored is not None
            changed = replace(
                an_endpoint(spec, uid=stored.uid, name=stored.name, status=stored.status),
                generation=stored.generation + 1,
                rv=tx.next_rv(),
            )
            assert tx.resources.replace(changed, expected_rv=stored.rv)
            claim_soon(tx, changed)


@pytest.mark.case("W26")
def test_a_consent_in_the_answer_starts_deliveries() -> None:
    asking = Asking()
    asking.house.client.headers = CONSENT
    asking.house.publish()
    asking.turn()
    first, *others = asking.house.client.sent
    assert (first.method, first.url, first.body) == ("OPTIONS", SPEC.url, b"")
    headers = dict(first.headers)
    assert headers["WebHook-Request-Origin"] == "recs.example.com"
    assert headers["WebHook-Request-Rate"] == "600"
    assert headers["WebHook-Request-Callback"].startswith(CALLBACK)
    assert [one.method for one in others] == ["POST"]
    assert dict(others[0].headers)["WebHook-Request-Origin"] == "recs.example.com"
    (delivery,) = asking.house.deliveries(asking.endpoint)
    assert delivery.state is DeliveryState.SUCCEEDED
    assert (asking.condition(), asking.condition("Ready")) == ("Granted", "Enabled")


@pytest.mark.case("W26")
def test_nothing_is_sent_before_the_callback_and_its_rate_applies() -> None:
    asking = Asking()
    for _ in range(100):
        asking.house.publish()
    asking.turn()
    assert asking.requests("POST") == []
    assert (asking.condition(), asking.condition("Ready")) == ("Pending", "NotValidated")
    (request,) = asking.requests("OPTIONS")
    assert asking.call_back(request, rate="60")
    for _ in range(60):
        asking.house.run(asking.loop, turns=5)
        asking.house.clock.advance(timedelta(seconds=1))
    sent = asking.requests("POST")
    assert 60 <= len(sent) <= 60 + 6
    assert {dict(one.headers)["WebHook-Request-Origin"] for one in sent} == {"recs.example.com"}
    assert asking.condition() == "Granted"


@pytest.mark.case("W26")
def test_no_test_is_sent_before_consent() -> None:
    asking = Asking()
    house = asking.house
    with house.unit.begin(A_TENANT, feed=8) as tx:
        action = WebhookAction(
            tenant_id=A_TENANT,
            action_id=house.store.ids.new(),
            endpoint_uid=asking.endpoint.uid,
            kind=Origin.TEST,
            requested_by="u-ana",
            created_at=tx.now,
            expected=1,
        )
        tx.webhook_actions.add(action)
    house.expand()
    asking.turn()
    assert asking.requests("POST") == []
    state = house.store.committed(A_TENANT).delivery.endpoints[asking.endpoint.uid]
    assert state.next_claim_at is not None
    assert state.next_claim_at > house.clock.now()


def test_after_a_day_without_consent_the_endpoint_is_refused_until_it_is_enabled() -> None:
    asking = Asking()
    asking.turn()
    (request,) = asking.requests("OPTIONS")
    asking.house.clock.advance(DAY)
    assert not asking.call_back(request)
    asking.turn()
    assert asking.condition() == "Refused"
    assert len(asking.requests("OPTIONS")) == 1
    endpoint = asking.endpoint
    with asking.house.unit.begin(A_TENANT) as tx:
        facts = EndpointFacts(uid=endpoint.uid, created_at=endpoint.created_at, spec=SPEC)
        record_enabled(tx, facts)
    asking.house.client.headers = CONSENT
    asking.turn()
    assert len(asking.requests("OPTIONS")) == 2
    assert asking.condition() == "Granted"


def test_a_request_without_an_answer_is_repeated_every_five_minutes() -> None:
    house = WebhookHouse(answer=lambda _: AttemptEnd(outcome=Outcome.TIMEOUT))
    asking = Asking(house=house)
    asking.turn()
    house.clock.advance(timedelta(minutes=4))
    asking.turn()
    assert len(asking.requests("OPTIONS")) == 1
    house.clock.advance(timedelta(minutes=1))
    asking.turn()
    old, new = asking.requests("OPTIONS")
    assert not asking.call_back(old)
    assert asking.call_back(new)
    house.client._answer = lambda _: OK  # noqa: SLF001  the receiver is back
    house.publish()
    asking.turn()
    assert len(asking.requests("POST")) == 1


def test_another_url_needs_another_consent() -> None:
    asking = Asking()
    asking.house.client.headers = CONSENT
    asking.turn()
    asking.house.client.headers = ()
    asking.declare(replace(SPEC, url="https://b.example.com/hook"))
    asking.house.publish()
    asking.turn()
    assert [one.url for one in asking.requests("OPTIONS")] == [
        "https://a.example.com/hook",
        "https://b.example.com/hook",
    ]
    assert asking.requests("POST") == []
    assert asking.condition() == "Pending"


def test_a_disabled_endpoint_requests_no_consent() -> None:
    asking = Asking(spec=replace(SPEC, enabled=False))
    asking.turn()
    assert asking.house.client.sent == []


def test_without_validation_no_consent_is_requested_and_the_condition_is_removed() -> None:
    asking = Asking()
    asking.turn()
    asking.declare(replace(SPEC, validation=Validation.NONE))
    asking.house.publish()
    asking.turn()
    (post,) = asking.requests("POST")
    assert "WebHook-Request-Origin" not in dict(post.headers)
    assert asking.condition() is None


def test_an_unavailable_url_is_tried_again() -> None:
    reference = SecretRef(secret_ref="env:DATARECS_CONN_" + A_TENANT.hex.upper() + "_URL")
    house = WebhookHouse(uses={reference.secret_ref: ("url",)})
    asking = Asking(spec=replace(SPEC, url=None, url_from=reference), house=house)
    asking.turn()
    assert house.client.sent == []
    house.environment[reference.secret_ref.removeprefix("env:")] = "https://a.example.com/secret"
    house.clock.advance(timedelta(minutes=5))
    asking.turn()
    assert [one.url for one in asking.requests("OPTIONS")] == ["https://a.example.com/secret"]


def test_a_late_answer_to_an_older_request_changes_nothing() -> None:
    house = WebhookHouse(answer=lambda _: None)
    asking = Asking(house=house)
    asking.turn()
    asking.declare(replace(SPEC, url="https://b.example.com/hook"))
    house.clock.advance(timedelta(seconds=1))
    client = house.client
    asking.turn()
    assert len(asking.requests("OPTIONS")) == 2
    client.headers = CONSENT
    client._answer = lambda request: OK if "a.example" in request.url else None  # noqa: SLF001  the old one answers
    asking.turn()
    assert asking.condition() == "Pending"
