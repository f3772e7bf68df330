"""The consent of a receiver: CloudEvents' abuse protection for webhooks (HTTP webhook 1.0, 4).

The receiver is asked by OPTIONS and consents in its answer, or within a day by calling back. Apart
from `health`, because a consent belongs to a URL and not to how well it answers.
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
"""How long a receiver may take; the callback answers as long."""
REPEAT_AFTER = timedelta(minutes=5)
"""When a request is repeated that got no answer at all."""
SECRET_BYTES = 32
ALLOWED_ORIGIN, ALLOWED_RATE = "webhook-allowed-origin", "webhook-allowed-rate"

_RATE = re.compile(r"[0-9]{1,9}")
_ID_BYTES = 16


class Consent(StrEnum):
    PENDING = "Pending"
    GRANTED = "Granted"
    REFUSED = "Refused"
    """No consent came within a day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handshake:
    """One request for consent to send to one address."""

    address_hash: str
    """Of the URL, or of the reference to it."""
    began_at: datetime
    sent_at: datetime
    """When OPTIONS was sent last."""
    token_hash: str
    """Of the secret in the callback's URL."""
    requested_rate: int
    """Attempts per minute that were asked for."""
    answer: str | None = None
    """How OPTIONS was answered, for people; None while it was not."""
    granted_at: datetime | None = None
    allowed_rate: int | None = None
    """Attempts per minute that were allowed; None for any."""

    def consent(self, now: datetime) -> Consent:
        if self.granted_at is not None:
            return Consent.GRANTED
        return Consent.PENDING if now < self.ends_at else Consent.REFUSED

    @property
    def ends_at(self) -> datetime:
        return self.began_at + CONSENT_WITHIN

    def is_due(self, now: datetime) -> bool:
        """Whether OPTIONS is to be sent again, because nobody answered."""
        moment = self.next_check(now)
        return self.consent(now) is Consent.PENDING and moment is not None and moment <= now

    def next_check(self, now: datetime) -> datetime | None:
        """When the endpoint is to be claimed for its consent; None once that is decided."""
        if self.consent(now) is not Consent.PENDING:
            return None
        is_answered = self.answer is not None
        return self.ends_at if is_answered else min(self.ends_at, self.sent_at + REPEAT_AFTER)


def address_hash(spec: WebhookEndpoint) -> str:
    """Another URL, or another reference to one, needs another consent."""
    reference = "" if spec.url_from is None else spec.url_from.secret_ref
    return sha256_hex(f"{spec.url or ''}\n{reference}".encode())


def needs_consent(spec: WebhookEndpoint) -> bool:
    return spec.validation is Validation.HANDSHAKE


def current_handshake(
    handshake: Handshake | None, spec: WebhookEndpoint, *, disabled_at: datetime | None
) -> Handshake | None:
    """The handshake if it is about today's address and not from before the endpoint went off."""
    if handshake is None or handshake.address_hash != address_hash(spec):
        return None
    is_older = disabled_at is not None and handshake.began_at < disabled_at
    return None if is_older else handshake


def begin_handshake(
    before: Handshake | None, spec: WebhookEndpoint, *, secret: bytes, now: datetime
) -> Handshake:
    """A request that is about to be sent; a repeated one keeps its beginning.

    Args:
        before: the current handshake, if it is repeated.
        spec: of the endpoint.
        secret: 32 random bytes, which stand in the callback's URL.
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
    """The handshake after an answer to OPTIONS; the headers decide, whatever the status.

    Args:
        handshake: as the request was sent; one that was granted meanwhile stays.
        status: of the answer; None when none came.
        headers: of the answer.
        origin: as it was sent in `WebHook-Request-Origin`.
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
    """Consent, in the answer or by callback, with the rate of its header; repeated it is kept."""
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
    """The endpoint's rate, at most what its receiver allowed."""
    allowed = handshake.allowed_rate
    return rate_per_minute if allowed is None else min(allowed, rate_per_minute)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackToken:
    """What the callback's URL says: which endpoint, and the secret that was sent there alone."""

    tenant_id: TenantId
    endpoint_uid: ResourceUid
    secret: bytes

    def text(self) -> str:
        parts = self.tenant_id.bytes + self.endpoint_uid.bytes + self.secret
        return base64.urlsafe_b64encode(parts).decode().rstrip("=")

    def opens(self, handshake: Handshake, *, now: datetime) -> bool:
        """Whether it is the token of this handshake, within its day."""
        is_same = hmac.compare_digest(sha256_hex(self.secret), handshake.token_hash)
        return is_same and now < handshake.ends_at


def read_callback_token(text: str) -> CallbackToken | None:
    """The token of a callback's URL; None for any other text."""
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
    """What OPTIONS carries besides what every request does."""
    return {
        "WebHook-Request-Origin": origin,
        "WebHook-Request-Rate": str(handshake.requested_rate),
        "WebHook-Request-Callback": callback,
    }
