"""Standard Webhooks 1.0, scheme v1: the form of a secret and of a signature.

Implemented here (the public library misreads times outside UTC and accepts weak keys), and compared
with that library in the tests.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from datarecs_core.values import ResourceUid, TenantId

PREFIX = "whsec_"
SECRET_FIELD = "signing"  # noqa: S105 - the name of the field, not a secret
"""Under which field of the endpoint sealed secrets are stored."""
GENERATED_BYTES = 32
LEAST_BYTES = 24
MOST_BYTES = 64

_EVENT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def new_secret(random_bytes: bytes) -> str:
    """`whsec_` and the base64 of 32 fresh random bytes, shown to its owner once.

    Raises:
        ValueError: not exactly 32 bytes.
    """
    if len(random_bytes) != GENERATED_BYTES:
        raise ValueError(f"a signing secret is made of {GENERATED_BYTES} random bytes")
    return PREFIX + base64.b64encode(random_bytes).decode()


def secret_fault(secret: str) -> str | None:
    """What is wrong with an imported secret, or None; never repeats the secret."""
    try:
        secret_key(secret)
    except ValueError as fault:
        return str(fault)
    return None


def secret_key(secret: str) -> bytes:
    """The key of a `whsec_…` text.

    Raises:
        ValueError: another prefix, no strict base64, or not 24 to 64 bytes.
    """
    if not secret.startswith(PREFIX):
        raise ValueError(f"a signing secret starts with {PREFIX}")
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"what follows {PREFIX} is base64 with padding") from None
    if not LEAST_BYTES <= len(key) <= MOST_BYTES:
        raise ValueError(f"a signing secret holds {LEAST_BYTES} to {MOST_BYTES} bytes")
    return key


def is_signable_id(event_id: str) -> bool:
    """Whether an event id is allowed in signed text: a dot would make the text ambiguous."""
    return _EVENT_ID.fullmatch(event_id) is not None


def sign(keys: Sequence[bytes], *, event_id: str, timestamp: int, body: bytes) -> str:
    """The value of `webhook-signature`: one `v1,<base64>` per key, current key first.

    Args:
        keys: every key that is live at the start of the attempt, at least one.
        event_id: the value of `webhook-id`.
        timestamp: the value of `webhook-timestamp`, Unix seconds of this attempt.
        body: exactly the bytes of the request body.
    """
    signed = b".".join((event_id.encode("ascii"), str(timestamp).encode("ascii"), body))
    return " ".join(
        "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode() for key in keys
    )


CLOCK_TOLERANCE = timedelta(seconds=300)
"""Difference of the two clocks up to which a signature is accepted."""
_TIMESTAMP = re.compile(r"[0-9]{1,12}")


def signature_fault(
    headers: Mapping[str, str], body: bytes, *, key: bytes, now: datetime
) -> str | None:
    """Why a received request is not accepted, or None.

    Args:
        headers: of the request; names in lower case.
        body: exactly its bytes.
        key: of the shared secret.
        now: the time here.
    """
    event_id = headers.get("webhook-id", "")
    timestamp = headers.get("webhook-timestamp", "")
    if not is_signable_id(event_id):
        return "webhook-id: 1 to 64 letters, digits, hyphens and underscores"
    if not _TIMESTAMP.fullmatch(timestamp):
        return "webhook-timestamp: seconds since 1970"
    if abs(now.timestamp() - int(timestamp)) > CLOCK_TOLERANCE.total_seconds():
        return "webhook-timestamp: more than 300 s from the time of this server"
    expected = sign([key], event_id=event_id, timestamp=int(timestamp), body=body).encode()
    signatures = headers.get("webhook-signature", "").split(" ")
    if any(hmac.compare_digest(expected, one.encode("utf-8", "replace")) for one in signatures):
        return None
    return "webhook-signature: not the signature of this body with the secret of this server"


def secret_context(tenant: TenantId, endpoint: ResourceUid, key_id: str) -> Mapping[str, str]:
    """The context of a sealed signing secret, so that a moved ciphertext cannot be decrypted."""
    return {
        "tenant": str(tenant),
        "resource_uid": str(endpoint),
        "field": SECRET_FIELD,
        "version": key_id,
    }
