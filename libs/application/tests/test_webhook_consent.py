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
class ConsentCase:
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
    case = ConsentCase()
    case.house.client.headers = CONSENT
    case.house.publish()
    case.turn()
    first, *others = case.house.client.sent
    assert (first.method, first.url, first.body) == ("OPTIONS", SPEC.url, b"")
    headers = dict(first.headers)
    assert headers["WebHook-Request-Origin"] == "recs.example.com"
    assert headers["WebHook-Request-Rate"] == "600"
    assert headers["WebHook-Request-Callback"].startswith(CALLBACK)
    assert [one.method for one in others] == ["POST"]
    assert dict(others[0].headers)["WebHook-Request-Origin"] == "recs.example.com"
    (delivery,) = case.house.deliveries(case.endpoint)
    assert delivery.state is DeliveryState.SUCCEEDED
    assert (case.condition(), case.condition("Ready")) == ("Granted", "Enabled")


@pytest.mark.case("W26")
def test_nothing_is_sent_before_the_callback_and_its_rate_applies() -> None:
    case = ConsentCase()
    for _ in range(100):
        case.house.publish()
    case.turn()
    assert case.requests("POST") == []
    assert (case.condition(), case.condition("Ready")) == ("Pending", "NotValidated")
    (request,) = case.requests("OPTIONS")
    assert case.call_back(request, rate="60")
    for _ in range(60):
        case.house.run(case.loop, turns=5)
        case.house.clock.advance(timedelta(seconds=1))
    sent = case.requests("POST")
    assert 60 <= len(sent) <= 60 + 6
    assert {dict(one.headers)["WebHook-Request-Origin"] for one in sent} == {"recs.example.com"}
    assert case.condition() == "Granted"


@pytest.mark.case("R64")
@pytest.mark.case("W26")
def test_no_test_is_sent_before_consent() -> None:
    case = ConsentCase()
    house = case.house
    with house.unit.begin(A_TENANT, feed=8) as tx:
        action = WebhookAction(
            tenant_id=A_TENANT,
            action_id=house.store.ids.new(),
            endpoint_uid=case.endpoint.uid,
            kind=Origin.TEST,
            requested_by="u-ana",
            created_at=tx.now,
            expected=1,
        )
        tx.webhook_actions.add(action)
    house.expand()
    case.turn()
    assert case.requests("POST") == []
    state = house.store.committed(A_TENANT).delivery.endpoints[case.endpoint.uid]
    assert state.next_claim_at is not None
    assert state.next_claim_at > house.clock.now()


def test_after_a_day_without_consent_the_endpoint_is_refused_until_it_is_enabled() -> None:
    case = ConsentCase()
    case.turn()
    (request,) = case.requests("OPTIONS")
    case.house.clock.advance(DAY)
    assert not case.call_back(request)
    case.turn()
    assert case.condition() == "Refused"
    assert len(case.requests("OPTIONS")) == 1
    endpoint = case.endpoint
    with case.house.unit.begin(A_TENANT) as tx:
        facts = EndpointFacts(uid=endpoint.uid, created_at=endpoint.created_at, spec=SPEC)
        record_enabled(tx, facts)
    case.house.client.headers = CONSENT
    case.turn()
    assert len(case.requests("OPTIONS")) == 2
    assert case.condition() == "Granted"


def test_a_request_without_an_answer_is_repeated_every_five_minutes() -> None:
    house = WebhookHouse(answer=lambda _: AttemptEnd(outcome=Outcome.TIMEOUT))
    case = ConsentCase(house=house)
    case.turn()
    house.clock.advance(timedelta(minutes=4))
    case.turn()
    assert len(case.requests("OPTIONS")) == 1
    house.clock.advance(timedelta(minutes=1))
    case.turn()
    old, new = case.requests("OPTIONS")
    assert not case.call_back(old)
    assert case.call_back(new)
    house.client._answer = lambda _: OK  # noqa: SLF001  the receiver is back
    house.publish()
    case.turn()
    assert len(case.requests("POST")) == 1


def test_another_url_needs_another_consent() -> None:
    case = ConsentCase()
    case.house.client.headers = CONSENT
    case.turn()
    case.house.client.headers = ()
    case.declare(replace(SPEC, url="https://b.example.com/hook"))
    case.house.publish()
    case.turn()
    assert [one.url for one in case.requests("OPTIONS")] == [
        "https://a.example.com/hook",
        "https://b.example.com/hook",
    ]
    assert case.requests("POST") == []
    assert case.condition() == "Pending"


def test_a_disabled_endpoint_requests_no_consent() -> None:
    case = ConsentCase(spec=replace(SPEC, enabled=False))
    case.turn()
    assert case.house.client.sent == []


def test_without_validation_no_consent_is_requested_and_the_condition_is_removed() -> None:
    case = ConsentCase()
    case.turn()
    case.declare(replace(SPEC, validation=Validation.NONE))
    case.house.publish()
    case.turn()
    (post,) = case.requests("POST")
    assert "WebHook-Request-Origin" not in dict(post.headers)
    assert case.condition() is None


def test_an_unavailable_url_is_tried_again() -> None:
    reference = SecretRef(secret_ref="env:DATARECS_CONN_" + A_TENANT.hex.upper() + "_URL")
    house = WebhookHouse(uses={reference.secret_ref: ("url",)})
    case = ConsentCase(spec=replace(SPEC, url=None, url_from=reference), house=house)
    case.turn()
    assert house.client.sent == []
    house.environment[reference.secret_ref.removeprefix("env:")] = "https://a.example.com/secret"
    house.clock.advance(timedelta(minutes=5))
    case.turn()
    assert [one.url for one in case.requests("OPTIONS")] == ["https://a.example.com/secret"]


def test_a_late_answer_to_an_older_request_changes_nothing() -> None:
    house = WebhookHouse(answer=lambda _: None)
    case = ConsentCase(house=house)
    case.turn()
    case.declare(replace(SPEC, url="https://b.example.com/hook"))
    house.clock.advance(timedelta(seconds=1))
    client = house.client
    case.turn()
    assert len(case.requests("OPTIONS")) == 2
    client.headers = CONSENT
    client._answer = lambda request: OK if "a.example" in request.url else None  # noqa: SLF001  the old one answers
    case.turn()
    assert case.condition() == "Pending"
