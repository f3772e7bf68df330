"""The states of a mail: sent, tried again, given up, or unknown because the reply was lost.

One mail for one recipient and run. The phase in its row records whether the relay may already have
it: only after OPEN can a lost connection mean "perhaps sent", so a second copy is possible only in
that window.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import assert_never
from uuid import UUID

from datarecs_core.decision import Decision, Event
from datarecs_core.notifications.address import recipient_key
from datarecs_core.notifications.evaluation import (
    NOTHING_BEFORE,
    Background,
    MailKind,
    SkipReason,
)
from datarecs_core.notifications.events import NotificationEmailFailed, NotificationEmailSent
from datarecs_core.notifications.identity import recipient_hash
from datarecs_core.notifications.replies import Reply, ReplyClass, classify
from datarecs_core.notifications.rule import Detail
from datarecs_core.values import JobId, ResourceUid, RunId, TenantId

LEASE_TTL = timedelta(seconds=240)
"""Longer than one SMTP transaction may take (180 s)."""
EXPIRES_AFTER = timedelta(hours=24)
"""From `finalised_at`: an alert a day old misleads."""
RESEND_AFTER = timedelta(minutes=10)
MAX_ATTEMPTS = 8
_MINUTES = (1, 5, 15, 60, 120, 240, 480)
"""Waits after a temporary refusal: with the first attempt 8 in 15 h 21 min."""


class MailState(StrEnum):
    PENDING = "PENDING"
    SENDING = "SENDING"
    SENT = "SENT"
    FAILED = "FAILED"
    UNKNOWN = "UNKNOWN"
    SKIPPED = "SKIPPED"


class Phase(StrEnum):
    """The phase of a mail that is being sent, committed before the next command."""

    OPEN = "OPEN"
    """Provably not sent."""
    DATA = "DATA"
    """The recipient was accepted; from here the relay may hold the mail."""


class MailReason(StrEnum):
    """Why a mail failed."""

    PERMANENT = "PERMANENT"
    EXHAUSTED = "EXHAUSTED"
    EXPIRED = "EXPIRED"
    SMTPUTF8_UNSUPPORTED = "SMTPUTF8_UNSUPPORTED"


RATE_FOLD = "rate"
"""Fold of mails above a rate cap: all of a recipient leave as one digest."""
FOLDS_AFTER = timedelta(minutes=15)
"""How long mails above a rate cap wait for others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """A mail that was replaced by a digest."""

    delivery_id: UUID
    run_id: RunId
    job_id: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """The content of a mail without a run; plain text, written only by the platform."""

    subject: str
    headline: str
    sentences: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    """Label and value."""
    is_good: bool = False
    """The end of a problem, shown with another sign."""


class OnUnknown(StrEnum):
    """What to do when the relay's reply to the data was lost."""

    RESEND_ONCE = "resend_once"
    """A lost alert costs more than a second copy with the same Message-ID."""
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """A row of `email_delivery` as the rules see it."""

    tenant_id: TenantId
    delivery_id: UUID
    dedupe_key: str
    run_id: RunId | None = None
    """None for digests and notices."""
    job_id: JobId | None = None
    recipient: str
    recipient_key: str
    rules: tuple[str, ...]
    rule_uids: tuple[ResourceUid, ...] = ()
    kind: MailKind
    detail: Detail
    background: Background = NOTHING_BEFORE
    outcome: str
    """MATCHED, UNMATCHED or `ERRORED:<code>`."""
    state: MailState = MailState.PENDING
    reason: MailReason | SkipReason | None = None
    phase: Phase | None = None
    due_at: datetime | None
    """When to process it; None once it is terminal."""
    expires_at: datetime
    finalised_at: datetime
    attempts: int = 0
    """Replies of the relay about this mail that allow another try, plus the one that ended
    it."""
    unknowns: int = 0
    """How often the reply to the data was lost."""
    lease_epoch: int = 0
    lease_owner: str | None = None
    lease_until: datetime | None = None
    message_id: str
    created_at: datetime
    last_reply: str = ""
    fold: str | None = None
    """Pending mails of one recipient with the same fold leave as one digest."""
    folded: tuple[Folded, ...] = ()
    """Of a digest: the mails in it."""
    notice: Notice | None = None
    """Of a NOTICE: its content."""
    opened_at: datetime | None = None
    """First lease; rate caps count by it."""

    @property
    def is_terminal(self) -> bool:
        return self.state is not MailState.SENDING and self.due_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipientAccepted:
    """The reply to RCPT was 250; the phase must be committed before DATA is sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replied:
    """The relay replied: the final acceptance, or a refusal at some stage."""

    reply: Reply
    pause: timedelta
    """How long the relay rests if the reply is about the relay."""
    u: float
    """Uniform in [0, 1): the jitter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportLost:
    """No reply: refused connection, failed TLS, timeout, broken connection."""

    reason: str
    pause: timedelta


