from collections.abc import Iterator
from datetime import timedelta

import pytest

from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.egress.urls import UrlRules
from datarecs_core.webhooks.outcome import Outcome, ReceiverWish
from datarecs_outbound.dialling import Dialling, Resolver, system_resolver
from datarecs_outbound.http import MAX_BODY_BYTES, GuardedHttp, GuardedTransport
from datarecs_outbound.webhook import GuardedWebhookClient
from datarecs_testing.conformance.webhook_client import (
    WebhookClientConformance,
    all_ended,
    an_outgoing,
)
from datarecs_testing.receiver import (
    Receiver,
    cut,
    dripping,
    endless,
    status,
    webhook_receiver,
)

pytestmark = pytest.mark.integration

LOCAL = Policy(purpose=Purpose.WEBHOOK, profile=Profile.LOCAL)


def a_client(policy: Policy = LOCAL, resolve: Resolver = system_resolver) -> GuardedWebhookClient:
    return GuardedWebhookClient(
        lambda: GuardedHttp(GuardedTransport(Dialling(policy=policy, resolve=resolve))),
        rules=UrlRules(policy=policy),
    )


@pytest.fixture
def client() -> Iterator[GuardedWebhookClient]:
    made = a_client()
    yield made
    made.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with webhook_receiver() as running:
        yield running


@pytest.fixture
def url(receiver: Receiver) -> str:
    return receiver.url


class TestWebhookClient(WebhookClientConformance):
    pass


def test_the_request_has_the_declared_headers_and_host_and_length_and_no_others(
    client: GuardedWebhookClient, receiver: Receiver
) -> None:
    client.start(an_outgoing(f"{receiver.url}?a=%20b", body=b'{"v":0.010}'))
    all_ended(client, 1)
    (request,) = receiver.requests
    assert request.line == "POST /hook?a=%20b HTTP/1.1"
    assert request.body == b'{"v":0.010}'
    assert {name.lower() for name, _ in request.headers} == {
        *("host", "content-length", "content-type", "webhook-id"),
    }


@pytest.mark.case("W10")
def test_a_line_cut_before_the_status_is_a_protocol_error(
    client: GuardedWebhookClient, receiver: Receiver
) -> None:
    receiver.answers = [cut]
    client.start(an_outgoing(receiver.url))
    (report,) = all_ended(client, 1)
    assert report.end.outcome is Outcome.PROTOCOL_ERROR


@pytest.mark.case("W15")
def test_a_redirect_is_an_outcome_and_never_followed(
    client: GuardedWebhookClient, receiver: Receiver
) -> None:
    receiver.answers = [status(302, Location="http://169.254.169.254/")]
    client.start(an_outgoing(receiver.url))
    (report,) = all_ended(client, 1)
    assert report.end.outcome is Outcome.HTTP_3XX
    assert dict(report.response_headers)["location"] == "http://169.254.169.254/"
    assert receiver.connections == 1


@pytest.mark.case("W18")
def test_a_name_with_one_private_answer_is_blocked_and_only_its_class_is_reported() -> None:
    client = a_client(
        Policy(purpose=Purpose.WEBHOOK), lambda _host, _port: ["93.184.216.34", "10.1.2.3"]
    )
    client.start(an_outgoing("https://hooks.example.com/"))
    (report,) = all_ended(client, 1)
    client.close()
    assert report.end.outcome is Outcome.BLOCKED_ADDRESS
    assert report.address_class == "private"
    assert "10.1" not in repr(report)


@pytest.mark.case("W16")
@pytest.mark.parametrize(
    "url", ["http://169.254.169.254/", "https://2130706433/", "https://a@b/", "https://x.local/"]
)
def test_a_url_that_breaks_the_rules_is_never_dialled(url: str) -> None:
    resolved_names: list[str] = []

    def resolve(host: str, _port: int) -> list[str]:
        resolved_names.append(host)
        return ["127.0.0.1"]

    client = a_client(Policy(purpose=Purpose.WEBHOOK), resolve)
    client.start(an_outgoing(url))
    (report,) = all_ended(client, 1)
    client.close()
    assert report.end.outcome is Outcome.BLOCKED_ADDRESS
    assert resolved_names == []


@pytest.mark.case("W22")
def test_a_dripping_header_ends_at_the_deadline(
    client: GuardedWebhookClient, receiver: Receiver
) -> None:
    receiver.answers = [dripping]
    client.start(an_outgoing(receiver.url, timeout=timedelta(seconds=1)))
    (report,) = all_ended(client, 1)
    assert report.end.outcome is Outcome.TIMEOUT
    assert 500 <= report.phases["total"] <= 1500


@pytest.mark.case("W22")
def test_an_endless_body_is_a_success_read_to_the_cap(
    client: GuardedWebhookClient, receiver: Receiver
) -> None:
    receiver.answers = [endless]
    client.start(an_outgoing(receiver.url))
    (report,) = all_ended(client, 1)
    assert report.end.outcome is Outcome.OK
    assert report.truncated
    assert len(report.response_body) <= MAX_BODY_BYTES
    assert client.in_flight == 0


def test_what_a_receiver_requests_comes_back(
    client: GuardedWebhookClient, receiver: Receiver
) -> None:
    receiver.answers = [status(429, Retry_After="7200", webhook_delivery="abort-message")]
    client.start(an_outgoing(receiver.url))
    (report,) = all_ended(client, 1)
    assert (report.end.outcome, report.end.status) == (Outcome.HTTP_429, 429)
    assert report.end.retry_after == "7200"
    assert report.end.wish is ReceiverWish.ABORT_MESSAGE


def test_closing_cuts_what_is_under_way(receiver: Receiver) -> None:
    receiver.answers = [dripping]
    client = a_client()
    client.start(an_outgoing(receiver.url, timeout=timedelta(seconds=30)))
    receiver.wait_for(1)
    client.close()
