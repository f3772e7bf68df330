"""The consent of a receiver: abuse protection of CloudEvents for webhooks (HTTP webhook 1.0, 4).

The platform sends OPTIONS; the receiver consents in its answer, or with a callback within a day.
Separate from `health`, because a consent belongs to a URL, not to its failures.
"""

import base64
import binascii
import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from datarecs_core.hashing import sha256_hex
from datarecs_core.values import ResourceUid, TenantId
from datarecs_core.webhooks.endpoint import Validation, WebhookEndpoint

CONSENT_WITHIN = timedelta(hours=24)
"""How long a receiver has to consent, by answer or callback."""
REPEAT_AFTER = timedelta(minutes=5)
"""After this time a request without an answer is repeated."""
SECRET_BYTES = 32
ALLOWED_ORIGIN, ALLOWED_RATE = "webhook-allowed-origin", "webhook-allowed-rate"

_RATE = re.compile(r"[0-9]{1,9}")
_ID_BYTES = 16


class Consent(StrEnum):
    PENDING = "Pending"
    GRANTED = "Granted"
    REFUSED = "Refused"
    """No consent within a day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handshake:
    """One request for consent to send to one address."""

    address_hash: str
    """Hash of the URL, or of the reference to it."""
    began_at: datetime
    sent_at: datetime
    """Time of the last OPTIONS."""
    token_hash: str
    """Hash of the secret in the callback URL."""
    requested_rate: int
    """Requested attempts per minute."""
    answer: str | None = None
    """The answer to OPTIONS, for people; None without an answer."""
    granted_at: datetime | None = None
    allowed_rate: int | None = None
    """Allowed attempts per minute; None: no limit."""

    def consent(self, now: datetime) -> Consent:
        if self.granted_at is not None:
            return Consent.GRANTED
        return Consent.PENDING if now < self.ends_at else Consent.REFUSED

    @property
    def ends_at(self) -> datetime:
        return self.began_at + CONSENT_WITHIN

    def is_due(self, now: datetime) -> bool:
        """Whether OPTIONS must be sent again, because there is no answer."""
        moment = self.next_check(now)
        return self.consent(now) is Consent.PENDING and moment is not None and moment <= now

    def next_check(self, now: datetime) -> datetime | None:
        """When to claim the endpoint for its consent; None after the decision."""
        if self.consent(now) is not Consent.PENDING:
            return None
        is_answered = self.answer is not None
        return self.ends_at if is_answered else min(self.ends_at, self.sent_at + REPEAT_AFTER)


def address_hash(spec: WebhookEndpoint) -> str:
    """Identifies the address; a new URL or reference needs a new consent."""
    reference = "" if spec.url_from is None else spec.url_from.secret_ref
    return sha256_hex(f"{spec.url or ''}\n{reference}".encode())


def needs_consent(spec: WebhookEndpoint) -> bool:
    return spec.validation is Validation.HANDSHAKE


def current_handshake(
    handshake: Handshake | None, spec: WebhookEndpoint, *, disabled_at: datetime | None
) -> Handshake | None:
    """The handshake, if it has the current address and began after the last disabling."""
    if handshake is None or handshake.address_hash != address_hash(spec):
        return None
    is_older = disabled_at is not None and handshake.began_at < disabled_at
    return None if is_older else handshake


def begin_handshake(
    before: Handshake | None, spec: WebhookEndpoint, *, secret: bytes, now: datetime
) -> Handshake:
    """A request to send; a repeated request keeps `began_at`.

    Args:
        before: the current handshake, if its request is repeated.
        spec: of the endpoint.
        secret: 32 random bytes for the callback URL.
        now: database time.
    """
    return Handshake(
        address_hash=address_hash(spec),
        began_at=now if before is None else before.began_at,
        sent_at=now,
        token_hash=sha256_hex(secret),
        requested_rate=spec.limits.rate_per_minute,
    )


def decide_answer(
    handshake: Handshake,
    *,
    status: int | None,
    headers: Iterable[tuple[str, str]],
    origin: str,
    now: datetime,
) -> Handshake:
    """The handshake after an answer to OPTIONS; the headers decide, not the status.

    Args:
        handshake: of the request; one that is already granted stays unchanged.
        status: of the answer; None without an answer.
        headers: of the answer.
        origin: value of `WebHook-Request-Origin` in the request.
        now: database time.
    """
    if status is None or handshake.granted_at is not None:
        return handshake
    by_name = {name.lower(): value.strip() for name, value in headers}
    allowed = by_name.get(ALLOWED_ORIGIN)
    if allowed is None:
        return replace(handshake, answer=f"HTTP {status} without WebHook-Allowed-Origin")
    if allowed != "*" and allowed.lower() != origin.lower():
        return replace(handshake, answer=f"HTTP {status}, WebHook-Allowed-Origin is not {origin}")
    answered = replace(handshake, answer=f"HTTP {status}")
    return grant(answered, by_name.get(ALLOWED_RATE), now=now)


def grant(handshake: Handshake, rate: str | None, *, now: datetime) -> Handshake:
    """Grant consent with the rate of the header; a repeated grant changes nothing."""
    if handshake.granted_at is not None:
        return handshake
    text = (rate or "").strip()
    allowed: int | None = handshake.requested_rate
    if text == "*":
        allowed = None
    elif _RATE.fullmatch(text) and int(text) >= 1:
        allowed = int(text)
    return replace(handshake, granted_at=now, allowed_rate=allowed)


def rate_granted(handshake: Handshake, rate_per_minute: int) -> int:
    """The endpoint's rate, limited by the rate that its receiver allowed."""
    allowed = handshake.allowed_rate
    return rate_per_minute if allowed is None else min(allowed, rate_per_minute)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackToken:
    """Content of the callback URL: the endpoint, and a secret that only its receiver knows."""

    tenant_id: TenantId
    endpoint_uid: ResourceUid
    secret: bytes

    def text(self) -> str:
        parts = self.tenant_id.bytes + self.endpoint_uid.bytes + self.secret
        return base64.urlsafe_b64encode(parts).decode().rstrip("=")

    def opens(self, handshake: Handshake, *, now: datetime) -> bool:
        """Whether it is the token of this handshake and its day has not ended."""
        is_same = hmac.compare_digest(sha256_hex(self.secret), handshake.token_hash)
        return is_same and now < handshake.ends_at


def read_callback_token(text: str) -> CallbackToken | None:
    """The token of a callback URL; None for any other text."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    if len(data) != 2 * _ID_BYTES + SECRET_BYTES:
        return None
    return CallbackToken(
        tenant_id=TenantId(UUID(bytes=data[:_ID_BYTES])),
        endpoint_uid=ResourceUid(UUID(bytes=data[_ID_BYTES : 2 * _ID_BYTES])),
        secret=data[2 * _ID_BYTES :],
    )


def request_headers(handshake: Handshake, *, origin: str, callback: str) -> Mapping[str, str]:
    """Headers of OPTIONS, in addition to the common ones."""
    return {
        "WebHook-Request-Origin": origin,
        "WebHook-Request-Rate": str(handshake.requested_rate),
        "WebHook-Request-Callback": callback,
    }
