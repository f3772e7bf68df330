"""What bounces and complaints mean for an address: when it gets no further mail, and for how long.

Separate from `replies`, because reports also arrive long after the relay accepted a mail.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

SOFT_BOUNCES = 5
"""Temporary refusals after which an address is suppressed for a while."""
COUNTED_FOR = timedelta(days=14)
"""How long a temporary refusal counts."""
PAUSE = timedelta(days=7)
"""How long an address with too many temporary refusals gets no mail."""


class ReportKind(StrEnum):
    BOUNCE = "bounce"
    COMPLAINT = "complaint"
    """The recipient marked a mail as spam."""


class SuppressionReason(StrEnum):
    """Why an address gets no mail."""

    HARD_BOUNCE = "HARD_BOUNCE"
    """The address does not exist."""
    SOFT_BOUNCES = "SOFT_BOUNCES"
    """Too many temporary refusals."""
    COMPLAINT = "COMPLAINT"


@dataclass(frozen=True, slots=True, kw_only=True)
class MailReport:
    """One bounce or complaint of an address."""

    report_id: str
    """The same for every copy of the report."""
    recipient_key: str
    kind: ReportKind
    permanent: bool = False
    """Of a bounce: the address does not exist. A mailbox that is full is not permanent."""
    text: str = ""
    """What the mail system wrote, for the list of addresses."""

    @property
    def is_soft_bounce(self) -> bool:
        return self.kind is ReportKind.BOUNCE and not self.permanent


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSuppression:
    recipient_key: str
    reason: SuppressionReason
    text: str
    ends_at: datetime | None
    """None: until an administrator removes it."""


def decide_suppression(
    report: MailReport, *, soft_bounces: int, now: datetime
) -> NewSuppression | None:
    """Whether the address gets no further mail.

    Args:
        report: the newest report.
        soft_bounces: temporary refusals of the address in the last 14 days, this one included.
        now: database time.
    """
    if report.kind is ReportKind.COMPLAINT:
        reason, ends_at = SuppressionReason.COMPLAINT, None
    elif report.permanent:
        reason, ends_at = SuppressionReason.HARD_BOUNCE, None
    elif soft_bounces >= SOFT_BOUNCES:
        reason, ends_at = SuppressionReason.SOFT_BOUNCES, now + PAUSE
    else:
        return None
    return NewSuppression(
        recipient_key=report.recipient_key, reason=reason, text=report.text, ends_at=ends_at
    )
