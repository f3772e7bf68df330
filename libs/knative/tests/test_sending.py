"""Posts to the ingress of a Broker."""

from datetime import timedelta

import httpx
import pytest

from datarecs_application.ports.messaging import NotSent, SendOutcome, Sent
from datarecs_knative.http_headers import http_headers, log_headers
from datarecs_knative.sending import BrokerIngress

URL = "http://broker.test/recon/default"
HEADERS = (
    ("ce_id", b"1"),
    ("ce_subject", "run/1 é%".encode()),
    ("content-type", b"application/json"),
)


def sent(answer: httpx.Response | Exception) -> tuple[SendOutcome, list[httpx.Request]]:
    requests: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    producer = BrokerIngress(URL, transport=httpx.MockTransport(handle)).producer()
    ack = producer.send("a-topic", key=b"k", value=b"{}", headers=HEADERS)
    outcome = ack.wait(timedelta(seconds=10))
    assert ack.done()
    producer.close()
    return outcome, requests


def test_an_event_is_posted_in_binary_mode() -> None:
    outcome, (request,) = sent(httpx.Response(202))
    assert isinstance(outcome, Sent)
    assert (request.method, str(request.url), request.content) == ("POST", URL, b"{}")
    assert request.headers["ce-id"] == "1"
    assert request.headers["ce-subject"] == "run/1%20%C3%A9%25"
    assert request.headers["content-type"] == "application/json"


@pytest.mark.parametrize("status", [400, 413, 415, 422])
def test_an_event_that_the_broker_never_takes_is_parked(status: int) -> None:
    outcome, _ = sent(httpx.Response(status, text="no"))
    assert isinstance(outcome, NotSent)
    assert (outcome.permanent, str(status) in outcome.reason, URL in outcome.reason) == (True,) * 3


@pytest.mark.parametrize(
    "answer",
    [httpx.Response(status) for status in (302, 401, 403, 404, 408, 429, 500, 503)]
    + [httpx.ConnectError("refused"), httpx.ReadTimeout("slow")],
)
def test_everything_else_is_sent_again(answer: httpx.Response | Exception) -> None:
    outcome, _ = sent(answer)
    assert isinstance(outcome, NotSent)
    assert not outcome.permanent


def test_headers_survive_the_way_over_http() -> None:
    over = http_headers(HEADERS).items()
    assert log_headers(over) == HEADERS