@dataclass(frozen=True, slots=True)
class NeedsSmtpUtf8:
    """The address needs SMTPUTF8, which the relay does not offer."""


@dataclass(frozen=True, slots=True)
class Expired:
    pass


Fact = RecipientAccepted | Replied | TransportLost | NeedsSmtpUtf8 | Expired


SENDER_LOST = TransportLost(reason="the sending process was lost", pause=timedelta())
"""The fact of a lease that ran out."""


def lease(mail: Mail, *, owner: str, now: datetime) -> Mail:
    """The mail under a new lease, in phase OPEN."""
    return replace(
        mail,
        state=MailState.SENDING,
        fold=None,
        opened_at=mail.opened_at or now,
        phase=Phase.OPEN,
        lease_epoch=mail.lease_epoch + 1,
        lease_owner=owner,
        lease_until=now + LEASE_TTL,
        due_at=now + LEASE_TTL,
    )


def decide_email(mail: Mail, fact: Fact, *, policy: OnUnknown, now: datetime) -> Decision[Mail]:
    """The mail after a fact; the caller has checked the lease's epoch. Terminal states absorb."""
    if mail.is_terminal:
        return Decision(mail)
    match fact:
        case RecipientAccepted():
            return Decision(replace(mail, phase=Phase.DATA))
        case Replied():
            return _replied(mail, fact, now=now)
        case TransportLost(reason=reason, pause=pause):
            return _interrupted(replace(mail, last_reply=reason), pause, policy=policy, now=now)
        case NeedsSmtpUtf8():
            return _failed(mail, MailReason.SMTPUTF8_UNSUPPORTED)
        case Expired():
            # A mail that may have arrived is not reported as expired: it is unknown.
            return _close_unknown(mail) if mail.unknowns else _failed(mail, MailReason.EXPIRED)
    assert_never(fact)


def _interrupted(
    mail: Mail, pause: timedelta, *, policy: OnUnknown, now: datetime
) -> Decision[Mail]:
    """In phase OPEN provably not sent; in phase DATA the relay may hold the mail."""
    if mail.phase is not Phase.DATA:
        return Decision(_waiting(mail, now + pause))
    lost = replace(mail, unknowns=mail.unknowns + 1)
    if policy is OnUnknown.STOP or lost.unknowns > 1:
        return _close_unknown(lost)
    return Decision(replace(_waiting(lost, now + RESEND_AFTER), state=MailState.UNKNOWN))


def _replied(mail: Mail, fact: Replied, *, now: datetime) -> Decision[Mail]:
    seen = replace(mail, last_reply=f"{fact.reply.code} {fact.reply.text}".rstrip())
    kind = classify(fact.reply)
    match kind:
        case ReplyClass.ACCEPTED:
            sent = _closed(replace(seen, attempts=mail.attempts + 1), MailState.SENT, None)
            return Decision(sent, _end_events(sent))
        case ReplyClass.RETRY:
            tried = replace(seen, attempts=mail.attempts + 1)
            if tried.attempts >= MAX_ATTEMPTS:
                return _failed(tried, MailReason.EXHAUSTED)
            return Decision(_waiting(tried, now + retry_delay(tried.attempts, u=fact.u)))
        case ReplyClass.PERMANENT:
            return _failed(replace(seen, attempts=mail.attempts + 1), MailReason.PERMANENT)
        case ReplyClass.TRANSPORT | ReplyClass.CONFIGURATION:
            return Decision(_waiting(seen, now + fact.pause))
    assert_never(kind)


def retry_delay(attempts: int, *, u: float) -> timedelta:
    """The wait after this number of temporary refusals, times 0.8 to 1.2."""
    return timedelta(minutes=_MINUTES[attempts - 1]) * (0.8 + 0.4 * u)


def _close_unknown(mail: Mail) -> Decision[Mail]:
    ended = _closed(mail, MailState.UNKNOWN, None)
    return Decision(ended, _end_events(ended))


def _failed(mail: Mail, reason: MailReason) -> Decision[Mail]:
    ended = _closed(mail, MailState.FAILED, reason)
    return Decision(ended, _end_events(ended))


