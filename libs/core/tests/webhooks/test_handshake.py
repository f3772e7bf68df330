from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from datarecs_core.values import ResourceUid, TenantId
from datarecs_core.webhooks.endpoint import Limits, SecretRef, Validation, WebhookEndpoint
from datarecs_core.webhooks.handshake import (
    CallbackToken,
    Consent,
    Handshake,
    begin_handshake,
    current_handshake,
    decide_answer,
    grant,
    rate_granted,
    read_callback_token,
)

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
SPEC = WebhookEndpoint(
    url="https://a.example.com/hook",
    validation=Validation.HANDSHAKE,
    limits=Limits(rate_per_minute=600),
)
ORIGIN = "recs.example.com"
SECRET = bytes(range(32))
TOKEN = CallbackToken(
    tenant_id=TenantId(UUID(int=1)), endpoint_uid=ResourceUid(UUID(int=2)), secret=SECRET
)


def begun() -> Handshake:
    return begin_handshake(None, SPEC, secret=SECRET, now=NOON)


def answered(status: int | None = 200, **headers: str) -> Handshake:
    sent = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return decide_answer(begun(), status=status, headers=sent, origin=ORIGIN, now=NOON)


@pytest.mark.case("W26")
@pytest.mark.parametrize(
    ("status", "headers", "expected"),
    [
        (405, {"WebHook_Allowed_Origin": "*"}, Consent.GRANTED),
        (200, {"webhook_allowed_origin": "RECS.example.com"}, Consent.GRANTED),
        (200, {"WebHook_Allowed_Origin": "other.example.com"}, Consent.PENDING),
        (200, {}, Consent.PENDING),
        (None, {"WebHook_Allowed_Origin": "*"}, Consent.PENDING),
    ],
)
def test_the_headers_of_the_answer_decide_not_its_status(
    status: int | None, headers: dict[str, str], expected: Consent
) -> None:
    assert answered(status, **headers).consent(NOON) is expected


@pytest.mark.case("W26")
@pytest.mark.parametrize(
    ("header", "rate"),
    [("60", 60), ("6000", 600), ("*", 600), (None, 600), ("0", 600), ("-1", 600), ("fast", 600)],
)
def test_the_allowed_rate_limits_the_rate_of_the_endpoint(header: str | None, rate: int) -> None:
    assert rate_granted(grant(begun(), header, now=NOON), 600) == rate


def test_without_a_rate_header_the_requested_rate_applies() -> None:
    granted = grant(begun(), None, now=NOON)
    assert rate_granted(granted, 6_000) == 600
    assert rate_granted(grant(begun(), "*", now=NOON), 6_000) == 6_000


def test_a_repeated_consent_preserves_the_first_rate() -> None:
    granted = grant(begun(), "60", now=NOON)
    assert grant(granted, "*", now=NOON + HOUR) == granted
    late = decide_answer(
        granted, status=200, headers=[("webhook-allowed-origin", "*")], origin=ORIGIN, now=NOON
    )
    assert late == granted


def test_a_day_without_consent_is_a_refusal() -> None:
    request = answered(200)
    assert request.consent(NOON + DAY - HOUR) is Consent.PENDING
    assert request.next_check(NOON) == NOON + DAY
    assert request.consent(NOON + DAY) is Consent.REFUSED
    assert request.next_check(NOON + DAY) is None
    assert not request.is_due(NOON + DAY)


def test_a_request_without_an_answer_is_repeated_and_preserves_its_start() -> None:
    request = begun()
    later = NOON + timedelta(minutes=5)
    assert not request.is_due(later - timedelta(seconds=1))
    assert request.is_due(later)
    again = begin_handshake(request, SPEC, secret=bytes(32), now=later)
    assert (again.began_at, again.sent_at) == (NOON, later)
    assert not TOKEN.opens(again, now=later)
    assert not answered(404).is_due(later)


def test_a_new_address_or_a_disabling_requires_a_new_consent() -> None:
    granted = grant(begun(), "*", now=NOON)
    assert current_handshake(granted, SPEC, disabled_at=None) == granted
    moved = replace(SPEC, url="https://b.example.com/hook")
    assert current_handshake(granted, moved, disabled_at=None) is None
    secret = replace(SPEC, url=None, url_from=SecretRef(secret_ref="env:X"))
    assert current_handshake(granted, secret, disabled_at=None) is None
    slower = replace(SPEC, limits=Limits(rate_per_minute=1))
    assert current_handshake(granted, slower, disabled_at=None) == granted
    assert current_handshake(granted, SPEC, disabled_at=NOON - HOUR) == granted
    assert current_handshake(granted, SPEC, disabled_at=NOON + HOUR) is None


def test_a_token_is_valid_for_its_handshake_for_a_day() -> None:
    read = read_callback_token(TOKEN.text())
    assert read == TOKEN
    assert TOKEN.opens(begun(), now=NOON + DAY - HOUR)
    assert not TOKEN.opens(begun(), now=NOON + DAY)
    assert not replace(TOKEN, secret=bytes(32)).opens(begun(), now=NOON)


@pytest.mark.parametrize(
    "text", ["", "x", "ä" * 86, TOKEN.text() + "AAAA", TOKEN.text()[:-2], "=" * 9]
)
def test_any_other_text_is_no_token(text: str) -> None:
    assert read_callback_token(text) is None
