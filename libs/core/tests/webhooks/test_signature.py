import base64
import hashlib
from datetime import UTC, datetime
from uuid import UUID

import pytest
import standardwebhooks

from datarecs_core.values import ResourceUid, TenantId
from datarecs_core.webhooks.endpoint import Format
from datarecs_core.webhooks.payload import Message, payload
from datarecs_core.webhooks.signature import (
    is_signable_id,
    new_secret,
    secret_context,
    secret_fault,
    secret_key,
    sign,
)

CURRENT = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
PREVIOUS = "whsec_ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8="
EVENT_ID = "019bc0fd-8a3b-7c31-8a52-6f1e2d3c4b5a"
TIMESTAMP = 1768469405
DATA = (
    '{"tenant_id":"019b0000-0000-7000-8000-000000000001",'
    '"endpoint_id":"019bb000-0000-7000-8000-0000000000e1",'
    '"message":"größe","probe":0.010,"requested_by":"user-17"}'
).encode()
MESSAGE = Message(
    attributes={
        "id": EVENT_ID,
        "specversion": "1.0",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "source": "/datarecs/webhook-service",
        "type": "io.datarecs.webhook.test",
        "subject": "webhook-endpoint/019bb000-0000-7000-8000-0000000000e1",
        "time": "2026-01-15T09:30:00.123456Z",
        "datacontenttype": "application/json",
        "dataschema": "urn:datarecs:schema:webhook.test:1.0",
        "partitionkey": "019bb000-0000-7000-8000-0000000000e1",
        "tenantid": "019b0000-0000-7000-8000-000000000001",
    },
    data=DATA,
)


def body(form: Format) -> bytes:
    return payload(MESSAGE, form).body


def signature(form: Format, *secrets: str, timestamp: int = TIMESTAMP) -> str:
    keys = [secret_key(secret) for secret in secrets]
    return sign(keys, event_id=EVENT_ID, timestamp=timestamp, body=body(form))


def verify(secret: str, sent: bytes, *, event_id: str, timestamp: int, signed: str) -> None:
    """By the public library, at the moment of signing."""
    hook = standardwebhooks.Webhook(secret)
    # The vector's time is long past.
    vars(hook)["_Webhook__verify_timestamp"] = lambda text: datetime.fromtimestamp(
        int(text), tz=UTC
    )
    hook.verify(
        sent,
        {
            "webhook-id": event_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signed,
        },
    )


@pytest.mark.case("W01")
def test_the_structured_body_of_the_vector_is_byte_identical() -> None:
    sent = body(Format.STRUCTURED)
    assert len(sent) == 676
    digest = hashlib.sha256(sent).hexdigest()
    assert digest == "850797072a37d2da0ec2443b5f52aea48f508fb1a66d7d5644ed00c06a9bd362"


@pytest.mark.case("W01")
@pytest.mark.parametrize(
    ("form", "secrets", "timestamp", "expected"),
    [
        (
            Format.STRUCTURED,
            [CURRENT],
            TIMESTAMP,
            "v1,Oj91/YJm+SmP1T4+n7cvYh4AkpKwAXAnLYHsD1NM67g=",
        ),
        (
            Format.STRUCTURED,
            [CURRENT, PREVIOUS],
            TIMESTAMP,
            (
                "v1,Oj91/YJm+SmP1T4+n7cvYh4AkpKwAXAnLYHsD1NM67g= "
                "v1,7NVKyMQGlGrBZRtA7PinxaO8gMeY6u1CizkAk2OS8yM="
            ),
        ),
        (
            Format.STRUCTURED,
            [CURRENT],
            1768469711,
            "v1,Sg1MN4cnEpEXJ1n52jjP9p00XmRjwWBqWZZyLdBctOg=",
        ),
        (Format.BINARY, [CURRENT], TIMESTAMP, "v1,sALygqPFzzbCNF2Yls8yy+uqbpZIkruIvvXKg7gbhzo="),
    ],
)
def test_the_four_vectors_are_reproduced_and_the_public_library_verifies_them(
    form: Format, secrets: list[str], timestamp: int, expected: str
) -> None:
    signed = signature(form, *secrets, timestamp=timestamp)
    assert signed == expected
    for secret in secrets:
        verify(secret, body(form), event_id=EVENT_ID, timestamp=timestamp, signed=signed)


@pytest.mark.case("W01")
@pytest.mark.parametrize("changed", ["body", "id", "timestamp"])
def test_one_changed_part_fails_verification(changed: str) -> None:
    signed = signature(Format.STRUCTURED, CURRENT)
    sent = body(Format.STRUCTURED)
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        verify(
            CURRENT,
            sent[:-1] + b" }" if changed == "body" else sent,
            event_id=EVENT_ID[:-1] + "b" if changed == "id" else EVENT_ID,
            timestamp=TIMESTAMP + (changed == "timestamp"),
            signed=signed,
        )


@pytest.mark.case("X95")
def test_our_signature_is_the_public_librarys_at_a_utc_time() -> None:
    hook = standardwebhooks.Webhook(CURRENT)
    moment = datetime.fromtimestamp(TIMESTAMP, tz=UTC)
    theirs = hook.sign(EVENT_ID, moment, body(Format.STRUCTURED).decode())
    assert signature(Format.STRUCTURED, CURRENT) == theirs


@pytest.mark.case("X95")
def test_a_secret_of_four_bytes_is_refused_without_repeating_it() -> None:
    weak = "whsec_" + base64.b64encode(b"weak").decode()
    fault = secret_fault(weak)
    assert fault is not None
    assert weak not in fault


@pytest.mark.parametrize(
    "secret",
    ["AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "whsec_%%%", "whsec_AAEC AwQF", "whsec_"],
)
def test_a_malformed_secret_is_refused(secret: str) -> None:
    assert secret_fault(secret)


def test_imported_secrets_of_24_to_64_bytes_are_taken() -> None:
    for size in (24, 64):
        assert secret_fault("whsec_" + base64.b64encode(bytes(size)).decode()) is None
    for size in (23, 65):
        assert secret_fault("whsec_" + base64.b64encode(bytes(size)).decode())


def test_a_generated_secret_holds_the_32_random_bytes() -> None:
    assert new_secret(bytes(range(32))) == CURRENT
    with pytest.raises(ValueError, match="32 random bytes"):
        new_secret(b"short")


@pytest.mark.case("W39")
@pytest.mark.parametrize("event_id", ["a.b", "", "ü", "x" * 65, "a b"])
def test_an_id_that_would_make_signed_text_ambiguous_is_refused(event_id: str) -> None:
    assert not is_signable_id(event_id)


@pytest.mark.case("X95")
def test_an_event_id_with_a_dot_is_refused_and_a_uuid_is_not() -> None:
    assert not is_signable_id("019bc0fd.8a3b")
    assert is_signable_id(EVENT_ID)


def test_a_sealed_secret_is_bound_to_tenant_endpoint_field_and_key() -> None:
    context = secret_context(TenantId(UUID(int=1)), ResourceUid(UUID(int=2)), "k1")
    assert list(context) == ["tenant", "resource_uid", "field", "version"]
