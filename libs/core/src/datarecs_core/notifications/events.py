"""What became of the mails about a run: sent, failed or left out; recipients only as a hash."""

from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from datarecs_core.fields import Known
from datarecs_core.values import JobId, RunId, TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class MailEvent:
    """What every event about a mail carries."""

    run_id: RunId
    """The run the mail is about; the key of the topic."""
    job_id: JobId
    """The uid of its reconciliation job."""
    tenant_id: TenantId
    """The owner, equal to the envelope's `tenantid`."""
    recipient_count: int
    """1 for a mail; 0 where a rule was held back or none matched."""
    recipient_hash: str
    """Keyed hash of the recipient, never the address; empty where there is none."""
    detail_level: str
    """How much the mail contains."""
    status: Annotated[str, Known(("sent", "failed", "unknown", "skipped"))]
    """How it ended."""
    delivery_id: UUID | None = None
    """The row of the mail queue."""
    kind: str | None = None
    """What sort of mail it is."""
    rule_names: tuple[str, ...] | None = None
    """The notification rules that matched."""
    attempts: int | None = None
    """Attempts made."""
    message_id: str | None = None
    """The mail's Message-ID."""
    error_message: str | None = None
    """Why it failed, redacted."""
    skip_reason: str | None = None
    """Why it was left out, a word in lower case such as `min_interval`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationEmailSent(MailEvent):
    """The mail server took the mail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationEmailFailed(MailEvent):
    """The mail was given up, or its result is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationEmailSkipped(MailEvent):
    """No mail left: an unsubscribed recipient, a held rule, or no rule that matched."""