def _waiting(mail: Mail, due_at: datetime) -> Mail:
    return replace(
        mail,
        state=MailState.PENDING,
        phase=None,
        due_at=due_at,
        lease_owner=None,
        lease_until=None,
    )


def _closed(mail: Mail, state: MailState, reason: MailReason | SkipReason | None) -> Mail:
    return replace(
        mail,
        state=state,
        reason=reason,
        phase=None,
        due_at=None,
        lease_owner=None,
        lease_until=None,
    )


def skip_mail(mail: Mail, reason: SkipReason) -> Mail:
    """The mail that nobody is sent, for this reason."""
    return _closed(mail, MailState.SKIPPED, reason)


def fold_mails(mails: Sequence[Mail], digest: Mail) -> tuple[Mail, tuple[Mail, ...]]:
    """The digest that takes the place of pending mails of one recipient, and these mails ended.

    Args:
        mails: at least two, each about a run.
        digest: with the ids and times of the digest; the rest follows from the mails.
    """
    folded = tuple(
        Folded(delivery_id=mail.delivery_id, run_id=mail.run_id, job_id=mail.job_id)
        for mail in mails
        if mail.run_id is not None and mail.job_id is not None
    )
    joined = replace(
        digest,
        rules=tuple(dict.fromkeys(name for mail in mails for name in mail.rules)),
        rule_uids=tuple(dict.fromkeys(uid for mail in mails for uid in mail.rule_uids)),
        folded=folded,
    )
    ended = tuple(
        replace(_closed(mail, MailState.SKIPPED, SkipReason.FOLDED), fold=None) for mail in mails
    )
    return joined, ended


def resent_mail(mail: Mail, delivery_id: UUID, *, now: datetime) -> Mail:
    """A new row for a mail that failed, with its recipient, content and Message-ID."""
    return replace(
        mail,
        delivery_id=delivery_id,
        dedupe_key=f"resend:{delivery_id}",
        state=MailState.PENDING,
        reason=None,
        phase=None,
        due_at=now,
        expires_at=now + EXPIRES_AFTER,
        attempts=0,
        unknowns=0,
        lease_epoch=0,
        created_at=now,
        last_reply="",
        opened_at=None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeRecipient:
    """The recipient of a notice, and what makes it unique."""

    tenant_id: TenantId
    address: str
    """Without faults; the email-notifier checks that the tenant may write to it."""
    scope: str
    """Such as `endpoint:<uid>:disabled:<episode>`; a second mail of the same scope and recipient
    is not added."""


def notice_mail(notice: Notice, to: NoticeRecipient, *, delivery_id: UUID, now: datetime) -> Mail:
    """A mail without a run, to be added to the queue by its sender.

    Args:
        notice: its content.
        to: recipient and scope.
        delivery_id: UUIDv7.
        now: database time.
    """
    key = recipient_key(to.address)
    return Mail(
        tenant_id=to.tenant_id,
        delivery_id=delivery_id,
        dedupe_key=f"{to.scope}:{key}",
        recipient=to.address,
        recipient_key=key,
        rules=(),
        kind=MailKind.NOTICE,
        detail=Detail.SUMMARY,
        outcome="",
        due_at=now,
        expires_at=now + EXPIRES_AFTER,
        finalised_at=now,
        message_id="",
        created_at=now,
        notice=notice,
    )


def _end_events(mail: Mail) -> tuple[Event, ...]:
    """What the end of a mail reports, once per run in it; its recipient only as a hash."""
    if mail.kind is MailKind.DIGEST:
        return tuple(_ended(mail, one.run_id, one.job_id) for one in mail.folded)
    if mail.kind is MailKind.TEST or mail.run_id is None or mail.job_id is None:
        return ()
    return (_ended(mail, mail.run_id, mail.job_id),)


def _ended(mail: Mail, run_id: RunId, job_id: JobId) -> Event:
    sent = mail.state is MailState.SENT
    event = NotificationEmailSent if sent else NotificationEmailFailed
    return event(
        run_id=run_id,
        job_id=job_id,
        tenant_id=mail.tenant_id,
        recipient_count=1,
        recipient_hash=recipient_hash(mail.tenant_id, mail.recipient_key),
        detail_level=mail.detail,
        status=mail.state.lower(),
        delivery_id=mail.delivery_id,
        kind=mail.kind,
        rule_names=mail.rules,
        attempts=mail.attempts,
        message_id=mail.message_id,
        error_message=None if sent else mail.last_reply or mail.reason,
    )
