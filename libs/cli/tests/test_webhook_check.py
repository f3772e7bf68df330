"""Genuine deliveries and everything else: the vectors of the specification, then hostile input."""

import base64
import hashlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from datarecs_cli.webhook_check import TOLERANCE_S, Request, event_of, fault_of
from datarecs_core.webhooks.signature import secret_key, sign

CURRENT = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
PREVIOUS = "whsec_ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8="
EVENT_ID = "019bc0fd-8a3b-7c31-8a52-6f1e2d3c4b5a"
SENT = 1768469405
BODY = (
    '{"specversion":"1.0","id":"019bc0fd-8a3b-7c31-8a52-6f1e2d3c4b5a",'
    '"source":"/datarecs/webhook-service","type":"io.datarecs.webhook.test",'
    '"subject":"webhook-endpoint/019bb000-0000-7000-8000-0000000000e1",'
    '"time":"2026-01-15T09:30:00.123456Z","datacontenttype":"application/json",'
    '"dataschema":"urn:datarecs:schema:webhook.test:1.0",'
    '"partitionkey":"019bb000-0000-7000-8000-0000000000e1",'
    '"tenantid":"019b0000-0000-7000-8000-000000000001",'
    '"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",'
    '"data":{"tenant_id":"019b0000-0000-7000-8000-000000000001",'
    '"endpoint_id":"019bb000-0000-7000-8000-0000000000e1",'
    '"message":"größe","probe":0.010,"requested_by":"user-17"}}'
).encode()
ONE = "v1,Oj91/YJm+SmP1T4+n7cvYh4AkpKwAXAnLYHsD1NM67g="
BOTH = f"{ONE} v1,7NVKyMQGlGrBZRtA7PinxaO8gMeY6u1CizkAk2OS8yM="
KEYS = [secret_key(CURRENT)]


def a_request(body: bytes = BODY, **changed: str) -> Request:
    headers = {
        "webhook-id": EVENT_ID,
        "webhook-timestamp": str(SENT),
        "webhook-signature": ONE,
    }
    return Request(
        headers=headers | {name.replace("_", "-"): value for name, value in changed.items()},
        body=body,
    )


def judged(request: Request, *, now_s: float = SENT) -> str | None:
    return fault_of(request, KEYS, now_s=now_s)


def test_the_vector_is_the_one_of_the_specification() -> None:
    assert len(BODY) == 676
    assert hashlib.sha256(BODY).hexdigest().startswith("850797072a37d2da0ec2443b5f52aea4")


@pytest.mark.parametrize("signature", [ONE, BOTH, f"v2,abc {ONE}", f"  {BOTH}  "])
def test_a_genuine_delivery_has_no_fault(signature: str) -> None:
    assert judged(a_request(webhook_signature=signature)) is None


def test_any_of_the_secrets_may_have_signed_it() -> None:
    keys = [secret_key(PREVIOUS), secret_key(CURRENT)]
    assert fault_of(a_request(), keys, now_s=SENT) is None


@pytest.mark.parametrize("seconds", [-TOLERANCE_S, TOLERANCE_S])
def test_five_minutes_either_way_are_fine(seconds: int) -> None:
    assert judged(a_request(), now_s=SENT + seconds) is None


@pytest.mark.case("X94")
@pytest.mark.parametrize("seconds", [-360, 360])
def test_six_minutes_are_not(seconds: int) -> None:
    assert judged(a_request(), now_s=SENT + seconds) is not None


@pytest.mark.case("X94")
@pytest.mark.parametrize(
    "timestamp", ["", "NaN", "inf", "-1", "1.5", "+1768469405", "١٧٦٨", " 1768469405", "9" * 5000]
)
def test_a_time_that_is_no_number_of_seconds_is_refused(timestamp: str) -> None:
    assert judged(a_request(webhook_timestamp=timestamp)) is not None


@pytest.mark.case("X94")
@pytest.mark.parametrize(
    "signature",
    ["", "v1", "v1,", ONE.removeprefix("v1,"), "v1,!!!", "v2" + ONE[2:], ONE[:-4], f"{ONE}x",
     ONE.replace(",", ";"), "v1,\x00\xff", ","],
)  # fmt: skip
def test_a_malformed_signature_is_refused(signature: str) -> None:
    assert judged(a_request(webhook_signature=signature)) is not None


@pytest.mark.parametrize("event_id", ["", "a.b", "x" * 65, "ü", EVENT_ID + " "])
def test_an_id_that_cannot_be_signed_is_refused(event_id: str) -> None:
    assert judged(a_request(webhook_id=event_id)) is not None


def test_one_altered_byte_is_seen() -> None:
    assert judged(a_request(BODY.replace(b"user-17", b"user-18"))) is not None
    assert judged(a_request(webhook_id=EVENT_ID[:-1] + "b")) is not None
    assert judged(a_request(webhook_timestamp=str(SENT + 1))) is not None


def test_another_secret_is_seen() -> None:
    assert fault_of(a_request(), [secret_key(PREVIOUS)], now_s=SENT) is not None


@pytest.mark.case("X94")
@given(st.text(), st.text(), st.text(), st.binary())
@example("a", "1768469405", "v1," + base64.b64encode(b"\xff" * 32).decode(), b"")
def test_nothing_that_comes_in_is_genuine_or_an_exception(
    event_id: str, timestamp: str, signature: str, body: bytes
) -> None:
    request = a_request(
        body, webhook_id=event_id, webhook_timestamp=timestamp, webhook_signature=signature
    )
    assert judged(request) is not None
    assert isinstance(event_of(request), dict)


def test_the_event_is_read_from_the_body_or_in_binary_mode_from_the_headers() -> None:
    assert event_of(a_request())["type"] == "io.datarecs.webhook.test"
    binary = Request(headers={"ce-type": "io.datarecs.x", "ce-id": "1"}, body=b'{"run_id": "r"}')
    assert event_of(binary) == {"type": "io.datarecs.x", "id": "1", "data": {"run_id": "r"}}
    for body in (b"", b"[]", b"no", b"\xff", b"[" * 100_000):
        assert event_of(Request(headers={}, body=body)) == {}


def test_what_core_signs_verifies_here() -> None:
    signature = sign(KEYS, event_id="a", timestamp=SENT, body=b"{}")
    assert judged(a_request(b"{}", webhook_id="a", webhook_signature=signature)) is None
