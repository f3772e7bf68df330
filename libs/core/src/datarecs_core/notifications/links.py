"""Signed links: the report of one run, and the end of mails to one recipient.

The reader has only the link, so it contains what it allows, signed: tenant, run or recipient, time.
Nothing is looked up before the signature is verified. Separate from the mails that carry
links, because core-api reads what the email-notifier writes.
"""

import base64
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from uuid import UUID

from datarecs_core.values import JobId, ResourceUid, RunId, TenantId

MAX_TOKEN = 8_192
MAX_REPORT_AGE = timedelta(days=7)
UNSUBSCRIBE_AGE = timedelta(days=400)
"""Longer than the usual time between a mail and its unsubscribe link."""


class Purpose(StrEnum):
    """Part of what is signed, so that one kind of link never passes for another."""

    REPORT = "report"
    UNSUBSCRIBE = "unsubscribe"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLink:
    """Leave to read the report of one run, without values of rows."""

    tenant_id: TenantId
    run_id: RunId
    issued_at: datetime
    expires_at: datetime

    def is_live(self, now: datetime, revoked_at: datetime | None) -> bool:
        """Whether it may be used; a revocation ends every link that was issued until then."""
        if now >= self.expires_at or self.expires_at - self.issued_at > MAX_REPORT_AGE:
            return False
        return revoked_at is None or self.issued_at > revoked_at


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsubscribeLink:
    """Leave to end mails of some rules to one recipient."""

    tenant_id: TenantId
    recipient: str
    """Hash of the recipient key, as events have it."""
    rules: tuple[ResourceUid, ...]
    job_id: JobId | None
    """The job of the mail; None for a digest."""
    issued_at: datetime


def write_report_link(link: ReportLink, key: bytes) -> str:
    """The token; equal links give equal tokens."""
    return _signed(
        Purpose.REPORT,
        {
            "t": str(link.tenant_id),
            "r": str(link.run_id),
            "i": _seconds(link.issued_at),
            "e": _seconds(link.expires_at),
        },
        key,
    )


def read_report_link(token: str, keys: Sequence[bytes]) -> ReportLink | None:
    """The link of a token that one of the keys signed; None for any other text."""
    claims = _claims(Purpose.REPORT, token, keys)
    if claims is None:
        return None
    return ReportLink(
        tenant_id=TenantId(UUID(str(claims["t"]))),
        run_id=RunId(UUID(str(claims["r"]))),
        issued_at=_moment(claims["i"]),
        expires_at=_moment(claims["e"]),
    )


def write_unsubscribe_link(link: UnsubscribeLink, key: bytes) -> str:
    """The token; equal links give equal tokens."""
    return _signed(
        Purpose.UNSUBSCRIBE,
        {
            "t": str(link.tenant_id),
            "a": link.recipient,
            "u": [str(uid) for uid in link.rules],
            "j": None if link.job_id is None else str(link.job_id),
            "i": _seconds(link.issued_at),
        },
        key,
    )


def read_unsubscribe_link(
    token: str, keys: Sequence[bytes], *, now: datetime
) -> UnsubscribeLink | None:
    """The link of a token that one of the keys signed in the last 400 days; None otherwise."""
    claims = _claims(Purpose.UNSUBSCRIBE, token, keys)
    if claims is None or now - _moment(claims["i"]) > UNSUBSCRIBE_AGE:
        return None
    rules = claims["u"] if isinstance(claims["u"], list) else []
    return UnsubscribeLink(
        tenant_id=TenantId(UUID(str(claims["t"]))),
        recipient=str(claims["a"]),
        rules=tuple(ResourceUid(UUID(str(uid))) for uid in rules),
        job_id=None if claims["j"] is None else JobId(UUID(str(claims["j"]))),
        issued_at=_moment(claims["i"]),
    )


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())


def _moment(seconds: object) -> datetime:
    return datetime.fromtimestamp(int(str(seconds)), tz=UTC)


def _signed(purpose: Purpose, claims: Mapping[str, object], key: bytes) -> str:
    payload = json.dumps(claims, separators=(",", ":")).encode()
    return f"{_text(payload)}.{_text(_signature(purpose, payload, key))}"


def _signature(purpose: Purpose, payload: bytes, key: bytes) -> bytes:
    return hmac.digest(key, purpose.encode() + b"\n" + payload, "sha256")


def _claims(purpose: Purpose, token: str, keys: Sequence[bytes]) -> dict[str, object] | None:
    """The claims of a verified signature; only the platform writes them, so their form is known."""
    payload, signature = map(_bytes, token.partition(".")[::2])
    if len(token) > MAX_TOKEN or payload is None or signature is None:
        return None
    signed = [_signature(purpose, payload, key) for key in keys]
    if not any(hmac.compare_digest(signature, expected) for expected in signed):
        return None
    claims: dict[str, object] = json.loads(payload)
    return claims


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes | None:
    """The one spelling of these bytes; a token with another spelling is an altered one."""
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return None
    return data if _text(data) == text else None
